"""The card of an activation."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

import neft

from .. import _check
from .._public import public
from .._result import Made, Result, result

SPAN = 5.0
"""An activation is tabulated on [-SPAN, SPAN]."""


@result
class ActivationCard(Result):
    """σ and its first three derivatives on a grid, with what is known about it at the origin.

    `values[n]` is σ^(n) on `z`, `taylor[k]` is σ^(k)(0)/k! (None where it is not known), and each of `kinks` is a
    position, the order of the lowest derivative that jumps there and the size of the jump.
    """

    name: str
    z: Float[np.ndarray, " points"]
    values: Float[np.ndarray, "4 points"]
    taylor: Float[np.ndarray, " terms"] | None
    kinks: tuple[tuple[float, int, float], ...]
    singularity: float
    parity: str | None
    scale_invariant: bool
    one_sided: bool
    made: Made


@public
def activation(
    activation: "str | neft.Activation | Callable[[Any], Any]", *, order: int = 10, points: int = 401
) -> ActivationCard:
    """The card of an activation: derivatives on a grid of `points`, Maclaurin coefficients up to `order`.

    >>> activation("tanh", order=3).taylor.round(4).tolist()
    [0.0, 1.0, 0.0, -0.3333]
    """
    import jax

    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    points = _check.integer("points", points, at_least=2)
    sigma = neft.activation(activation)
    z = np.linspace(-SPAN, SPAN, points)
    with jax.enable_x64(True):
        # One compilation for the four.
        values = np.stack(jax.jit(lambda z: [sigma.derivative(n)(z) for n in range(4)])(z))
    return ActivationCard(
        name=sigma.name,
        z=z,
        values=values,
        taylor=_taylor(sigma, order),
        kinks=tuple((kink.position, kink.order, kink.jump) for kink in sigma.kinks),
        singularity=sigma.singularity,
        parity=sigma.parity,
        scale_invariant=sigma.scale_invariant,
        one_sided=sigma.one_sided,
        made=Made.by("neft.describe.activation", specification={"activation": sigma, "order": order, "points": points}),
    )


def _taylor(sigma: "neft.Activation", order: int) -> np.ndarray | None:
    # A user's own function may not show its series, and the rest of the card stands without it.
    try:
        return sigma.taylor(order)
    except ValueError:
        if sigma.named:
            raise
        return None
