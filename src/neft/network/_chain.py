"""Blocks one after the other: what a network and the branch of a residual block share."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _check
from .._activation import Activation
from ._block import Averages, Block, Visit
from ._nonlinearity import Nonlinearity
from ._stage import Stage

_MANY = 1 << 12  # positions into which any window fits


def blocks_of(given: Iterable[Any]) -> tuple[Block, ...]:
    """Blocks, where a name, a function or an `Activation` is one; activations in a row compose."""
    found: list[Block] = []
    for one in given:
        if isinstance(one, type) and issubclass(one, Block):
            raise ValueError(f"a block is the class {one.__name__}, but must be one of its objects: {one.__name__}(…).")
        if not isinstance(one, Block | Activation | str) and not callable(one):
            raise ValueError(
                f"a block is {_check.brief(one)}, but must be a block, or the name or function of an activation."
            )
        block = one if isinstance(one, Block) else Nonlinearity(one)
        if found and isinstance(block, Nonlinearity) and isinstance(found[-1], Nonlinearity):
            block = Nonlinearity(*found.pop().parts, *block.parts)  # type: ignore[attr-defined]
        found.append(block)
    if not found:
        raise ValueError("there are no blocks, but there must be at least one.")
    return tuple(found)


def shapes(blocks: Sequence[Block], shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The shapes of one input before each block and after the last: (n,), or (H, W, n) where there are positions."""
    found, seen = [shape], {}
    for block in blocks:
        # A deep network is made of few objects.
        if id(block) not in seen:
            seen[id(block)] = jax.tree.structure(block)
        try:
            found.append(_shape_of(seen[id(block)], found[-1]))
        except ValueError:
            found.append(_evaluated(block, found[-1]))  # says the same of the block's own hyperparameters
    return tuple(found)


def fans(blocks: Sequence[Block], inputs: "int | tuple[int, ...]") -> tuple[int, ...]:
    """The widths before each block and after the last, for inputs of this shape.

    A number stands for that of the channels where positions are not known: widths do not depend on them.
    """
    if isinstance(inputs, int):
        inputs = (*(_MANY,) * max(block.dimensions for block in blocks), inputs)
    return tuple(one[-1] for one in shapes(blocks, inputs))


def holds(block: Block, fan_in: int) -> bool:
    """Whether the block has parameters."""
    return _holds(jax.tree.structure(block), fan_in)


# The width after a block and whether it has parameters do not depend on hyperparameters, so any will do.
def _any(structure: Any) -> Block:
    return jax.tree.unflatten(structure, [1.0] * structure.num_leaves)


@functools.lru_cache(maxsize=4096)
def _holds(structure: Any, fan_in: int) -> bool:
    key = jax.random.key(0)
    params = jax.eval_shape(lambda key: _any(structure).init(key, fan_in, dtype=jnp.float32), key)
    return bool(jax.tree.leaves(params))


@functools.lru_cache(maxsize=4096)
def _shape_of(structure: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return _evaluated(_any(structure), shape)


def _evaluated(block: Block, shape: tuple[int, ...]) -> tuple[int, ...]:
    def run(key, x):
        return block.apply(block.init(key, shape[-1], dtype=x.dtype), x)

    try:
        # Two inputs, since one has no batch's moments.
        key, x = jax.random.key(0), jax.ShapeDtypeStruct((2, *shape), jnp.float32)
        outputs = jax.eval_shape(run, key, x)
    except ValueError as error:
        raise ValueError(f"block {_line(block)}: {error}") from None
    return outputs.shape[1:]


def begun(blocks: Sequence[Block], key: Array, shape: "int | tuple[int, ...]", dtype: Any) -> tuple[Any, ...]:
    """Random parameters of the blocks that have any."""
    widths = fans(blocks, shape)
    having = [(block, n) for block, n in zip(blocks, widths) if holds(block, n)]
    keys = jax.random.split(key, len(having)) if having else []
    return tuple(block.init(one, n, dtype=dtype) for (block, n), one in zip(having, keys))


def simply(block: Block, params: Any, x: Array) -> Array:
    """The outputs of one block, the plainest `visit`."""
    return block.apply(params, x)


def applied(blocks: Sequence[Block], params: Sequence[Any], x: Array, visit: Visit = simply) -> list[Array]:
    """The outputs of all blocks, where `visit(block, params, x)` gives those of each, inside residual ones too."""
    outputs, left = [x], list(params)
    for block in blocks:
        own = left.pop(0) if holds(block, outputs[-1].shape[-1]) else ()
        outputs.append(block.visited(own, outputs[-1], visit))
    return outputs[1:]


def rates_along(blocks: Sequence[Block], inputs: "int | tuple[int, ...]") -> tuple[Any, ...]:
    """The learning rates of the blocks that have parameters."""
    return tuple(block.rates(n) for block, n in zip(blocks, fans(blocks, inputs)) if holds(block, n))


def passed(blocks: Sequence[Block], stage: Stage, average: Averages) -> Stage:
    """K and Θ after all blocks; what a block refuses names it."""
    for block in blocks:
        try:
            stage = block.kernel(stage, average)
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith("block ") else f"block {_line(block)}: {text}") from None
    return stage


def _line(block: Block) -> str:
    # Equinox writes a user's own block in several lines.
    return " ".join(repr(block).split())
