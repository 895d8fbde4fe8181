"""An advised network in a parameterization by name: its groups of parameters at the advised size, or at another.

At the size of the advice every parameterization is the network as advised, with multipliers of 1, so that models and
programs stay what they are; they differ in what becomes of its numbers at another size, which `transfer` says.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ..network import Network, Residual
from ..network.engine import Weights, norms_learn, step_length, weights_of
from ..width.results import Advice, BlockAdvice, Group, Settings
from ._transfer import KINDS, OF_DEPTH, OPTIMIZERS, QUANTITIES, Kind, Transfer, transfer


@result
class Parameterization(Result):
    """What each group of parameters has at a width and a depth: z = multiplier · W σ(z) with Var W = variance.

    Attributes:
        kind: the parameterization.
        s: the exponent of Yaida's family; None for the others.
        activation: of the advised network, or its repeated block in words.
        width: that of the advice, and the one that the numbers are for.
        depth: likewise; layers, or of a repeated block the blocks with the first and the last.
        groups: of parameters, along the arrays; of a branch of several dense blocks these are numbered.
        multiplier: of what the weights give; of norms and biases of themselves.
        variance: of the initial numbers; NaN for norms, whose gains start at 1 and whose biases at 0.
        rate: learning rate.
        decay: weight decay, which is multiplied by the rate.
        epsilon: ε of Adam.
        powers_width, powers_depth: how the numbers go with the width and with the number of residual blocks.
        branch: what the output of every residual branch is multiplied by, beside what the network itself has.
        power_branch: how that goes with the number of blocks.
        source: where the powers come from.
        kinds: the names that there are.
    """

    kind: Kind
    optimizer: str
    s: float | None
    activation: str
    width: tuple[int, int]
    depth: tuple[int, int]
    groups: tuple[str, ...]
    multiplier: Float[np.ndarray, " groups"]
    variance: Float[np.ndarray, " groups"]
    rate: Float[np.ndarray, " groups"]
    decay: Float[np.ndarray, " groups"]
    epsilon: Float[np.ndarray, " groups"]
    powers_width: dict[str, Float[np.ndarray, " groups"]]
    powers_depth: dict[str, Float[np.ndarray, " groups"]]
    branch: float
    power_branch: float
    source: str
    made: Made
    kinds: ClassVar[tuple[str, ...]] = KINDS


class _Row(NamedTuple):
    """A group: its name, what it is called in `transfer`, the variance and what the optimizer is given."""

    name: str
    group: str
    variance: float
    given: Group


@public
def parameterize(
    advice: Advice | BlockAdvice,
    kind: str,
    *,
    optimizer: str = "sgd",
    width: int | None = None,
    depth: int | None = None,
    s: float | None = None,
) -> Parameterization:
    """Multiplier, variance, rate, weight decay and ε of every group of an advised network, at its size or another.

    Args:
        advice: what `neft.width.advise` gave.
        kind: "standard", "ntk", "mup", "depth-mup", "completep" or "yaida"; see `transfer`.
        optimizer: "sgd", "momentum", "adam" or "adamw".
        width: of the network that is wanted; by default that of the advice.
        depth: likewise. Only "depth-mup" and "completep" say what it changes.
        s: of "yaida", from 0 to 1.

    >>> from neft.width import advise
    >>> found = parameterize(advise("relu", depth=4, width=64), "mup", optimizer="adamw", width=512)
    >>> found.groups[2], float(found.rate[2] / found.rate[0])
    ('hidden weights', 0.125)
    """
    name, optimizer = _check.one_of("kind", kind, KINDS), _check.one_of("optimizer", optimizer, OPTIMIZERS)
    width = advice.width if width is None else _check.integer("width", width, at_least=1)
    # Its own depth is always allowed: one layer or two have no hidden ones between.
    depth = advice.depth if depth is None else _check.integer("depth", depth, at_least=min(3, advice.depth))
    net = advice.network() if isinstance(advice, BlockAdvice) or advice.named else advice.network(_unnamed)
    _check_depth(advice, net, name, depth)
    rows = _rows(advice, net, advice.settings(optimizer))

    def factors(wide: tuple[int, int], deep: tuple[int, int]) -> tuple[Transfer, dict[str, np.ndarray]]:
        one = transfer(name, optimizer=optimizer, width=wide, depth=deep, s=s)
        at = [one.groups.index(row.group) for row in rows]
        return one, {quantity: getattr(one, quantity)[at] for quantity in QUANTITIES}

    blocks = (advice.depth - 2, depth - 2) if name in OF_DEPTH else (1, 1)
    found, times = factors((advice.width, width), blocks)
    own = {
        "multiplier": np.ones(len(rows)),
        "variance": np.array([row.variance for row in rows]),
        "rate": np.array([row.given.rate for row in rows]),
        "decay": np.array([row.given.decay for row in rows]),
        "epsilon": np.array([row.given.epsilon for row in rows]),
    }
    powers: list[dict[str, Any]] = []
    for wide, deep in (((1, 4), (1, 1)), ((1, 1), (1, 4) if name in OF_DEPTH else (1, 1))):
        # Powers are those of a factor 4, whose roots are exact.
        powers.append({quantity: np.log2(four) / 2 for quantity, four in factors(wide, deep)[1].items()})
    return Parameterization(
        kind=found.kind,
        optimizer=optimizer,
        s=s,
        activation=advice.activation,
        width=(advice.width, width),
        depth=(advice.depth, depth),
        groups=tuple(row.name for row in rows),
        **{quantity: own[quantity] * times[quantity] for quantity in QUANTITIES},
        powers_width=powers[0],
        powers_depth=powers[1],
        branch=found.branch,
        power_branch=-OF_DEPTH.get(name, 0.0),
        source=found.source,
        made=Made.by(
            "neft.scaling.parameterize",
            specification={"kind": name, "optimizer": optimizer, "width": width, "depth": depth, "s": s},
        ),
    )


def _unnamed(z: Any) -> Any:
    return z


def _check_depth(advice: Advice | BlockAdvice, net: Network, kind: str, depth: int) -> None:
    if advice.depth == 1:
        raise ValueError("depth is 1, but parameterizations say how hidden layers scale, so it must be at least 2.")
    if kind in OF_DEPTH and not any(isinstance(block, Residual) for block in net.blocks):
        raise ValueError(f"kind is {kind!r}, which scales residual branches, but the advised network has none.")
    if depth != advice.depth and kind not in OF_DEPTH:
        raise ValueError(f"depth is {depth}, but kind {kind!r} says nothing of depth: take the advice for that depth.")


def _rows(advice: Advice | BlockAdvice, net: Network, chosen: Settings) -> list[_Row]:
    layers, count = weights_of(net), advice.depth - 2
    found = _dense("input", layers[0], chosen, 0)
    inside = (len(layers) - 2) // count if count else 0
    for i in range(1, inside + 1):
        found += _dense("hidden", layers[i], chosen, i, "" if inside == 1 else f" {i}")
    if isinstance(advice, BlockAdvice) and chosen.norms is not None:
        end = 1 + step_length(net, count) * count
        for name, blocks in (("hidden norms", net.blocks[1:end]), ("last norm", net.blocks[end:-1])):
            if norms_learn(blocks):
                found.append(_Row(name, name, np.nan, chosen.norms))
    return found + _dense("output", layers[-1], chosen, -1)


def _dense(place: str, layer: Weights, chosen: Settings, l: int, number: str = "") -> list[_Row]:
    found = [_Row(f"{place} weights{number}", f"{place} weights", layer.variance_W, chosen.weights[l])]
    biases = chosen.biases[l]
    if biases is not None:
        found.append(_Row(f"{place} biases{number}", f"{place} biases", layer.variance_b, biases))
    return found
