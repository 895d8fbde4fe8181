"""A kernel matrix that can be solved: products in float64, an approximate inverse in float32."""

import numpy as np

from ._budget import Plan
from ._conjugate import Product, Solved, conjugate
from ._direct import Factor, factor
from ._panels import NotPositive
from ._pivots import pivoted
from ._spectrum import spectrum
from ._tiles import Matrix, Tiles, keep

_MOST = 12
"""Products with the matrix after which refinement is given up."""

_LONGEST = 10
"""Conjugate gradients are given up after so many times the iterations that were expected."""

BEARS = 2e-7
"""Part of the largest eigenvalue from which on a ridge lets float32 factorize."""


class Solver:
    """Solves a system again and again, to a relative residual of `tolerance`."""

    def __init__(self, matrix: Matrix, inverse: Product, tolerance: float, most: int) -> None:
        self.matrix, self.inverse, self.tolerance, self.most = matrix, inverse, tolerance, most

    def __call__(self, right: np.ndarray) -> Solved:
        """The solution for right sides (N, n)."""
        found = conjugate(self.matrix, self.inverse, right, self.tolerance, self.most)
        if not found.residual <= self.tolerance:
            raise _refused(
                self.matrix.tiles,
                f"{found.products} products leave a residual of {found.residual:.1e} instead of {self.tolerance:.1e}",
            )
        return found


def solver(tiles: Tiles, tolerance: float, plan: Plan) -> Solver:
    """The solver of a matrix by the way that is planned."""
    kept = keep(tiles, np.float64) if plan.keeps else None
    matrix = Matrix(tiles, kept)
    if plan.rank:
        return Solver(matrix, pivoted(tiles, plan.rank), tolerance, _LONGEST * plan.products)
    try:
        return Solver(matrix, Factor(factor(tiles, kept)), tolerance, _MOST)
    except NotPositive as error:
        raise _refused(tiles, f"its pivot {error.row + 1} of {tiles.count} is not positive") from None


def _refused(tiles: Tiles, why: str) -> Exception:
    return ValueError(
        f"ridge is {tiles.ridge:g}, but this kernel is too ill-conditioned for float32 ({why}): from about "
        f"ridge={BEARS * spectrum(tiles).largest:.1g} on, {BEARS:g} of its largest eigenvalue, it is not."
    )
