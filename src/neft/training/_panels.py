"""The Cholesky factor of half a symmetric matrix in float32, panel by panel, in place.

Panel k holds the columns of one block and the rows from that block on, so all of them together take half the memory of
the matrix. LAPACK's own routine would take the whole matrix, or all of the time in one call that nobody can stop.
"""

from collections.abc import Reversible
from typing import Any

import numpy as np
import scipy.linalg

from ._tiles import cuts

_blas: Any = scipy.linalg.blas
_lapack: Any = scipy.linalg.lapack


class NotPositive(Exception):
    """The matrix has no factor in float32: the pivot of this row is not positive."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def panel_bytes(count: int) -> int:
    """Bytes of all panels of a matrix of `count` rows."""
    return 4 * sum((count - cut.start) * (cut.stop - cut.start) for cut in cuts(count))


def subtract(panel: np.ndarray, left: np.ndarray) -> None:
    """Take from a panel of the matrix what an earlier panel of the factor accounts for; `left` are its same rows.

    Both are C-contiguous, (rows, columns): their transposes are what BLAS takes without copies.
    """
    own = panel.shape[1]
    # C - B Aᵀ, written for the transposes; of the symmetric block half.
    _blas.ssyrk(-1.0, left[:own].T, 1.0, panel[:own].T, trans=1, lower=0, overwrite_c=1)
    if len(panel) > own:
        _blas.sgemm(-1.0, left[:own].T, left[own:].T, 1.0, panel[own:].T, trans_a=1, overwrite_c=1)


def finish(panel: np.ndarray, start: int) -> None:
    """A panel whose first row is `start`, from which all earlier ones are taken, becomes one of the factor."""
    own = panel.shape[1]
    # The transpose of a symmetric block is the block, and of its upper factor the lower one.
    block, failed = _lapack.spotrf(panel[:own].T, lower=0, overwrite_a=1, clean=1)
    if failed:
        raise NotPositive(start + failed - 1)
    if len(panel) > own:
        _blas.strsm(1.0, block, panel[own:].T, side=0, lower=0, trans_a=1, overwrite_b=1)


def solve(panels: Reversible[np.ndarray], right: np.ndarray) -> np.ndarray:
    """The solution of L Lᵀ X = `right` (N, n), in float32; one panel is looked at after the other, down and up."""
    # Columns of any size fit float32 once they are of size 1.
    size = np.abs(right).max(axis=0, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    X = (right / size).astype(np.float32)
    for panel, cut in zip(panels, cuts(len(X))):
        part = _triangle(panel, X[cut], transposed=False)
        X[cut] = part
        X[cut.stop :] -= panel[panel.shape[1] :] @ part
    for panel, cut in zip(reversed(panels), reversed(cuts(len(X)))):
        part = X[cut] - panel[panel.shape[1] :].T @ X[cut.stop :]
        X[cut] = _triangle(panel, part, transposed=True)
    return X.astype(np.float64) * size


def _triangle(panel: np.ndarray, right: np.ndarray, *, transposed: bool) -> np.ndarray:
    # L⁻¹ or L⁻ᵀ of the panel's own block, whose transpose in Fortran's order is an upper triangle.
    upper = panel[: panel.shape[1]].T
    return _blas.strsm(1.0, upper, np.asfortranarray(right), side=0, lower=0, trans_a=int(not transposed))
