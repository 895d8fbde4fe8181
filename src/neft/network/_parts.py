"""A network cut into the parts that statistics have an entry for."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ._block import Block
from ._chain import fans, holds


def parts(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    """The blocks cut after each one that holds weights; what follows the last of them belongs to it."""
    found: list[list[Block]] = []
    current: list[Block] = []
    for block in blocks:
        current.append(block)
        if block.weighs:
            found.append(current)
            current = []
    found[-1] += current
    return [tuple(part) for part in found]


def parameters_of(blocks: Sequence[Block], inputs: tuple[int, ...], params: Any) -> tuple[int, ...]:
    """How many parameters each of the parts has; `params` are those of all, or their shapes."""
    left, widths = list(params), iter(fans(blocks, inputs))
    counts = []
    for part in parts(blocks):
        own = [left.pop(0) for block in part if holds(block, next(widths))]
        counts.append(sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(own)))
    return tuple(counts)
