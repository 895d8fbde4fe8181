"""Advice: how to initialize a network of a given depth and width, how fast each layer should learn, what to expect."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .. import _check
from .._activation import Activation
from .._percent import percent, two_digits
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..gaussian import Powers, moment
from ..network import MLP, Dense, Network
from ..network.engine import closing_norms, weights_of, without_biases
from ._apart import ENOUGH, headway
from ._apply import applied
from ._block_advice import BlockAdvice, advise_block
from ._block_words import BROKEN, FINE
from ._critical import CriticalPoint
from ._deeper import chunks, cut_off, reached, strength
from ._initializers import FRAMEWORKS, program
from ._interpretation import DEEPEST
from ._one_input import Tensors, first_layer
from ._settings import Settings, settings
from ._shares import balanced_rates
from ._start import Kind, Start, raised, start
from ._statistics import check_flow
from ._subject import Repeated, subject
from ._trial import Tried

Verdict = Literal["fine", "strained", "too deep for gradient descent", "too deep"]

_MOST_LAYERS = 10_000  # a second or two
_MEMORY = 10.0  # depths ξ_⊥ after which gradient descent finds nothing left of the difference of two inputs
_LAYERS = 250  # times the width is the square of the depth beyond which Adam does not train either (docs/advice)
_CURVE = 120


@result
class Advice(Tried, Result):
    """Numbers for a practitioner; the two sentences of `summary` say the same.

    Layers l = 1..L run along the arrays. Spreads are relative standard deviations over networks drawn at random.

    Attributes:
        biases: whether layers have biases; False where a network without them was given.
        q: |x|²/n_0 of the inputs that the rates are set for.
        C_b, C_W: variance of a bias, and of a weight times its fan-in, for all layers but the last one's weights.
        C_W_last: that of the last layer; larger than C_W where K* would be 0 (docs/advice), else the same.
        kind: "critical", or a little above it where K* would be 0; without such a point "edge of chaos" (χ_⊥ = 1 only)
            or "steady" (K stays only); or "given".
        why: where the variances come from.
        K_star: the fixed point; None where every K is one, or where it is not known.
        q_star: the q that starts at K_star in layer 1; None where there is none.
        others: other critical points of the activation.
        K: variance of a preactivation at infinite width.
        share_b, share_W: λ_b and λ_W at which all layers have equal shares of an NTK of 1, for which `spread_ntk` and
            `strength` are said. Networks trained with them lost (docs/advice): what to train with is `settings`.
        xi: ξ_⊥ = 1/|ln χ_⊥| at the output, the layers over which the difference of two inputs changes e-fold; None at
            criticality, where it is infinite.
        spread_output: √(V/n)/K, of the variance of the output.
        spread_ntk: √((A + 2B)/n)/Θ, of a diagonal element of the NTK.
        excess_kurtosis: 3V/nK², of an output.
        strength: the largest relative correction at this depth and width.
        cutoff: the depth at which the strength is 1 at this width; None where it was not seen to get there.
        comfortable: the largest depth at which the strength is below 0.1 at this width; None where it always is.
        width_needed: the width at which the strength is below 0.1 at this depth.
        signal: ⟨σ²⟩ in the first hidden layer for inputs of this q, or of q = 1 where it is less: what the rate of
            gradient descent goes by, because training brings signals to that size.
        headway: η n Σ⟨σ²⟩ (1 - c) of gradient descent at the rate of `settings`, c the correlation that two inputs of
            correlation 0.3 end with: what a step does to tell inputs apart.
        verdict: "fine" (strength below 0.1), "strained", "too deep for gradient descent", where some hundred steps do
            not halve the loss but those of Adam do (a headway below 0.6 with C_b = 0, more layers than neurons with
            C_b > 0, more than 10 ξ layers off criticality), or "too deep" (L² above 250 n); docs/advice says what this
            was seen on.
        curve_depth, curve_output, curve_ntk, curve_strength: spreads and strength at this width for other depths, the
            shares equal at each.
        frameworks: those that `code` can write.
    """

    activation: str
    named: bool
    depth: int
    width: int
    inputs: int
    outputs: int
    biases: bool
    q: float
    C_b: float
    C_W: float
    C_W_last: float
    kind: Kind
    why: str
    K_star: float | None
    q_star: float | None
    others: tuple[CriticalPoint, ...]
    K: Float[np.ndarray, " layers"]
    share_b: Float[np.ndarray, " layers"]
    share_W: Float[np.ndarray, " layers"]
    xi: float | None
    spread_output: float
    spread_ntk: float
    excess_kurtosis: float
    strength: float
    cutoff: float | None
    comfortable: int | None
    width_needed: int
    signal: float
    headway: float
    verdict: Verdict
    summary: str
    curve_depth: Int[np.ndarray, " depths"]
    curve_output: Float[np.ndarray, " depths"]
    curve_ntk: Float[np.ndarray, " depths"]
    curve_strength: Float[np.ndarray, " depths"]
    made: Made
    frameworks: ClassVar[tuple[str, ...]] = FRAMEWORKS

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L)."""
        return (self.inputs, *(self.width,) * (self.depth - 1), self.outputs)

    def network(self, activation: str | Activation | Callable[[Any], Any] | None = None) -> MLP:
        """The specification that is advised, at the rates of gradient descent of `settings`.

        A user's own activation must be given again if this came from a file.
        """
        if activation is None and not self.named:
            raise ValueError(f"activation {self.activation!r} is a user's own function, so it must be given.")
        chosen, given = self.activation if activation is None else activation, self.settings("sgd")
        # λ_W is the rate of a weight times its fan-in.
        rates = {"lambda_b": given.rate_b, "lambda_W": given.rate_W * np.array(self.widths[:-1])}
        C_W = (*[self.C_W] * (self.depth - 1), self.C_W_last)
        tuples = {name: tuple(values.tolist()) for name, values in rates.items()}
        return MLP(self.widths, chosen, C_b=self.C_b, C_W=C_W, **tuples)

    def settings(self, optimizer: str = "sgd") -> Settings:
        """What to train it with: "sgd", "momentum", "adam" or "adamw", and the rate of every layer (docs/advice).

        >>> advise("relu", depth=10, width=64, inputs=784, outputs=10).settings("adamw").rate_W[0].round(6)
        np.float64(0.000882)
        """
        square = _square(self.q, self.K, self.C_b, self.C_W)
        return settings(optimizer, self.q, square, self.signal, self.widths, biases=self.biases)

    def code(self, framework: str = "jax", *, optimizer: str | Settings = "sgd") -> str:
        """A program that makes the model and its optimizer with the rates of `settings`.

        Args:
            framework: "jax" or "equinox", "flax" or "torch".
            optimizer: "sgd", "momentum", "adam" or "adamw"; or settings that were changed group by group.
        """
        # The program of a user's own function says where to put it, so any other will do to write it.
        return program(self.network(None if self.named else _unnamed), framework, self._chosen(optimizer))

    def apply(
        self, model: Any, *, params: Any = None, optimizer: str | Settings = "sgd", key: Any = None
    ) -> tuple[Any, Any]:
        """The model with weights as advised, and its optimizer with the rates of `settings`.

        Args:
            model: an Equinox or flax.nnx module, of which a new one is returned; a flax.linen module, of which new
                variables are; or a PyTorch module, which is changed itself and returned. Its dense layers must have the
                sizes of the advice, and there must be no other parameters.
            params: the variables of a flax.linen module, that `init` gave; for others None.
            optimizer: "sgd", "momentum", "adam" or "adamw"; or settings that were changed group by group.
            key: of the weights, `jax.random.key(0)` by default.

        >>> import equinox as eqx
        >>> model = eqx.nn.MLP(3, 2, 16, 2, key=jax.random.key(1))
        >>> model, optim = advise("tanh", depth=3, width=16, inputs=3, outputs=2).apply(model, optimizer="adamw")
        """
        key = jax.random.key(0) if key is None else _check.key("key", key)
        net = self.network(None if self.named else _unnamed)
        return applied(model, params, weights_of(net), self._chosen(optimizer), key)

    def _shown(self):
        yield from ((name, value) for name, value in super()._shown() if not name.startswith("curve"))

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        older = {"lambda_b": "share_b", "lambda_W": "share_W"}
        fields = {older.get(name, name): value for name, value in fields.items()}
        square = _square(fields["q"], np.asarray(fields["K"], float), fields["C_b"], fields["C_W"])
        return {"C_W_last": fields["C_W"], "headway": math.nan, "signal": square, "biases": True} | fields


