"""What the statistics of a network say: how large each correction is, and where the expansion ends."""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._accuracy import AccuracyWarning
from .._activation import Activation
from .._activation import activation as _activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Dense, Network
from ..network.engine import repeated, stream_width
from ._deeper import chunks, cut_off, has_ntk, reached, strength
from ._edgeworth import Density, density, one_input
from ._known_tensors import NoRecursion
from ._one_input import Tensors
from ._statistics import NAMES, Statistics, lacking
from ._stream import stream

Source = Literal["the network's own layers", "layers flowed deeper", "a power law", "not reached"]

DEEPEST = 2048
"""Layers that are flowed to before a power law takes over."""

DEEPER, FAR = 256, 20
"""The same of blocks; and how many times as many are believed by their power law."""

# What each tensor is measured in: powers of K and of Theta.
UNITS = {"K1": (1, 0), "Theta1": (0, 1), "V": (2, 0), "D": (1, 1), "F": (1, 1), "A": (0, 2), "B": (0, 2)}
UNITS |= {"P": (0, 2), "Q": (0, 2), "R": (-1, 3), "S": (-1, 3), "T": (-1, 3), "U": (-1, 3)}


@result
class Interpretation(Result):
    """The relative sizes of all corrections, layer by layer, each of shape (L,).

    Attributes:
        sizes: each tensor X as X/n in units of the layer's K and Θ: K1/nK, Θ1/nΘ, V/nK², D/nKΘ, A/nΘ², P/nΘ², RK/nΘ³,
            …; None for one that does not exist.
        reason: why some do not exist, or None.
        coupling: V/nK², the running four-point coupling; an output's excess kurtosis is three times it.
        spread_kernel: √(V/n)/K, the relative standard deviation of a layer's kernel from network to network.
        spread_ntk: √((A + 2B)/n)/Θ, the same for a diagonal element of the NTK; None without NTK.
        strength: the largest of the two spreads squared and of the shifts |K1|/nK and |Θ1|/nΘ: what the expansion is in
            powers of.
        cutoff: the depth at which the strength reaches the limit if layers like the last hidden one, or blocks like
            those that are repeated, are added; None where it levels off below it.
        cutoff_from: where that depth comes from.
        density: of one output.
        summary: the same in words.
    """

    activation: str
    widths: tuple[int, ...]
    sizes: dict[str, Float[np.ndarray, " layers"] | None]
    coupling: Float[np.ndarray, " layers"]
    spread_kernel: Float[np.ndarray, " layers"]
    spread_ntk: Float[np.ndarray, " layers"] | None
    strength: Float[np.ndarray, " layers"]
    limit: float
    cutoff: float | None
    cutoff_from: Source
    density: Density
    summary: str
    reason: str | None = None
    made: Made

    @property
    def lacking(self) -> str:
        """What is to be said of a size that is None: that the tensor does not exist, or that it is not known."""
        return lacking(self.reason)

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"reason": None} | fields


