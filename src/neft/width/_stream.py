"""Tensors of one input along equal residual blocks of two matrices, however many (docs/theory/blocks, eqs. 13-30)."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._activation import Activation, activation
from ..network import Block
from ._deeper import CHUNK
from ._one_input import Rates, Tensors, first_layer, next_layer, present
from ._through_blocks import stream_of
from ._two_matrices import next_block


def outputs(step: Sequence[Block], n: int, q: float, first: Rates, last: Rates, count: int) -> dict[str, Any] | None:
    """The tensors of an output after `count` blocks, in units of 1/n, or None where a step has no such recursion.

    Before the blocks is a dense one with the rates `first`, after them one with the rates `last`, without activations.
    """
    found = stream_of(step, n)
    if found is None or not found[0].named:
        return None
    act, r, skip, one, two = found
    linear = activation("linear")
    layer = first_layer(linear, jnp.asarray(q, float), _numbers(first))
    # Nothing here is measured by dNTK and ddNTK: as zeros they are left out by the compiler.
    names = tuple(name for name in present(act) if name not in "PQRSTU")
    layer = Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
    layers: list[Any] = []
    while len(layers) * CHUNK < count:
        layer, more = _along(act, layer, jnp.asarray(r, float), jnp.asarray(skip, float), _numbers(one), _numbers(two))
        layers.append(more)
    at = (count - 1) % CHUNK
    stream = jax.tree.map(lambda values: values[at], layers[-1])
    whole = Tensors(**{name: jnp.zeros(()) if value is None else value for name, value in stream._asdict().items()})
    out = next_layer(linear, whole, 1.0, _numbers(last))
    return {name: float(np.asarray(getattr(out, name))) for name in names}


def _numbers(rates: Rates) -> Rates:
    return Rates(*(jnp.asarray(value, float) for value in rates))


@functools.partial(jax.jit, static_argnums=0)
def _along(act: Activation, layer: Tensors, r: Any, skip: Any, first: Rates, second: Rates) -> tuple[Tensors, Tensors]:
    def step(layer, _):
        whole = layer._replace(**dict.fromkeys("PQRSTU", jnp.zeros_like(layer.K)))
        new = next_block(act, whole, r, skip, first, second)._replace(**dict.fromkeys("PQRSTU"))
        return new, new

    return lax.scan(step, layer, length=CHUNK)
