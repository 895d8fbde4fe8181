"""What drawn networks give after each block, for a few inputs."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._blocks import blocks
from ..network import Network

_NEURONS = 4
"""Neurons of a stage whose NTK stands for that of all: they are exchangeable."""

_BLOCK = 32


class Passed(NamedTuple):
    """One draw after the other: means over the neurons of z z', and of the NTK's diagonal at the first input.

    The NTK is that of the stages `places` (from 0 on) only, because each costs a pass through the network.
    """

    K: Float[np.ndarray, "draws layers N N"]
    Theta: Float[np.ndarray, "draws places"]
    places: tuple[int, ...]


def passed_on(net: Network, x: Float[np.ndarray, "N n_0"], draws: int, key: Array, *, most: int = 10) -> Passed:
    """K and the NTK after the blocks that hold weights; draw i is net.init(jax.random.fold_in(key, i))."""
    places = tuple(sorted({round(k * (net.depth - 1) / max(1, most - 1)) for k in range(most)}))
    at, found, size = jnp.asarray(x, jnp.float32), [], min(draws, _BLOCK)
    for part in blocks(draws, size, label="draws"):
        index = jnp.arange(part.start, part.start + size)
        values = _several(net, at, key, index, places)
        found.append([np.asarray(value, float)[: part.stop - part.start] for value in values])
    K, Theta = (np.concatenate(column) for column in zip(*found))
    return Passed(K, Theta, places)


def _one(net: Network, x: Array, params: Any, places: tuple[int, ...]) -> tuple[Array, Array]:
    K = jnp.stack([z @ z.T / z.shape[1] for z in _stages(net, params, x)])
    rates = jax.tree.leaves(net.rates())

    def ntk(l: int) -> Array:
        z, back = jax.vjp(lambda params: _stages(net, params, x[0])[l], params)
        few = min(_NEURONS, len(z))
        gradients = jax.vmap(lambda direction: back(direction)[0])(jnp.eye(few, len(z), dtype=z.dtype))
        leaves = zip(rates, jax.tree.leaves(gradients), strict=True)
        return jnp.asarray(sum(rate * jnp.sum(leaf**2) / few for rate, leaf in leaves))

    return K, jnp.stack([ntk(l) for l in places])


def _stages(net: Network, params: Any, x: Array) -> list[Array]:
    # What follows the last weights belongs to the output.
    return [*net.preactivations(params, x)[:-1], net.apply(params, x)]


@functools.partial(jax.jit, static_argnums=4)
def _several(net: Network, x: Array, key: Array, index: Array, places: tuple[int, ...]) -> tuple[Array, Array]:
    def one(i: Array) -> tuple[Array, Array]:
        return _one(net, x, net.init(jax.random.fold_in(key, i), dtype=x.dtype), places)

    # One network at a time: it compiles much faster than a batch of them, and memory holds one.
    return jax.lax.map(one, index)


class Curve(NamedTuple):
    """Means over draws and their standard errors."""

    mean: Float[np.ndarray, " places"]
    stderr: Float[np.ndarray, " places"]


def curve(per_draw: Float[np.ndarray, "draws places"]) -> Curve:
    """The mean over draws and its standard error."""
    return Curve(per_draw.mean(0), per_draw.std(0, ddof=1) / np.sqrt(len(per_draw)))


def correlation(K: Float[np.ndarray, "draws layers N N"], a: int, b: int) -> Curve:
    """⟨z_a z_b⟩ over √(⟨z_a²⟩⟨z_b²⟩) of the means over draws, with errors from leaving out one draw after the other."""
    pairs = np.stack([K[..., a, b], K[..., a, a], K[..., b, b]])
    total, draws = pairs.sum(1), K.shape[0]
    without = _ratio((total[:, None] - pairs) / (draws - 1))
    return Curve(_ratio(total / draws), np.sqrt((draws - 1) * without.var(axis=0)))


def _ratio(means: np.ndarray) -> np.ndarray:
    # Without a signal there is no angle.
    size = np.sqrt(means[1] * means[2])
    return np.where(size > 0, means[0] / np.where(size > 0, size, 1.0), 0.0)
