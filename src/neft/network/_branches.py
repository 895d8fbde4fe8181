"""Branches of residual blocks, made smaller or larger."""

from collections.abc import Sequence
from typing import Any

from ._block import Block
from ._dense import Dense
from ._residual import Residual


def with_branches(blocks: Sequence[Block], share: Any, *, skip: float | None = None) -> tuple[Block, ...]:
    """The blocks with every branch multiplied by √share: variances and rates of its last dense block by share.

    Args:
        blocks: of which the residual ones have branches; the others stay.
        share: a number, or a tracer; nothing is checked.
        skip: put in place of the skips, if given.

    >>> (block,) = with_branches((Residual("relu", Dense(8, C_W=2.0)),), 0.25)
    >>> block.branch[-1].C_W, block.branch[-1].lambda_W
    (0.5, 0.25)
    """
    return tuple(_scaled(block, share, skip) if isinstance(block, Residual) else block for block in blocks)


def branched(blocks: Sequence[Block]) -> bool:
    """Whether some block is a residual one whose branch ends in a dense block and whose skip is a number.

    >>> branched((Residual("relu", Dense(8)),))
    True
    """
    return any(
        isinstance(block, Residual) and isinstance(block.branch[-1], Dense) and not isinstance(block.skip, Block)
        for block in blocks
    )


def _scaled(block: Residual, share: Any, skip: float | None) -> Residual:
    *before, last = block.branch
    if isinstance(last, Dense):
        names = ("C_b", "C_W", "lambda_b", "lambda_W")
        last = last.replace(**{name: share * getattr(last, name) for name in names})
    keep = skip is None or isinstance(block.skip, Block)
    return Residual(*before, last, skip=block.skip if keep else skip)
