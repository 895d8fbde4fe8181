"""K and Θ of several inputs after every block of a network, at infinite width."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._activation import Activation
from .._guard import positive, root
from .._tilt import tilt_of
from ..gaussian import Powers, moment, pair
from ._block import Block, Means
from ._chain import passed
from ._stage import Stage

_FEW = 2e7  # numbers that the differences of all pairs of inputs may be


def infinite_width(blocks: Sequence[Block], x: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of all blocks that hold weights, (L, N, N), for inputs (N, n_0)."""
    engine = _Matrices(slopes)
    stage = _of_inputs(x)
    Ks, Thetas = [], []
    for block in blocks:
        _refuse_overflow(stage.c, len(Ks))
        stage = passed((block,), stage, engine)
        if block.weighs:
            Ks.append(np.asarray(stage.c))
            Thetas.append(np.asarray(stage.mean_theta))
    # What comes after the last weights belongs to the output.
    Ks[-1], Thetas[-1] = np.asarray(stage.c), np.asarray(stage.mean_theta)
    return np.stack(Ks), np.stack(Thetas)


def _of_inputs(x: np.ndarray) -> Stage:
    if len(x) ** 2 * x.shape[1] < _FEW:
        return Stage.of_inputs(x[:, None, :], x[None, :, :])
    # Differences of all pairs would not fit memory.
    q, mean = (x * x).mean(1), x.mean(1)
    gram = x @ x.T / x.shape[1]
    means = {"mean1": mean[:, None], "mean2": mean[None, :]}
    return Stage.between(q[:, None], q[None, :], gram, 0 * gram, kind="input", **means)


def _refuse_overflow(K: np.ndarray, l: int) -> None:
    # Beyond this, squares and fourth powers of preactivations leave the range of numbers.
    if l and not (np.abs(K) < 1e70).all():
        raise ValueError(f"K overflows at layer {l}, so nothing beyond it is defined: lower C_W or C_b, or the depth.")


class _Matrices:
    # Averages over all pairs of inputs: one variable on the diagonal, two of them off it.
    def __init__(self, slopes: bool) -> None:
        self.slopes = slopes

    def pair(self, activation: Activation, stage: Stage) -> Means:
        square = self._matrix(activation, stage, 0)
        slope = self._matrix(activation, stage, 1) if self.slopes else np.zeros_like(square)
        own = np.diagonal(square)
        return Means(own[:, None], own[None, :], square, slope)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        mean = np.asarray(moment(activation, Powers(s=1), np.diagonal(stage.c)))
        return mean[:, None], mean[None, :]

    def tilted(self, activation: Activation, stage: Stage) -> np.ndarray:
        return self._matrix(tilt_of(activation), stage, 0)

    @staticmethod
    def _matrix(act: Activation, stage: Stage, order: int) -> np.ndarray:
        K = np.diagonal(stage.c)
        rows, columns = np.triu_indices(len(K), 1)
        found = np.diag(np.asarray(moment(act, Powers(s1=2) if order else Powers(s=2), K)))
        if len(rows):
            rho = stage.c[rows, columns] / positive(root(K[rows]) * root(K[columns]))
            found[rows, columns] = pair(act, K[rows], K[columns], np.clip(rho, -1, 1), order=order)
            found[columns, rows] = found[rows, columns]
        return found
