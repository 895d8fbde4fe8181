"""Advice on a network that repeats a block: its variances, its kernels, and what is known at finite width."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq

from .. import _check
from .._accuracy import AccuracyWarning
from .._result import Made, Result, result
from ..network import Block, Dense, Division, Network, Residual
from ..network.engine import (
    Variances,
    branched,
    in_words,
    norms_learn,
    stream_width,
    weights_alone,
    weights_of,
    with_branches,
    without_biases,
)
from ._apply import applied
from ._block_program import block_program
from ._block_start import BlockStart, Kind, block_start
from ._block_words import BROKEN, FINE, summary
from ._critical import CriticalPoint
from ._deeper import CHUNK, cut_off, reached, strength
from ._known_tensors import NoRecursion
from ._settings import Settings, block_settings
from ._statistics import statistics
from ._step import Step
from ._stream import Stream, stream
from ._subject import Subject
from ._trial import Tried

Verdict = Literal["fine", "strained", "too deep", "not known"]

_MOST_BLOCKS = 1000
_SEEN = 20  # times as many blocks as were followed are believed by their power law
_MEMORY = (
    5.0  # e-folds of the difference of two inputs after which little is left of it, or of what they have in common
)


@result
class BlockAdvice(Tried, Result):
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
        specification: the network that is advised, as `network` makes it; norms that stand before the last dense block
            of a network that was given are in it and in Θ, but not in the spreads and the strength.
        fan_in, count, share: of each kind of dense block (the first, those of the repeated block, the last) how many
            inputs it has, how many of it there are, and the part of all of them in the NTK of an output at λ_W = 1;
            rates follow from them. Empty where blocks are a user's own.
        K: variance of a preactivation at infinite width, before the first of the repeated blocks and after each.
        Theta: the NTK of the output there.
        parallel, perpendicular: χ_∥ and χ_⊥ of each of the repeated blocks.
        difference: the factor by which 1 - correlation of two near inputs grows through all repeated blocks.
        spread_output: √(V/n)/K of the variance of the output.
        spread_ntk: √((A + 2B)/n)/Θ of a diagonal element of the NTK.
        strength: the largest relative correction at this depth and width.
        cutoff: the depth at which the strength is 1 if blocks like these are added; None where it was not seen to get
            there, as with norms in the branches.
        comfortable: the largest depth at which it is below 0.1; None where it always is.
        width_needed: the width at which the strength is below 0.1 at this depth.
        branch_scale: where the strength is not below 0.1, the factor for the output of every branch, the skips being 1,
            with which it is; None where it is, where no factor does it, or where there are no branches.
        curve_strength: the strength at this width after 1, 2, … blocks, as many as the network has, or more.
        verdict: "fine" (strength below 0.1), "strained", "too deep" (1 or more, where the expansion does not hold, or
            more than five e-folds of the difference), or "not known".
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
    fan_in: Int[np.ndarray, " kinds"]
    count: Int[np.ndarray, " kinds"]
    share: Float[np.ndarray, " kinds"]
    K: Float[np.ndarray, " stages"]
    Theta: float
    parallel: Float[np.ndarray, " blocks"]
    perpendicular: Float[np.ndarray, " blocks"]
    difference: float
    spread_output: float | None
    spread_ntk: float | None
    strength: float | None
    cutoff: float | None
    comfortable: int | None
    width_needed: int | None
    branch_scale: float | None
    curve_strength: Float[np.ndarray, " deeper"]
    verdict: Verdict
    summary: str
    made: Made

    def network(self) -> Network:
        """The network that is advised; one with a user's own blocks or functions cannot be made from its record."""
        return Network.from_dict(self.specification)

    def settings(self, optimizer: str = "sgd") -> Settings:
        """What to train it with: "sgd", "momentum", "adam" or "adamw", and the rate of every layer (docs/advice).

        >>> from neft import Dense, LayerNorm, Residual
        >>> from neft.width import advise
        >>> block = Residual(LayerNorm(), Dense(64), "relu", Dense(64))
        >>> advise(block, depth=6, width=64, inputs=784, outputs=10).settings("adamw").rate_W[0].round(6)
        np.float64(0.000369)
        """
        if not len(self.share):
            raise ValueError(
                "no rates are known: the network holds blocks of one's own, or the advice comes from an older file."
            )
        net = self._network()
        biases = [layer.biases for layer in weights_of(net)]
        norms = norms_learn(net.blocks)
        entering = self.inputs * self.q
        return block_settings(
            optimizer, self.fan_in, self.count, self.share, entering=entering, biases=biases, norms=norms
        )

    def code(self, framework: str = "jax", *, optimizer: str | Settings = "sgd") -> str:
        """A program that makes the model and its optimizer, where the repeated block is one residual block.

        Between the blocks and the last dense layer stand the norms that a given network has there, and nothing else.

        Args:
            framework: "jax" or "equinox", "flax" or "torch".
            optimizer: "sgd", "momentum", "adam" or "adamw"; or settings that were changed group by group.
        """
        return block_program(self._network(), self.depth - 2, framework, self._chosen(optimizer))

    def apply(
        self, model: Any, *, params: Any = None, optimizer: str | Settings = "sgd", key: Any = None
    ) -> tuple[Any, Any]:
        """The model with weights as advised, and its optimizer with the rates of `settings`.

        Args:
            model: an Equinox module, of which a new one is returned; a flax.linen module, of which new variables are;
                or a PyTorch module, which is changed itself. Its dense layers must have the sizes of the advice;
                beside them there may be norms, whose gains become 1 and whose biases 0; they must have neither where
                those of the advice do not learn.
            params: the variables of a flax.linen module, that `init` gave; for others None.
            optimizer: "sgd", "momentum", "adam" or "adamw"; or settings that were changed group by group.
            key: of the weights, `jax.random.key(0)` by default.
        """
        key = jax.random.key(0) if key is None else _check.key("key", key)
        return applied(model, params, weights_of(self._network()), self._chosen(optimizer), key)

    def _network(self) -> Network:
        """The network, with users' own functions where this was not loaded from a file."""
        return vars(self).get("_tried") or self.network()

    def _shown(self):
        hidden = ("specification", "curve_strength", "fan_in", "count", "share")
        yield from ((name, value) for name, value in super()._shown() if name not in hidden)

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        nothing = {"fan_in": np.empty(0, int), "count": np.empty(0, int), "share": np.empty(0)}
        absent = {"cutoff": None, "comfortable": None, "branch_scale": None, "curve_strength": np.empty(0)}
        return absent | nothing | fields


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
    closing: Sequence[Block],
) -> BlockAdvice:
    """What `advise` says of a repeated block."""
    depth = _check.integer("depth", depth, at_least=3, at_most=_MOST_BLOCKS)
    count = depth - 2
    chosen = block_start(given, step, dense, C_b, C_W, point, K=1.0, count=count)
    # Where no size is special the stream starts at 1, whatever the inputs are.
    first = (1.0 if chosen.kind == "free" else chosen.K_star or 1.0) / q
    ends = _ends(given)
    net = _network(step, chosen, count, width, closing, ends, inputs=inputs, outputs=outputs, first=first)
    _refuse_biases(net, given, name=in_words(step.blocks))
    x = np.full(inputs, math.sqrt(q))
    K = _along(step, chosen, q * first, count)
    at = step.slopes(K[:-1], chosen.C_b, chosen.C_W)
    difference = float(np.prod(at.perpendicular * K[:-1] / K[1:]))
    inside = net.blocks[1 : 1 + len(step.blocks)]
    numbers, unknown = _finite(net.blocks[0], inside, (*closing, net.blocks[-1]), q, count, width)
    name, which = in_words(inside), Variances(inside, dense).which
    verdict = _verdict(numbers["strength"], difference)
    size, shares = numbers["strength"], _shares(net, x, count)
    rates = [
        float(block_settings(name, *shares.values(), entering=inputs * q).rate_W[0])
        for name in ("sgd", "adam")
        if len(shares["share"])
    ]
    found = BlockAdvice(
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
        **shares,
        K=K,
        Theta=float(statistics(net, x, only=("K", "Theta")).Theta[-1]),
        parallel=at.parallel,
        perpendicular=at.perpendicular,
        difference=difference,
        **numbers,
        width_needed=None if size is None else math.floor(width * size / FINE * (1 + 2e-9)) + 1,
        verdict=verdict,
        summary=summary(
            *(name, which, chosen, count, width, first, verdict, difference, numbers, unknown, rates),
            readout=_behind(inside, closing),
        ),
        made=Made.by(
            "neft.width.advise",
            specification=of.record
            | {"depth": depth, "width": width, "inputs": inputs, "outputs": outputs, "q": q}
            | {"C_b": C_b, "C_W": C_W, "point": point},
        ),
    )
    # Users' own functions are in no record.
    vars(found)["_tried"] = net
    return found


