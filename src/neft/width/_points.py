"""Critical points of a repeated block, found from its own step (docs/theory/blocks, eqs. 31-36)."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq, root

from ._settled import settled
from ._step import Step

Side = Literal["above", "below", "both", "neither"]

_GRID = np.logspace(-6, 6, 121)
_EQUAL = 1e-10  # of two susceptibilities, relative to 1
_FIXED = 1e-4  # of χ_∥ over all variances, where a norm fixes it: ε of the norms is not 0
_RESOLVED = 1e-9
_LARGEST = 1e8  # C_W


class Found(NamedTuple):
    """A point: C_b, C_W, its fixed point (None: every K), universality and stability."""

    C_b: float
    C_W: float
    K_star: float | None
    universality: str
    stability: str


def points(step: Step) -> tuple[list[Found], list[str]]:
    """The critical points of a step, unsorted, and what was found, in words."""
    fixed = _fixed_growth(step)
    if fixed is not None:
        return _normalized(step, fixed)
    silent, loud = (step.slopes(_GRID, 0.0, C_W, by="grid").perpendicular for C_W in (0.0, 1.0))
    known = np.isfinite(silent) & np.isfinite(loud)
    if (silent[known] >= 1 - _EQUAL).all() and (loud > silent)[known].all():
        return [], [_skipped(float(silent[known].min()))]
    if _scale_invariant(step):
        return _every_K(step)
    found, why = _at_zero(step)
    for point, reason in _above_zero(step):
        found += [point] if point else []
        why.append(reason)
    return found, why


def _skipped(silent: float) -> str:
    if silent > 1 + _EQUAL:
        return (
            f"No C_b and C_W are critical: what skips these weights has χ_⊥ = {silent:.6g} > 1 by itself, and they add "
            "to it at every K."
        )
    return (
        "No C_b and C_W are critical: with a skip of 1 there is χ_⊥ > 1 at every C_W > 0, and both susceptibilities "
        "are 1 in the limit C_W → 0 only, so that deep networks want C_W ∝ 1/depth at the end of a branch."
    )


def _fixed_growth(step: Step) -> float | None:
    """χ_∥ where a norm fixes it, whatever the variances are; else None."""
    K, b, w = (part.ravel() for part in np.meshgrid([0.5, 1.0, 3.0], [0.05, 0.4], [0.5, 1.0, 2.0], indexing="ij"))
    parallel = step.slopes(K, b, w, by="grid").parallel
    return float(parallel.mean()) if np.ptp(parallel) < _FIXED else None


def _normalized(step: Step, parallel: float) -> tuple[list[Found], list[str]]:
    said = f"Norms fix χ_∥ = {round(parallel, 4):g} whatever C_b and C_W are"
    none = "in every block and has no fixed point, so that no C_b and C_W are critical"
    if parallel > 1 + _FIXED:
        return [], [f"{said}: K grows by this factor {none}."]
    if parallel > 1 - _FIXED:
        return [], [
            f"{said}: K grows by the same amount {none}; whatever they are, the difference of two inputs changes as a "
            "power of the depth, not exponentially."
        ]

    def chi(b: Any) -> np.ndarray:
        b = np.atleast_1d(np.asarray(b, float))
        w = np.ones_like(b)
        return step.slopes(settled(step, b, w), b, w).perpendicular - 1

    b = np.append(0.0, np.logspace(-6, 4, 61))
    values = chi(b)
    said += ", so K never is marginal"
    # Such as relu, whose χ_⊥ is 1 at C_b = 0 up to ε.
    if abs(values[0]) < _FIXED and (values[1:] < 0).all():
        at = 0.0
    else:
        (turns,) = np.nonzero(values[:-1] * values[1:] < 0)
        if not turns.size:
            side = "less" if values[0] < 0 else "more"
            return [], [f"{said}; χ_⊥ is {side} than 1 at C_W = 1 for every C_b."]
        i = int(turns[0])
        at = float(brentq(lambda b: float(chi(b)[0]), b[i], b[i + 1], xtol=1e-14, rtol=1e-13))  # type: ignore[arg-type]
    K = float(settled(step, np.array([at]), np.ones(1))[0])
    return [Found(at, 1.0, K, "normalized", "both")], [
        f"{said}; χ_⊥ = 1 on a line of C_b against C_W, which passes C_b = {at:.6g} at C_W = 1."
    ]


def _scale_invariant(step: Step) -> bool:
    at = step.slopes(_GRID[::20], 0.0, 1.0, by="grid")
    ratio = at.K / _GRID[::20]
    same = np.abs(ratio / ratio[0] - 1).max() if ratio[0] > 0 else 1.0
    return bool(same < _EQUAL and np.abs(at.parallel - at.perpendicular).max() < _EQUAL)


def _every_K(step: Step) -> tuple[list[Found], list[str]]:
    C_W = _weight(step, 1.0)
    if C_W is None:
        return [], ["χ_⊥ < 1 at every C_W."]
    return [Found(0.0, C_W, None, "scale-invariant", "every K stays")], [
        "The block is scale invariant at C_b = 0, so χ_∥ = χ_⊥ at every K and every K is a fixed point."
    ]


def _weight(step: Step, K: float) -> float | None:
    """The C_W with χ_⊥ = 1 at this K, at C_b = 0."""

    def excess(log_W: float) -> float:
        return float(step.slopes(K, 0.0, math.exp(log_W)).perpendicular) - 1

    low, high = math.log(1e-8), math.log(_LARGEST)
    if not excess(low) < 0 < excess(high):
        return None
    found: Any = brentq(excess, low, high, xtol=1e-15)
    # To its last digits, which the logarithm has lost.
    near = math.exp(found)
    a, b = near * (1 - 1e-12), near * (1 + 1e-12)
    left, right = (excess(math.log(value)) for value in (a, b))
    return near if not left < 0 < right else float(a - left * (b - a) / (right - left))


def _at_zero(step: Step) -> tuple[list[Found], list[str]]:
    if (value := float(step.value(0.0, 0.0, 1.0))) != 0:
        return [], [f"K* = 0 is no fixed point because K = 0 becomes {value:.6g} at C_b = 0 and C_W = 1."]
    C_W = _weight(step, 0.0)
    if C_W is None:
        return [], ["K* = 0 is not critical because no C_W makes χ_⊥ = 1 there."]
    at = step.slopes(0.0, 0.0, C_W)
    if abs(float(at.parallel) - 1) > 1e-9:
        return [], [f"K* = 0 is not critical because χ_∥ = {float(at.parallel):.6g} where χ_⊥ = 1."]
    change = step.value(_GRID, 0.0, C_W, by="grid") / _GRID - 1
    (seen,) = np.nonzero(np.abs(change) > _RESOLVED)
    said = f"K* = 0 is critical at C_W = {C_W:.6g}"
    if not seen.size:
        return [Found(0.0, C_W, 0.0, "K*=0", "neither")], [f"{said}, and K' = K to all digits."]
    i = int(seen[0])
    attracts = bool(change[i] < 0)
    verb = "attracts" if attracts else "repels"
    return [Found(0.0, C_W, 0.0, "K*=0", "above" if attracts else "neither")], [
        f"{said}; it {verb}: K'/K - 1 = {change[i]:.2e} at K = {_GRID[i]:.3g}."
    ]


def _above_zero(step: Step) -> Iterator[tuple[Found | None, str]]:
    b, w = _edge(step, _GRID)
    at = step.slopes(_GRID, b, w, by="grid")
    D = np.where(np.isfinite(w), at.parallel - at.perpendicular, np.nan)
    (seen,) = np.nonzero(np.abs(D) > _RESOLVED)
    some = False
    for i, j in itertools.pairwise(seen):
        if D[i] * D[j] > 0:
            continue
        some = True
        middle = math.sqrt(_GRID[i] * _GRID[j])
        found = _solved(step, middle, float(b[i] + b[j]) / 2, math.sqrt(w[i] * w[j]))
        if found is None or not _GRID[i] / 3 < found[0] < 3 * _GRID[j]:
            yield None, f"Near K = {middle:.3g} χ_∥ = χ_⊥ = 1 was not found at a fixed point with C_b ≥ 0."
            continue
        K, C_b, C_W = found
        if C_b < -1e-12 * K:
            yield None, f"χ_∥ = χ_⊥ = 1 at K = {K:.6g} too, but it would be a fixed point for C_b = {C_b:.4g} < 0 only."
            continue
        side = _stability(step, K, max(C_b, 0.0), C_W)
        kind = "half-stable" if side in ("above", "below") else "K*>0"
        words = {"above": "above only", "below": "below only", "both": "both sides", "neither": "neither side"}[side]
        yield (
            Found(max(C_b, 0.0), C_W, K, kind, side),
            f"K* = {K:.6g} attracts from {words}, by χ_∥ on its two sides.",
        )
    if not seen.size:
        yield None, "No point with K* > 0 was found, because χ_∥ and χ_⊥ cannot be told apart where χ_⊥ = 1."
    elif not some:
        span = f"K from {_GRID[seen[0]]:.0e} to {_GRID[seen[-1]]:.0e}"
        yield None, f"No point has K* > 0 because χ_∥ and χ_⊥ are nowhere both 1 for {span}."


def _edge(step: Step, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C_b ≥ 0 and C_W with χ_⊥ = 1 and K' = K at each K; where that asks for C_b < 0, it is 0 and K' > K."""

    def balanced(w: np.ndarray) -> np.ndarray:
        return _crossing(lambda b: step.value(K, b, w, by="table") / K - 1, np.zeros_like(K), K)

    def excess(log_W: np.ndarray) -> np.ndarray:
        w = np.exp(log_W)
        # At weights that no table reaches it is large.
        return np.nan_to_num(step.slopes(K, balanced(w), w, by="table").perpendicular - 1, nan=1.0)

    low, high = (np.full_like(K, math.log(value)) for value in (1 / _LARGEST, _LARGEST))
    there = (excess(low) < 0) & (excess(high) > 0)
    w = np.where(there, np.exp(_crossing(excess, low, high)), np.nan)
    return balanced(w), w


