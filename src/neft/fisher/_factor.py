"""Matrices of the form JᵀJ, asked for what needs a factorization without being multiplied out where J has few rows.

J has one row for each sample and output, and one column for each parameter. JᵀJ and JJᵀ have the same eigenvalues but
for zeros, so the smaller of the two is factorized. Beyond `LIMIT` on both sides linear systems are solved by conjugate
gradients, and the rest is refused.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from .. import _blocks

LIMIT = 8192
"""Largest side of a matrix that is factorized: half a gigabyte, and about a minute of work."""

_TOLERANCE = 1e-13


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """J with the rows √w_n Σ_i F_nki x̃_n ⊗ e_i for sample n and output k; parameters are stacked neuron by neuron.

    `inputs` are the x̃_n of shape (N, p), `weights` the w_n, and `mixing` is F of shape (N, K, m).
    """

    inputs: Float[np.ndarray, "N p"]
    weights: Float[np.ndarray, " N"]
    mixing: Float[np.ndarray, "N K m"]

    @property
    def rows(self) -> int:
        """Number of samples times outputs."""
        return self.mixing.shape[0] * self.mixing.shape[1]

    @property
    def columns(self) -> int:
        """Number of parameters."""
        return self.mixing.shape[2] * self.inputs.shape[1]

    def apply(self, v: Float[np.ndarray, " P"]) -> Float[np.ndarray, "N K"]:
        """Jv."""
        neurons = self.inputs @ v.reshape(self.mixing.shape[2], -1).T
        return np.einsum("nki,ni,n->nk", self.mixing, neurons, np.sqrt(self.weights))

    def transpose(self, u: Float[np.ndarray, "N K"]) -> Float[np.ndarray, " P"]:
        """Jᵀu."""
        return (np.einsum("nki,nk,n->in", self.mixing, u, np.sqrt(self.weights)) @ self.inputs).ravel()

    def matvec(self, v: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """JᵀJv, a block of samples at a time."""
        count, outputs, neurons = self.mixing.shape
        size = _blocks.block_size(8 * (3 * neurons + 2 * outputs), count)
        total = np.zeros(self.columns)
        for block in _blocks.blocks(count, size):
            part = Factor(self.inputs[block], self.weights[block], self.mixing[block])
            total += part.transpose(part.apply(v))
        return total

    def gram(self) -> Float[np.ndarray, "P P"]:
        """JᵀJ, from blocks of samples."""
        count, _, neurons = self.mixing.shape
        p = self.inputs.shape[1]
        total = np.zeros((neurons, p, neurons, p))
        size = _blocks.block_size(8 * (neurons**2 + 2 * p), count)
        for block in _blocks.blocks(count, size):
            x, F = self.inputs[block], self.mixing[block]
            coupling = np.einsum("nki,nkj,n->ijn", F, F, self.weights[block])
            for i in range(neurons):
                for j in range(i + 1):
                    total[i, :, j] += (x.T * coupling[i, j]) @ x
        for i in range(neurons):
            for j in range(i):
                total[j, :, i] = total[i, :, j]
        return total.reshape(self.columns, self.columns)

    def sample_gram(self) -> Float[np.ndarray, "R R"]:
        """JJᵀ."""
        root = np.sqrt(self.weights)[:, None] * self.inputs
        flat = self.mixing.reshape(self.rows, -1)
        outputs = self.mixing.shape[1]
        samples = np.repeat(np.repeat(root @ root.T, outputs, 0), outputs, 1)
        return (flat @ flat.T) * samples

    @property
    def few_rows(self) -> bool:
        """Whether JJᵀ is the smaller matrix."""
        return self.rows < self.columns

    @functools.cached_property
    def small(self) -> Float[np.ndarray, "side side"]:
        """The smaller of JJᵀ and JᵀJ."""
        side = min(self.rows, self.columns)
        if side > LIMIT:
            raise ValueError(
                f"the metric has {self.columns} parameters and {self.rows} rows of samples and outputs, but one of "
                f"the two must be at most {LIMIT} for this: take fewer samples."
            )
        return self.sample_gram() if self.few_rows else self.gram()

    @functools.cached_property
    def eigenvalues(self) -> Float[np.ndarray, " P"]:
        """The eigenvalues of JᵀJ, largest first; what rounding leaves of zeros is zero."""
        found = linalg.eigvalsh(self.small)[::-1]
        noise = 8 * max(self.rows, self.columns) * np.finfo(float).eps * max(found[0], 0.0)
        whole = np.zeros(self.columns)
        whole[: len(found)] = np.where(found > noise, found, 0.0)
        return whole

    def solve(self, v: Float[np.ndarray, " P"], damping: float) -> Float[np.ndarray, " P"]:
        """(JᵀJ + damping)⁻¹v; the matrix must be positive definite."""
        if min(self.rows, self.columns) > LIMIT:
            return self._iterate(v, damping)
        direct = self._direct(damping)
        found = direct(v)
        # The correction mends what cancels in the Woodbury formula.
        return found + direct(v - self.matvec(found) - damping * found)

    def _direct(self, damping: float) -> Callable[[np.ndarray], np.ndarray]:
        damped = self.small.copy()
        damped[np.diag_indices_from(damped)] += damping
        cholesky = linalg.cho_factor(damped, overwrite_a=True)
        if not self.few_rows:
            return lambda v: linalg.cho_solve(cholesky, v)

        def woodbury(v: np.ndarray) -> np.ndarray:
            inside = linalg.cho_solve(cholesky, self.apply(v).ravel())
            return (v - self.transpose(inside.reshape(self.mixing.shape[:2]))) / damping

        return woodbury

    def _iterate(self, v: np.ndarray, damping: float) -> np.ndarray:
        shape = (self.columns, self.columns)
        operator = LinearOperator(shape, matvec=lambda u: self.matvec(u) + damping * u, dtype=float)  # type: ignore[call-arg]
        found, failed = cg(operator, v, rtol=_TOLERANCE, maxiter=20 * LIMIT)
        if failed:
            raise ValueError(f"damping is {damping:g}, but conjugate gradients need more to solve such a system.")
        return found
