"""The same network, wider or narrower."""

from typing import Any

from ._batch_norm import BatchNorm
from ._block import Block
from ._chain import fans
from ._dense import Dense
from ._network import Network
from ._nonlinearity import Nonlinearity
from ._norm import LayerNorm, RMSNorm
from ._residual import Residual


def widened(net: Network, factor: float) -> Network:
    """The network with all hidden widths times a factor; a dense block at its end keeps its outputs.

    >>> from neft import Network
    >>> widened(Network(3, [Dense(8), Residual("relu", Dense(8)), Dense(2)]), 2).widths
    (3, 16, 16, 2)
    """
    *inner, last = net.blocks
    end = last if isinstance(last, Dense) else _scaled(last, factor)
    return Network(net.inputs, [*(_scaled(block, factor) for block in inner), end])


def hidden_widths(net: Network) -> tuple[int, ...]:
    """All widths between inputs and outputs, those inside residual blocks too."""
    last = isinstance(net.blocks[-1], Dense)
    return tuple(_widths(net.blocks[: len(net.blocks) - last], net.inputs))


def _widths(blocks: Any, fan_in: int):
    for block, n in zip(blocks, fans(blocks, fan_in)):
        if isinstance(block, Dense):
            yield block.width
        elif isinstance(block, Residual):
            yield from _widths(block.branch, n)
        elif not isinstance(block, Nonlinearity | RMSNorm | LayerNorm | BatchNorm):
            raise ValueError(_unknown(block))


def _scaled(block: Block, factor: float) -> Block:
    if isinstance(block, Dense):
        width = factor * block.width
        if abs(width - round(width)) > 1e-9 * width or round(width) < 1:
            raise ValueError(f"a width of {block.width} times {factor:g} is {width:g}, but must be a whole number.")
        return block.resized(round(width))
    if isinstance(block, Residual):
        skip = _scaled(block.skip, factor) if isinstance(block.skip, Dense) else block.skip
        return Residual(*(_scaled(part, factor) for part in block.branch), skip=skip)
    if isinstance(block, BatchNorm):
        return block.with_moments(None)  # those of another width are not known
    if isinstance(block, Nonlinearity | RMSNorm | LayerNorm):
        return block
    raise ValueError(_unknown(block))


def _unknown(block: Block) -> str:
    return f"block {type(block).__name__} is a user's own, so nothing is known about other widths of it."
