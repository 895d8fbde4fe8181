"""A preconditioner of low rank: a Cholesky factor of a few columns, pivoted at random.

After Chen, Epperly, Tropp, Webber 2022. Columns are drawn with probabilities that the diagonal of what is left gives, a
block of them at a time.
"""

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from .._progress import track
from ._tiles import Tiles, cuts, in_threads

if TYPE_CHECKING:
    from ._kept import Part

BLOCK = 256
"""Columns that are drawn at once."""


class LowRank:
    """The inverse of F Fᵀ + δ, with F (N, k) in float32 and δ a number or (N,)."""

    def __init__(self, F: np.ndarray, delta: np.ndarray) -> None:
        self.F, self.delta = F, delta
        core = np.eye(F.shape[1])
        for rows in cuts(len(F)):
            part = F[rows].astype(np.float64)
            core += part.T @ (part / delta[rows, None])
        self.core = scipy.linalg.cho_factor(core, lower=True, overwrite_a=True)

    def __call__(self, right: np.ndarray) -> np.ndarray:
        """By Woodbury's formula, δ⁻¹ - δ⁻¹F(1 + Fᵀδ⁻¹F)⁻¹Fᵀδ⁻¹, in float64 a block of rows at a time."""
        small = np.zeros((self.F.shape[1], right.shape[1]))
        for rows in cuts(len(self.F)):
            small += self.F[rows].astype(np.float64).T @ (right[rows] / self.delta[rows, None])
        small = scipy.linalg.cho_solve(self.core, small)
        out = np.empty_like(right)
        for rows in cuts(len(self.F)):
            out[rows] = (right[rows] - self.F[rows].astype(np.float64) @ small) / self.delta[rows, None]
        return out


def pivoted(tiles: Tiles, rank: int, *, seed: int = 0, folder: "Part | None" = None) -> LowRank:
    """The preconditioner of a matrix from `rank` of its columns; a folder keeps each block of them."""
    left = tiles.diagonal()
    F = np.zeros((tiles.points, rank), np.float32)
    for i, block in enumerate(track(cuts(rank, BLOCK), "preconditioner")):
        name = f"columns-{i:05d}"
        found = None if folder is None else folder.load(name)
        if found is not None:
            F[:, block], left = found["F"], found["left"]
            continue
        left = _next(tiles, F, block, left, np.random.default_rng((seed, i)))
        if folder is not None:
            folder.save(name, F=F[:, block], left=left)
    rest = max(left.mean(), np.finfo(np.float32).eps * float(np.abs(F).max()) ** 2)
    return LowRank(F, np.full(tiles.points, tiles.ridge + rest))


def _next(tiles: Tiles, F: np.ndarray, block: slice, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    # Columns of the block are filled; what is left on the diagonal comes back.
    many = min(block.stop - block.start, np.count_nonzero(left > 0))
    if not many:
        return left
    pivots = rng.choice(tiles.points, many, replace=False, p=left / left.sum())
    before = F[:, : block.start]
    chosen, mine = before[pivots].astype(np.float64), slice(block.start, block.start + many)

    def columns(rows: slice) -> np.ndarray:
        entries = tiles.between(tiles.x[rows], tiles.x[pivots], np.float64)
        return entries - before[rows].astype(np.float64) @ chosen.T

    for rows, found in zip(cuts(tiles.points), in_threads(columns, cuts(tiles.points))):
        F[rows, mine] = found
    core = F[pivots, mine].astype(np.float64)
    # Rounding of F leaves the block's own matrix positive only with a little on its diagonal.
    core = (core + core.T) / 2 + 1e-6 * np.trace(core) / many * np.eye(many)
    R = scipy.linalg.cholesky(core, lower=True)
    left = left.copy()
    for rows in cuts(tiles.points):
        part = scipy.linalg.solve_triangular(R, F[rows, mine].T.astype(np.float64), lower=True).T
        F[rows, mine] = part
        left[rows] -= np.einsum("ij,ij->i", part, part)
    return np.maximum(left, 0.0)