def _behind(step: Sequence[Block], closing: Sequence[Block]) -> str:
    """What is said of norms before the last dense block: which there are, or that there is none where branches have."""
    if closing:
        return f", behind {in_words(closing)},"
    inside = [one for block in step if isinstance(block, Residual) for one in block.branch]
    return ", with no norm before it," if any(isinstance(one.tensors(), Division) for one in inside) else ""


def _network(
    step: Step,
    chosen: BlockStart,
    count: int,
    width: int,
    closing: Sequence[Block],
    ends: tuple[float, float],
    *,
    inputs: int,
    outputs: int,
    first: float,
) -> Network:
    blocks = step.variances.put(chosen.C_b, chosen.C_W)
    own, (one, two) = stream_width(blocks), ends
    dense = Dense(own, C_W=first, lambda_b=one), Dense(outputs, lambda_b=two)
    net = Network(inputs, [dense[0], *blocks * count, *closing, dense[1]])
    return net if own == width else net.resized(lambda n: round(n * width / own))


def _ends(given: Any) -> tuple[float, float]:
    """Rates of the biases of the first and the last dense block: 0 where those of a given network have none."""
    if not isinstance(given, Network):
        return 1.0, 1.0
    one, two = (
        0.0 if isinstance(given.blocks[i], Dense) and without_biases(Network(1, [given.blocks[i]])) else 1.0
        for i in (0, -1)
    )
    return one, two