def _square(q: float, K: np.ndarray, C_b: float, C_W: float) -> float:
    """⟨σ²⟩ in the first hidden layer, or what takes its place without one."""
    return q if len(K) == 1 else (float(K[1]) - C_b) / C_W


def _signal(act: Activation, depth: int, chosen: Start) -> float:
    """⟨σ²⟩ in the first hidden layer, or what takes its place without one, for inputs with a mean square of 1."""
    return 1.0 if depth == 1 else float(moment(act, Powers(s=2), chosen.C_b + chosen.C_W))


def _unnamed(z: Any) -> Any:
    return z


class _Flow(NamedTuple):
    """What every depth 1, 2, … would have at equal shares."""

    tensors: dict[str, np.ndarray]
    square: np.ndarray
    chi: np.ndarray
    strength: np.ndarray


@overload
def advise(activation: str | Activation | Callable[[Any], Any], depth: int, width: int, **options: Any) -> Advice: ...
@overload
def advise(activation: Repeated, depth: int, width: int, **options: Any) -> Advice | BlockAdvice: ...
@public
@float64
def advise(
    activation: Repeated,
    depth: int,
    width: int,
    *,
    inputs: int | None = None,
    outputs: int = 1,
    q: float = 1.0,
    C_b: float | None = None,
    C_W: float | None = None,
    point: int = 0,
    dense: int | None = None,
) -> Advice | BlockAdvice:
    """How to initialize and train a network of this depth and width, and whether it is too deep (docs/theory/width).

    The variances are those of the best critical point of `critical`; without one, those of the edge of chaos, else of a
    steady signal (`kind` and `why` say which). What to train with is `settings` of what comes back.

    Of a repeated block the advice is on a dense block, `depth - 2` such blocks and a dense block without an activation
    before it, with the rates of the block as given; what finite width does is said where the tensors of the block are
    known (docs/theory/blocks).

    Args:
        activation: an activation, its name, or any elementwise JAX function; or a block, a list of blocks that begins
            and ends at preactivations, or a network that repeats one.
        depth: L, the number of layers of weights, or of blocks at the top.
        width: of every hidden layer; of a block what goes in and out, widths inside growing with it.
        inputs: number of inputs, by default the width.
        outputs: number of outputs.
        q: mean square of an input's components, |x|²/n_0.
        C_b: a variance to use instead of the critical one, together with C_W.
        C_W: likewise.
        point: which of several critical points, 0 being the best.
        dense: of a block, for which dense block to advise, counted from 0; by default for all.

    >>> found = advise("tanh", depth=8, width=64)
    >>> found.C_b, found.C_W, found.verdict
    (0.0, 1.25, 'fine')
    """
    of = subject(activation, dense)
    depth = _check.integer("depth", depth, at_least=1, at_most=_MOST_LAYERS)
    width = _check.integer("width", width, at_least=1)
    inputs = width if inputs is None else _check.integer("inputs", inputs, at_least=1)
    outputs, q = _check.integer("outputs", outputs, at_least=1), _check.real("q", q, above=0.0)
    if of.step is not None:
        more: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "q": q, "C_b": C_b, "C_W": C_W, "point": point}
        return advise_block(of, of.step, activation, dense, depth, width, **more, closing=closing_norms(activation))
    act = of.activation
    assert act is not None
    chosen = raised(act, start(act, C_b, C_W, point), depth)
    biases = not (isinstance(activation, Network) and without_biases(activation))
    if isinstance(activation, Network):
        _refuse_another(activation, act, chosen)
    flow = _flow(act, q, chosen, depth, width)
    # Relative sizes do not know of a factor of the last layer's weights.
    scale = np.append(np.ones(depth - 1), chosen.last)
    share_b, share_W = balanced_rates(flow.square[:depth], flow.chi[:depth] * scale)
    at = {name: float(values[depth - 1]) for name, values in flow.tensors.items()}
    numbers = {
        "xi": _xi(chosen.kind, float(flow.chi[depth - 1])) if depth > 1 else None,
        "spread_output": math.sqrt(at["V"] / width) / at["K"],
        "spread_ntk": math.sqrt((at["A"] + 2 * at["B"]) / width) / at["Theta"],
        "excess_kurtosis": 3 * at["V"] / width / at["K"] ** 2,
        "strength": float(flow.strength[depth - 1]),
        "cutoff": cut_off(flow.strength, BROKEN, whole=False),
    }
    comfortable = cut_off(flow.strength, FINE, whole=False)
    curve = _curve(flow, depth, numbers["cutoff"])
    n, Theta = width, flow.tensors["Theta"][curve]
    widths = (inputs, *(width,) * (depth - 1), outputs)
    square = _square(q, flow.tensors["K"][:depth], chosen.C_b, chosen.C_W)
    signal = numbers["signal"] = square if q >= 1 else _signal(act, depth, chosen)
    rates = {name: float(settings(name, q, square, signal, widths).rate_W[0]) for name in ("sgd", "adamw")}
    K, C_b_of = flow.tensors["K"][:depth] * scale, np.full(depth, chosen.C_b)
    numbers["headway"] = headway(rates["sgd"], width, act, K, C_b_of, chosen.C_W * scale)
    verdict = _verdict(numbers["strength"], numbers["xi"], chosen.C_b, numbers["headway"], depth, width)
    specification = of.record | {"depth": depth, "width": width, "inputs": inputs, "outputs": outputs}
    found = Advice(
        activation=act.name,
        named=act.remakable,
        depth=depth,
        width=width,
        inputs=inputs,
        outputs=outputs,
        biases=biases,
        q=q,
        C_b=chosen.C_b,
        C_W=chosen.C_W,
        C_W_last=chosen.C_W * chosen.last,
        kind=chosen.kind,
        why=chosen.why,
        K_star=chosen.K_star,
        q_star=(chosen.K_star - chosen.C_b) / chosen.C_W if chosen.K_star else None,
        others=chosen.others,
        K=K,
        share_b=share_b,
        share_W=share_W,
        **numbers,
        comfortable=None if comfortable is None else max(0, math.ceil(comfortable) - 1),
        width_needed=math.floor(width * numbers["strength"] / FINE * (1 + 2e-9)) + 1,
        verdict=verdict,
        summary=_summary(act, chosen, depth, width, verdict, numbers, rates),
        curve_depth=curve + 1,
        curve_output=np.sqrt(flow.tensors["V"][curve] / n) / flow.tensors["K"][curve],
        curve_ntk=np.sqrt((flow.tensors["A"] + 2 * flow.tensors["B"])[curve] / n) / Theta,
        curve_strength=flow.strength[curve],
        made=Made.by(
            "neft.width.advise", specification=specification | {"q": q, "C_b": C_b, "C_W": C_W, "point": point}
        ),
    )
    if not act.remakable:
        # A user's own function is in no record.
        vars(found)["_tried"] = found.network(act)
    return found


