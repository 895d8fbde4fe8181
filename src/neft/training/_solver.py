"""A kernel matrix that can be solved: products in float64, an approximate inverse in float32."""

import time

import numpy as np

from ._budget import Plan
from ._conjugate import Product, Solved, State, conjugate
from ._direct import Factor, factor
from ._kept import EVERY, Part
from ._panels import NotPositive
from ._pivots import pivoted
from ._spectrum import spectrum
from ._spread import Spread
from ._tiles import Kept, Matrix, Tiles
from ._where import InFiles, Panels

_MOST = 12
"""Products with the matrix after which refinement is given up."""

_LONGEST = 10
"""Conjugate gradients are given up after so many times the iterations that were expected."""

_STATE, _SUM = "state", "product"

BEARS = 2e-7
"""Part of the largest eigenvalue from which on a ridge lets float32 factorize."""


class Solver:
    """Solves a system again and again, to a relative residual of `tolerance`."""

    def __init__(self, matrix: Matrix | Spread, inverse: Product, tolerance: float, most: int) -> None:
        self.matrix, self.inverse, self.tolerance, self.most = matrix, inverse, tolerance, most

    def __call__(self, right: np.ndarray, folder: Part | None = None) -> Solved:
        """The solution for right sides (N, n); a folder keeps how far it is, every minute or so."""
        state, notice = None, None
        if folder is not None:
            kept = folder.load(_STATE)
            state = None if kept is None else State(**kept)
            self.matrix.checkpoint = _Sum(folder, 0 if state is None else int(state.products))
            notice = self.matrix.checkpoint.next
        try:
            found = conjugate(self.matrix, self.inverse, right, self.tolerance, self.most, state=state, notice=notice)
        finally:
            self.matrix.checkpoint = None
        if not found.residual <= self.tolerance:
            raise _refused(
                self.matrix.tiles,
                f"{found.products} products leave a residual of {found.residual:.1e} instead of {self.tolerance:.1e}",
                "float32" if isinstance(self.inverse, Factor) else "conjugate gradients",
            )
        return found


class _Sum:
    # A product that is under way, in a file that says which of them it is.
    def __init__(self, folder: Part, products: int) -> None:
        self.folder, self.products, self.last = folder, products, time.monotonic()

    def next(self, state: State) -> None:
        self.folder.save(_STATE, **state._asdict())
        self.products, self.last = int(state.products), time.monotonic()

    def load(self, empty: np.ndarray) -> tuple[np.ndarray, int]:
        kept = self.folder.load(_SUM)
        if kept is None or int(kept["products"]) != self.products:
            return empty, 0
        return kept["out"], int(kept["done"])

    def reached(self, out: np.ndarray, done: int) -> None:
        if time.monotonic() - self.last > EVERY:
            self.folder.save(_SUM, out=out, done=np.array(done), products=np.array(self.products))
            self.last = time.monotonic()


def solver(
    tiles: Tiles,
    tolerance: float,
    plan: Plan,
    folder: Part | None = None,
    *,
    kept: Kept | None = None,
    spread: Spread | None = None,
) -> Solver:
    """The solver of a matrix by the way that is planned; a folder keeps what it is made of.

    `kept` are its tiles, if they stay in memory; `spread` does its products on a cluster.
    """
    matrix = Matrix(tiles, kept) if spread is None else spread
    if plan.rank:
        return Solver(
            matrix, pivoted(tiles, plan.rank, folder=folder, place=spread), tolerance, _LONGEST * plan.products
        )
    try:
        panels = InFiles(tiles.points, folder) if plan.group else Panels(tiles.points, folder)
        return Solver(matrix, Factor(factor(tiles, panels, plan.group or 1, kept)), tolerance, _MOST)
    except NotPositive as error:
        raise _refused(tiles, f"its pivot {error.row + 1} of {tiles.points} is not positive") from None


class IllConditioned(ValueError):
    """A ridge that is too small for the way that was taken."""


def _refused(tiles: Tiles, why: str, way: str = "float32") -> Exception:
    return IllConditioned(
        f"ridge is {tiles.ridge:g}, but this kernel is too ill-conditioned for {way} ({why}): from about "
        f"ridge={BEARS * spectrum(tiles).largest:.1g} on, {BEARS:g} of its largest eigenvalue, it is not."
    )
