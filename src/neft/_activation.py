"""Activations: σ, its derivatives, its Maclaurin series, its kinks."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from . import _check
from ._public import public

Parity = Literal["even", "odd"] | None


class Kink(NamedTuple):
    """A point where a derivative jumps.

    Attributes:
        position: where it is.
        order: the lowest derivative that jumps (0: the function itself, 1 for ReLU, 2 for ELU with α=1).
        jump: that derivative just right of the point minus just left of it; infinite where it is not bounded there.
    """

    position: float
    order: int
    jump: float


@dataclasses.dataclass(frozen=True, eq=False)
class Activation:
    """An activation function with what perturbation theory asks about it. Made by `activation`.

    Calling it evaluates σ elementwise in the dtype of its argument; it works under jit, vmap and grad.

    Attributes:
        name: how it is written on the command line and in files, e.g. "leaky_relu(0.1)".
        function: σ as a JAX-traceable function.
        kinks: where a derivative jumps, in increasing position.
        singularity: distance from 0 to the nearest complex singularity or kink. Infinity for an entire function, and
            for a user's own in which none shows up to |z| = 1000; NaN where it is not known, because the program of a
            user's own function does not extend to complex numbers.
        parity: "even", "odd" or None.
        scale_invariant: whether σ(cz) = cσ(z) for every c > 0.
        length: distance over which σ changes its shape; a hint for quadrature.
        oscillates: whether it keeps changing at large |z| (sin) instead of settling to a polynomial.
        cuts: where quadratures are cut besides kinks, for a user's own function that changes quickly; a hint too.
        fourier: the Fourier series of a user's own function that is smooth and periodic.
        pair: of a user's own function, ⟨σσ⟩ in closed form where it was given.
        series: of a user's own function, its power series in a series where it was given.
        named: whether it is one of those that have a name, of which more is known.
        expressed: whether its name is the expression of z that it was made from.

    >>> silu = activation("silu")
    >>> silu.taylor(4)
    array([ 0.        ,  0.5       ,  0.25      ,  0.        , -0.02083333])
    """

    name: str
    function: Callable[[Any], Any]
    _: dataclasses.KW_ONLY
    kinks: tuple[Kink, ...] = ()
    singularity: float = math.inf
    parity: Parity = None
    scale_invariant: bool = False
    length: float = 1.0
    oscillates: bool = False
    cuts: tuple[float, ...] = ()
    fourier: Any = None
    pair: Callable[[Any, Any, Any], Any] | None = None
    series: Callable[[Any], Any] | None = None
    named: bool = True
    expressed: bool = False
    maclaurin: Callable[[int], np.ndarray] | None = None

    def __call__(self, z: Num[Array, "*shape"] | Num[np.ndarray, "*shape"] | float) -> Float[Array, "*shape"]:
        return self.function(_floating(z))

    def derivative(self, n: int) -> Callable[[Any], Float[Array, "*shape"]]:
        """The n-th derivative (n ≤ 3), elementwise and almost everywhere: deltas at kinks are not in it.

        >>> float(activation("tanh").derivative(1)(0.0))
        1.0
        """
        return derivative_of(self.function, _check.integer("n", n, at_least=0, at_most=3))

    def taylor(self, order: int) -> Float[np.ndarray, "{order}+1"]:
        """σ^(k)(0)/k! for k = 0..order, exact to double precision; of the right-hand side where `one_sided`.

        A user's own function is refused (ValueError) when the coefficients cannot be had to six digits; `taylor_error`
        says how good they are.
        """
        return self._series(order)[0]

    def taylor_error(self, order: int) -> Float[np.ndarray, "{order}+1"]:
        """Estimated absolute errors of `taylor(order)`."""
        return self._series(order)[1]

    @property
    def one_sided(self) -> bool:
        """Whether there is a kink at 0, so that `taylor` speaks of z > 0 only."""
        return any(kink.position == 0 for kink in self.kinks)

    @property
    def remakable(self) -> bool:
        """Whether the name alone is enough to make it again."""
        return self.named or self.expressed

    def to_dict(self) -> dict[str, Any]:
        """What a file keeps: the name, and whether it is enough to make the activation again."""
        return {"name": self.name, "named": self.remakable}

    def _series(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
        if self.maclaurin is not None:
            exact = self.maclaurin(order)
            return exact, np.abs(exact) * np.finfo(float).eps
        from ._own import series_of

        return series_of(self, order)

    # Equal names are equal functions only where the name says it all.
    def _identity(self) -> tuple:
        return (self.name,) if self.remakable else (self.name, self.function, self.kinks, self.pair, self.series)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self):
        if self.remakable:
            return activation, (self.name,)
        return _remade, (self.function, self.name, self.kinks, self.pair, self.series)

    def __repr__(self) -> str:
        facts = [repr(self.name)]
        if self.parity:
            facts.append(self.parity)
        if self.scale_invariant:
            facts.append("scale invariant")
        facts += [f"derivative {k.order} jumps by {k.jump:g} at {k.position:g}" for k in self.kinks]
        if self.one_sided:
            facts.append("Taylor series of the right-hand side")
        elif math.isnan(self.singularity):
            facts.append("singularity not known")
        elif math.isfinite(self.singularity):
            facts.append(f"singular at |z| = {self.singularity:.4g}")
        return f"Activation({', '.join(facts)})"


@public
def activation(
    activation: "str | Activation | Callable[[Any], Any]",
    *,
    name: str | None = None,
    kinks: Iterable[Kink | Sequence[float] | float] = (),
    pair: Callable[[Any, Any, Any], Any] | None = None,
    series: Callable[[Any], Any] | None = None,
) -> Activation:
    """The activation of a name such as "silu", an expression such as "z*tanh(z)", or any elementwise JAX function.

    Args:
        activation: a name such as "silu" or "leaky_relu(0.1)"; an expression of z with numbers, + - * / ^, brackets and
            functions such as exp, max or sigmoid, which is parsed and never evaluated as Python; a function σ(z); or an
            activation, which is returned as it is.
        name: what to call a function (its own name by default).
        kinks: where a function has kinks: positions, or (position, order, jump) when known; both are held against its
            derivatives on the two sides.
        pair: ⟨σσ⟩ of two Gaussian variables in closed form, as an elementwise JAX function of their variances K1, K2
            and their covariance c; it is held against averages of the function, and its derivative in c is ⟨σ'σ'⟩.
        series: σ of a power series, as a function from `neft.Series` to `neft.Series`; it is held against the
            function's own Taylor coefficients.

    Kinks that are not declared are looked for in |z| ≤ 50, less closely to 51,200, down to jumps of 1e-6 of the size
    that the derivative has nearby (1e-4 for the third); declare those that lie further out or close together. A
    function whose derivatives in JAX are not its own (`stop_gradient`), or whose values change, is refused.

    >>> activation("z * max(tanh(z), 0.1)").kinks[0].order
    1
    >>> activation("relu").kinks
    (Kink(position=0.0, order=1, jump=1.0),)
    >>> activation(lambda z: z / (1 + z**2), name="bump").parity
    'odd'
    >>> activation(lambda z: jnp.abs(z - 1)).kinks
    (Kink(position=1.0, order=1, jump=2.0),)
    """
    # Both are built from the class above, so they are imported here.
    from ._named import activation_names, from_text

    if isinstance(activation, Activation | str):
        for argument, value in (("name", name), ("kinks", kinks), ("pair", pair), ("series", series)):
            if value is not None and not (isinstance(value, tuple) and not value):
                raise ValueError(
                    f"{argument} is {_check.brief(value)}, but only a function can be given its {argument}."
                )
        return activation if isinstance(activation, Activation) else from_text(activation)
    if callable(activation):
        own = getattr(activation, "__name__", type(activation).__name__)
        return _remade(activation, own if name is None else name, kinks, pair, series)
    raise ValueError(
        f"activation is {_check.brief(activation)}, but must be a name (one of {', '.join(activation_names())}), an "
        "expression of z or a function."
    )


def _remade(function: Callable, name: str, kinks: Any, pair: Any = None, series: Any = None) -> Activation:
    from ._own import own

    made = own(function, name, kinks)
    if pair is None and series is None:
        return made
    from ._given import checked

    return checked(dataclasses.replace(made, pair=pair, series=series))


def expressed(function: Callable, name: str) -> Activation:
    """The activation of a function that is the expression `name` of z."""
    return dataclasses.replace(_remade(function, name, ()), expressed=True)


@functools.lru_cache(maxsize=256)
def derivative_of(function: Callable, n: int) -> Callable:
    """The n-th derivative of an elementwise function, by nested forward-mode autodiff."""
    # Cached, so that a derivative is one object and compiled code is found again.
    if n == 0:
        return lambda z: function(_floating(z))
    below = derivative_of(function, n - 1)

    def derivative(z):
        z = _floating(z)
        return jax.jvp(below, (z,), (jnp.ones_like(z),))[1]

    return derivative


def _floating(z):
    z = jnp.asarray(z)
    return z if jnp.issubdtype(z.dtype, jnp.inexact) else z.astype(float)
