"""The tensors of one input through all blocks (docs/theory/width, eqs. 20-38; docs/theory/blocks, eqs. 13-30)."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._activation import Activation, activation
from .._of_own import own_moments
from ..network import Block, Dense, Network, Nonlinearity, Residual, fans
from ._moments import averages, existence
from ._one_input import Rates, Tensors, first_layer, next_layer, present
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
    for kind, act, block, n in _steps(net):
        if not layers:
            layers.append(_kept(first_layer(linear, q, _rates(block)), names))
            unit = n
            continue
        # In units of the width of the stage before the block.
        layer = _rescaled(layers[-1], n / unit)
        mean = functools.partial(_averages, act)
        if kind == "dense":
            new = next_layer(act, layer, 1.0, _rates(block), mean(layer.K))
        else:
            first, _, last = block.branch
            new = next_block(act, layer, n / first.width, block.skip, _rates(first), _rates(last), mean)
        layers.append(_kept(new, names))
        unit = n
    return layers


def _steps(net: Network) -> list[tuple[str, Activation, Any, int]]:
    # (kind, activation, block, width before it) of every block that holds weights.
    found, act = [], None
    for block, n in zip(net.blocks, fans(net.blocks, net.inputs)):
        if isinstance(block, Nonlinearity):
            act = block.activation
        elif isinstance(block, Dense):
            found.append(("dense", activation("linear") if act is None else act, block, n))
            act = None
        elif act is None and (inner := _two_matrices(block)) is not None:
            found.append(("two matrices", inner, block, n))
        else:
            raise NoRecursion(f"{type(block).__name__} has no recursion of it yet")
    if act is not None:
        raise NoRecursion("the network ends in an activation")
    return found


def _two_matrices(block: Block) -> Activation | None:
    if not isinstance(block, Residual) or isinstance(block.skip, Dense) or len(block.branch) != 3:
        return None
    first, middle, last = block.branch
    if isinstance(first, Dense) and isinstance(middle, Nonlinearity) and isinstance(last, Dense):
        return middle.activation
    return None


def stream_of(step: Sequence[Block], n: int) -> tuple[Activation, float, Any, Rates, Rates] | None:
    """Of a residual block of two matrices σ, n over the inner width, the skip, and the rates of both; else None."""
    act = _two_matrices(step[0]) if len(step) == 1 else None
    if act is None:
        return None
    block: Any = step[0]
    first, _, last = block.branch
    return act, n / first.width, block.skip, _rates(first), _rates(last)


def _averages(act: Activation, K: Any) -> Any:
    if act.named:
        return averages(act, K) if isinstance(K, jax.Array) else _numbers(averages(act, jnp.asarray(K)))
    return averages(act, K, functools.partial(own_moments, rtol=_OWN, what=f"an average of {act.name}"))


def _numbers(values: Any) -> Any:
    return jax.tree.map(np.asarray, values)


def _rates(block: Any) -> Rates:
    return Rates(block.C_b, block.C_W, block.lambda_b, block.lambda_W)


def _rescaled(layer: Tensors, factor: float) -> Tensors:
    # What does not exist is carried as 0, for activations that have it, and taken out again.
    whole = {name: 0.0 if value is None else value for name, value in layer._asdict().items()}
    return Tensors(**{name: v if name in ("K", "Theta") else factor * v for name, v in whole.items()})


def _kept(layer: Tensors, names: tuple[str, ...]) -> Tensors:
    return Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
