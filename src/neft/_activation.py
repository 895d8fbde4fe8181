"""Activations: σ, its derivatives, its Maclaurin series, its kinks."""

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from . import _cauchy, _check, _maclaurin, _stable

Parity = Literal["even", "odd"] | None


class Kink(NamedTuple):
    """A point where a derivative jumps.

    Attributes:
        position: where it is.
        order: the lowest derivative that jumps (0: the function itself, 1 for ReLU, 2 for ELU with α=1).
        jump: that derivative just right of the point minus just left of it.
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
        singularity: distance from 0 to the nearest complex singularity or kink (infinity for an entire function).
        parity: "even", "odd" or None.
        scale_invariant: whether σ(cz) = cσ(z) for every c > 0.
        length: distance over which σ changes its shape; a hint for quadrature.
        oscillates: whether it keeps changing at large |z| (sin) instead of settling to a polynomial.
        named: whether the name alone is enough to make it again.

    >>> silu = activation("silu")
    >>> silu.taylor(4)
    array([ 0.        ,  0.5       ,  0.25      ,  0.        , -0.02083333])
    """

    name: str
    function: Callable[[Any], Any]
    kinks: tuple[Kink, ...] = ()
    singularity: float = math.inf
    parity: Parity = None
    scale_invariant: bool = False
    length: float = 1.0
    oscillates: bool = False
    named: bool = True
    maclaurin: Callable[[int], np.ndarray] | None = None

    def __call__(self, z: Num[Array, "*shape"] | Num[np.ndarray, "*shape"] | float) -> Float[Array, "*shape"]:
        return self.function(_floating(z))

    def derivative(self, n: int) -> Callable[[Any], Float[Array, "*shape"]]:
        """The n-th derivative (n ≤ 3), elementwise and almost everywhere: deltas at kinks are not in it.

        >>> float(activation("tanh").derivative(1)(0.0))
        1.0
        """
        return _derivative(self.function, _check.integer("n", n, at_least=0, at_most=3))

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

    def to_dict(self) -> dict[str, Any]:
        """What a file keeps: the name, and whether it is enough to make the activation again."""
        return {"name": self.name, "named": self.named}

    def _series(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        order = _check.integer("order", order, at_least=0)
        if self.maclaurin is not None:
            exact = self.maclaurin(order)
            return exact, np.abs(exact) * np.finfo(float).eps
        return _series_of_program(self, order)

    # Equal names are equal functions only where the name says it all.
    def _identity(self) -> tuple:
        return (self.name,) if self.named else (self.name, self.function, self.kinks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self):
        if self.named:
            return activation, (self.name,)
        return _own, (self.function, self.name, self.kinks)

    def __repr__(self) -> str:
        facts = [repr(self.name)]
        if self.parity:
            facts.append(self.parity)
        if self.scale_invariant:
            facts.append("scale invariant")
        facts += [f"derivative {k.order} jumps by {k.jump:g} at {k.position:g}" for k in self.kinks]
        if self.one_sided:
            facts.append("Taylor series of the right-hand side")
        elif math.isfinite(self.singularity):
            facts.append(f"singular at |z| = {self.singularity:.4g}")
        return f"Activation({', '.join(facts)})"


def activation(
    source: "str | Activation | Callable[[Any], Any]",
    *,
    name: str | None = None,
    kinks: Iterable[Kink | Sequence[float] | float] = (),
) -> Activation:
    """The activation of a name such as "silu" or "leaky_relu(0.1)", or of any elementwise JAX function.

    Args:
        source: a name (see `names`), a function σ(z), or an activation, which is returned as it is.
        name: what to call a function (its own name by default).
        kinks: where a function has kinks: positions, or (position, order, jump) when known. Positions alone are
            examined with autodiff on both sides.

    >>> activation("relu").kinks
    (Kink(position=0.0, order=1, jump=1.0),)
    >>> activation(lambda z: z / (1 + z**2), name="bump").parity
    'odd'
    """
    if isinstance(source, Activation):
        return source
    if isinstance(source, str):
        return _from_text(source)
    if callable(source):
        return _own(source, name or getattr(source, "__name__", "function"), tuple(kinks))
    raise ValueError(f"activation is {source!r}, but must be a name (one of {', '.join(names())}) or a function.")


def names() -> tuple[str, ...]:
    """The names that `activation` knows; parameters may follow in parentheses."""
    return tuple(_NAMED)


@functools.lru_cache(maxsize=256)
def _derivative(function: Callable, n: int) -> Callable:
    # Cached, so that a derivative is one object and compiled code is found again.
    if n == 0:
        return lambda z: function(_floating(z))
    below = _derivative(function, n - 1)

    def derivative(z):
        z = _floating(z)
        return jax.jvp(below, (z,), (jnp.ones_like(z),))[1]

    return derivative


def _floating(z):
    z = jnp.asarray(z)
    return z if jnp.issubdtype(z.dtype, jnp.inexact) else z.astype(float)


_GRAMMAR = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*([^()]*?)\s*\))?\s*")


