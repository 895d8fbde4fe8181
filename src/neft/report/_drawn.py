"""What many draws of one network give at one input."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._blocks import blocks
from ..network import Network
from ..network.engine import plain
from ..tangent import mlp_ntk

_BLOCK = 250


_NUMBERS = {True: 1e8, False: 1e9}
"""Random numbers that drawing networks may take, on a quick page and on a whole one: a second is 3e7 of them."""


def affordable(net: Network, draws: int, quick: bool) -> int:
    """As many of these draws as there is time for."""
    return max(32, min(draws, int(_NUMBERS[quick] / net.parameter_count())))


def with_error(per_draw: Float[np.ndarray, " draws"]) -> tuple[float, float]:
    """Mean and standard error of one number per draw; outputs of a draw share its hidden layers, so it counts once."""
    return float(per_draw.mean()), float(per_draw.std(ddof=1) / np.sqrt(len(per_draw)))


class Drawn(NamedTuple):
    """Outputs and diagonal elements of the NTK."""

    outputs: Float[np.ndarray, "draws outputs"]
    ntk: Float[np.ndarray, "draws outputs"]


def drawn(net: Network, x: Float[np.ndarray, " n_0"], draws: int, key: Array) -> Drawn:
    """The outputs and the NTK at x of `draws` networks; draw i is net.init(jax.random.fold_in(key, i))."""
    at = jnp.asarray(x, jnp.float32)
    parts = []
    size = min(draws, _BLOCK)
    for part in blocks(draws, size, label="draws"):
        index = jnp.arange(part.start, part.start + size)
        found = _several(net, at, key, index)
        parts.append([np.asarray(values, float)[: part.stop - part.start] for values in found])
    return Drawn(*(np.concatenate(column) for column in zip(*parts)))


@jax.jit
def _several(net: Network, x: Array, key: Array, index: Array) -> Any:
    def one(i: Array) -> tuple[Array, Array]:
        params = net.init(jax.random.fold_in(key, i), dtype=jnp.float32)
        if plain(net) is None:
            return _by_gradients(net, params, x)
        return net.apply(params, x), jnp.diagonal(mlp_ntk(net, params, x[None])[0, 0])

    # One network at a time: it compiles much faster than a batch of them, and memory holds one.
    return jax.lax.map(one, index)


def _by_gradients(net: Network, params: Any, x: Array) -> tuple[Array, Array]:
    # Squares of gradients are all that the diagonal takes; whole Jacobians compile for minutes in deep networks.
    z, back = jax.vjp(lambda params: net.apply(params, x), params)
    gradients = jax.vmap(lambda output: back(output)[0])(jnp.eye(len(z), dtype=z.dtype))
    leaves = zip(jax.tree.leaves(net.rates()), jax.tree.leaves(gradients), strict=True)
    return z, jnp.asarray(sum(rate * jnp.sum(leaf.reshape(len(z), -1) ** 2, axis=1) for rate, leaf in leaves))
