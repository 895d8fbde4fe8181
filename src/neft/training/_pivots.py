"""A preconditioner of low rank: a Cholesky factor of a few columns, pivoted at random.

After Chen, Epperly, Tropp, Webber 2022. Columns are drawn with probabilities that the diagonal of what is left gives, a
block of them at a time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.linalg

from .._progress import track
from ..network import Network
from ._tiles import Tiles, Which, at_once, cuts, in_threads

if TYPE_CHECKING:
    from ._kept import Part

BLOCK = 256
"""Columns that are drawn at once."""


class LowRank:
    """The inverse of F Fᵀ + δ, with F (N, k) in float32 and a number δ; `core` is 1 + FᵀF/δ, or its lower half."""

    def __init__(self, F: np.ndarray, delta: float, core: np.ndarray) -> None:
        self.F, self.delta = F, delta
        self.core = scipy.linalg.cho_factor(core, lower=True, overwrite_a=True)

    def __call__(self, right: np.ndarray) -> np.ndarray:
        """By Woodbury's formula, δ⁻¹ - δ⁻¹F(1 + Fᵀδ⁻¹F)⁻¹Fᵀδ⁻¹, in float64 a few rows at a time."""
        small, out = np.zeros((self.F.shape[1], right.shape[1])), np.empty_like(right)
        for rows, F in self._strips(small.size):
            small += F.T @ (right[rows] / self.delta)
        small = scipy.linalg.cho_solve(self.core, small)
        for rows, F in self._strips(small.size):
            out[rows] = (right[rows] - F @ small) / self.delta
        return out

    def _strips(self, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        # One place for all of them in float64: fresh memory for each would take longer than the product.
        many = at_once(size)
        place = np.empty((many, self.F.shape[1]))
        for rows in cuts(len(self.F), many):
            strip = place[: rows.stop - rows.start]
            np.copyto(strip, self.F[rows])
            yield rows, strip


def gram(rows: np.ndarray, delta: float) -> np.ndarray:
    """RᵀR/δ of some rows of F in float64, of which the lower half is filled: all that a factor takes."""
    # In the order of BLAS a transpose is no copy.
    return scipy.linalg.blas.dsyrk(1 / delta, rows.astype(np.float64).T, lower=1)


class Columns(NamedTuple):
    """What a block of columns of F is made from: the pivots' inputs and rows of F so far, and the factor of the rest.

    With the kernel of the pivots C = F_p F_pᵀ + R Rᵀ, rows of F go on with R⁻¹ of what F leaves of their kernel.
    """

    x: np.ndarray
    chosen: np.ndarray
    R: np.ndarray

    def rows(self, net: Network, which: Which, x: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Those rows of the block that belong to inputs, which have `before` in the blocks before it, in float32."""
        entries = Tiles(net, x, which).between(x, self.x, np.float64)
        rest = entries - before.astype(np.float64) @ self.chosen.T
        return scipy.linalg.solve_triangular(self.R, rest.T, lower=True).T.astype(np.float32)


@runtime_checkable
class Place(Protocol):
    """Where a preconditioner is made: in this process, or on a cluster."""

    def columns(self, F: np.ndarray, start: int, block: Columns) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of a block of columns that begins at `start`; those before it are in F."""
        ...

    def core(self, F: np.ndarray, delta: float) -> np.ndarray:
        """1 + FᵀF/δ, at least the lower half."""
        ...


class _Here(NamedTuple):
    tiles: Tiles

    def columns(self, F: np.ndarray, start: int, block: Columns) -> Iterator[tuple[slice, np.ndarray]]:
        lines = cuts(self.tiles.points)

        def of(rows: slice) -> np.ndarray:
            return block.rows(self.tiles.net, self.tiles.which, self.tiles.x[rows], F[rows, :start])

        yield from zip(lines, in_threads(of, lines))

    def core(self, F: np.ndarray, delta: float) -> np.ndarray:
        found = np.eye(F.shape[1])
        for rows in cuts(len(F)):
            found += gram(F[rows], delta)
        return found


def pivoted(
    tiles: Tiles, rank: int, *, seed: int = 0, folder: "Part | None" = None, place: Place | None = None
) -> LowRank:
    """The preconditioner of a matrix from `rank` of its columns; a folder keeps each block of them."""
    place = _Here(tiles) if place is None else place
    left = tiles.diagonal()
    F = np.zeros((tiles.points, rank), np.float32)
    for i, block in enumerate(track(cuts(rank, BLOCK), "preconditioner")):
        name = f"columns-{i:05d}"
        found = None if folder is None else folder.load(name)
        if found is not None:
            F[:, block], left = found["F"], found["left"]
            continue
        left = _next(tiles, F, block, left, np.random.default_rng((seed, i)), place)
        if folder is not None:
            folder.save(name, F=F[:, block], left=left)
    delta = tiles.ridge + max(left.mean(), np.finfo(np.float32).eps * float(np.abs(F).max()) ** 2)
    return LowRank(F, delta, place.core(F, delta))


def _next(
    tiles: Tiles, F: np.ndarray, block: slice, left: np.ndarray, rng: np.random.Generator, place: Place
) -> np.ndarray:
    # Columns of the block are filled; what is left on the diagonal comes back.
    many = min(block.stop - block.start, np.count_nonzero(left > 0))
    if not many:
        return left
    pivots = rng.choice(tiles.points, many, replace=False, p=left / left.sum())
    chosen, mine = F[pivots, : block.start].astype(np.float64), slice(block.start, block.start + many)
    core = tiles.between(tiles.x[pivots], None, np.float64) - chosen @ chosen.T
    # Rounding of F leaves the block's own matrix positive only with a little on its diagonal.
    R = scipy.linalg.cholesky(core + 1e-6 * np.trace(core) / many * np.eye(many), lower=True)
    left = left.copy()
    for rows, part in place.columns(F, block.start, Columns(tiles.x[pivots], chosen, R)):
        F[rows, mine] = part
        left[rows] -= np.einsum("ij,ij->i", part, part, dtype=np.float64)
    return np.maximum(left, 0.0)