@functools.lru_cache(maxsize=256)
def _from_text(text: str) -> Activation:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(
            f"activation is {text!r}, but must be a name, or a name with numbers such as 'leaky_relu(0.1)'."
        )
    name, inside = match[1].lower(), match[2] or ""
    if name not in _NAMED:
        raise ValueError(
            f"activation is {text!r}, but must be one of {', '.join(_NAMED)}{_check.closest(name, _NAMED)}."
        )
    make = _NAMED[name]
    wanted = list(inspect.signature(make).parameters)
    given = [piece.strip() for piece in inside.split(",")] if inside else []
    if len(given) > len(wanted):
        takes = f"takes {len(wanted)} ({', '.join(wanted)})" if wanted else "takes none"
        raise ValueError(f"activation is {text!r}, but {name} {takes} instead of {len(given)} parameters.")
    return make(*(_number(text, key, piece) for key, piece in zip(wanted, given)))


def _number(text: str, key: str, piece: str) -> float:
    label, _, value = piece.rpartition("=")
    try:
        if label.strip() not in ("", key):
            raise ValueError
        number = float(value)
    except ValueError:
        raise ValueError(f"activation is {text!r}, but {piece!r} must be a number for {key}.") from None
    return _check.real(f"{key} in activation {text!r}", number)


_NAMED: dict[str, Callable[..., Activation]] = {}


def _name(name: str):
    def register(make: Callable[..., Activation]) -> Callable[..., Activation]:
        _NAMED[name] = make
        return make

    return register


def _spell(name: str, *parameters: float) -> str:
    return f"{name}({', '.join(f'{p:.17g}' if float(f'{p:g}') != p else f'{p:g}' for p in parameters)})"


@_name("linear")
def _linear():
    return Activation(
        "linear",
        lambda z: z,
        parity="odd",
        scale_invariant=True,
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("relu")
def _relu():
    return dataclasses.replace(_leaky_relu(0.0), name="relu")


@_name("leaky_relu")
def _leaky_relu(slope: float = 0.01):
    if slope == 1:
        return dataclasses.replace(_linear(), name=_spell("leaky_relu", slope))
    return Activation(
        _spell("leaky_relu", slope),
        lambda z: jnp.where(z > 0, z, slope * z),
        kinks=(Kink(0.0, 1, 1.0 - slope),),
        singularity=0.0,
        parity="even" if slope == -1 else None,
        scale_invariant=True,
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("elu")
def _elu(alpha: float = 1.0):
    return Activation(
        _spell("elu", alpha),
        # The exponential never sees the positive side, where it could overflow and spoil the gradient.
        lambda z: jnp.where(z > 0, z, alpha * _stable.expm1(jnp.minimum(z, 0))),
        kinks=(Kink(0.0, 1, 1.0 - alpha) if alpha != 1 else Kink(0.0, 2, -1.0),),
        singularity=0.0,
        scale_invariant=alpha == 0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("tanh")
def _tanh():
    return Activation(
        "tanh",
        _stable.tanh,
        singularity=math.pi / 2,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.tanh(order)),
    )


@_name("hard_tanh")
def _hard_tanh():
    return Activation(
        "hard_tanh",
        lambda z: jnp.where(jnp.abs(z) < 1, z, jnp.sign(z)),
        kinks=(Kink(-1.0, 1, 1.0), Kink(1.0, 1, -1.0)),
        singularity=1.0,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("sigmoid")
def _sigmoid():
    return Activation(
        "sigmoid",
        _stable.sigmoid,
        singularity=math.pi,
        length=2.0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.sigmoid(order)),
    )


@_name("softplus")
def _softplus():
    return Activation(
        "softplus",
        _stable.softplus,
        singularity=math.pi,
        length=2.0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.softplus(order)),
    )


@_name("erf")
def _erf():
    slope = 2 / math.sqrt(math.pi)
    return Activation(
        "erf",
        lax.erf,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.erf_over_slope(order), slope),
    )


@_name("sin")
def _sin():
    return Activation(
        "sin",
        jnp.sin,
        parity="odd",
        oscillates=True,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.sin(order)),
    )


@_name("gelu")
def _gelu():
    return Activation(
        "gelu",
        lambda z: z * _stable.normal_cdf(z),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.gelu(order)),
    )


@_name("silu")
def _silu():
    return dataclasses.replace(_swish(1.0), name="silu")


@_name("swish")
def _swish(beta: float = 1.0):
    name = _spell("swish", beta)
    if beta == 0:
        half = lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order, 0.5))  # noqa: E731
        return dataclasses.replace(_linear(), name=name, function=lambda z: z / 2, maclaurin=half)
    rate = Fraction(beta)
    return Activation(
        name,
        lambda z: z * _stable.sigmoid(beta * z),
        singularity=math.pi / abs(beta),
        length=2.0 / abs(beta),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.times_z(_maclaurin.sigmoid(order, rate))),
    )


