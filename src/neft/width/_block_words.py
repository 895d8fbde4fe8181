"""What is said of a network that repeats a block."""

import math
from collections.abc import Sequence
from typing import Any

from .._percent import percent, two_digits
from ._block_start import BlockStart

FINE, BROKEN = 0.1, 1.0
"""Relative corrections below the first are small; at the second the expansion, and the network's reliability, end."""


def summary(
    name: str,
    which: str,
    chosen: BlockStart,
    count: int,
    width: int,
    first: float,
    verdict: str,
    difference: float,
    numbers: dict[str, Any],
    unknown: str,
    rates: Sequence[float],
    readout: str,
) -> str:
    """Three sentences: what to do, what to expect at infinite width, what at this one."""
    draw = (
        f"Draw the biases of {which}, in each of the {count} blocks {name}, from Gaussians of variance "
        f"{chosen.C_b:.6g} and the weights from Gaussians of variance {chosen.C_W:.6g}/fan-in ({chosen.why}), those of "
        f"the first dense block from Gaussians of variance {first:.6g}/fan-in and those of the last{readout} of "
        "1/fan-in"
    )
    draw += (
        f", and train all of them at one rate, {rates[0]:.2g} with gradient descent or {rates[1]:.2g} with Adam."
        if rates
        else "."
    )
    infinite = (
        f"At infinite width the difference of two near inputs, relative to their size, is {difference:.3g} times as "
        "large after the blocks as before them."
    )
    if numbers["strength"] is None:
        deep = ", so it is too deep" if verdict == "too deep" else ""
        return (
            f"{draw} {infinite[:-1]}{deep}. How much networks of width {width} differ from one another is not known: "
            f"{unknown}."
        )
    finite = (
        f"Depth {count + 2} at width {width} is {verdict}: at the rates of the blocks as given the output's variance "
        f"spreads by {percent(numbers['spread_output'])} from network to network and its NTK by "
        f"{percent(numbers['spread_ntk'])}, the largest relative correction is {two_digits(numbers['strength'])} and "
        f"{_end(numbers['cutoff'], count + 2)}{_help(numbers['branch_scale'], count)}."
    )
    return f"{draw} {infinite} {finite}"


def _end(cutoff: float | None, depth: int) -> str:
    if cutoff is None:
        return f"was not seen to grow to {BROKEN:g}, where the expansion ends, with more blocks"
    verb = "passed" if cutoff <= depth else "grows to"
    return f"{verb} {BROKEN:g}, where the expansion ends, at depth {cutoff:.0f}"


def _help(scale: float | None, count: int) -> str:
    if scale is None:
        return ""
    return (
        f"; with skips of 1 and branches multiplied by {scale:.2g}, which is {scale * math.sqrt(count):.2g}/√{count}, "
        f"it would be {FINE:g}"
    )
