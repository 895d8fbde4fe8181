"""What depth does to the corrections of order 1/width of a network that repeats a block."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _check
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Block, Dense, Network
from ..network.engine import branched, in_words, repeated, stream_width, with_branches
from ._known_tensors import NoRecursion
from ._stream import stream

UNITS = {"V": ("K", 2), "A": ("Theta", 2), "B": ("Theta", 2), "K1": ("K", 1), "Theta1": ("Theta", 1)}
"""What a ratio is over: a tensor of infinite width and its power."""

_WORDS = {"V": "V/K²", "A": "A/Θ²", "B": "B/Θ²", "K1": "K1/K", "Theta1": "Θ1/Θ"}
_MOST = 10_000


@result
class DepthFlow(Result):
    """Ratios of order 1 whose product with 1/n are the relative corrections, against the number of blocks passed.

    All are of the stream, of the stage after that many blocks: of one input with |x|²/n_0 = q, after a dense block of
    C_W = 1 and rates of 1.

    Attributes:
        block: in words.
        scaled: whether every branch was multiplied by 1/√depth, at each depth anew.
        depth: numbers of blocks: all, or with `scaled` the last one, halves of it, and the first ones.
        K, Theta: of infinite width.
        V, A, B: V/K², A/Θ² and B/Θ²: relative variances of kernel and NTK times n.
        K1, Theta1: K1/K and Θ1/Θ, relative shifts of their means times n.
        powers: of the depth, with which the size of each ratio grows at the last depth; 0 where it is constant.
        limits: with `scaled`, what each ratio tends to as the depth grows; None without.
        errors: about how far these are from the limits; None without.
        summary: the same in words.
    """

    block: str
    scaled: bool
    depth: Int[np.ndarray, " depths"]
    K: Float[np.ndarray, " depths"]
    Theta: Float[np.ndarray, " depths"]
    V: Float[np.ndarray, " depths"]
    A: Float[np.ndarray, " depths"]
    B: Float[np.ndarray, " depths"]
    K1: Float[np.ndarray, " depths"]
    Theta1: Float[np.ndarray, " depths"]
    powers: dict[str, float]
    limits: dict[str, float] | None
    errors: dict[str, float] | None
    summary: str
    made: Made


@public
@float64
def depth_flow(
    block: Block | Sequence[Any] | Network, depth: int = 128, *, scaled: bool = False, q: float = 1.0
) -> DepthFlow:
    """How V/K², A/Θ², B/Θ², K1/K and Θ1/Θ change with the depth of a network that repeats the block.

    Its variances and rates are taken as they are. With branches of 1/√depth every ratio tends to a constant
    (docs/theory/depth, eqs. 4-10), which is found from the last three depths, errors being powers of 1/depth.

    Args:
        block: a block, a list of blocks that begins and ends at preactivations, or a network that repeats one.
        depth: the largest number of blocks.
        scaled: multiply every branch by 1/√depth, at each depth anew.
        q: mean square of an input's components, |x|²/n_0.

    >>> from neft import Residual
    >>> found = depth_flow(Residual(Dense(64, C_W=2.0), "relu", Dense(64)), 256, scaled=True)
    >>> round(found.limits["V"], 4)
    4.0
    """
    step = repeated(block)
    depth = _check.integer("depth", depth, at_least=4 if scaled else 1, at_most=_MOST)
    q = _check.real("q", q, above=0.0)
    if scaled and not branched(step):
        raise ValueError(
            f"scaled is True, but block {_check.brief(in_words(step))} has no branch beside a skip that is a number."
        )
    n = stream_width(step)
    depths = _halves(depth) if scaled else np.arange(1, depth + 1)

    def flow(step: Sequence[Block], count: int) -> dict[str, np.ndarray]:
        return stream(Dense(n), step, (Dense(1),), q, count).stages

    try:
        if scaled:
            rows = [flow(with_branches(step, 1 / int(count)), int(count)) for count in depths]
            found = {name: np.array([row[name][-1] for row in rows]) for name in rows[0]}
        else:
            found = flow(step, depth)
    except NoRecursion as reason:
        raise ValueError(f"block is {_check.brief(in_words(step))}, whose tensors are not known: {reason}.") from None
    with np.errstate(all="ignore"):
        ratios = {name: found[name] / found[unit] ** power for name, (unit, power) in UNITS.items()}
    for name, values in ratios.items():
        if not np.isfinite(values).all():
            last = int(depths[np.argmin(np.isfinite(values))])
            raise ValueError(f"depth is {depth}, but {_WORDS[name]} can be followed to less than {last} blocks only.")
    powers = {name: _power(depths, values) for name, values in ratios.items()}
    limits = {name: _limit(depths, values) for name, values in ratios.items()} if scaled else None
    return DepthFlow(
        block=in_words(step),
        scaled=scaled,
        depth=depths,
        K=found["K"],
        Theta=found["Theta"],
        **ratios,
        powers=powers,
        limits=None if limits is None else {name: value for name, (value, _) in limits.items()},
        errors=None if limits is None else {name: error for name, (_, error) in limits.items()},
        summary=_summary(ratios, powers, limits, depth),
        made=Made.by(
            "neft.width.depth_flow",
            specification={"blocks": [one.to_dict() for one in step], "depth": depth, "scaled": scaled, "q": q},
        ),
    )


def _halves(depth: int) -> np.ndarray:
    # And the first ones, where most changes.
    return np.array(sorted({depth >> k for k in range(depth.bit_length())} | set(range(1, min(8, depth // 4) + 1))))


def _power(depths: np.ndarray, values: np.ndarray) -> float:
    # Between the middle and the end; rounding has no power.
    middle = int(np.searchsorted(depths, depths[-1] / 2))
    start, end = abs(values[middle]), abs(values[-1])
    if middle == len(depths) - 1 or min(start, end) < 1e-9:
        return 0.0
    return float(math.log(end / start) / math.log(depths[-1] / depths[middle]))


def _limit(depths: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The constant of a + b/L + c/L² through the last three depths, and its distance from that of a + b/L."""
    at = 1 / depths[-3:].astype(float)
    curved, straight = (np.linalg.solve(at[-k:, None] ** np.arange(k), values[-k:])[0] for k in (3, 2))
    return float(curved), float(abs(curved - straight))


def _summary(
    ratios: dict[str, np.ndarray],
    powers: dict[str, float],
    limits: dict[str, tuple[float, float]] | None,
    depth: int,
) -> str:
    if limits is not None:
        known = ", ".join(f"{_WORDS[name]} → {limits[name][0]:.4g}" for name in ("V", "A", "B"))
        return f"With branches of 1/√L, as the depth L grows, {known}: corrections stay of order 1/width."
    known = ", ".join(
        f"{_WORDS[name]} is {ratios[name][-1]:.4g} and goes like the depth to the power {powers[name]:.2f}"
        for name in ("V", "A", "B")
    )
    return f"After {depth} blocks {known}."
