"""The tensors of one input through all blocks (docs/theory/width, eqs. 20-38; docs/theory/blocks, eqs. 13-30)."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._activation import Activation, activation
from .._of_own import own_moments
from ..network import Block, Linear, Network, Nonlinearity, TwoMatrices
from ._moments import averages, existence
from ._one_input import Tensors, first_layer, next_layer, present
from ._two_matrices import next_block

_OWN = 1e-11  # tolerance of the averages of a user's own function


class NoRecursion(Exception):
    """A block has no recursion of the tensors at order 1/width; the message names it."""


def through_blocks(net: Network, x: np.ndarray) -> tuple[tuple[str, ...], list[Tensors]]:
    """The names of the tensors that exist, and the tensors after each block at the top that holds weights."""
    _steps(net)
    acts = net.activations
    if any(existence(act) == "no derivative" for act in acts):
        raise NoRecursion("an activation jumps")
    names = tuple(name for name in Tensors._fields if all(name in present(act) for act in acts))
    q = float(x @ x / net.inputs)
    if all(act.named for act in acts):
        return names, jax.tree.map(np.asarray, _compiled(net, jnp.asarray(q), names))
    return names, _run(net, np.float64(q), names)


@functools.partial(jax.jit, static_argnums=2)
def _compiled(net: Network, q: Any, names: tuple[str, ...]) -> list[Tensors]:
    return _run(net, q, names)


def _run(net: Network, q: Any, names: tuple[str, ...]) -> list[Tensors]:
    layers, unit, linear = [], net.inputs, activation("linear")
    for act, block, n in _steps(net):
        if not layers:
            new = first_layer(linear, q, block)
        else:
            # In units of the width of the stage before the block.
            layer = _rescaled(layers[-1], n / unit)
            if isinstance(block.tensors(), Linear):
                new = next_layer(act, layer, 1.0, block, _averages(act, layer.K))
            else:
                new = next_block(block, layer, n, _averages)
        layers.append(_kept(new, names))
        unit = n
    return layers


def _steps(net: Network) -> list[tuple[Activation, Block, int]]:
    # The activation before each block that holds weights, a linear one if there is none, and the width before it.
    found, act = [], None
    for block, n in zip(net.blocks, net.fans()):
        if isinstance(block, Nonlinearity):
            act = block.activation
            continue
        known = block.tensors()
        if not (isinstance(known, Linear) or (act is None and isinstance(known, TwoMatrices))):
            raise NoRecursion(f"{type(block).__name__} has no recursion of it yet")
        found.append((activation("linear") if act is None else act, block, n))
        act = None
    if act is not None:
        raise NoRecursion("the network ends in an activation")
    return found


def two_matrices(step: Sequence[Block]) -> TwoMatrices | None:
    """What a step is made of where it is one residual block of two matrices; else None."""
    known = step[0].tensors() if len(step) == 1 else None
    return known if isinstance(known, TwoMatrices) else None


def _averages(act: Activation, K: Any) -> Any:
    if act.named:
        return averages(act, K) if isinstance(K, jax.Array) else _numbers(averages(act, jnp.asarray(K)))
    return averages(act, K, functools.partial(own_moments, rtol=_OWN, what=f"an average of {act.name}"))


def _numbers(values: Any) -> Any:
    return jax.tree.map(np.asarray, values)


def _rescaled(layer: Tensors, factor: float) -> Tensors:
    # What does not exist is carried as 0, for activations that have it, and taken out again.
    whole = {name: 0.0 if value is None else value for name, value in layer._asdict().items()}
    return Tensors(**{name: v if name in ("K", "Theta") else factor * v for name, v in whole.items()})


def _kept(layer: Tensors, names: tuple[str, ...]) -> Tensors:
    return Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