@public
@float64
def interpret(
    stats: Statistics, *, limit: float = 1.0, activation: str | Activation | Callable[[Any], Any] | None = None
) -> Interpretation:
    """How large the corrections of `statistics` are and at which depth they stop being small.

    Roberts, Yaida, Hanin 2022, §5 and §9 do this for the leading powers of depth over width.

    Args:
        stats: from `statistics`, for one input.
        limit: the strength at which the expansion counts as broken.
        activation: needed only to flow deeper where it is the user's own function, which stats do not hold.

    >>> from neft import MLP, width
    >>> found = interpret(width.statistics(MLP(widths=(3, *(20,) * 4, 1), activation="relu", C_W=2.0), [1.0, 1.0, 1.0]))
    >>> found.coupling.round(6)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    one_input(stats)
    limit = _check.real("limit", limit, above=0.0)
    n = np.array(stats.widths[:-1], float)
    found = {name: None if value is None else np.asarray(value) for name, value in stats.tensors.items()}
    coupling = np.asarray(stats.V / (n * stats.K**2))
    sizes = strength(found, n)
    ntk = np.sqrt((stats.A + 2 * stats.B) / n) / stats.Theta if has_ntk(found) else None
    cutoff, source = _cut_off(stats, sizes, limit, activation)
    return Interpretation(
        activation=stats.activation,
        widths=stats.widths,
        sizes={name: _relative(name, found, n) for name in NAMES if name in UNITS},
        coupling=coupling,
        # Behind a norm V may be negative: the length of a stage is all but fixed there.
        spread_kernel=np.sqrt(np.maximum(coupling, 0.0)),
        spread_ntk=ntk,
        strength=sizes,
        limit=limit,
        cutoff=cutoff,
        cutoff_from=source,
        density=density(stats),
        summary=_summary(float(sizes[-1]), limit, cutoff, source, len(n)),
        reason=stats.reason,
        made=Made.by("neft.width.interpret", specification={"of": stats.made.to_dict(), "limit": limit}),
    )


def _relative(name: str, found: dict[str, Any], n: np.ndarray) -> np.ndarray | None:
    of_K, of_Theta = UNITS[name]
    if found[name] is None or (of_Theta and not has_ntk(found)):
        return None
    unit = found["K"] ** of_K
    if of_Theta:
        unit = unit * found["Theta"] ** of_Theta
    return np.asarray(found[name] / (n * unit))


def _cut_off(stats: Statistics, sizes: np.ndarray, limit: float, given: Any) -> tuple[float | None, Source]:
    within = cut_off(sizes, limit, whole=True)
    if within is not None and within <= len(sizes):
        return within, "the network's own layers"
    net, act = stats.made.specification["net"], None
    # Only of dense blocks with one activation is it known how they go on.
    if "activation" in net and (given is not None or net.get("named", True)):
        act = _activation(net["activation"] if given is None else given)
    # One layer has no hidden width to extend, and none without weights passes a signal on.
    if len(sizes) > 1 and act is not None:
        block = Dense(1, **{name: net[name][-1] for name in ("C_b", "C_W", "lambda_b", "lambda_W")})
        sizes = _deeper(act, block, stats, sizes, limit) if block.tensors().variance > 0 else sizes
    if len(sizes) > 1 and "activation" not in net:
        more = _along_blocks(net, stats)
        known, sizes = len(more) > 0, np.append(sizes, more[len(sizes) :])
        cutoff = cut_off(sizes, limit, whole=not known)
        # What grows like a logarithm has no power law.
        cutoff = None if known and cutoff is not None and cutoff > FAR * len(sizes) else cutoff
    else:
        cutoff = cut_off(sizes, limit, whole=act is None)
    if cutoff is None:
        return None, "not reached"
    return cutoff, "layers flowed deeper" if cutoff <= len(sizes) else "a power law"


def _along_blocks(record: dict[str, Any], stats: Statistics) -> np.ndarray:
    """The strength of every stage of a network with more blocks like those it repeats; nothing where it has none."""
    try:
        net = Network.from_dict(record)
        step, x = repeated(net), np.asarray(stats.made.specification["x"], float)
        first, *_ = net.blocks
        count = DEEPER // sum(block.weighs for block in step)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", AccuracyWarning)
            found = stream(first, step, (Dense(1),), float(x @ x / x.size), count)
            sizes = np.append(0.0, strength(found.stages, stream_width(step)))
    except (ValueError, NoRecursion):
        return np.empty(0)
    if len(net.blocks[1:-1]) % len(step) or net.blocks[1 : 1 + len(step)] != step:
        return np.empty(0)
    return sizes[: int(np.argmin(np.append(np.isfinite(sizes), False)))]


def _deeper(act: Activation, block: Dense, stats: Statistics, sizes: np.ndarray, limit: float) -> np.ndarray:
    last = Tensors(*(None if v is None else jnp.asarray(v[-1]) for v in stats.tensors.values()))
    for tensors, *_ in chunks(act, last, block, balanced=False):
        more = strength(
            {k: None if v is None else np.asarray(v) for k, v in tensors._asdict().items()}, stats.widths[-2]
        )
        usable = int(np.argmin(np.append(np.isfinite(more), False)))
        sizes = np.append(sizes, more[:usable])
        if usable < len(more) or reached(sizes, limit).any() or len(sizes) > DEEPEST:
            return sizes
    raise AssertionError("chunks do not end")


def _summary(strength: float, limit: float, cutoff: float | None, source: Source, depth: int) -> str:
    now = f"After {depth} layer{'s' * (depth > 1)} the largest relative correction is {strength:.3g}"
    if cutoff is None:
        return f"{now}, and more layers were not seen to bring it to {limit:g}, where the expansion ends."
    return f"{now}, and it is {limit:g}, where the expansion ends, from depth {cutoff:.0f} on (known from {source})."
