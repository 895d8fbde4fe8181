"""Which common variances of a repeated block to start from (docs/theory/blocks, eqs. 33-36)."""

import math
from typing import Any, Literal, NamedTuple

from scipy.optimize import brentq

from .. import _check
from ._critical import CriticalPoint, critical
from ._step import Step

Kind = Literal["critical", "edge of chaos", "small branches", "free", "given"]


class BlockStart(NamedTuple):
    """C_b and C_W, how they were found, the fixed point they keep (None: every K, or none), and why, in words."""

    C_b: float
    C_W: float
    kind: Kind
    K_star: float | None
    why: str
    others: tuple[CriticalPoint, ...] = ()


def block_start(given: Any, step: Step, dense: Any, C_b: Any, C_W: Any, point: int, *, K: float, count: int) -> Any:
    """The user's own variances, else those of a critical point, else what a skip of 1 asks for, from K on."""
    if (C_b is None) != (C_W is None):
        missing = "C_b" if C_b is None else "C_W"
        raise ValueError(f"{missing} is missing, but C_b and C_W must be given together or not at all.")
    if C_W is not None:
        b, W = _check.real("C_b", C_b, at_least=0.0), _check.real("C_W", C_W, above=0.0)
        return BlockStart(b, W, "given", None, "as given")
    step.refuse_jumps()
    found = critical(given, dense=dense)
    point = _check.integer("point", point, at_least=0)
    if found.points:
        return _of_point(found.points, point)
    skipped = step.slopes(K, 0.0, 0.0)
    if abs(float(step.slopes(K, 0.0, 1.0).parallel) - 1) < 1e-4:
        # As a norm inside of a skip of 1 has it: nothing that weights do comes back to them.
        return _unit(step)
    if abs(float(skipped.perpendicular) - 1) < 1e-9:
        return _small(step, K, count)
    raise ValueError(f"the block has no critical point, so C_b and C_W must be given: {found.why}")


def _of_point(points: tuple[CriticalPoint, ...], point: int) -> BlockStart:
    if point >= len(points):
        raise ValueError(f"point is {point}, but must be less than {len(points)}, the number of critical points.")
    best = points[point]
    others = tuple(p for i, p in enumerate(points) if i != point)
    if best.universality == "normalized":
        why = f"norms fix χ_∥, and χ_⊥ = 1 with K* = {best.K_star:.4g}"
        return BlockStart(best.C_b, best.C_W, "edge of chaos", best.K_star, why, others)
    where = "where every K stays" if best.K_star is None else f"with K* = {best.K_star:.4g}"
    rank = "the best" if point == 0 else f"point {point}"
    which = f"{rank} of its {len(points)} critical points" if others else "its critical point"
    return BlockStart(best.C_b, best.C_W, "critical", best.K_star, f"{which}, {where}", others)


def _unit(step: Step) -> BlockStart:
    """Branches that add what their norm gives them, a variance of 1, to a stream of 1."""
    skipped = float(step.value(1.0, 0.0, 0.0))

    def excess(log_W: float) -> float:
        return float(step.value(1.0, 0.0, math.exp(log_W))) - skipped - 1

    low, high = math.log(1e-9), math.log(1e9)
    if not excess(low) < 0 < excess(high):
        raise ValueError("the block has no critical point and its branch no size, so C_b and C_W must be given.")
    root: Any = brentq(excess, low, high, xtol=1e-13)
    why = "norms in the branches leave them free, and with this every branch adds a variance of 1, that of its norm"
    return BlockStart(0.0, math.exp(root), "free", None, why)


def _small(step: Step, K: float, count: int) -> BlockStart:
    def excess(log_W: float) -> float:
        return float(step.slopes(K, 0.0, math.exp(log_W)).perpendicular) - 1 - 1 / count

    low, high = math.log(1e-12), math.log(1e8)
    if not excess(low) < 0 < excess(high):
        raise ValueError(
            "the block has no critical point and χ_⊥ does not grow with C_W, so C_b and C_W must be given."
        )
    root: Any = brentq(excess, low, high, xtol=1e-14)
    why = f"a skip of 1 has no critical point, and with this χ_⊥ = 1 + 1/{count} at the first of {count} blocks"
    return BlockStart(0.0, math.exp(root), "small branches", None, why)