def _refuse_another(net: Network, act: Activation, chosen: Start) -> None:
    """A network that the advice would not be on: one of several activations, or without the biases that it draws."""
    if others := [one.name for one in net.activations if one.name != act.name]:
        raise ValueError(
            f"activation is a network with {act.name} and {others[0]}, but advice on perceptrons is for one activation "
            "in all layers."
        )
    if chosen.C_b > 0 and without_biases(net):
        C_W = 1 / float(moment(act, Powers(s=2), 1.0))
        raise ValueError(
            f"activation is a network without biases, but {act.name} is advised with some, C_b = {chosen.C_b:.4g} and "
            f"C_W = {chosen.C_W:.4g}: add them, or give C_b = 0 and a C_W, of which {C_W:.4g} keeps a variance of 1."
        )


def _flow(act: Activation, q: float, chosen: Start, depth: int, width: int) -> _Flow:
    """Layers until the depth is there and the strength has reached its limit, or for DEEPEST of them."""
    block = Dense(1, C_b=chosen.C_b, C_W=chosen.C_W, lambda_W=1 / q)
    first = first_layer(act, jnp.asarray(q, float), block)
    parts, square, chi = [_arrays(first)], [np.array([q])], [np.ones(1)]
    sizes = np.zeros(1)
    with np.errstate(all="ignore"):
        for tensors, more_square, more_chi in chunks(act, first, block, balanced=True):
            parts.append(_arrays(tensors))
            square.append(np.asarray(more_square))
            chi.append(np.asarray(more_chi))
            sizes = np.append(sizes, strength(parts[-1], width))
            over = not np.isfinite(sizes).all() or reached(sizes.max(), BROKEN) or len(sizes) > DEEPEST
            if len(sizes) >= depth and over:
                break
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    check_flow({name: values[:depth] for name, values in whole.items()})
    usable = int(np.argmin(np.append(np.isfinite(sizes) & (whole["K"] > 1e-200) & (whole["K"] < 1e150), False)))
    if usable < depth:
        raise ValueError(f"depth is {depth}, but the statistics can be followed to layer {usable} only.")
    cut = {name: values[:usable] for name, values in whole.items()}
    return _Flow(cut, np.concatenate(square)[:usable], np.concatenate(chi)[:usable], sizes[:usable])


