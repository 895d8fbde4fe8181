"""What becomes of stages with positions: sums over windows, means over positions (docs/theory/positions, eqs. 1-4).

The gap √(K1 K2) - c of a sum over positions is that of its terms and what the roots of the variances add, the square
of the distance of two unit vectors, so nothing is lost where both are close to multiples of each other.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from .._guard import positive, root
from .._promote import cast, library_of
from ._block import Averages, AveragesOnPositions
from ._stage import Layout, Stage
from ._windows import Window

_ROUNDINGS = 8  # that a mean over pairs of positions may be off by


def layout_of(stage: Stage, axes: int | None = None) -> Layout:
    """How the stage lays out its positions, which it must have, along so many axes if that is given."""
    if stage.layout is None:
        raise ValueError("it stands where there are no positions, but must come before Flatten() or GlobalAvgPool().")
    if axes is not None and stage.layout.axes != axes:
        raise ValueError(f"it has {axes} dimensions, but positions there have {stage.layout.axes}.")
    return stage.layout


def windowed(stage: Stage, windows: Sequence[Window]) -> Stage:
    """Sums over windows of positions, the same window for both inputs: what a convolution sees, but for its weights."""
    layout = layout_of(stage, len(windows))
    stage = computed_once(stage.replace(Theta=stage.mean_theta, gain=None))
    for axis, window in enumerate(windows):
        stage = _along(stage, layout, axis, window)
    return stage


def computed_once(stage: Stage) -> Stage:
    """The stage, whose values the compiler may not compute again where they are used.

    Fused with sums over windows, activations would be computed for each place of a window.
    """
    values = (stage.K1, stage.K2, stage.c, stage.gap, stage.total, stage.Theta)
    if any(isinstance(value, jax.Array) for value in values):
        values = lax.optimization_barrier(values)
    K1, K2, c, gap, total, Theta = values
    return stage.replace(K1=K1, K2=K2, c=c, gap=gap, total=total, Theta=Theta)


def _along(stage: Stage, layout: Layout, axis: int, window: Window) -> Stage:
    first, second = (axis,), (axis + layout.axes * layout.crossed,)
    both = tuple(dict.fromkeys(first + second))
    K1, K2 = window.summed(stage.K1, first), window.summed(stage.K2, second)
    c, gap, total, Theta = (window.summed(value, both) for value in (stage.c, stage.gap, stage.total, stage.Theta))
    if window.size > 1:
        more = distance(window.each(root(stage.K1), first), window.each(root(stage.K2), second), root(K1), root(K2))
        gap, total = gap + more, total + more
    return stage.replace(K1=K1, K2=K2, c=c, gap=gap, total=total, Theta=Theta)


def distance(one: Sequence[Any], two: Sequence[Any], size1: Any, size2: Any) -> Any:
    """|a||b| - a·b of two vectors, given as lists of their entries and their sizes."""
    inverse1, inverse2 = 1 / positive(size1), 1 / positive(size2)
    total: Any = 0
    for a, b in zip(one, two):
        total = total + (a * inverse1 - b * inverse2) ** 2
    return size1 * size2 * total / 2


def biased(stage: Stage, variance: Any) -> Stage:
    """What `shifted` gives, without a division for each pair, of which there are many here."""
    K1, K2, b = stage.K1 + variance, stage.K2 + variance, root(variance)
    more = distance((root(stage.K1), b), (root(stage.K2), b), root(K1), root(K2))
    values = (value + more for value in (stage.gap, stage.total))
    return stage.replace(K1=K1, K2=K2, c=stage.c + variance, gap=next(values), total=next(values) + 2 * variance)


def flattened(stage: Stage) -> Stage:
    """All positions' entries as one vector: means over equal positions."""
    layout = layout_of(stage)
    if layout.crossed:
        stage = uncrossed(stage, layout)
    axes = tuple(range(layout.axes))
    roots = [root(K).reshape(-1, *K.shape[layout.axes :]) for K in (stage.K1, stage.K2)]
    K1, K2, c, gap, total, Theta = (
        value.mean(axes) for value in (stage.K1, stage.K2, stage.c, stage.gap, stage.total, stage.Theta)
    )
    more = distance([roots[0]], [roots[1]], root(K1)[None], root(K2)[None]).mean(0)
    return stage.replace(
        K1=K1,
        K2=K2,
        c=c,
        gap=gap + more,
        total=total + more,
        Theta=Theta,
        mean1=None if stage.mean1 is None else stage.mean1.mean(axes),
        mean2=None if stage.mean2 is None else stage.mean2.mean(axes),
        # Entries of different positions have different variances, so together they are not Gaussian.
        kind="input" if stage.kind == "input" else "activation",
        before=None,
        activation=None,
        fresh=False,
        layout=None,
    )


def uncrossed(stage: Stage, layout: Layout) -> Stage:
    """The stage with equal positions only."""

    def own(value):
        return None if value is None else value.reshape(*_without(value.shape, layout))

    values = (diagonal(value, layout.axes) for value in (stage.c, stage.gap, stage.total, stage.Theta))
    c, gap, total, Theta = values
    return stage.replace(
        K1=own(stage.K1),
        K2=own(stage.K2),
        c=c,
        gap=gap,
        total=total,
        Theta=Theta,
        mean1=own(stage.mean1),
        mean2=own(stage.mean2),
        layout=Layout(layout.axes, False),
    )


def _without(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    # Of (H, W, 1, 1, …) or (1, 1, H, W, …) the axes that count.
    n = layout.axes
    first, second = shape[:n], shape[n : 2 * n]
    return (*(max(pair) for pair in zip(first, second)), *shape[2 * n :])


def diagonal(value: Any, axes: int) -> Any:
    """Of an array (H, W, H, W, …) the entries (H, W, …) with equal positions."""
    shape = value.shape[:axes]
    count = math.prod(shape)
    square = value.reshape(count, count, *value.shape[2 * axes :])
    index = library_of(value).arange(count)
    return square[index, index].reshape(*shape, *value.shape[2 * axes :])


def facing(value: Any, layout: Layout, second: bool) -> Any:
    """What one input has at each position, (H, W, …), where it stands among the axes of a stage."""
    if not layout.crossed:
        return value
    n, ones = layout.axes, (1,) * layout.axes
    shape = value.shape
    return value.reshape(*ones, *shape) if second else value.reshape(*shape[:n], *ones, *shape[n:])


def alone(average: Averages, stage: Stage, own: Callable[[Any], Any]) -> tuple[Any, Any]:
    """`own(c)` of each of the two inputs by itself, for blocks that mix positions."""
    if not isinstance(average, AveragesOnPositions):
        raise ValueError("it mixes positions, which only `width.kernel` has all pairs of.")
    return average.alone(stage, own)


def between(K1: Any, K2: Any, c: Any, Theta: Any, **facts: Any) -> Stage:
    """The stage of these moments, which sums over positions made: √(K1 K2) - c that is but rounding is zero.

    Of rounding a kink would see the root, and a second sum the root of that.
    """
    found = Stage.between(K1, K2, c, Theta, **facts)
    rounding = _ROUNDINGS * float(np.finfo(found.c.dtype).eps) * (found.gap + found.total)
    small = found.gap <= rounding
    return found.replace(gap=library_of(found.gap).where(small, cast(0, found.gap), found.gap))
