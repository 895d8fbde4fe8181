"""A network cut into the parts that statistics have an entry for."""

import jax
import numpy as np

from ._block import Block
from ._chain import fans, holds
from ._network import Network


def parts(net: Network) -> list[tuple[Block, ...]]:
    """The blocks cut after each one that holds weights; what follows the last of them belongs to it.

    >>> from neft import Dense
    >>> [len(part) for part in parts(Network(3, [Dense(8), "relu", Dense(2)]))]
    [1, 2]
    """
    found: list[list[Block]] = []
    current: list[Block] = []
    for block in net.blocks:
        current.append(block)
        if block.weighs:
            found.append(current)
            current = []
    found[-1] += current
    return [tuple(part) for part in found]


def parameters_of(net: Network) -> tuple[int, ...]:
    """How many parameters each of the network's `parts` has.

    >>> from neft import Dense
    >>> parameters_of(Network(3, [Dense(8), "relu", Dense(2)]))
    (32, 18)
    """
    left, widths = list(jax.eval_shape(net.init, jax.random.key(0))), iter(fans(net.blocks, net.inputs))
    counts = []
    for part in parts(net):
        own = [left.pop(0) for block in part if holds(block, next(widths))]
        counts.append(sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(own)))
    return tuple(counts)
