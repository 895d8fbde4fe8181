"""The initial weights of the experiment of Sun, Nielsen 2017."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..network import Layer, Network
from ._layers import is_layer, nodes, sizes


def glorot(net: Network, key: Array, *, dtype: Any = jnp.float32) -> Any:
    """Glorot's uniform initialization: |W| ≤ √(6/(n_{l-1}+n_l)), zero biases (Glorot, Bengio 2010); all else by `init`.

    >>> from neft import MLP
    >>> glorot(MLP(widths=(3, 3)), jax.random.key(0))[0].b.tolist()
    [0.0, 0.0, 0.0]
    """
    net.check_memory(dtype)

    def others(key: Array) -> list[Any]:
        return [node for node in nodes(net.init(key, dtype=dtype))[0] if not is_layer(node)]

    found, structure = nodes(jax.eval_shape(lambda key: net.init(key, dtype=dtype), key))
    keys = iter(jax.random.split(key, sum(map(is_layer, found))))
    # Compiled, so that no weight is drawn twice.
    rest = iter(jax.jit(others)(key) if not all(map(is_layer, found)) else ())
    return jax.tree.unflatten(structure, [_layer(n, next(keys), dtype) if is_layer(n) else next(rest) for n in found])


def _layer(node: Any, key: Array, dtype: Any) -> Layer:
    fan_in, fan_out = sizes(node)
    W = jax.random.uniform(key, (fan_out, fan_in), dtype, -1.0, 1.0) * math.sqrt(6 / (fan_in + fan_out))
    return Layer(W, jnp.zeros(fan_out, dtype))