def _arrays(tensors: Tensors) -> dict[str, np.ndarray]:
    return {k: np.atleast_1d(np.asarray(v)) for k, v in tensors._asdict().items() if v is not None}


def _xi(kind: Kind, chi: float) -> float | None:
    if kind in ("critical", "edge of chaos") or abs(math.log(chi)) < 1e-9:
        return None
    return 1 / abs(math.log(chi))


def _verdict(strength: float, xi: float | None, C_b: float, headway: float, depth: int, width: int) -> Verdict:
    # A strength of 1 ends the expansion, but not training.
    if depth**2 > _LAYERS * width:
        return "too deep"
    if _stuck(xi, C_b, headway, depth, width):
        return "too deep for gradient descent"
    return "strained" if reached(strength, FINE) else "fine"


def _stuck(xi: float | None, C_b: float, headway: float, depth: int, width: int) -> str:
    """Why gradient descent does not get anywhere; nothing where it does."""
    if depth == 1:
        return ""
    if xi is not None:
        return f"that is more than {_MEMORY:g} times so many" if depth > _MEMORY * xi else ""
    if C_b > 0:
        # Of gelu and silu the headway does not tell it.
        return "there are more layers than neurons in one" if depth > width else ""
    few = f"a step of gradient descent tells inputs too little apart (headway {headway:.2g}, below {ENOUGH:g})"
    return few if headway < ENOUGH else ""


