"""A network as runs of equal segments, so that a deep one compiles no longer than a shallow one."""

import dataclasses
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


class Table:
    """Rows of one array, each standing for an array of its own until it is used.

    A run of equal segments wants one array with what each of them has; made of rows of a table, that is a slice of it,
    where of separate arrays the compiled program would cut and join each.
    """

    def __init__(self, values: Any) -> None:
        self._values = {values.dtype: values}
        self.values = values

    def __getitem__(self, index: int) -> "Row":
        return Row(self, self.values.dtype, index)

    @property
    def rows(self) -> list["Row"]:
        """All of them."""
        return [self[i] for i in range(len(self.values))]

    def of(self, dtype: Any) -> Any:
        """The array in this dtype, made once."""
        dtype = jnp.dtype(dtype)
        if dtype not in self._values:
            self._values[dtype] = self.values.astype(dtype)
        return self._values[dtype]


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A row of a table: a leaf of trees, like the array it stands for."""

    table: Table
    dtype: Any
    index: int

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array it stands for."""
        return self.table.values.shape[1:]

    @property
    def value(self) -> Any:
        """The array it stands for."""
        return self.table.of(self.dtype)[self.index]

    def astype(self, dtype: Any) -> "Row":
        """The same row in another dtype."""
        return Row(self.table, jnp.dtype(dtype), self.index)


def used(tree: Any) -> Any:
    """A tree with arrays in place of rows of tables."""
    return jax.tree.map(lambda leaf: leaf.value if isinstance(leaf, Row) else leaf, tree)


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
            segment, data = used(group[0])
            stage, more = step(segment, data, stage)
            kept.append(jax.tree.map(lambda value: value[None], more))
            continue
        stacked = jax.tree.map(functools.partial(_stacked, stage.c.dtype), *group)

        def body(stage, part):
            segment, data = part
            stage, more = step(segment, data, _parted(stage) if joined else stage)
            return _joined(_plain(stage)) if joined else _plain(stage), more

        stage = _joined(stage) if joined else stage
        # What the first step broadcasts, such as variances that come without an axis, has its shape from then on.
        shapes = jax.eval_shape(lambda part, stage: body(stage, part)[0], used(group[0]), stage)
        stage = jax.tree.map(lambda leaf, shape: jnp.broadcast_to(leaf, shape.shape).astype(shape.dtype), stage, shapes)
        stage, more = lax.scan(body, stage, stacked)
        stage = _parted(stage) if joined else stage
        kept.append(more)
    return stage, kept


def _stacked(dtype: Any, *leaves: Any) -> Any:
    one = leaves[0]
    if isinstance(one, Row):
        step = leaves[1].index - one.index
        if step > 0 and [leaf.index for leaf in leaves] == [one.index + step * i for i in range(len(leaves))]:
            return one.table.of(one.dtype)[one.index : leaves[-1].index + 1 : step]
        leaves = used(leaves)
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
    leaves, structure = jax.tree.flatten(part)
    return structure, [(type(leaf) is Row, leaf.shape if hasattr(leaf, "shape") else np.shape(leaf)) for leaf in leaves]