def _crossing(f: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where each f changes from negative to positive; an end where it does not."""
    bracket = _Bracket(low, high, f(low), f(high), np.zeros(low.shape))
    inside = (bracket.f_low < 0) & (bracket.f_high > 0)
    found, left = np.where(bracket.f_low >= 0, low, high), inside
    for count in range(60):
        at = bracket.guess(inside & (count % 5 < 4))
        value = f(at)
        bracket = bracket.cut(at, value)
        found = np.where(left, at, found)
        left = left & (np.abs(value) > 1e-9) & (bracket.high - bracket.low > 1e-10 * np.abs(bracket.high))
        if not left.any():
            break
    return found


class _Bracket(NamedTuple):
    """Ends with the values there, and the end that moved last (-1: the lower one, 1: the upper one)."""

    low: np.ndarray
    high: np.ndarray
    f_low: np.ndarray
    f_high: np.ndarray
    side: np.ndarray

    def guess(self, by_secant: np.ndarray) -> np.ndarray:
        """The secant's zero where it is asked for and lies between the ends, else the middle."""
        line = (self.low * self.f_high - self.high * self.f_low) / np.where(by_secant, self.f_high - self.f_low, 1.0)
        good = by_secant & (self.low < line) & (line < self.high)
        return np.where(good, line, (self.low + self.high) / 2)

    def cut(self, at: np.ndarray, value: np.ndarray) -> "_Bracket":
        """The part with the zero; an end that stays a second time is pulled in."""
        under = value < 0
        return _Bracket(
            np.where(under, at, self.low),
            np.where(under, self.high, at),
            np.where(under, value, np.where(self.side > 0, self.f_low / 2, self.f_low)),
            np.where(under, np.where(self.side < 0, self.f_high / 2, self.f_high), value),
            np.where(under, -1, 1),
        )


def _solved(step: Step, K: float, C_b: float, C_W: float) -> tuple[float, float, float] | None:
    """K, C_b, C_W with K' = K and χ_∥ = χ_⊥ = 1, from nearby."""

    def residuals(at: Any) -> list[float]:
        K, C_W = np.exp(at[0]), np.exp(at[2])
        now = step.slopes(K, at[1] * K, C_W)
        return [float(now.K) / K - 1, float(now.parallel) - 1, float(now.perpendicular) - 1]

    try:
        found = root(residuals, [math.log(K), C_b / K, math.log(C_W)], method="hybr", options={"xtol": 1e-14})
    except ValueError:
        return None  # it left the range where averages exist
    if not np.abs(residuals(found.x)).max() < 1e-10:
        return None
    K, C_W = math.exp(found.x[0]), math.exp(found.x[2])
    return K, float(found.x[1]) * K, C_W


def _stability(step: Step, K: float, C_b: float, C_W: float) -> Side:
    # Where the flow ends says nothing: another fixed point can be near, reached after millions of blocks.
    below, above = step.slopes(K * np.array([1 - 1e-3, 1 + 1e-3]), C_b, C_W).parallel < 1
    if above:
        return "both" if below else "above"
    return "below" if below else "neither"
