"""Preprocessing by name: text such as "pool(49)+global" becomes steps, and steps run over the data in blocks."""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from .. import _blocks, _check
from ._sources import of
from ._steps import CONSTANT, Global, Pad, PerImage, Pool, Shape, Step, Unit

_NAMES = ("none", "unit", "global", "per-image", "pad", "pool(E)")
_SIMPLE: dict[str, Step] = {str(step): step for step in (Unit(), Global(), PerImage(), Pad())}
_POOL = re.compile(r"pool\( *([0-9]{1,9}) *\)")

_BUDGET = _blocks.BUDGET // 8
"""Bytes for one block: more would leave the processor's caches and be slower."""


def parse(text: str) -> tuple[Step, ...]:
    """The steps that `text` names, in order; "none" is no step.

    >>> [str(step) for step in parse("pool(49)+global")]
    ['pool(49)', 'global']
    """
    if not isinstance(text, str):
        raise ValueError(f"preprocess is {_check.brief(text)}, but must be text, such as 'unit' or 'pool(49)+global'.")
    steps: list[Step] = []
    for piece in (piece.strip() for piece in text.split("+")):
        if pool := _POOL.fullmatch(piece):
            steps.append(Pool(int(pool[1])))
        elif piece in _SIMPLE:
            steps.append(_SIMPLE[piece])
        elif piece != "none":
            _check.one_of("preprocess", piece, _NAMES)
            raise ValueError(f"preprocess is {text!r}, but pool(E) needs a number, such as pool(49).")
    kinds = [type(step) for step in steps]
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"preprocess is {text!r}, but each step may be given once.")
    if Unit in kinds and {Global, PerImage} & set(kinds[: kinds.index(Unit)]):
        raise ValueError(f"preprocess is {text!r}, but unit is for raw pixels and must come before standardisation.")
    return tuple(steps)


def canonical(steps: Sequence[Step]) -> str:
    """The steps as text that `parse` reads."""
    return "+".join(map(str, steps)) or "none"


def shapes(steps: Sequence[Step], raw: np.ndarray) -> list[Shape]:
    """The shape of an example before the steps and after each; ValueError where a step cannot work on such data."""
    if raw.dtype != np.uint8 and any(isinstance(step, Unit) for step in steps):
        raise ValueError(f"preprocess contains unit, which needs pixels of type uint8, but x is of type {raw.dtype}.")
    result: list[Shape] = [raw.shape[1:]]
    for step in steps:
        result.append(step.shape(result[-1]))
    return result


def fit(steps: Sequence[Step], raw: np.ndarray, split: str) -> tuple[Step, ...]:
    """The steps with the numbers of `global` taken from `raw`, the training split, as the steps before have left it."""
    return tuple(
        step.fitted(*_moments(steps[:place], raw, split)) if isinstance(step, Global) else step
        for place, step in enumerate(steps)
    )


def run(steps: Sequence[Step], raw: np.ndarray, split: str, dtype: np.dtype) -> Float[np.ndarray, "count features"]:
    """The raw data after the steps, flattened to count × features."""
    out = np.empty((len(raw), math.prod(shapes(steps, raw)[-1])), dtype)
    for block, x in _transformed(steps, raw, split):
        with np.errstate(over="ignore"):  # what overflows is refused in words
            out[block] = x.reshape(len(x), -1)
        if not np.isfinite(out[block]).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(out[block]))[0])
            raise ValueError(
                f"example {block.start + row}{of(split)} is not finite at feature {column} after preprocess "
                f"{canonical(steps)!r}, but must fit into dtype {dtype}."
            )
    return out


def _moments(steps: Sequence[Step], raw: np.ndarray, split: str) -> tuple[float, float]:
    # Each block's mean and sum of squares about it are merged (Chan, Golub, LeVeque), which cancels nothing.
    count, mean, squares, size = 0, 0.0, 0.0, 0.0
    for _, x in _transformed(steps, raw, split):
        with np.errstate(over="ignore", invalid="ignore"):
            here = float(x.mean())
            within = float(np.square(x - here).sum())
        shift, total = here - mean, count + x.size
        squares += within + shift * shift * count * (x.size / total)
        mean += shift * (x.size / total)
        count, size = total, max(size, float(np.abs(x).max()))
    std = math.sqrt(squares / count)
    if not math.isfinite(std):
        raise ValueError(f"x{of(split)} holds values up to {size:g}, which are too large for preprocess 'global'.")
    if std <= CONSTANT * size:
        raise ValueError(f"all values of x{of(split)} are equal, but preprocess 'global' needs different ones.")
    return mean, std


def _transformed(steps: Sequence[Step], raw: np.ndarray, split: str) -> Iterator[tuple[slice, np.ndarray]]:
    # A step holds its input, its output and about as much again.
    largest = max(math.prod(shape) for shape in shapes(steps, raw))
    size = _blocks.block_size(4 * 8 * largest, len(raw), budget=_BUDGET)
    for block in _blocks.blocks(len(raw), size, label=f"preprocessing {split}"):
        x = raw[block].astype(np.float64)
        for step in steps:
            with np.errstate(over="ignore", invalid="ignore"):
                x = step.apply(x, lambda index, start=block.start: f"image {start + index}{of(split)}")
        yield block, x
