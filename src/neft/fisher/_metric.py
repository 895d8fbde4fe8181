"""Relative Fisher metrics as structured operators: of separate neurons, and of neurons that the outputs couple."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg

from .. import _check
from .._result import Made, Result, result
from ._factor import LIMIT, Factor


@result
class Metric(Result):
    """The metric G of a subsystem's weights, averaged over inputs: a symmetric, positive semi-definite operator.

    Parameters are stacked neuron by neuron, each neuron's bias last: G acts on vectors of m(d+1) entries, or on arrays
    of shape (m, d+1). Nothing but `dense` builds the whole matrix.

    Attributes:
        kind: which metric it is, in words.
        inputs: the x̃ = (x, 1), of shape (N, d+1).
        weights: how much each input counts, of shape (N,); they add up to 1.
        neurons: m.
    """

    kind: str
    inputs: Float[np.ndarray, "N p"]
    weights: Float[np.ndarray, " N"]
    neurons: int
    made: Made

    @property
    def size(self) -> int:
        """m(d+1), the number of parameters."""
        return self.neurons * self.inputs.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return self.size, self.size

    @functools.cached_property
    def _factors(self) -> tuple[Factor, ...]:
        # The diagonal blocks, from top to bottom; equal ones are one object.
        raise NotImplementedError

    def matvec(self, v: Any) -> np.ndarray:
        """Gv, in the shape of v."""
        parts = self._parts("v", v)
        return self._joined([factor.matvec(part) for factor, part in zip(self._factors, parts)], v)

    def solve(self, v: Any, *, damping: float = 0.0) -> np.ndarray:
        """(G + damping·1)⁻¹v, in the shape of v; a ValueError where that does not exist."""
        damping = _check.real("damping", damping, at_least=0.0)
        parts = self._parts("v", v)
        if damping == 0 and self.rank() < self.size:
            raise ValueError(
                f"damping is 0, but must be positive: the metric has rank {self.rank()} of {self.size} and no inverse."
            )
        return self._joined([factor.solve(part, damping) for factor, part in zip(self._factors, parts)], v)

    def logdet(self, *, damping: float = 0.0) -> float:
        """ln det(G + damping·1); -inf for a singular metric without damping."""
        damping = _check.real("damping", damping, at_least=0.0)
        with np.errstate(divide="ignore"):
            return float(np.log(self.spectrum() + damping).sum())

    def rank(self) -> int:
        """How many eigenvalues are not zero to rounding."""
        return int((self.spectrum() > 0).sum())

    def spectrum(self) -> Float[np.ndarray, " size"]:
        """All eigenvalues, largest first."""
        return np.sort(np.concatenate([factor.eigenvalues for factor in self._factors]))[::-1]

    def trace(self) -> float:
        """The sum of the eigenvalues, from the diagonal."""
        squares = [np.einsum("nki,n,np->", F.mixing**2, F.weights, F.inputs**2) for F in self._factors]
        return float(np.sum(squares))

    def dense(self) -> Float[np.ndarray, "size size"]:
        """The matrix itself."""
        if self.size > 2 * LIMIT:
            raise ValueError(
                f"the metric has {self.size} parameters, but a matrix can have {2 * LIMIT}: use matvec and solve."
            )
        return np.asarray(linalg.block_diag(*(factor.gram() for factor in self._factors)))

    def _parts(self, name: str, v: Any) -> list[np.ndarray]:
        array = _check.array(name, v, ndim=(1, 2))
        if array.shape not in ((self.size,), (self.neurons, self.inputs.shape[1])):
            raise ValueError(
                f"{name} has shape {array.shape}, but must have shape ({self.size},) or "
                f"({self.neurons}, {self.inputs.shape[1]})."
            )
        return np.split(array.ravel(), len(self._factors))

    def _joined(self, parts: list[np.ndarray], like: Any) -> np.ndarray:
        return np.concatenate(parts).reshape(np.shape(like))

    def _shown(self):
        yield "kind", repr(self.kind)
        yield "parameters", str(self.size)
        yield "samples", str(len(self.inputs))


@result
class SeparateNeurons(Metric):
    """Block diagonal: neuron i has the block Σ_n w_n ν_ni x̃_n x̃_nᵀ.

    `information` holds ν with one column for each neuron, or a single column when all blocks are equal (a linear
    layer), which are then factorized once.
    """

    information: Float[np.ndarray, "N columns"]

    @functools.cached_property
    def _factors(self) -> tuple[Factor, ...]:
        root = np.sqrt(self.information)
        each = [Factor(self.inputs, self.weights, root[:, None, i : i + 1]) for i in range(root.shape[1])]
        return tuple(each) if len(each) == self.neurons else tuple(each * self.neurons)


@result
class CoupledNeurons(Metric):
    """Blocks G_ij = Σ_n w_n (F_nᵀF_n)_ij x̃_n x̃_nᵀ; with one input the Kronecker product FᵀF ⊗ x̃x̃ᵀ.

    `mixing` is F of shape (N, outputs, neurons): the root of the outputs' information times the derivatives of what
    they depend on by the neurons' preactivations.
    """

    mixing: Float[np.ndarray, "N outputs neurons"]

    @functools.cached_property
    def _factors(self) -> tuple[Factor, ...]:
        return (Factor(self.inputs, self.weights, self.mixing),)
