"""Where the variance of a repeated block goes when it is repeated for ever."""

import numpy as np

from .._blocks import block_size, blocks
from ._step import Step

START = 1.0
"""The K from which the flow begins."""

_DECADES, _PER_DECADE = 10, 20
_KNOTS = START * np.logspace(-_DECADES, _DECADES, 2 * _DECADES * _PER_DECADE + 1)
TOP = float(_KNOTS[-1])
"""The largest K that is looked at."""

_STEPS = 500
_MARGINAL = 1e-12  # a relative change of K by one block that is rounding
_RESTLESS = 1e-2  # one that is there after all those steps only if K runs in a circle


def settled(step: Step, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The fixed point that K = 1 flows to with the variances C_b = b, C_W = w, arrays of one axis.

    It is infinite where K grows without bound, NaN where it does not settle, or where averages are not resolved.
    """
    parts = blocks(b.size, block_size(40 * 8 * _KNOTS.size, b.size))
    K = np.concatenate([_of_part(step, b[part], w[part]) for part in parts]) if b.size else np.empty(0)
    inside = np.flatnonzero(np.isfinite(K) & (K > 0))
    K[inside] = _polished(step, K[inside], b[inside], w[inside])
    return K


def _of_part(step: Step, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    values = step.value(_KNOTS[None, :], b[:, None], w[:, None], by="table")
    start, lost = np.full_like(b, START), np.zeros(b.shape, bool)
    falls = np.flatnonzero((np.diff(values, axis=1) < -_MARGINAL * values[:, 1:]).any(1))
    if falls.size:
        # Where the map falls K goes to and fro: it is followed, until it only creeps.
        start[falls], lost[falls] = _followed(step, start[falls], b[falls], w[falls])
    K = _ahead(step, values / _KNOTS - 1, start, b, w)
    return np.where(lost, np.nan, K)


def _followed(step: Step, K: np.ndarray, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(_STEPS):
        new = np.clip(step.value(K, b, w, by="table"), _KNOTS[0], TOP)
        if np.array_equal(new, K, equal_nan=True):
            break
        K = new
    inside = (_KNOTS[0] < K) & (TOP > K)
    change = np.abs(step.value(K, b, w, by="table") / K - 1)
    return np.where(np.isfinite(K), K, START), ~np.isfinite(K) | (inside & (change > _RESTLESS))


def _ahead(step: Step, excess: np.ndarray, start: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The next fixed point in the direction in which K moves: 0 if it is below all knots, inf if above."""
    knots = np.broadcast_to(_KNOTS, excess.shape)
    change = step.value(start, b, w, by="table") / start - 1
    rises = change > 0
    ahead = (knots > start[:, None]) == rises[:, None]
    # A change that is only rounding does not stop the flow: it takes long to matter, but it does.
    turns = np.where(rises[:, None], excess < -_MARGINAL, excess > _MARGINAL)
    stops = ahead & (turns | np.isnan(excess))
    rows = np.arange(len(b))
    first, last = np.argmax(stops, 1), _KNOTS.size - 1 - np.argmax(stops[:, ::-1], 1)
    near = np.where(rises, first, last)
    far = np.clip(near + np.where(rises, -1, 1), 0, _KNOTS.size - 1)
    passed = np.where(rises, np.maximum(_KNOTS[far], start), np.minimum(_KNOTS[far], start))
    K = _bisected(step, np.log(passed), np.log(_KNOTS[near]), b, w)
    unresolved = np.isnan(excess[rows, near])
    # Growing faster and faster it does not come back, wherever the averages end.
    before = excess[rows, np.clip(far - _PER_DECADE // 4, 0, None)]
    away = rises & (excess[rows, far] > np.maximum(before, 0.5))
    K = np.where(unresolved, np.where(away, np.inf, np.nan), K)
    K = np.where(stops.any(1), K, np.where(rises, np.inf, 0.0))
    K = np.where(np.abs(change) <= _MARGINAL, start, K)
    below = np.flatnonzero(K == 0)
    if below.size:
        K[below] = _near_zero(step, b[below], w[below])
    return np.where(np.isnan(change), np.nan, K)


def _bisected(step: Step, passed: np.ndarray, beyond: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    rises = beyond > passed
    for _ in range(50):
        middle = (passed + beyond) / 2
        K = np.exp(middle)
        goes_on = (step.value(K, b, w, by="table") > K) == rises
        passed, beyond = np.where(goes_on, middle, passed), np.where(goes_on, beyond, middle)
    return np.exp((passed + beyond) / 2)


def _near_zero(step: Step, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The fixed point below all knots, where the map is its tangent at 0."""
    at = step.slopes(np.zeros_like(b), b, w)
    return np.minimum(at.K / np.maximum(1 - at.parallel, np.finfo(float).tiny), _KNOTS[0])


def _polished(step: Step, K: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A step of Newton's method with averages of full accuracy."""
    at = step.slopes(K, b, w)
    # Where χ_∥ is 1 Newton's step is rounding over rounding, and the tables are as good.
    steep = np.abs(1 - at.parallel) > 1e-6
    change = (at.K - K) / np.where(steep, 1 - at.parallel, 1.0)
    return np.where(steep & (np.abs(change) < 1e-3 * K), K + change, K)
