"""A kernel matrix that can be solved: products in float64, an approximate inverse in float32."""

from typing import Any

import numpy as np

from ._conjugate import Product, Solved, conjugate
from ._direct import Factor, factor
from ._panels import NotPositive
from ._tiles import Matrix, Tiles, keep

_MOST = 12
"""Products with the matrix after which refinement is given up; each wins three digits where float32 serves well."""

_BEARS = 2e-7
"""Part of the largest eigenvalue from which on a ridge lets float32 factorize."""

_SAMPLE = 512
"""Inputs from which the largest eigenvalue is estimated."""


class Solver:
    """Solves a system again and again, to a relative residual of `tolerance`."""

    def __init__(self, matrix: Matrix, inverse: Product, tolerance: float) -> None:
        self.matrix, self.inverse, self.tolerance = matrix, inverse, tolerance

    def __call__(self, right: np.ndarray) -> Solved:
        """The solution for right sides (N, n)."""
        found = conjugate(self.matrix, self.inverse, right, self.tolerance, _MOST)
        if not found.residual <= self.tolerance:
            raise _refused(
                self.matrix.tiles,
                f"{found.products} products leave a residual of {found.residual:.1e} instead of {self.tolerance:.1e}",
            )
        return found


def solver(tiles: Tiles, tolerance: float, *, keeps: bool) -> Solver:
    """The solver of a matrix, by its factor; `keeps` its tiles in float64, or computes them for each product."""
    kept = keep(tiles, np.float64) if keeps else None
    try:
        inverse = Factor(factor(tiles, kept))
    except NotPositive as error:
        raise _refused(tiles, f"its pivot {error.row + 1} of {tiles.count} is not positive") from None
    return Solver(Matrix(tiles, kept), inverse, tolerance)


def _refused(tiles: Tiles, why: str) -> Exception:
    largest = _largest_eigenvalue(tiles)
    return ValueError(
        f"ridge is {tiles.ridge:g}, but this kernel is too ill-conditioned for float32 ({why}): from about "
        f"ridge={_BEARS * largest:.1g} on, {_BEARS:g} of its largest eigenvalue, it is not."
    )


def _largest_eigenvalue(tiles: Tiles) -> float:
    # Of inputs here and there; with more inputs it grows like their number.
    chosen: Any = np.unique(np.linspace(0, tiles.count - 1, min(_SAMPLE, tiles.count)).astype(int))
    part = tiles.between(tiles.x[chosen], None, np.float64)
    return float(np.linalg.eigvalsh(part)[-1]) * tiles.count / len(chosen)
