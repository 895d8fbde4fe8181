"""The same blocks, wider or narrower."""

from collections.abc import Iterator, Sequence

from ._block import Block
from ._chain import fans
from ._dense import Dense
from ._nonlinearity import Nonlinearity
from ._norm import LayerNorm, RMSNorm
from ._residual import Residual


def widened(blocks: Sequence[Block], factor: float) -> list[Block]:
    """The blocks with all widths times a factor; a dense block at the end keeps its outputs."""
    *inner, last = blocks
    end = last if isinstance(last, Dense) else _scaled(last, factor)
    return [*(_scaled(block, factor) for block in inner), end]


def hidden_widths(blocks: Sequence[Block], fan_in: int) -> tuple[int, ...]:
    """All widths of the blocks, those inside residual blocks too, but for the outputs of a dense block at the end."""
    last = isinstance(blocks[-1], Dense)
    return tuple(_widths(blocks[: len(blocks) - last], fan_in))


def _widths(blocks: Sequence[Block], fan_in: int) -> Iterator[int]:
    for block, n in zip(blocks, fans(blocks, fan_in)):
        if isinstance(block, Dense):
            yield block.width
        elif isinstance(block, Residual):
            yield from _widths(block.branch, n)
        elif not isinstance(block, Nonlinearity | RMSNorm | LayerNorm):
            raise ValueError(_unknown(block))


def _scaled(block: Block, factor: float) -> Block:
    if isinstance(block, Dense):
        width = factor * block.width
        if abs(width - round(width)) > 1e-9 * width or round(width) < 1:
            raise ValueError(f"a width of {block.width} times {factor:g} is {width:g}, but must be a whole number.")
        return block.replace(width=round(width))
    if isinstance(block, Residual):
        skip = _scaled(block.skip, factor) if isinstance(block.skip, Dense) else block.skip
        return Residual(*(_scaled(part, factor) for part in block.branch), skip=skip)
    if isinstance(block, Nonlinearity | RMSNorm | LayerNorm):
        return block
    raise ValueError(_unknown(block))


def _unknown(block: Block) -> str:
    return f"block {type(block).__name__} is a user's own, so nothing is known about other widths of it."