@_name("mish")
def _mish():
    return Activation(
        "mish",
        lambda z: z * _stable.tanh(_stable.softplus(z)),
        # The poles are where e^z = -1 ± i.
        singularity=math.hypot(math.log(2) / 2, 3 * math.pi / 4),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.mish(order)),
    )


@_name("quadratic")
def _quadratic():
    return Activation(
        "quadratic",
        lambda z: z**2,
        parity="even",
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(2, order)),
    )


_PROBES = np.array([1e-3, 0.1, 0.37, 1.0, 2.3, 5.1])


def _own(function: Callable, name: str, kinks: tuple) -> Activation:
    try:
        with jax.enable_x64(True):
            # Shapes are examined under tracing, which is also the test that it can be traced.
            shape = jax.eval_shape(function, jax.ShapeDtypeStruct((2, 3), jnp.float64)).shape
            right, left = (np.asarray(function(jnp.asarray(side * _PROBES)), float) for side in (1, -1))
            doubled = np.concatenate([np.asarray(function(jnp.asarray(side * 2 * _PROBES)), float) for side in (1, -1)])
    except Exception as error:
        raise ValueError(f"activation {name!r} cannot be traced by JAX: {_first_line(error)}.") from None
    if shape != (2, 3):
        raise ValueError(f"activation {name!r} maps an array of shape (2, 3) to {shape}, but must act elementwise.")
    if not (np.isfinite(right).all() and np.isfinite(left).all()):
        raise ValueError(f"activation {name!r} is not finite near the origin, but must be on the whole real line.")
    close = functools.partial(np.allclose, rtol=1e-12, atol=1e-300)
    declared = tuple(sorted(_examined(function, name, kink) for kink in kinks))
    own = Activation(
        name,
        function,
        kinks=declared,
        parity="odd" if close(left, -right) else "even" if close(left, right) else None,
        scale_invariant=bool(close(doubled, 2 * np.concatenate([right, left]))),
        named=False,
    )
    return dataclasses.replace(own, singularity=_singularity(function, declared))


def _examined(function: Callable, name: str, kink: Any) -> Kink:
    if np.ndim(kink) == 1:
        if len(kink) != 3:
            raise ValueError(f"kinks of {name!r} hold {kink!r}, but must be positions or (position, order, jump).")
        order = _check.integer("order of a kink", kink[1], at_least=0, at_most=3)
        return Kink(_check.real("position of a kink", kink[0]), order, _check.real("jump of a kink", kink[2]))
    position = _check.real("position of a kink", kink)
    with jax.enable_x64(True):
        # Two steps on each side, extrapolated to the kink itself.
        around = position + 1e-7 * max(1.0, abs(position)) * np.array([-2.0, -1.0, 1.0, 2.0])
        for order in range(4):
            at = np.asarray(_derivative(function, order)(jnp.asarray(around)), float)
            jump = (2 * at[2] - at[3]) - (2 * at[1] - at[0])
            if abs(jump) > 1e-6 * max(1.0, float(np.abs(at).max())):
                return Kink(position, order, float(jump))
    raise ValueError(f"kinks of activation {name!r} names {position:g}, but no derivative up to the third jumps there.")


def _singularity(function: Callable, kinks: tuple[Kink, ...]) -> float:
    kink = min((abs(k.position) for k in kinks), default=math.inf)
    if kink == 0:
        return 0.0
    try:
        on = _circles(function)
    except ValueError:
        return kink
    # |z| is the same on a whole circle, which looks analytic; autodiff on the real line tells.
    return min(kink, on.singularity) if _agrees(function, _cauchy.coefficients(on, 3)[0]).all() else 0.0


def _agrees(function: Callable, values: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        exact = [float(_derivative(function, k)(0.0)) / math.factorial(k) for k in range(len(values))]
    return np.abs(values - exact) <= 1e-6 * np.maximum(1.0, np.abs(exact))


@functools.lru_cache(maxsize=64)
def _circles(function: Callable) -> _cauchy.Circles:
    return _cauchy.circles(function)


def _series_of_program(own: Activation, order: int) -> tuple[np.ndarray, np.ndarray]:
    if own.one_sided:
        raise ValueError(f"activation {own.name!r} has a kink at 0, so a Maclaurin series of it is not known.")
    if order >= 512:
        raise ValueError(f"order is {order}, but must be at most 511 for a user's own activation.")
    values, errors = _cauchy.coefficients(_circles(own.function), order)
    # A coefficient may vanish by parity, so its neighbours set the scale.
    size = np.abs(values)
    scale = np.maximum(size, np.maximum(np.append(size[1:], 0.0), np.insert(size[:-1], 0, 0.0)))
    bad = errors > 1e-6 * scale
    bad[:4] |= ~_agrees(own.function, values[:4])
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"activation {own.name!r} does not show a Maclaurin coefficient of order {k} to six digits "
            "(a kink or a branch point near 0?); declare its kinks, or ask for a lower order."
        )
    return values, errors


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}".rstrip(": .")
