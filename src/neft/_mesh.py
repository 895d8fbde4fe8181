"""Where a function that is only known as a program changes: a mesh that 16 Gauss-Legendre nodes a cell resolve.

Cells are halved until the Legendre series of σ and its derivatives end within them; then points between the nodes,
far denser than the cells, must lie on those series, so that a narrow feature is seen too.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from . import _kinks

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
MOST_CELLS = 1 << 16
PROBED = 16.0
"""The reach that every function of a user is looked at once, whatever the variance."""

_TAIL = 3e-9  # of the largest value that counts: analytic so far around the cell that 16 nodes integrate products too
_SCAN = 1 << 18
_DEEPEST = 48  # halvings
# Values at the nodes to Legendre coefficients.
_LEGENDRE = np.polynomial.legendre.legvander(NODES, 15)
TRANSFORM = (_LEGENDRE * WEIGHTS[:, None]).T * (np.arange(16)[:, None] + 0.5)

Values = Callable[[np.ndarray], np.ndarray]
"""σ, or σ and derivatives, at the points z, shape (functions, points)."""


class Mesh(NamedTuple):
    """Increasing edges of cells, and whether the function is resolved in all of them."""

    edges: np.ndarray
    resolved: bool


def mesh_of(function: Callable, kinks: Sequence[float], reach: float) -> Mesh:
    """The mesh of σ, σ', σ'', σ''' on |z| ≤ reach at least, made once for each doubling of the reach."""
    return _mesh_of(function, tuple(sorted(set(kinks))), math.ceil(math.log2(reach)))


def probed(function: Callable, kinks: Sequence[float]) -> Mesh:
    """The mesh on |z| ≤ PROBED, where the flanks count nearly as much as the origin."""
    return _mesh_of(function, tuple(sorted(set(kinks))), math.ceil(math.log2(PROBED)), 4.0)


@functools.lru_cache(maxsize=256)
def _mesh_of(function: Callable, kinks: tuple[float, ...], octave: int, deviations: float = 13.0) -> Mesh:
    # The probe looks closely, once for all.
    scan = _SCAN if deviations < 13 else _SCAN // 4
    return mesh(functools.partial(_kinks.derivatives, function), kinks, 2.0**octave, deviations, scan=scan)


def mesh(values: Values, kinks: Sequence[float], reach: float, deviations: float = 13.0, *, scan: int = _SCAN) -> Mesh:
    """The mesh on |z| ≤ reach of functions whose kinks, where it is cut, are known.

    What counts is weighted by a Gaussian of which the reach is that many standard deviations. `scan` points look for
    what is narrower than the cells.
    """
    # Halved towards the origin first, because a wide Gaussian does not see how a function changes there.
    start = np.concatenate([-(reach / 2.0 ** np.arange(7)), [0.0], reach / 2.0 ** np.arange(7)])
    edges = np.unique(np.concatenate([start, [k for k in kinks if abs(k) < reach]]))
    with np.errstate(all="ignore"):
        points = _scan(reach, kinks, scan)
        at = values(points)
        weight = functools.partial(_weight, rate=deviations / reach)
        cells = _Cells(values, _largest(at, weight(points)), weight)
        resolved = cells.refine(edges[:-1], edges[1:])
        for _ in range(_DEEPEST):
            bad = cells.missed(points, at)
            if not bad.any() or not resolved:
                break
            resolved = cells.halve(bad)
    return Mesh(np.append(cells.left, reach), resolved)


def _scan(reach: float, kinks: Sequence[float], count: int) -> np.ndarray:
    # Even over the reach, denser within four standard deviations, and towards the origin and the kinks.
    towards = reach * np.geomspace(1e-9, 1.0, 400)
    near = [k + side * towards for k in (0.0, *list(kinks)[:32]) for side in (-1, 1)]
    offset = 0.381966
    spread = (np.arange(count // 2) + offset) / (count // 2) * 2 - 1
    points = np.concatenate([reach * spread, 4 / 13 * reach * spread, *near])
    return np.sort(points[(np.abs(points) < reach) & ~np.isin(points, kinks)])


def _weight(z: np.ndarray, rate: float) -> np.ndarray:
    return np.exp(-((rate * z) ** 2) / 2)


def _largest(at: np.ndarray, weight: np.ndarray) -> np.ndarray:
    weighted = np.nan_to_num(np.abs(at) * weight, nan=0.0, posinf=0.0)
    return weighted.reshape(len(at), -1).max(axis=1)


class _Cells:
    # The cells that are resolved so far, increasing, with Legendre coefficients (functions, 16, cells).

    def __init__(self, values: Values, scale: np.ndarray, weight: Callable[[np.ndarray], np.ndarray]) -> None:
        self.values, self.weight, self.scale = values, weight, np.where(scale > 0, scale, np.inf)
        self.left = self.right = np.empty(0)
        self.series = np.empty((len(scale), 16, 0))

    def refine(self, left: np.ndarray, right: np.ndarray) -> bool:
        # Add these cells, halved until each is resolved; whether that could be done.
        parts = []
        done = len(self.left)
        for _ in range(_DEEPEST):
            half = (right - left)[:, None] / 2
            z = left[:, None] + half * (1 + NODES[None, :])
            at = self.values(z.ravel()).reshape(len(self.scale), *z.shape)
            series = np.einsum("kn,fcn->fkc", TRANSFORM, at)
            self.scale = np.fmax(np.where(np.isinf(self.scale), 0.0, self.scale), _largest(at, self.weight(z)))
            self.scale[self.scale == 0] = np.inf
            # What the cell weighs: its nearest point to the origin.
            weight = self.weight(np.where(left * right < 0, 0.0, np.minimum(np.abs(left), np.abs(right))))
            tail = np.abs(series[:, -3:]).max(axis=1) * weight / self.scale[:, None]
            # Where the function overflows there is nothing to resolve.
            rough = (tail > _TAIL).any(axis=0) & np.isfinite(at).all(axis=(0, 2))
            # Rounding, or a cell that cannot be halved any more.
            rough &= right - left > 64 * np.spacing(np.maximum(np.abs(left), np.abs(right)))
            parts.append((left[~rough], right[~rough], series[..., ~rough]))
            done += int(np.count_nonzero(~rough))
            left, right = left[rough], right[rough]
            if not len(left) or done + 2 * len(left) > MOST_CELLS:
                break
            middle = (left + right) / 2
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        over = len(left)
        if over:
            parts.append((left, right, np.zeros((len(self.scale), 16, over))))
        everything = [(self.left, self.right, self.series), *parts]
        lefts, rights, series = (np.concatenate([part[i] for part in everything], axis=-1) for i in range(3))
        order = np.argsort(lefts)
        self.left, self.right, self.series = lefts[order], rights[order], series[..., order]
        return over == 0

    def missed(self, points: np.ndarray, at: np.ndarray) -> np.ndarray:
        # The cells in which a point does not lie on the series.
        cell = np.clip(np.searchsorted(self.left, points, side="right") - 1, 0, len(self.left) - 1)
        width = self.right[cell] - self.left[cell]
        t = 2 * (points - self.left[cell]) / width - 1
        weight = self.weight(points)
        bad = np.zeros(len(self.left), bool)
        # σ and σ' show what there is to be seen.
        for n in range(min(2, len(at))):
            before, now = np.ones_like(t), t
            total = self.series[n, 0][cell] + self.series[n, 1][cell] * t
            for k in range(1, 15):
                before, now = now, ((2 * k + 1) * t * now - k * before) / (k + 1)
                total += self.series[n, k + 1][cell] * now
            off = np.abs(total - at[n]) * weight > 100 * _TAIL * self.scale[n]
            bad[cell[off & np.isfinite(total)]] = True
        return bad & (self.right - self.left > 64 * np.spacing(np.maximum(np.abs(self.left), np.abs(self.right))))

    def halve(self, bad: np.ndarray) -> bool:
        left, right = self.left[bad], self.right[bad]
        self.left, self.right, self.series = self.left[~bad], self.right[~bad], self.series[..., ~bad]
        middle = (left + right) / 2
        return self.refine(np.concatenate([left, middle]), np.concatenate([middle, right]))
