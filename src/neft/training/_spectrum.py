"""What a sample of the inputs says about the eigenvalues of the whole kernel, and the machine about its speed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ._budget import Rates
from ._panels import panel_bytes
from ._tiles import TILE, Tiles, cores, products
from ._where import speeds

_SAMPLE = 512
"""Inputs of the sample."""

_MEASURED = 16384
"""Points from which on speeds are measured: for fewer that would take longer than the choice can win."""


class Spectrum(NamedTuple):
    """Eigenvalues of the matrix of all `points` inputs, without the ridge: the largest, the least, and a power law.

    The matrix of a part of the inputs has the largest eigenvalues of the whole in proportion, and a least one that
    changes slowly. In between they are taken as exp(level) k^slope, which the middle of the sample gives.
    """

    points: int
    largest: float
    least: float
    level: float
    slope: float

    def at(self, k: int) -> float:
        """The k-th eigenvalue."""
        return float(np.clip(np.exp(self.level + self.slope * np.log(k)), self.least, self.largest))

    def iterations(self, ridge: float, residual: float) -> Callable[[int], float]:
        """How many conjugate gradients take to a residual, with a preconditioner of some rank: ½√κ ln(2/residual)."""

        def count(rank: int) -> float:
            condition = 1 + self.at(rank) / max(self.least + ridge, np.finfo(float).tiny)
            return 1 + 0.5 * np.sqrt(condition) * np.log(2 / min(residual, 1.0))

        return count


def spectrum(tiles: Tiles) -> Spectrum:
    """Of inputs here and there among all."""
    chosen: Any = np.unique(np.linspace(0, tiles.points - 1, min(_SAMPLE, tiles.points)).astype(int))
    values = np.linalg.eigvalsh(tiles.between(tiles.x[chosen], None, np.float64))[::-1]
    more = tiles.points / len(values)
    least = max(values[-1], np.finfo(float).eps * values[0])
    middle = slice(len(values) // 8, max(len(values) // 2, len(values) // 8 + 2))
    logs = np.log(np.maximum(values * more, least))
    if len(logs[middle]) < 2:
        return Spectrum(tiles.points, values[0] * more, least, logs[0], 0.0)
    slope, level = np.polyfit(np.log(np.arange(1, len(values) + 1))[middle], logs[middle], 1)
    return Spectrum(tiles.points, float(values[0] * more), float(least), float(level), float(slope))


def rates(tiles: Tiles, disk: Path) -> Rates:
    """Speeds of this machine, measured for many points; in CPU seconds, so that other work does not count.

    Those of the disk that holds a folder are seconds of the clock, for a file of the factor's size.
    """
    if tiles.points < _MEASURED:
        return Rates()
    blas: Any = scipy.linalg.blas
    a = np.ones((TILE, TILE), np.float32, order="F")
    one, two = slice(0, TILE), slice(TILE, 2 * TILE)
    flop = _seconds(lambda: blas.sgemm(1.0, a, a)) / (2 * TILE**3)
    entry32, entry64 = (
        _seconds(lambda dtype=dtype: tiles.tile(one, two, dtype)) / TILE**2 for dtype in (np.float32, np.float64)
    )
    kept, v = np.ones((2 * TILE, 2 * TILE)), np.ones((2 * TILE, tiles.net.outputs))
    byte = _seconds(lambda: products(kept, v, v)) / kept.nbytes
    return Rates(
        flop / cores(), entry32 / cores(), entry64 / cores(), byte / cores(), *speeds(disk, panel_bytes(tiles.points))
    )


def _seconds(work: Callable[[], Any]) -> float:
    # The least of three: what waits for other work counts as work where threads wait by spinning.
    work()  # compiles
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)
