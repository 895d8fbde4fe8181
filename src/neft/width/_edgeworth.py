"""The nearly-Gaussian density of one neuron: Edgeworth's expansion to order 1/width (docs/theory/width, eq. 19)."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ._statistics import Statistics

LIMIT = 0.5
_SPREADS, _POINTS = 5.0, 401


@result
class Density(Result):
    """The density of one neuron over the ensemble, on a grid of its values z.

    p(z) = N(z; 0, κ₂) [1 + κ₄/(24κ₂²) He₄(z/√κ₂)] with κ₂ = K + K1/n and κ₄ = 3V/n: it integrates to 1 and has exactly
    these cumulants.

    Attributes:
        density: p on the grid.
        gaussian: N(z; 0, K), the density at infinite width.
        variance: κ₂.
        fourth: κ₄.
        limit: how large |p/N - 1| may be.
        reach: the expansion is trusted for |z| < reach, where |p/N(0, κ₂) - 1| < limit (0: nowhere, inf: everywhere).
        positive: whether p > 0 everywhere, which is so for V/nκ₂² < 4/3.
    """

    layer: int
    z: Float[np.ndarray, " points"]
    density: Float[np.ndarray, " points"]
    gaussian: Float[np.ndarray, " points"]
    variance: float
    fourth: float
    limit: float
    reach: float
    positive: bool
    made: Made


def edgeworth(z: Any, variance: Any, fourth: Any) -> Any:
    """N(z; 0, κ₂)[1 + κ₄/(24κ₂²) He₄(z/√κ₂)] with He₄(u) = u⁴ - 6u² + 3: pure, for NumPy and JAX arrays that broadcast.

    Args:
        z: where.
        variance: κ₂ > 0.
        fourth: the fourth cumulant κ₄.

    >>> round(float(edgeworth(np.array(0.0), 1.0, 0.24)), 6)  # 1/√(2π) times 1.03
    0.410911
    """
    square = z**2 / variance
    gauss = math.e ** (-square / 2) / (2 * math.pi * variance) ** 0.5
    return gauss * (1 + fourth / (24 * variance**2) * (square**2 - 6 * square + 3))


@public
def density(stats: Statistics, z: Any = None, *, layer: int | None = None, limit: float = LIMIT) -> Density:
    """The density of one neuron of a layer from the layer's K, K1 and V (docs/theory/width, eq. 19).

    Args:
        stats: from `statistics`, for one input.
        z: where, of shape (points,); by default within five standard deviations.
        layer: 1..L, by default the last one.
        limit: the relative size of the correction up to which it is trusted, less than 1.

    >>> from neft import MLP, width
    >>> found = density(width.statistics(MLP(widths=(3, 32, 32, 1), activation="tanh"), [1.0, 1.0, 1.0]))
    >>> found.positive, found.reach / found.variance**0.5 > 2
    (True, True)
    """
    one_input(stats)
    depth = len(stats.K)
    layer = _check.integer("layer", depth if layer is None else layer, at_least=1, at_most=depth)
    limit = _check.real("limit", limit, above=0.0)
    if limit >= 1:
        raise ValueError(f"limit is {limit:g}, but must be less than 1, where the density could be negative.")
    n, K, V = stats.widths[layer - 1], float(stats.K[layer - 1]), float(stats.V[layer - 1])
    variance, fourth = K + float(stats.K1[layer - 1]) / n, 3 * V / n
    if variance <= 0:
        raise ValueError(
            f"K + K1/n is {variance:.3g} at layer {layer}, so there is no density: width {n} is too small for it."
        )
    grid = _SPREADS * math.sqrt(variance) * np.linspace(-1, 1, _POINTS)
    z = grid if z is None else _check.array("z", z, ndim=1)
    size = fourth / (24 * variance**2)
    return Density(
        layer=layer,
        z=z,
        density=np.asarray(edgeworth(z, variance, fourth)),
        gaussian=np.asarray(edgeworth(z, K, 0.0)),
        variance=variance,
        fourth=fourth,
        limit=limit,
        reach=math.sqrt(variance) * _reach(size, limit),
        # He₄ is least at u² = 3, where it is -6.
        positive=6 * size < 1,
        made=Made.by("neft.width.density", specification={"of": stats.made.to_dict(), "layer": layer, "limit": limit}),
    )


def one_input(stats: Statistics) -> None:
    """Refuse statistics of several inputs, and of a layer without signal, which nothing is relative to."""
    if stats.K.ndim != 1:
        raise ValueError(f"stats hold K of shape {stats.K.shape}, but must be those of one input, of shape (layers,).")
    for l, value in enumerate(stats.K, start=1):
        if value <= 0:
            raise ValueError(f"K is {value:.3g} at layer {l}: without a signal nothing is relative to it.")


def _reach(size: float, limit: float) -> float:
    """The largest u with |size · He₄| < limit on all of [0, u), for size ≥ 0."""
    if 3 * size >= limit:
        return 0.0
    if size == 0:
        return math.inf
    if 6 * size >= limit:
        # It is lost on the way down to He₄ = -6, where He₄(u) = -limit/size.
        return math.sqrt(3 - math.sqrt(6 - limit / size))
    return math.sqrt(3 + math.sqrt(6 + limit / size))
