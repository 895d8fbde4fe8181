"""A network as runs of equal segments, so that a deep one compiles no longer than a shallow one."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._attention import Attention
from ._block import Averages, Block
from ._chain import passed
from ._conv import Conv
from ._dense import Dense
from ._residual import Residual
from ._stage import Stage


class Segment(eqx.Module):
    """Blocks up to one that holds weights; widths, which kernels do not depend on, are all 1."""

    blocks: tuple[Block, ...]

    @property
    def weighs(self) -> bool:
        """Whether it holds weights; what comes after the last weights does not."""
        return self.blocks[-1].weighs

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """K and Θ after the blocks."""
        return passed(self.blocks, stage, average)


def segments(blocks: Sequence[Block]) -> list[Segment]:
    """The blocks cut after each one that holds weights; where blocks are the same objects, segments are."""
    made: dict[tuple[int, ...], Segment] = {}
    found: list[Segment] = []
    current: list[Block] = []
    for i, block in enumerate(blocks, start=1):
        current.append(block)
        if block.weighs or i == len(blocks):
            same = tuple(map(id, current))
            made[same] = made.get(same) or Segment(tuple(map(_sizeless, current)))
            found.append(made[same])
            current = []
    return found


def _sizeless(block: Block) -> Block:
    # Equal but for their widths, two blocks have the same program.
    if isinstance(block, Dense):
        return Dense.replace(block, width=1)
    if isinstance(block, Conv):
        return block.replace(channels=1)
    if isinstance(block, Attention):
        return block.replace(heads=1, channels=1, head_channels=1)
    if isinstance(block, Residual):
        skip = _sizeless(block.skip) if isinstance(block.skip, Block) else block.skip
        return Residual(*map(_sizeless, block.branch), skip=skip)
    return block


def along(
    parts: Sequence[tuple[Segment, Any]],
    stage: Stage,
    step: Callable[[Segment, Any, Stage], Stage],
    *,
    first: bool = True,
    joined: bool = False,
) -> Stage:
    """The stage after all segments, each with data of its own; a run of equal ones is a loop of the compiled program.

    `step(segment, data, stage)` gives the next stage. `first` says that the stage is that of inputs, which is another
    kind than what follows. `joined` loops carry c and Θ as one complex array: of a step with one result the compiler
    makes one pass over the pairs, where for two it would do again for the second what the first has done. That pays
    where a step has neither roots nor quotients.
    """
    return kept_along(parts, stage, lambda *given: (step(*given), None), first=first, joined=joined)[0]


def kept_along(
    parts: Sequence[tuple[Segment, Any]],
    stage: Stage,
    step: Callable[[Segment, Any, Stage], tuple[Stage, Any]],
    *,
    first: bool = True,
    joined: bool = False,
) -> tuple[Stage, list[Any]]:
    """The same where a step gives more than the next stage, which is kept, for each run with an axis of its own."""
    kept = []
    for group in _runs(parts, first):
        stage = _plain(stage)
        if len(group) == 1:
            stage, more = step(*group[0], stage)
            kept.append(jax.tree.map(lambda value: value[None], more))
            continue
        stacked = jax.tree.map(functools.partial(_stacked, stage.c.dtype), *group)

        def body(stage, part):
            segment, data = part
            stage, more = step(segment, data, _parted(stage) if joined else stage)
            return _joined(_plain(stage)) if joined else _plain(stage), more

        stage = _joined(stage) if joined else stage
        # What the first step broadcasts, such as variances that come without an axis, has its shape from then on.
        shapes = jax.eval_shape(lambda part, stage: body(stage, part)[0], group[0], stage)
        stage = jax.tree.map(lambda leaf, shape: jnp.broadcast_to(leaf, shape.shape).astype(shape.dtype), stage, shapes)
        stage, more = lax.scan(body, stage, stacked)
        stage = _parted(stage) if joined else stage
        kept.append(more)
    return stage, kept


def _stacked(dtype: Any, *leaves: Any) -> Any:
    return jnp.stack([leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf, dtype) for leaf in leaves])


def _plain(stage: Stage) -> Stage:
    # What a later segment may not look at.
    return stage.replace(before=None, activation=None, fresh=False)


def _joined(stage: Stage) -> Stage:
    return stage.replace(c=lax.complex(*jnp.broadcast_arrays(stage.c, stage.Theta)), Theta=None)


def _parted(stage: Stage) -> Stage:
    return stage.replace(c=stage.c.real, Theta=stage.c.imag)


def _runs(parts: Sequence[tuple[Segment, Any]], first: bool) -> list[list[tuple[Segment, Any]]]:
    groups: list[list[tuple[Segment, Any]]] = []
    for part in parts:
        if groups and _looks(part) == _looks(groups[-1][-1]):
            groups[-1].append(part)
        else:
            groups.append([part])
    if first and groups and groups[0][1:]:
        groups[:1] = [groups[0][:1], groups[0][1:]]
    return groups


def _looks(part: tuple[Segment, Any]) -> Any:
    return jax.tree.structure(part), [np.shape(leaf) for leaf in jax.tree.leaves(part)]