def _refuse_biases(net: Network, given: Any, *, name: str) -> None:
    """A network without biases, of which the advice would be to draw them."""
    if isinstance(given, Network) and without_biases(given) and not without_biases(net):
        raise ValueError(
            f"activation is a network without biases, but {name} is advised with some: add them, or give C_b = 0 and a "
            "C_W."
        )


def _shares(net: Network, x: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Of each kind of dense block what its weights add to the NTK, which is linear in the rates."""
    try:
        each = weights_of(net)
    except ValueError:
        return {"fan_in": np.empty(0, int), "count": np.empty(0, int), "share": np.empty(0)}
    size = (len(each) - 2) // count
    kinds = [[0], *([1 + i + size * b for b in range(count)] for i in range(size)), [len(each) - 1]]
    Theta = [statistics(weights_alone(net, kind), x, only=("K", "Theta")).Theta[-1] for kind in kinds]
    return {
        "fan_in": np.array([each[kind[0]].fan_in for kind in kinds]),
        "count": np.array([len(kind) for kind in kinds]),
        "share": np.array(Theta, float),
    }


def _along(step: Step, chosen: BlockStart, K: float, count: int) -> np.ndarray:
    found = [K]
    for _ in range(count):
        found.append(float(step.value(found[-1], chosen.C_b, chosen.C_W)))
        if not 1e-100 < found[-1] < 1e100:
            raise ValueError(
                f"K is {found[-1]:.3g} after block {len(found) - 1}: take other variances, or fewer blocks."
            )
    return np.array(found)


def _finite(
    first: Block, step: Sequence[Block], readout: Sequence[Block], q: float, count: int, n: int
) -> tuple[dict[str, Any], str]:
    """The relative sizes of what fluctuates, and why they are not known where they are not."""
    try:
        found = stream(first, step, readout, q, count)
        if all(act.named for act in Network(1, [first, *step, *readout]).activations):
            # More blocks than there are show where it goes, and cost nothing up to this.
            found = _quietly(first, step, readout, q, max(count, CHUNK))
    except NoRecursion as reason:
        nothing = ("spread_output", "spread_ntk", "strength", "cutoff", "comfortable", "branch_scale")
        return dict.fromkeys(nothing) | {"curve_strength": np.empty(0)}, str(reason)
    outputs = found.outputs
    with np.errstate(all="ignore"):
        sizes = strength(outputs, n)
    sizes = sizes[: int(np.argmin(np.append(np.isfinite(sizes), False)))]
    # With a user's own function only the last one is there.
    at = count - 1 if len(outputs["K"]) > 1 else 0
    if len(sizes) <= at:
        raise ValueError(f"depth is {count + 2}, but the tensors can be followed to depth {len(sizes) + 2} only.")
    V, A, B, K, Theta = (float(outputs[name][at]) for name in ("V", "A", "B", "K", "Theta"))
    cutoff, comfortable = (_depth(sizes, limit) for limit in (BROKEN, FINE))
    return {
        "spread_output": math.sqrt(max(V, 0.0) / n) / K,
        "spread_ntk": math.sqrt((A + 2 * B) / n) / Theta,
        "strength": float(sizes[at]),
        "cutoff": cutoff,
        "comfortable": None if comfortable is None else max(2, math.ceil(comfortable) - 1),
        "branch_scale": _branch_scale(first, step, readout, q, count, n) if reached(sizes[at], FINE) else None,
        "curve_strength": sizes,
    }, ""


def _quietly(*given: Any) -> Stream:
    # Of networks that are not advised nobody asks for all digits.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return stream(*given)


def _depth(sizes: np.ndarray, limit: float) -> float | None:
    blocks = cut_off(sizes, limit, whole=False)
    # What grows like a logarithm has no power law.
    return None if blocks is None or blocks > _SEEN * len(sizes) else blocks + 2


def _branch_scale(
    first: Block, step: Sequence[Block], readout: Sequence[Block], q: float, count: int, n: int
) -> float | None:
    """The factor for the output of branches beside skips of 1 at which the strength is that of a fine network."""
    if not branched(step):
        return None

    def excess(log_share: float) -> float:
        blocks = with_branches(step, math.exp(log_share), skip=1.0)
        outputs = _quietly(first, blocks, readout, q, count).outputs
        size = float(strength({name: value[-1:] for name, value in outputs.items()}, n)[0])
        return math.log(size / FINE) if math.isfinite(size) else 1.0

    low, high = math.log(1e-6), 0.0
    if excess(low) >= 0:
        return None
    if excess(high) < 0:
        return 1.0
    share: Any = brentq(excess, low, high, xtol=1e-3)
    # As small as it takes, to the digits that are shown.
    return math.exp(share / 2) * (1 - 1e-3)


def _verdict(size: float | None, difference: float) -> Verdict:
    if (size is not None and reached(size, BROKEN)) or not abs(math.log(max(difference, 1e-300))) <= _MEMORY:
        return "too deep"
    if size is None:
        return "not known"
    return "strained" if reached(size, FINE) else "fine"