def _curve(flow: _Flow, depth: int, cutoff: float | None) -> np.ndarray:
    last = min(len(flow.strength), max(2 * depth, math.ceil(1.5 * (cutoff or 0)), 8))
    return np.unique(np.append(np.geomspace(1, last, _CURVE).round().astype(int), min(depth, last))) - 1


def _summary(
    act: Activation,
    chosen: Start,
    depth: int,
    width: int,
    verdict: Verdict,
    found: dict[str, Any],
    rates: dict[str, float],
) -> str:
    """Two sentences: what to do, and what to expect."""
    last = "" if chosen.last == 1 else f"; {chosen.C_W * chosen.last:.6g}/fan-in in the last layer"
    first = (
        f"Draw the biases of {act.name} from Gaussians of variance {chosen.C_b:.6g} and the weights from Gaussians of "
        f"variance {chosen.C_W:.6g}/fan-in ({chosen.why}{last}), and train all of them at one rate, "
        f"{rates['sgd']:.2g} with gradient descent or {rates['adamw']:.2g} with Adam."
    )
    end = f"does not grow to {BROKEN:g} at any depth that was looked at"
    if found["cutoff"] is not None:
        passed = found["cutoff"] <= depth
        end = (
            f"{'passed' if passed else 'grows to'} {BROKEN:g} at depth {found['cutoff']:.0f}, where networks differ as "
        )
        end += "much as they agree" + (" and the expansion ends" if passed else "")
    memory = ""
    if found["xi"] is not None:
        memory = f", while the difference of two inputs changes e-fold every {found['xi']:.2g} layers"
    slow = ""
    if verdict == "too deep for gradient descent":
        slow = f", and {_stuck(found['xi'], chosen.C_b, found['headway'], depth, width)}: take Adam, "
        slow += "more width or fewer layers" if found["xi"] is None else "other variances or fewer layers"
    second = (
        f"Depth {depth} at width {width} is {verdict}: from network to network the output's variance spreads by "
        f"{percent(found['spread_output'])} and its NTK by {percent(found['spread_ntk'])}, the largest relative "
        f"correction is {two_digits(found['strength'])} and {end}{memory}{slow}."
    )
    return f"{first} {second}"
