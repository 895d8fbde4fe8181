"""The linear map from targets to outputs: what training does to a network whose kernel stays as it is."""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from ._condition import warn_singular
from ._schedule import Schedule

CUTOFF = 1e-10
"""Directions that are learned with more than the inverse of this, in units of the fastest, are left out. Kernels are
good to some 1e-14, so what stays is good to 1e-4 in the worst direction."""

_DENSE = 64
"""Below this size all eigenvalues are as cheap as the largest."""


class Response(NamedTuple):
    """A of shape (*times, M, N), outputs by targets; how many directions are learned; the largest eigenvalue."""

    A: np.ndarray
    rank: int
    largest: float


def response(
    Theta_xA: np.ndarray, Theta_AA: np.ndarray, schedule: Schedule, cutoff: float = CUTOFF, what: str = "the NTK"
) -> Response:
    """A_t = Θ_xA Θ_AA⁻¹ (1 - e^{-Θ_AA t}), or (1-ηΘ_AA)^T for the exponential (docs/theory/training, eq. 1).

    By Cholesky factors where the end of training is wanted and Θ_AA is well conditioned, else by its eigenvectors.
    """
    if schedule.converged and (solved := _solved(Theta_xA, Theta_AA, cutoff)) is not None:
        return Response(solved, len(Theta_AA), largest_eigenvalue(Theta_AA))
    l, v = scipy.linalg.eigh(Theta_AA, driver="evd")
    schedule.check_stable(l[-1])
    gain = schedule.gain(np.maximum(l, 0.0))
    kept = gain * l.max() <= 1 / cutoff if l.max() > 0 else gain == 0
    if not kept.all():
        warn_singular(what, int((~kept).any(axis=tuple(range(kept.ndim - 1))).sum()), len(l), cutoff)
    gain = np.where(kept, gain, 0.0)
    A = ((Theta_xA @ v) * gain[..., None, :]) @ v.T
    return Response(A, int(kept.reshape(-1, len(l)).all(0).sum()), float(l[-1]))


def ridge_response(
    Theta_xA: np.ndarray, Theta_AA: np.ndarray, ridges: np.ndarray, y: np.ndarray, cutoff: float, what: str
) -> tuple[Response, np.ndarray]:
    """A = Θ_xA (Θ_AA + ridge)⁻¹ for all ridges, shape (*ridges, M, N), and the leave-one-out errors, (*ridges,).

    With a = (Θ_AA + ridge)⁻¹ y, the regression on all inputs but i misses y_i by a_i over the i-th diagonal entry of
    that inverse; the mean of the squares over inputs and outputs comes back.
    """
    l, v = scipy.linalg.eigh(Theta_AA, driver="evd")
    raised = np.maximum(l, 0.0) + ridges[..., None]
    kept = raised >= cutoff * raised.max(axis=-1, keepdims=True)
    if not kept.all():
        warn_singular(what, int((~kept).any(axis=tuple(range(kept.ndim - 1))).sum()), len(l), cutoff)
    gain = np.divide(1.0, raised, out=np.zeros_like(raised), where=kept & (raised > 0))
    A = ((Theta_xA @ v) * gain[..., None, :]) @ v.T
    solved = (v * gain[..., None, :]) @ (v.T @ y)
    diagonal = (v * v) @ gain[..., None]
    missed = np.mean((solved / diagonal) ** 2, axis=(-2, -1))
    rank = int(kept.reshape(-1, len(l)).all(0).sum())
    return Response(A, rank, float(l[-1])), np.asarray(missed)


def _solved(Theta_xA: np.ndarray, Theta_AA: np.ndarray, cutoff: float) -> np.ndarray | None:
    # None where the matrix is not positive definite by a margin.
    lapack: Any = scipy.linalg.lapack
    factor, failed = lapack.dpotrf(Theta_AA, lower=1)
    if failed:
        return None
    inverse_condition, _ = lapack.dpocon(factor, np.linalg.norm(Theta_AA, 1), uplo="L")
    if inverse_condition < cutoff:
        return None
    return lapack.dpotrs(factor, Theta_xA.T, lower=1)[0].T


def largest_eigenvalue(M: np.ndarray) -> float:
    """The largest eigenvalue of a symmetric matrix."""
    if len(M) < _DENSE:
        return float(scipy.linalg.eigvalsh(M)[-1])
    start = np.random.default_rng(0).normal(size=len(M))
    # An eigenvalue's error is the square of its vector's.
    options: Any = {"tol": 1e-8, "v0": start}
    return float(eigsh(M, k=1, which="LA", return_eigenvectors=False, **options)[0])
