"""Tensors of one input along equal residual blocks of two matrices, however many (docs/theory/blocks, eqs. 13-30)."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._activation import activation
from ..network import Block, Dense, Network
from ._deeper import CHUNK
from ._moments import averages
from ._one_input import Tensors, first_layer, next_layer, present
from ._through_blocks import two_matrices
from ._two_matrices import next_block


def outputs(step: Sequence[Block], n: int, q: float, first: Block, last: Block, count: int) -> dict[str, Any] | None:
    """The tensors of an output after `count` blocks, in units of 1/n, or None where a step has no such recursion.

    Before the blocks is the linear one `first`, after them `last`, without activations.
    """
    parts = two_matrices(step)
    if parts is None:
        return None
    (block,), (act,) = step, Network(n, [Dense(n), *step, Dense(1)]).activations
    if not act.named:
        return None
    linear = activation("linear")
    first, block, last = (jax.tree.map(lambda value: jnp.asarray(value, float), part) for part in (first, block, last))
    layer = first_layer(linear, jnp.asarray(q, float), first)
    # Nothing here is measured by dNTK and ddNTK: as zeros they are left out by the compiler.
    names = tuple(name for name in present(act) if name not in "PQRSTU")
    layer = Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
    layers: list[Any] = []
    while len(layers) * CHUNK < count:
        layer, more = _along(block, layer, n / parts.width)
        layers.append(more)
    at = (count - 1) % CHUNK
    stream = jax.tree.map(lambda values: values[at], layers[-1])
    whole = Tensors(**{name: jnp.zeros(()) if value is None else value for name, value in stream._asdict().items()})
    out = next_layer(linear, whole, 1.0, last)
    return {name: float(np.asarray(getattr(out, name))) for name in names}


@jax.jit
def _along(block: Block, layer: Tensors, r: Any) -> tuple[Tensors, Tensors]:
    def step(layer, _):
        whole = layer._replace(**dict.fromkeys("PQRSTU", jnp.zeros_like(layer.K)))
        new = next_block(block, whole, r, averages)[0]._replace(**dict.fromkeys("PQRSTU"))
        return new, new

    return lax.scan(step, layer, length=CHUNK)
