"""Averages over one Gaussian variable by panels that are halved where they have to be, on the host."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ._accuracy import warn_missed
from ._blocks import blocks
from ._mesh import NODES, WEIGHTS

Integrand = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of the points x and the row that each belongs to: the values (averages, points), without the Gaussian."""

_REACHES = (13.0, 26.0, 40.0)  # standard deviations; the first leaves 1e-37 of the weight
_ROWS = 64
_DEEPEST = 60  # halvings
MOST_PANELS = 1 << 17
_CERTAIN = 1e-10


class Found(NamedTuple):
    """Averages (averages, rows), those of the sizes, and the estimated errors relative to these (rows,)."""

    values: np.ndarray
    sizes: np.ndarray
    errors: np.ndarray


def averages(
    integrand: Integrand, breaks: Sequence[np.ndarray], rtol: float, what: str, *, count: int = 1
) -> np.ndarray:
    """⟨f⟩ of `count` functions over a standard normal x, for each row, to `rtol` of ⟨|f|⟩ or with a warning.

    Row i is cut at breaks[i]. What has no average, or none that the tails show, is refused.
    """
    result = np.empty((count, len(breaks)))
    worst = 0.0
    for part in blocks(len(breaks), _ROWS):
        rows = range(part.start, part.stop)
        found = _reaching(
            lambda x, row, first=part.start: integrand(x, row + first), [breaks[i] for i in rows], rtol, what
        )
        result[:, part] = found.values
        worst = max(worst, float(found.errors.max(initial=0.0)))
    # What was measured is the error of panels before they were halved for the last time.
    if worst > max(rtol, _CERTAIN):
        warn_missed(what, worst, rtol)
    return result


def _reaching(integrand: Integrand, breaks: list[np.ndarray], rtol: float, what: str) -> Found:
    # Most integrands end with the Gaussian. What grows nearly as fast as that falls asks for more, or has no end.
    found, share = None, np.zeros(0)
    for reach in _REACHES:
        edges = [_edges(reach, row) for row in breaks]
        with np.errstate(all="ignore"):
            found, last = integrated(integrand, edges, rtol, weight=_gaussian)
        if not np.isfinite(found.sizes).all():
            raise ValueError(f"{what} does not exist: its integrand is not finite.")
        share = (last / np.where(found.sizes > 0, found.sizes, 1.0)).max(axis=0)
        if (share <= 1e-3 * rtol).all():
            return found
    if found is None or (share > 1e-6).any():
        raise ValueError(f"{what} does not exist: its integrand still grows at {_REACHES[-1]:g} standard deviations.")
    return found._replace(errors=np.maximum(found.errors, share))


def _edges(reach: float, breaks: np.ndarray) -> np.ndarray:
    inside = breaks[np.abs(breaks) < reach]
    return np.unique(np.concatenate([np.linspace(-reach, reach, 2 * int(reach) + 1), inside]))


def _gaussian(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def integrated(
    integrand: Integrand,
    edges: list[np.ndarray],
    rtol: float,
    *,
    weight: Callable[[np.ndarray], np.ndarray],
    sizes: np.ndarray | None = None,
    most: int = MOST_PANELS,
) -> tuple[Found, np.ndarray]:
    """∫ f·weight of each row over its edges, and what its first and last panels hold of ∫ |f|·weight.

    Panels are halved until the two halves agree with the whole to `rtol` of ∫ |f|·weight, or of `sizes`.
    """
    rows = np.repeat(np.arange(len(edges)), [len(e) - 1 for e in edges])
    left, right = (np.concatenate([e[part] for e in edges]) for part in (slice(None, -1), slice(1, None)))
    ends = (left == np.array([e[0] for e in edges])[rows]) | (right == np.array([e[-1] for e in edges])[rows])
    whole, size = _panels(integrand, weight, rows, left, right)
    count, functions = len(edges), len(whole)
    last = _by_row(size * ends, rows, count)
    total, total_size, error = (np.zeros((functions, count)) for _ in range(3))
    if not np.isfinite(size).all():
        return Found(total, np.full_like(total, np.inf), np.full(count, np.inf)), last
    done, left_over = 0, [np.inf]
    for _ in range(_DEEPEST):
        middle = (left + right) / 2
        both, both_size = _panels(
            integrand, weight, np.tile(rows, 2), np.concatenate([left, middle]), np.concatenate([middle, right])
        )
        n = len(rows)
        halves, half_sizes = both[:, :n] + both[:, n:], both_size[:, :n] + both_size[:, n:]
        off = np.abs(halves - whole)
        scale = total_size + _by_row(half_sizes, rows, count)
        scale = np.where(scale > 0, scale, 1.0) if sizes is None else sizes
        # A panel may leave a small part of what all of them may leave, and no less than rounding does.
        bad = (off > 0.01 * rtol * scale[:, rows]) & (off > 4e-16 * np.abs(half_sizes))
        bad = bad.any(axis=0) & (right - left > 1e-14 * np.maximum(np.abs(left), np.abs(right)))
        done += int(np.count_nonzero(~bad))
        left_over.append(float((off / scale[:, rows])[:, bad].sum()))
        # What does not fall any more is rounding of the function itself.
        futile = len(left_over) > 14 and left_over[-1] > left_over[-5] / 2
        stop = not bad.any() or futile or done + 2 * np.count_nonzero(bad) > most or not np.isfinite(scale).all()
        kept = np.ones_like(bad) if stop else ~bad
        total += _by_row(halves[:, kept], rows[kept], count)
        total_size += _by_row(half_sizes[:, kept], rows[kept], count)
        error += _by_row(off[:, kept], rows[kept], count)
        if stop:
            break
        again = np.tile(bad, 2)
        left, right = np.concatenate([left, middle])[again], np.concatenate([middle, right])[again]
        rows, whole = np.tile(rows, 2)[again], both[:, again]
    scale = np.where(total_size > 0, total_size, 1.0) if sizes is None else sizes
    return Found(total, total_size, (error / scale).max(axis=0)), last


def _by_row(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    return np.stack([np.bincount(rows, one, minlength=count) for one in values])


def _panels(integrand: Integrand, weight: Callable, rows: np.ndarray, left: np.ndarray, right: np.ndarray):
    # Integrals (functions, panels) of f·weight and of |f|·weight.
    half = (right - left)[:, None] / 2
    x = left[:, None] + half * (1 + NODES[None, :])
    values = integrand(x.ravel(), np.repeat(rows, len(NODES))).reshape(-1, *x.shape)
    weighted = values * (weight(x) * half * WEIGHTS[None, :])[None]
    return weighted.sum(axis=-1), np.abs(weighted).sum(axis=-1)
