"""Means over positions: in windows, and over all of them."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from ._block import Averages
from ._flatten import Unweighted, refuse_vectors
from ._positions import alone, between, diagonal, facing, layout_of
from ._stage import Layout, Stage
from ._windows import Window, sizes


class AvgPool(Unweighted):
    """Means over windows of positions, which stay inside, in one or two dimensions (docs/theory/positions, eq. 4).

    In kernels the channels before it are infinite, and positions are as many as there are.

    Args:
        shape: the window's size, one number for sequences and two for images.
        strides: how far windows move, their own size by default.

    >>> AvgPool((2, 2)).to_dict()
    {'type': 'AvgPool', 'shape': [2, 2], 'strides': [2, 2]}
    """

    mixes: ClassVar[bool] = True
    shape: tuple[int, ...] = eqx.field(static=True)
    strides: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: Any, *, strides: Any = None) -> None:
        self.shape = sizes("shape", shape)
        self.strides = sizes("strides", strides, self.shape)

    @property
    def dimensions(self) -> int:
        """That of its windows."""
        return len(self.shape)

    @property
    def _windows(self) -> tuple[Window, ...]:
        return tuple(Window(size, stride, "VALID") for size, stride in zip(self.shape, self.strides))

    def apply(self, params: Any, x: Array) -> Array:
        """The means (N, H', W', C)."""
        if x.ndim != len(self.shape) + 2:
            raise ValueError(f"it has {len(self.shape)} dimensions, but positions there have {max(x.ndim - 2, 0)}.")
        for axis, window in enumerate(self._windows, start=1):
            x = window.summed(x, (axis,))
        return x / math.prod(self.shape)

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """Means over pairs of positions."""
        layout = layout_of(stage, len(self.shape))
        return _pooled(stage, average, layout, self._mean, after=True)

    def _mean(self, value: Any, axes: Sequence[int]) -> Any:
        for axis, window in zip(axes, self._windows):
            value = window.summed(value, (axis,))
        return value / math.prod(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        return {"type": "AvgPool", "shape": list(self.shape), "strides": list(self.strides)}

    def __repr__(self) -> str:
        return f"AvgPool({self.shape}, strides={self.strides})"


class GlobalAvgPool(Unweighted):
    """The mean over all positions, (N, H, W, C) to (N, C) (docs/theory/positions, eq. 4).

    A network with it has kernels of all pairs of positions, which take time and memory as (H·W)² where `Flatten` takes
    H·W. In kernels the channels before it are infinite, and positions are as many as there are.

    >>> GlobalAvgPool()
    GlobalAvgPool()
    """

    mixes: ClassVar[bool] = True

    def apply(self, params: Any, x: Array) -> Array:
        """The means (N, C)."""
        refuse_vectors(x)
        return x.mean(tuple(range(1, x.ndim - 1)))

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """The mean over all pairs of positions."""
        layout = layout_of(stage)
        return _pooled(stage, average, layout, lambda value, axes: value.mean(axes), after=False)


def _pooled(stage: Stage, average: Averages, layout: Layout, mean: Any, after: bool) -> Stage:
    # `mean(value, axes)` takes means along the axes of one input's positions; `after` says whether some are left.
    n, kept = layout.axes, Layout(layout.axes, layout.crossed) if after else None
    first = tuple(range(n))
    second = tuple(axis + n * layout.crossed for axis in first)

    def both(value):
        # The second input's axes first, so that those of the first stay where they are.
        return mean(mean(value, tuple(range(n, 2 * n))), first)

    def own(c):
        return diagonal(both(c), n) if after else both(c)

    def means(value, axes):
        if value is None:
            return None
        value = mean(value, axes)
        # With the positions go the axes of length 1 that stand for those of the other input.
        return value.reshape(value.shape[n:]) if layout.crossed and not after else value

    facts = {"kind": stage.kind, "gain": stage.gain, "fresh": stage.fresh, "mixed": stage.mixed, "layout": kept}
    facts |= {"mean1": means(stage.mean1, first), "mean2": means(stage.mean2, second)}
    K1, K2 = alone(average, stage, own)
    if not layout.crossed:
        # Of one input paired with itself, where equal positions are all that is carried along.
        return Stage.itself(K1, 0 * K1, **facts)
    if after:
        K1, K2 = facing(K1, layout, False), facing(K2, layout, True)
    return between(K1, K2, both(stage.c), both(stage.Theta), **facts)
