"""Which variances to start from: those of a critical point, or the best without one (docs/theory/width, eq. 69)."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq

from .. import _check
from .._activation import Activation
from ..gaussian import Powers, moment
from ._critical import Criticality, CriticalPoint, critical
from ._curves import per_weight

Kind = Literal["critical", "edge of chaos", "steady", "given"]


_RAISED = 2.0  # over the depth: how far C_W is above a critical point at which signals fade (docs/advice)


class Start(NamedTuple):
    """C_b and C_W, how they were found, the fixed point they keep (None: every K, or not known), and why, in words.

    C_W of the last layer is `last` times as large.
    """

    C_b: float
    C_W: float
    kind: Kind
    K_star: float | None
    why: str
    others: tuple[CriticalPoint, ...] = ()
    last: float = 1.0


def start(act: Activation, C_b: Any, C_W: Any, point: int) -> Start:
    """The user's own variances, else those of the critical point of that number, else the best without one."""
    if (C_b is None) != (C_W is None):
        missing = "C_b" if C_b is None else "C_W"
        raise ValueError(f"{missing} is missing, but C_b and C_W must be given together or not at all.")
    if C_W is not None:
        b, W = _check.real("C_b", C_b, at_least=0.0), _check.real("C_W", C_W, above=0.0)
        return Start(b, W, "given", None, "as given")
    if any(kink.order == 0 for kink in act.kinks):
        raise ValueError(f"activation {act.name!r} jumps, so it has no NTK and no advice can be given for it.")
    found = critical(act)
    point = _check.integer("point", point, at_least=0)
    if not found.points:
        return _without_point(act, found)
    if point >= len(found.points):
        raise ValueError(
            f"point is {point}, but must be less than {len(found.points)}, the number of critical points of {act.name}."
        )
    best = found.points[point]
    where = "where every K stays" if best.K_star is None else f"with K* = {best.K_star:.4g}"
    others = tuple(p for i, p in enumerate(found.points) if i != point)
    rank = "the best" if point == 0 else f"point {point}"
    which = f"{rank} of its {len(found.points)} critical points" if others else "its critical point"
    return Start(best.C_b, best.C_W, "critical", best.K_star, f"{which}, {where}", others)


def raised(act: Activation, chosen: Start, depth: int) -> Start:
    """The start of a network of that many layers where K* is 0, at which signals fade as 1/l: a little above it.

    C_W times 1 + 2/L has a fixed point near 1/L that signals stay at, and χ_⊥ is 1 up to order 1/L² there. The last
    layer brings K* to its square root. Other starts, and networks of one hidden layer, stay as they are.
    """
    if chosen.kind != "critical" or chosen.K_star != 0 or depth < 3:
        return chosen
    C_W = chosen.C_W * (1 + _RAISED / depth)

    def excess(log_K: float) -> float:
        K = math.exp(log_K)
        return chosen.C_b + C_W * float(moment(act, Powers(s=2), K)) - K

    grid = np.log(np.geomspace(1e-3 / depth, 10.0, 25))
    values = [excess(K) for K in grid]
    for low, high, left, right in zip(grid, grid[1:], values, values[1:]):
        if left > 0 > right:
            root: Any = brentq(excess, low, high, xtol=1e-13)
            K = math.exp(root)
            why = f"{chosen.why}, times 1 + {_RAISED:g}/depth, so that signals stay at K = {K:.4g} instead of fading"
            return chosen._replace(C_W=C_W, K_star=K, why=why, last=max(1.0, K**-0.5))
    return chosen


def _without_point(act: Activation, found: Criticality) -> Start:
    edge = _edge(act, found)
    if edge is not None:
        K, C_W = edge
        return Start(
            0.0, C_W, "edge of chaos", K, f"it has no critical point, and this is its edge of chaos, with K* = {K:.4g}"
        )
    C_W = 1 / float(moment(act, Powers(s=2), 1.0))
    chi = C_W * float(per_weight(act, np.ones(()))[1])
    if not chi < 1:
        raise ValueError(
            f"activation is {act.name!r}, which has no critical point, no edge of chaos and no steady signal "
            f"(χ_∥ = {chi:.3g} at K = 1), so C_b and C_W must be given."
        )
    return Start(0.0, C_W, "steady", 1.0, "it has no critical point and no edge of chaos, and this keeps K* = 1")


def _edge(act: Activation, found: Criticality) -> tuple[float, float] | None:
    """The smallest attracting fixed point with χ_⊥ = 1 at C_b = 0, where K⟨s'²⟩ = ⟨s²⟩, and its C_W."""

    def excess(log_K: float) -> float:
        K = math.exp(log_K)
        return K * float(moment(act, Powers(s1=2), K)) - float(moment(act, Powers(s=2), K))

    grid = np.log(found.K[:: max(1, len(found.K) // 60)])
    values = [excess(K) for K in grid]
    for low, high, left, right in zip(grid, grid[1:], values, values[1:]):
        if left < 0 < right:
            root: Any = brentq(excess, low, high, xtol=1e-13)
            slope, growth = (float(value) for value in per_weight(act, np.array(math.exp(root))))
            if growth < slope:
                return math.exp(root), 1 / slope
    return None
