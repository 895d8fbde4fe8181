"""Averages of a variable with itself, for the step of a block: by quadrature, on a grid, or from tables."""

import functools
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from .._activation import Activation
from ..gaussian import Powers, moment
from ..network import Means, Stage
from ._curves import SQUARE, curves, grid, per_weight
from ._origin import origin

By = Literal["quadrature", "grid", "table"]

_DECADES, _PER_DECADE = 16, 60
_UNRESOLVED = 1e-6  # the relative error of an average that is not known


class Averaged:
    """What blocks ask for, of arrays with one axis. `asked` lists it, with derivatives in K, in the order of asking.

    Three ways: "quadrature" refines itself, to 1e-12, and says where there is no average; "grid" is a quadrature of
    fixed size with NaN where that does not resolve, for K over many decades; "table" interpolates, K' to nine digits
    or more and derivatives to six, with NaN where a table does not reach.
    """

    def __init__(self, by: By, *, slopes: bool = True) -> None:
        self.by, self.slopes, self.asked = by, slopes, []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        """See `neft.network.Averages`."""
        known, K = _known(stage.K1)
        if self.by == "quadrature" and not self.slopes:
            found = [moment(activation, SQUARE, K)] * 3
        elif self.by == "quadrature":
            found = [moment(activation, SQUARE, K), *per_weight(activation, K)]
        else:
            found = _on_grid(activation, K) if self.by == "grid" else _table(activation).at(K)
        square, slope, growth = (np.where(known, one, np.nan) for one in found)
        self.asked += [square, slope, growth]
        return Means(square, square, square, slope)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        """See `neft.network.Averages`."""
        known, K = _known(stage.K1)
        if self.by == "quadrature":
            # At K = 0 nothing is known of σ'' by this; a norm of activations is no place for it.
            safe = np.where(K > 0, K, 1.0)
            found = moment(activation, Powers(s=1), K), moment(activation, Powers(s1=1, z=1), safe) / (2 * safe)
        else:
            found = _table_of_means(activation).at(K)
        mean, change = (np.where(known, one, np.nan) for one in found)
        self.asked += [mean, change]
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        """Zeros: a part of Θ, which is not looked at."""
        return np.zeros_like(stage.c)


def _known(K: Any) -> tuple[np.ndarray, np.ndarray]:
    # A K that is not finite has no averages; any other stands in for it.
    K = np.asarray(K)
    known = np.isfinite(K) & (K >= 0)
    return known, np.where(known, K, 1.0)


def _on_grid(act: Activation, K: np.ndarray) -> tuple[np.ndarray, ...]:
    on, near = curves(act, np.where(K > 0, K, 1.0)), origin(act)
    # Variances at which the averages overflow are not in it.
    place = np.clip(np.searchsorted(order := np.sort(on.K), K), 0, max(0, on.K.size - 1))
    index = np.argsort(on.K, kind="stable")
    there = order[place] == K if on.K.size else np.zeros(K.shape, bool)
    at = (near.value**2, near.A_2, near.growth)
    found = []
    for values, limit in zip((on.ss, on.a, on.g), at):
        inside = np.where(on.error < _UNRESOLVED, values, np.nan)[index][place] if on.K.size else np.nan
        found.append(np.where(K > 0, np.where(there, inside, np.nan), limit))
    return tuple(found)


class _Table(NamedTuple):
    # Logarithms of averages against that of K, so that powers of K are exact.
    low: float
    high: float
    square: Any
    slope: Any
    near: Any

    def at(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inside = (self.low <= K) & (self.high >= K)
        log_K = np.log(np.where(inside, K, self.low))
        square, slope = np.exp(self.square(log_K)), np.exp(self.slope(log_K))
        growth = square * self.square(log_K, 1) / np.where(inside, K, 1.0)
        near = self.near
        below = [np.where((self.low > K) & (K >= 0), v, np.nan) for v in (near[0] ** 2 + near[2] * K, near[1], near[2])]
        return tuple(np.where(inside, a, b) for a, b in zip((square, slope, growth), below))  # type: ignore[return-value]


@functools.lru_cache(maxsize=32)
def _table(act: Activation) -> _Table:
    on = curves(act, grid(act, _DECADES, _PER_DECADE))
    K, ss, a, g, error = on
    good = (error < _UNRESOLVED) & (ss > 0) & (a > 0)
    # The longest stretch around K = 1: what lies beyond a gap is not reached.
    middle = int(np.argmin(np.abs(np.log(K)))) if K.size else 0
    if not K.size or not good[middle]:
        raise ValueError(f"activation {act.name!r} has averages at K = 1 that are 0 or cannot be resolved.")
    low = middle - int(np.argmin(np.append(good[middle::-1], False))) + 1
    high = middle + int(np.argmin(np.append(good[middle:], False)))
    K, ss, a, g = (values[low:high] for values in (K, ss, a, g))
    square = CubicHermiteSpline(np.log(K), np.log(ss), K * g / ss)
    near = origin(act)
    return _Table(K[0], K[-1], square, CubicSpline(np.log(K), np.log(a)), (near.value, near.A_2, near.growth))


class _Means(NamedTuple):
    # ⟨s⟩/√⟨s²⟩, which does not change where σ is scale invariant.
    table: _Table
    ratio: Any

    def at(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        square, _, growth = self.table.at(K)
        inside = (self.table.low <= K) & (self.table.high >= K)
        log_K = np.log(np.where(inside, K, self.table.low))
        ratio, change = self.ratio(log_K), np.where(inside, self.ratio(log_K, 1), 0.0)
        size = np.sqrt(square)
        return ratio * size, ratio * growth / (2 * size) + change * size / np.where(K > 0, K, 1.0)


@functools.lru_cache(maxsize=32)
def _table_of_means(act: Activation) -> _Means:
    table = _table(act)
    log_K = table.square.x[::4]
    K = np.exp(log_K)
    ratio = moment(act, Powers(s=1), K) / np.sqrt(np.exp(table.square(log_K)))
    return _Means(table, CubicSpline(log_K, ratio))
