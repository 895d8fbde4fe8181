"""Drawing networks, all random numbers of a draw at once: generators are what takes longest to compile."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..network import MLP, Layer

PROBES = 2
"""Probes per layer. Pairs of different ones count, so there are at least two."""


class Draw(NamedTuple):
    """A network, and probes for each layer beyond the first: rows of random signs with the variance of a weight."""

    params: tuple[Layer, ...]
    probes: tuple[Array, ...]


def draw(net: MLP, key: Array, dtype: np.dtype) -> Draw:
    """Random Gaussian parameters, and probes of shape (PROBES, n_l)."""
    net.check_memory(dtype)
    shapes = [shape for m, n in zip(net.widths, net.widths[1:]) for shape in ((n, m), (n,))]
    shapes += [(PROBES, n) for n in net.widths[1:-1]]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    numbers = jax.random.normal(key, (int(ends[-1]),), dtype)
    parts = [numbers[end - np.prod(shape) : end].reshape(shape) for end, shape in zip(ends, shapes)]
    deviations, deviations_b = zip(*jax.tree.map(lambda variance: _deviation(variance, dtype), net.variances()))
    split = 2 * net.depth
    layers = zip(parts[0:split:2], parts[1:split:2], deviations, deviations_b)
    return Draw(
        tuple(Layer(W * deviation, b * deviation_b) for W, b, deviation, deviation_b in layers),
        tuple(jnp.where(w < 0, -deviation, deviation) for w, deviation in zip(parts[split:], deviations[1:])),
    )


def _deviation(variance: Any, dtype: np.dtype) -> Array:
    return jnp.sqrt(jnp.asarray(variance, float)).astype(dtype)
