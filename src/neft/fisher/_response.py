"""What a neuron answers: its mean, the slope of the mean, and the Fisher information ν of its output.

The output y of a neuron has the mean f(t) at t = w·x̃, and ν(t) is the Fisher information of y about t, so that the
neuron's metric is ν x̃x̃ᵀ (docs/theory/fisher, eqs. 1-6).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _check, _stable
from .._activation import Activation
from .._activation import activation as _activation
from .._public import public

Points = Float[Array, "*shape"] | Float[np.ndarray, "*shape"]

OUTPUTS = ("bernoulli", "gaussian")
_BERNOULLI = ("tanh", "sigmoid")
TABLE = ("tanh", "sigmoid", "relu", "elu")
"""The neurons of Sun, Nielsen 2017, table 1; relu is the smoothed one."""


@dataclasses.dataclass(frozen=True)
class Response:
    """A kind of neuron: hashable, and its functions are elementwise, pure and keep the dtype. Made by `response`.

    Attributes:
        name: a name of `TABLE`, or of any `neft.activation`.
        output: "bernoulli" (±1 with mean tanh, 0/1 with mean sigmoid) or "gaussian".
        variance: σ² of a Gaussian output.
        omega, iota: width and left slope of the smoothed relu, ω ln(e^{ιt/ω} + e^{t/ω}).
        alpha: left amplitude of elu.
        function: the activation, for a name outside the table.
    """

    name: str
    output: str
    variance: float = 1.0
    omega: float = 1.0
    iota: float = 0.0
    alpha: float = 1.0
    function: Activation | None = None

    def mean(self, t: Points) -> Float[Array, "*shape"]:
        """f(t) = E[y]."""
        if self.function is not None:
            return self.function(t)
        return _MEANS[self.name](self, jnp.asarray(t))

    def slope(self, t: Points) -> Float[Array, "*shape"]:
        """f'(t) (docs/theory/fisher, eqs. 5-6)."""
        if self.function is not None:
            return self.function.derivative(1)(t)
        return _SLOPES[self.name](self, jnp.asarray(t))

    def information(self, t: Points) -> Float[Array, "*shape"]:
        """ν(t): f' for both Bernoulli outputs, f'²/σ² for Gaussian ones (docs/theory/fisher, eqs. 2-4).

        Sun, Nielsen 2017, eq. 4 is f'²/(4p⁺p⁻) for outputs ±1 and f'²/(p⁺p⁻) for 0/1; with tanh and sigmoid both are
        f' itself.
        """
        if self.output == "bernoulli":
            return self.slope(t)
        return self.slope(t) ** 2 / self.variance


@public
def response(
    activation: "str | Activation | Callable[[Any], Any] | Response",
    *,
    output: str | None = None,
    variance: float = 1.0,
    omega: float = 1.0,
    iota: float = 0.0,
    alpha: float = 1.0,
) -> Response:
    """The neuron of a name: "tanh" and "sigmoid" with Bernoulli outputs, everything else with Gaussian ones.

    Args:
        activation: one of `TABLE`, any other (its slope is taken as it is), or a response, returned as it is.
        output: "gaussian" makes tanh and sigmoid the means of Gaussian outputs.
        variance: σ² of a Gaussian output.
        omega: ω > 0 of the smoothed relu ω ln(e^{ιt/ω} + e^{t/ω}).
        iota: its slope far left, 0 ≤ ι < 1.
        alpha: α of elu.

    >>> float(response("relu", iota=0.5).slope(jnp.array(0.0)))
    0.75
    """
    if isinstance(activation, Response):
        return activation
    variance = _check.real("variance", variance, above=0.0)
    omega = _check.real("omega", omega, above=0.0)
    iota = _check.real("iota", iota, at_least=0.0)
    alpha = _check.real("alpha", alpha, at_least=0.0)
    if iota >= 1:
        raise ValueError(f"iota is {iota:g}, but must be less than 1.")
    function = None if isinstance(activation, str) and activation in TABLE else _activation(activation)
    label = str(activation) if function is None else function.name
    output = ("bernoulli" if label in _BERNOULLI else "gaussian") if output is None else output
    _check.one_of("output", output, OUTPUTS)
    if output == "bernoulli" and label not in _BERNOULLI:
        raise ValueError(
            f"output is 'bernoulli', which needs tanh or sigmoid as its mean, but the neuron is {label!r}."
        )
    if label in _BERNOULLI:
        function = None  # an `Activation` object of that name means the same neuron
    return Response(label, output, variance, omega, iota, alpha, function)


def _smoothed_relu(of: Response, t: Array) -> Array:
    # ιt + ω ln(1 + e^{(1-ι)t/ω}): nothing overflows.
    return of.iota * t + of.omega * _stable.softplus((1 - of.iota) * t / of.omega)


def _elu(of: Response, t: Array) -> Array:
    return jnp.where(t >= 0, t, of.alpha * jnp.expm1(jnp.minimum(t, 0)))


_MEANS = {
    "tanh": lambda of, t: _stable.tanh(t),
    "sigmoid": lambda of, t: _stable.sigmoid(t),
    "relu": _smoothed_relu,
    "elu": _elu,
}
_SLOPES = {
    "tanh": lambda of, t: 4 * _stable.logistic_density(2 * t),
    "sigmoid": lambda of, t: _stable.logistic_density(t),
    "relu": lambda of, t: of.iota + (1 - of.iota) * _stable.sigmoid((1 - of.iota) * t / of.omega),
    "elu": lambda of, t: jnp.where(t >= 0, 1.0, of.alpha * jnp.exp(jnp.minimum(t, 0))).astype(t.dtype),
}
