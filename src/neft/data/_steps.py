"""The steps of preprocessing, each a few lines: what it does to the shape of an example, and to a block of examples.

A block is a float64 array, count × features or count × height × width, and the shape of an example is what follows
`count`. A step's `shape` refuses what the step cannot work on, before any data is touched.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

Block = Float64[np.ndarray, "count ..."]
Shape = tuple[int, ...]
Label = Callable[[int], str]
"""How a message names the example at a place in the block."""

PADDED = 32
CONSTANT = 1e-13
"""Spread over size below which values are equal but for rounding, and standardising would only blow up the rounding."""


@dataclass(frozen=True)
class Unit:
    """Pixels 0 … 255 to x/255."""

    def __str__(self) -> str:
        return "unit"

    def shape(self, shape: Shape) -> Shape:
        """The same shape."""
        return shape

    def apply(self, x: Block, label: Label) -> Block:
        """x / 255."""
        return x / 255


@dataclass(frozen=True)
class Global:
    """(x - mean) / std with one mean and one standard deviation, those of all values of the training split."""

    mean: float = math.nan
    std: float = math.nan

    def __str__(self) -> str:
        return "global"

    def shape(self, shape: Shape) -> Shape:
        """The same shape."""
        return shape

    def fitted(self, mean: float, std: float) -> "Global":
        """The step with its numbers."""
        return replace(self, mean=mean, std=std)

    def apply(self, x: Block, label: Label) -> Block:
        """(x - mean) / std."""
        return (x - self.mean) / self.std


@dataclass(frozen=True)
class PerImage:
    """Each example to mean 0 and standard deviation 1."""

    def __str__(self) -> str:
        return "per-image"

    def shape(self, shape: Shape) -> Shape:
        """The same shape."""
        return shape

    def apply(self, x: Block, label: Label) -> Block:
        """(x - mean(x)) / std(x), example by example."""
        axes = tuple(range(1, x.ndim))
        # The result does not depend on the scale of an example; at the scale of 1 no square over- or underflows.
        size = np.abs(x).max(axes, keepdims=True)
        scaled = x / np.where(size > 0, size, 1)
        centred = scaled - scaled.mean(axes, keepdims=True)
        std = np.sqrt(np.square(centred).mean(axes, keepdims=True))
        constant = np.flatnonzero(std <= CONSTANT)
        if constant.size:
            raise ValueError(f"{label(int(constant[0]))} is constant, but per-image needs images that are not.")
        return centred / std


@dataclass(frozen=True)
class Pad:
    """Images to 32 × 32, with zeros on all sides (an odd row or column goes to the end)."""

    def __str__(self) -> str:
        return "pad"

    def shape(self, shape: Shape) -> Shape:
        """(32, 32)."""
        if len(shape) != 2 or max(shape) > PADDED:
            raise ValueError(
                f"preprocess contains pad, which needs images of at most {PADDED}×{PADDED}, but got {described(shape)}."
            )
        return PADDED, PADDED

    def apply(self, x: Block, label: Label) -> Block:
        """Zeros around each image."""
        before = [(PADDED - side) // 2 for side in x.shape[1:]]
        return np.pad(x, [(0, 0), *((b, PADDED - side - b) for b, side in zip(before, x.shape[1:]))])


@dataclass(frozen=True)
class Pool:
    """Averages over equal cells, weighted by area: images to √E × √E cells, feature vectors to E."""

    inputs: int

    def __str__(self) -> str:
        return f"pool({self.inputs})"

    def shape(self, shape: Shape) -> Shape:
        """The shape of the cells."""
        cells = self._cells(len(shape))
        if cells is None:
            raise ValueError(
                f"preprocess contains {self}, but pooling of images needs a perfect square, such as pool(49)."
            )
        if not all(1 <= cell <= side for cell, side in zip(cells, shape)):
            raise ValueError(
                f"preprocess contains {self}, but {described(shape)} can be pooled to between 1 and "
                f"{shape[0] if len(shape) == 1 else min(shape) ** 2} inputs."
            )
        return cells

    def apply(self, x: Block, label: Label) -> Block:
        """The mean of each cell."""
        cells = self._cells(x.ndim - 1)
        assert cells is not None
        # The weights are whole numbers and there is one division: averages of pixels are rounded once.
        size = math.prod(x.shape[1:])
        for cell in reversed(cells):
            x = np.moveaxis(_sums(x, cell), -1, 1)
        return x / size

    def _cells(self, axes: int) -> Shape | None:
        if axes == 1:
            return (self.inputs,)
        side = math.isqrt(self.inputs)
        return (side, side) if side**2 == self.inputs else None


Step = Unit | Global | PerImage | Pad | Pool


def described(shape: Shape) -> str:
    """Words for the shape of an example."""
    return f"images of {shape[0]}×{shape[1]}" if len(shape) == 2 else f"vectors of {shape[0]} features"


def _sums(x: Block, cells: int) -> Block:
    # Cell i covers [i n, (i+1) n) and input j covers [j cells, (j+1) cells), in units of 1/cells of an input: the
    # overlap of the two is the input's weight. Only the few inputs that a cell meets are gathered.
    n = x.shape[-1]
    start = np.arange(cells) * n
    first, end = start // cells, -(-(start + n) // cells)
    index = first[:, None] + np.arange((end - first).max())
    low = np.maximum(start[:, None], index * cells)
    high = np.minimum(start[:, None] + n, (index + 1) * cells)
    weights = np.maximum(high - low, 0).astype(np.float64)
    return np.einsum("...ck,ck->...c", x[..., np.minimum(index, n - 1)], weights)
