"""Advice on a network that repeats a block: its variances, its kernels, and what is known at finite width."""

import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from .. import _check
from .._result import Made, Result, result
from ..network import Dense, Network
from ..network.engine import Variances, in_words, stream_width
from ._block_start import BlockStart, Kind, block_start
from ._critical import CriticalPoint
from ._deeper import reached, strength
from ._statistics import statistics
from ._step import Step
from ._stream import outputs as outputs_of
from ._subject import Subject

Verdict = Literal["fine", "strained", "too deep", "not known"]

FINE, BROKEN = 0.1, 1.0
"""Relative corrections below the first are small; at the second the expansion, and the network's reliability, end."""

_MOST_BLOCKS = 1000
_MEMORY = (
    5.0  # e-folds of the difference of two inputs after which little is left of it, or of what they have in common
)


@result
class BlockAdvice(Result):
    """Advice on a dense block, `depth - 2` times the same block and a dense one that reads it out; so says `summary`.

    Rates are those of the block as given, 1 by default. Spreads are relative standard deviations over networks drawn
    at random. None stands for what is not known.

    Attributes:
        activation: the repeated block in words.
        dense: which of its dense blocks have the variances.
        C_b, C_W: variance of a bias, and of a weight times its fan-in, of those dense blocks.
        kind: "critical"; "edge of chaos" (χ_⊥ = 1 only, where norms fix χ_∥); with a skip of 1 "small branches"
            (χ_⊥ = 1 + 1/blocks at the first) or, with norms in the branches, "free"; or "given".
        why: where the variances come from.
        K_star: the fixed point; None where every K is one, where there is none, or where it is not known.
        others: other critical points of the block.
        specification: the network that is advised, as `network` makes it.
        K: variance of a preactivation at infinite width, before the first of the repeated blocks and after each.
        Theta: the NTK of the output there.
        parallel, perpendicular: χ_∥ and χ_⊥ of each of the repeated blocks.
        difference: the factor by which 1 - correlation of two near inputs grows through all repeated blocks.
        spread_output: √(V/n)/K of the variance of the output.
        spread_ntk: √((A + 2B)/n)/Θ of a diagonal element of the NTK.
        strength: the largest relative correction at this depth and width.
        width_needed: the width at which the strength is below 0.1 at this depth.
        verdict: "fine" (strength below 0.1), "strained", "too deep" (1 or more, or more than five e-folds of the
            difference), or "not known".
    """

    activation: str
    dense: str
    depth: int
    width: int
    inputs: int
    outputs: int
    q: float
    C_b: float
    C_W: float
    kind: Kind
    why: str
    K_star: float | None
    others: tuple[CriticalPoint, ...]
    specification: dict[str, Any]
    K: Float[np.ndarray, " stages"]
    Theta: float
    parallel: Float[np.ndarray, " blocks"]
    perpendicular: Float[np.ndarray, " blocks"]
    difference: float
    spread_output: float | None
    spread_ntk: float | None
    strength: float | None
    width_needed: int | None
    verdict: Verdict
    summary: str
    made: Made

    def network(self) -> Network:
        """The network that is advised; one with a user's own blocks or functions cannot be made from its record."""
        return Network.from_dict(self.specification)

    def _shown(self):
        yield from ((name, value) for name, value in super()._shown() if name != "specification")


