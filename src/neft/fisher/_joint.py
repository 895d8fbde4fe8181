"""The joint Fisher matrix of a small stochastic network by enumeration, and Theorem 3 of Sun, Nielsen 2017."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from .. import _check
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ._metrics import nonlinear_layer, softmax_layer

_STATES = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}
_MOST = 2**16


@result
class Joint(Result):
    """The joint Fisher matrix of all weights of a stochastic network.

    Attributes:
        matrix: E[∂ ln p ∂ ln pᵀ] over all states of all units; parameters layer by layer, neuron by neuron.
        blocks: for each layer E[g(W_l)], its relative metric averaged over the states of the layer below.
        defect: the largest entry of matrix - diag(blocks); Theorem 3 says that it is zero.
    """

    matrix: Float[np.ndarray, "P P"]
    blocks: tuple[np.ndarray, ...]
    defect: float
    made: Made


@public
@float64
def joint(layers: Sequence[Any], x: Any, *, activation: str = "tanh", softmax: bool = False) -> Joint:
    """The joint Fisher matrix of a network of Bernoulli units, by enumeration (docs/theory/fisher, eq. 12).

    Args:
        layers: the weights, one array of shape (n_l, n_{l-1}+1) for each layer, the bias last.
        x: one input of shape (n_0,) or many of shape (N, n_0), which count alike.
        activation: "tanh" (units ±1) or "sigmoid" (units 0/1).
        softmax: whether the last layer is one choice among n_L classes instead of n_L units.

    >>> joint([np.ones((2, 2)), np.ones((1, 3))], [0.5]).defect < 1e-15
    True
    """
    _check.one_of("activation", activation, tuple(_STATES))
    x = np.atleast_2d(_check.array("x", x, ndim=(1, 2)))
    if not x.size:
        raise ValueError(f"x has shape {x.shape}, but must hold at least one input.")
    layers = _layers(layers, x.shape[1])
    states = [_states(activation, len(W)) for W in layers]
    if softmax:
        states[-1] = np.eye(len(layers[-1]))
    count = len(x) * math.prod(map(len, states))
    if count > _MOST:
        raise ValueError(f"the units have {count} states together, but at most {_MOST} can be enumerated.")
    paths = [np.array(units) for units in zip(*itertools.product(x, *states))]

    def log_probability(params: Sequence[Array], path: Sequence[Array]) -> Float[Array, ""]:
        total = jnp.zeros(())
        for l, W in enumerate(params):
            t = W @ jnp.append(path[l], 1.0)
            last = softmax and l == len(params) - 1
            total += _log_softmax(t, path[l + 1]) if last else _log_units(activation, t, path[l + 1])
        return total

    params = [jnp.asarray(W) for W in layers]
    values, scores = jax.jit(jax.vmap(jax.value_and_grad(log_probability), (None, 0)))(params, paths)
    flat = np.concatenate([np.asarray(s).reshape(count, -1) for s in scores], axis=1)
    chance = np.exp(np.asarray(values)) / len(x)
    matrix = (flat.T * chance) @ flat
    blocks = tuple(
        _block(activation, softmax and l == len(layers) - 1, W, paths[l], chance) for l, W in enumerate(layers)
    )
    return Joint(
        matrix=matrix,
        blocks=blocks,
        defect=float(np.abs(matrix - np.asarray(linalg.block_diag(*blocks))).max()),
        made=Made.by(
            "neft.fisher.joint",
            specification={"weights": layers, "x": x, "activation": activation, "softmax": softmax},
        ),
    )


def _layers(given: Sequence[Any], fan_in: int) -> list[np.ndarray]:
    layers = []
    for l, W in enumerate(given, start=1):
        layers.append(_check.array(f"weights of layer {l}", W, shape=(None, fan_in + 1)))
        fan_in = len(layers[-1])
    if not layers:
        raise ValueError("layers is empty, but must hold one array for each layer.")
    return layers


def _states(activation: str, units: int) -> np.ndarray:
    if units > math.log2(_MOST):
        raise ValueError(f"a layer has {units} units, but at most {int(math.log2(_MOST))} can be enumerated.")
    return np.array(list(itertools.product(_STATES[activation], repeat=units)))


def _log_units(activation: str, t: Array, y: Array) -> Float[Array, ""]:
    # p(±1) = sigm(±2t) for the mean tanh t; p(1) = sigm(t) for the mean sigm t.
    sign, scale = (y, 2.0) if activation == "tanh" else (2 * y - 1, 1.0)
    return jax.nn.log_sigmoid(sign * scale * t).sum()


def _log_softmax(t: Array, y: Array) -> Float[Array, ""]:
    return (jax.nn.log_softmax(t) * y).sum()


def _block(activation: str, softmax: bool, W: np.ndarray, below: np.ndarray, chance: np.ndarray) -> np.ndarray:
    if softmax:
        return softmax_layer(W, below, weights=chance).dense()
    return nonlinear_layer(activation, W, below, weights=chance).dense()
