"""Sizes of the layers of a network before training, at infinite width."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._activation import Activation
from ..gaussian import Powers, moment
from ..network import Dense, Means, Network, Stage


def sizes_at_infinite_width(net: Network, x: np.ndarray) -> np.ndarray:
    """Roots of the mean over inputs (N, n_0) of C_W⟨ss⟩, one of each dense block in the order of the network.

    That is K without the biases, since they are not in the product with the weights.

    >>> from neft import MLP
    >>> sizes_at_infinite_width(MLP((2, 8, 1), "relu", C_W=2.0, C_b=1.0), np.ones((1, 2)))
    array([1.41421356, 1.73205081])
    """
    net.refuse_positions("sizes of layers")
    found: list[np.ndarray] = []
    x = np.asarray(net.flat(x), np.float64)
    if x.ndim != 2 or x.shape[1] != net.inputs:
        raise ValueError(f"x has shape {x.shape}, but the network takes inputs of shape (N, {net.inputs}).")
    q, mean = (x * x).mean(1), x.mean(1)
    stage = Stage.itself(q, np.zeros_like(q), mean1=mean, mean2=mean, kind="input")
    blocks = jax.tree.map(
        lambda node: _Watched(node, found) if isinstance(node, Dense) else node,
        net.blocks,
        is_leaf=lambda node: isinstance(node, Dense),
    )
    for block in blocks:
        stage = block.kernel(stage, _Own())
    return np.sqrt(np.array([one.mean() for one in found]))


class _Watched(Dense):
    # A dense block that notes what its weights make.
    found: list[Any] = eqx.field(static=True)

    def __init__(self, block: Dense, found: list[Any]) -> None:
        for field in dataclasses.fields(block):
            setattr(self, field.name, getattr(block, field.name))
        self.found = found

    def kernel(self, stage: Stage, average: Any = None) -> Stage:
        self.found.append(np.asarray(self.tensors().variance * stage.c))
        return super().kernel(stage, average)


class _Own:
    # Averages over each input by itself, without those that only the NTK is made of.
    def pair(self, activation: Activation, stage: Stage) -> Means:
        square = np.asarray(moment(activation, Powers(s=2), stage.K1))
        return Means(square, square, square, np.zeros_like(square), np.zeros_like(square))

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        mean = np.asarray(moment(activation, Powers(s=1), stage.K1))
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> np.ndarray:
        return np.zeros_like(stage.K1)