def advise_block(
    of: Subject,
    step: Step,
    given: Any,
    dense: int | None,
    depth: int,
    width: int,
    *,
    inputs: int,
    outputs: int,
    q: float,
    C_b: Any,
    C_W: Any,
    point: int,
) -> BlockAdvice:
    """What `advise` says of a repeated block."""
    depth = _check.integer("depth", depth, at_least=3, at_most=_MOST_BLOCKS)
    count = depth - 2
    chosen = block_start(given, step, dense, C_b, C_W, point, K=q, count=count)
    first = (chosen.K_star or q) / q
    net = _network(step, chosen, count, width, inputs=inputs, outputs=outputs, first=first)
    x = np.full(inputs, math.sqrt(q))
    K = _along(step, chosen, q * first, count)
    at = step.slopes(K[:-1], chosen.C_b, chosen.C_W)
    difference = float(np.prod(at.perpendicular * K[:-1] / K[1:]))
    numbers, unknown = _finite(net, x, count, width, first)
    inside = net.blocks[1 : 1 + len(step.blocks)]
    name, which = in_words(inside), Variances(inside, dense).which
    verdict = _verdict(numbers["strength"], difference)
    spread = {name: numbers[name] for name in ("spread_output", "spread_ntk", "strength")}
    size = numbers["strength"]
    return BlockAdvice(
        activation=name,
        dense=which,
        depth=depth,
        width=width,
        inputs=inputs,
        outputs=outputs,
        q=q,
        C_b=chosen.C_b,
        C_W=chosen.C_W,
        kind=chosen.kind,
        why=chosen.why,
        K_star=chosen.K_star,
        others=chosen.others,
        specification=net.to_dict(),
        K=K,
        Theta=float(statistics(net, x, only=("K", "Theta")).Theta[-1]),
        parallel=at.parallel,
        perpendicular=at.perpendicular,
        difference=difference,
        **spread,
        width_needed=None if size is None else math.floor(width * size / FINE * (1 + 2e-9)) + 1,
        verdict=verdict,
        summary=_summary(name, which, chosen, count, width, first, verdict, difference, numbers, unknown),
        made=Made.by(
            "neft.width.advise",
            specification=of.record
            | {"depth": depth, "width": width, "inputs": inputs, "outputs": outputs, "q": q}
            | {"C_b": C_b, "C_W": C_W, "point": point},
        ),
    )


def _network(
    step: Step, chosen: BlockStart, count: int, width: int, *, inputs: int, outputs: int, first: float
) -> Network:
    blocks = step.variances.put(chosen.C_b, chosen.C_W)
    own = stream_width(blocks)
    net = Network(inputs, [Dense(own, C_W=first), *blocks * count, Dense(outputs)])
    return net if own == width else net.resized(lambda n: round(n * width / own))


def _along(step: Step, chosen: BlockStart, K: float, count: int) -> np.ndarray:
    found = [K]
    for _ in range(count):
        found.append(float(step.value(found[-1], chosen.C_b, chosen.C_W)))
        if not 1e-100 < found[-1] < 1e100:
            raise ValueError(
                f"K is {found[-1]:.3g} after block {len(found) - 1}: take other variances, or fewer blocks."
            )
    return np.array(found)


def _finite(net: Network, x: np.ndarray, count: int, width: int, first: float) -> tuple[dict[str, Any], str]:
    """The relative sizes of what fluctuates, and why they are not known where they are not."""
    nothing = {"spread_output": None, "spread_ntk": None, "strength": None}
    step = net.blocks[1 : 1 + (len(net.blocks) - 2) // count]
    found = outputs_of(step, width, float(x @ x / len(x)), net.blocks[0], net.blocks[-1], count)
    if found is None:
        wanted = ("K", "Theta", "V", "A", "B", "K1", "Theta1")
        stats = statistics(net, x, only=wanted)
        if any(stats.tensors[name] is None for name in wanted):
            return nothing, stats.reason or "its blocks have no recursion of it"
        found = {name: float(stats.tensors[name][-1]) for name in wanted}  # type: ignore[index]
    n = width
    return {
        "spread_output": math.sqrt(max(found["V"], 0.0) / n) / found["K"],
        "spread_ntk": math.sqrt((found["A"] + 2 * found["B"]) / n) / found["Theta"],
        "strength": float(strength({name: np.array([value]) for name, value in found.items()}, n)[0]),
    }, ""


def _verdict(size: float | None, difference: float) -> Verdict:
    if (size is not None and reached(size, BROKEN)) or not abs(math.log(max(difference, 1e-300))) <= _MEMORY:
        return "too deep"
    if size is None:
        return "not known"
    return "strained" if reached(size, FINE) else "fine"


def _summary(
    name: str,
    which: str,
    chosen: BlockStart,
    count: int,
    width: int,
    first: float,
    verdict: Verdict,
    difference: float,
    numbers: dict[str, Any],
    unknown: str,
) -> str:
    """Three sentences: what to do, what to expect at infinite width, what at this one."""
    draw = (
        f"Draw the biases of {which}, in each of the {count} blocks {name}, from Gaussians of variance "
        f"{chosen.C_b:.6g} and the weights from Gaussians of variance {chosen.C_W:.6g}/fan-in ({chosen.why}), those of "
        f"the first dense block from Gaussians of variance {first:.6g}/fan-in and those of the last of 1/fan-in."
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
        f"spreads by {100 * numbers['spread_output']:.2g} % from network to network and its NTK by "
        f"{100 * numbers['spread_ntk']:.2g} %, and the largest relative correction is {numbers['strength']:.2g}."
    )
    return f"{draw} {infinite} {finite}"
