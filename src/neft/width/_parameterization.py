"""The same network written in other parameterizations: standard, NTK and μP, both ways.

A layer is z = m_b b + m_W W σ with multipliers m, variances v and rates η of gradient descent. Multiplying m by c,
dividing v by c² and η by c² changes neither the networks at initialization nor any step of training, so a
parameterization is a choice of multipliers, together with the powers of the width that it leaves out of its constants.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import _check
from .._activation import Activation
from .._public import public
from .._result import Made, Result, result
from ..network import MLP, Layer, Network
from ..network.engine import perceptron

Kind = Literal["standard", "ntk", "mup"]
KINDS = ("standard", "ntk", "mup")


class _Powers(NamedTuple):
    """Powers of the fan-in in multiplier, variance and rate of the weights, and of the fan-out in the rates."""

    multiplier: float
    variance: float
    rate: float
    rate_out: float = 0.0
    bias_rate_out: float = 0.0


# μP as in Yang et al., Tensor Programs V (2022), table 8, for gradient descent.
_FORMS: dict[str, dict[str, _Powers]] = {
    "standard": dict.fromkeys(("first", "hidden", "last"), _Powers(0.0, -1.0, -1.0)),
    "ntk": dict.fromkeys(("first", "hidden", "last"), _Powers(-0.5, 0.0, 0.0)),
    "mup": {
        "first": _Powers(0.0, -1.0, 0.0, rate_out=1.0, bias_rate_out=1.0),
        "hidden": _Powers(0.0, -1.0, 0.0, bias_rate_out=1.0),
        "last": _Powers(-1.0, 0.0, 1.0),
    },
}


@result
class Parameterization(Result):
    """Multipliers, variances at initialization and learning rates of gradient descent, of shape (L,) each.

    z^l = multiplier_b b + multiplier_W W σ(z^{l-1}) with b and W Gaussian of the given variances.

    Attributes:
        kind: "standard" (multipliers 1), "ntk" (multipliers 1/√fan-in) or "mup" (1/fan-in in the last layer).
        constants: variances and rates without the powers of the width that the parameterization prescribes: they stay
            when widths change. For "standard" and "ntk" they are C_b, C_W, λ_b, λ_W.
        activation: its name; `network` wants the function itself where it is the user's own.
    """

    kind: Kind
    widths: tuple[int, ...]
    activation: str
    named: bool
    multiplier_b: Float[np.ndarray, " layers"]
    multiplier_W: Float[np.ndarray, " layers"]
    variance_b: Float[np.ndarray, " layers"]
    variance_W: Float[np.ndarray, " layers"]
    rate_b: Float[np.ndarray, " layers"]
    rate_W: Float[np.ndarray, " layers"]
    constants: dict[str, Float[np.ndarray, " layers"]]
    made: Made

    def network(self, activation: str | Activation | Callable[[Any], Any] | None = None) -> MLP:
        """The specification with the same initial networks and the same training: the inverse of `parameterize`."""
        if activation is None and not self.named:
            raise ValueError(f"activation {self.activation!r} is a user's own function, so it must be given.")
        fan_in = np.array(self.widths[:-1], float)
        hyperparameters = {
            "C_b": self.variance_b * self.multiplier_b**2,
            "C_W": self.variance_W * self.multiplier_W**2 * fan_in,
            "lambda_b": self.rate_b * self.multiplier_b**2,
            "lambda_W": self.rate_W * self.multiplier_W**2 * fan_in,
        }
        return MLP(self.widths, self.activation if activation is None else activation, **_tuples(hyperparameters))

    def at(self, widths: tuple[int, ...]) -> "Parameterization":
        """The same constants at other widths (of as many layers): how this parameterization says to scale a network."""
        widths = tuple(_check.integer("each of widths", n, at_least=1) for n in widths)
        if len(widths) != len(self.widths):
            raise ValueError(f"widths is {widths}, but must hold {len(self.widths)} numbers, as many as before.")
        scale = _scales(self.kind, widths)
        values = {name: self.constants[name] * scale[name] for name in self.constants}
        multipliers = {name: scale[name] for name in ("multiplier_b", "multiplier_W")}
        return dataclasses.replace(self, widths=widths, **values, **multipliers)


@public
def parameterize(net: Network, kind: str) -> Parameterization:
    """The network in the standard, NTK or μP parameterization, for gradient descent with rates per layer.

    The specification itself is in the standard one: W of variance C_W/fan-in, trained at the rate λ_W/fan-in.

    Args:
        net: the specification.
        kind: "standard", "ntk" or "mup".

    >>> parameterize(MLP(widths=(3, 100, 1), C_W=2.0), "mup").multiplier_W
    array([1.  , 0.01])
    """
    net = perceptron(net, "parameterizations")
    kind = _check.one_of("kind", kind, KINDS)
    scale, variances, rates = _scales(kind, net.widths), Layer(*zip(*net.variances())), Layer(*zip(*net.rates()))
    values = {
        "variance_b": np.array(variances.b) / scale["multiplier_b"] ** 2,
        "variance_W": np.array(variances.W) / scale["multiplier_W"] ** 2,
        "rate_b": np.array(rates.b) / scale["multiplier_b"] ** 2,
        "rate_W": np.array(rates.W) / scale["multiplier_W"] ** 2,
    }
    return Parameterization(
        kind=kind,  # type: ignore[arg-type]
        widths=net.widths,
        activation=net.activation.name,
        named=net.activation.remakable,
        multiplier_b=scale["multiplier_b"],
        multiplier_W=scale["multiplier_W"],
        **values,
        constants={name: value / scale[name] for name, value in values.items()},
        made=Made.by("neft.width.parameterize", specification={"net": net.to_dict(), "kind": kind}),
    )


def _scales(kind: str, widths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The powers of the width in multipliers, variances and rates, layer by layer."""
    fan_in, fan_out = np.array(widths[:-1], float), np.array(widths[1:], float)
    depth = len(fan_in)
    # A single layer has no width at all: it is a first layer whose outputs do not grow.
    roles = ["first", *["hidden"] * (depth - 2), "last"] if depth > 1 else ["first"]
    powers = [_FORMS[kind][role] for role in roles]
    if depth == 1:
        powers = [powers[0]._replace(rate_out=0.0, bias_rate_out=0.0)]
    table = {name: np.array([getattr(p, name) for p in powers]) for name in _Powers._fields}
    ones = np.ones(depth)
    return {
        "multiplier_b": ones,
        "multiplier_W": fan_in ** table["multiplier"],
        "variance_b": ones,
        "variance_W": fan_in ** table["variance"],
        "rate_b": fan_out ** table["bias_rate_out"],
        "rate_W": fan_in ** table["rate"] * fan_out ** table["rate_out"],
    }


def _tuples(values: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: tuple(value.tolist()) for name, value in values.items()}
