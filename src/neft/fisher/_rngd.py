"""Relative natural gradient descent: each layer's gradient is multiplied by the inverse of its own metric."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from ._capture import Captures, match
from ._inverse import damped, lapack, newton_schulz
from ._layers import is_layer, layers, nodes, stacked, unstacked
from ._response import Response, response
from ._top import Top, follow, natural, start

METRICS = ("shared", "neuron", "hidden")
INPUTS = ("white", "running", "batch")
STARTS = ("identity", "batch")
INVERSES = ("products", "outside")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices that make RNGD; `rngd` describes them."""

    metric: str | tuple[str, ...] = "shared"
    inputs: str = "white"
    metric_step: float = 0.1
    update_every: int = 10
    refresh_every: int = 100
    damping: float = 0.0
    relative_damping: float = 1e-3
    inverse: str = "products"
    rank: int | None = None
    start: str = "identity"
    neuron: Response = dataclasses.field(default_factory=lambda: response("relu"))


PRESETS = {
    "default": Settings(),
    "published": Settings(
        metric="hidden", inputs="running", metric_step=0.005, update_every=1, refresh_every=100, relative_damping=1e-4
    ),
}


Metric = Array | Top | None


class RNGDState(NamedTuple):
    """The state: steps done, and for each layer its metric and the inverse in use (None: the identity, for good).

    A metric has shape (p, p) when it is shared by the layer and (m, p, p) when each neuron has its own; one of few
    axes is a `Top` and needs no inverse. `damping` is the pair of the absolute and the relative one.
    """

    count: Array  # type: ignore[assignment]  # optax's own states shadow tuple.count too
    metrics: tuple[Metric, ...]
    inverses: tuple[Array | None, ...]
    damping: Array


@public
def rngd(
    learning_rate: optax.ScalarOrSchedule,
    *,
    preset: str = "default",
    metric: str | Sequence[str] | None = None,
    inputs: str | None = None,
    metric_step: float | None = None,
    update_every: int | None = None,
    refresh_every: int | None = None,
    damping: float | None = None,
    relative_damping: float | None = None,
    inverse: str | None = None,
    rank: int | None = None,
    start: str | None = None,
    neuron: str | Response | None = None,
    omega: float | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Relative natural gradient descent, w ← w - η G⁻¹ ∂E/∂w, for optax (docs/theory/fisher, eqs. 13-14).

        G ← (1-λ)G + λ mean_batch(ν x̃x̃ᵀ)   every `update_every` steps, from the identity
        G⁻¹ is computed again, with damping, every `refresh_every` steps; until then it is the identity

    or, with `rank`, from the largest eigenvalues of G and their axes, which follow it at every update (eqs. 20-22).

    `update` takes `captures=capture(…)`. Parameters outside linear layers (gains and biases of norms) get the plain
    gradient. The default keeps one metric per layer (K-FAC's input factor) and takes the inputs as whitened by
    `whiten`: then the natural step of the first layer is the plain one, at no cost (PRONG, Desjardins et al. 2015).

    Args:
        learning_rate: η, a number or a schedule.
        preset: "default", or "published" for the method of the paper: a metric for each neuron of the hidden layers,
            ν = sigm²(w·x̃), T = 100, λ = 0.005, damping 1e-4·tr G, every layer on raw inputs.
        metric: "shared" (one metric per layer, ν = 1), "neuron" (one per neuron, with its ν), "hidden" (per neuron,
            but shared in the first and last layer), or "shared" or "neuron" for each layer.
        inputs: "white" when the first layer's inputs went through `whiten`, so that it needs no metric; "running" for
            a metric as in every other layer; "batch" for the metric of each batch by itself, with damping, which takes
            a matrix of the size of the batch at most (Woodbury, eq. 24) and no pass over the data.
        metric_step: λ, above 0 and at most 1.
        update_every: steps between two updates of the metric.
        refresh_every: T, steps between two inversions.
        damping: ε, added to G's diagonal at inversion.
        relative_damping: the same in units of G's trace; both are added.
        inverse: "products" inverts inside compiled code by matrix products; "outside" leaves it to calls of `refresh`.
        rank: how many axes of a shared metric to keep, all by default; no inverses are made then.
        start: "identity", or "batch" for the metric of the first batch, used from the first step on.
        neuron: the activation whose ν a metric per neuron uses.
        omega: ω of the smoothed relu in that ν.

    >>> import neft
    >>> net, opt = neft.MLP(widths=(3, 8, 2)), rngd(0.1)
    >>> params = net.init(jax.random.key(0))
    >>> seen = neft.fisher.capture(net, jnp.ones((5, 3)), params, loss=lambda z: (z**2).mean())
    >>> updates, state = opt.update(seen.gradient, opt.init(params), params, captures=seen)
    >>> int(state[0].count)
    1
    """
    given = {
        "metric": metric if metric is None or isinstance(metric, str) else tuple(metric),
        "inputs": inputs,
        "metric_step": metric_step,
        "update_every": update_every,
        "refresh_every": refresh_every,
        "damping": damping,
        "relative_damping": relative_damping,
        "inverse": inverse,
        "rank": rank,
        "start": start,
        "neuron": None
        if neuron is None and omega is None
        else response(neuron or "relu", omega=1.0 if omega is None else omega),
    }
    base = PRESETS[_check.one_of("preset", preset, tuple(PRESETS))]
    settings = dataclasses.replace(base, **{name: value for name, value in given.items() if value is not None})
    if not callable(learning_rate) and not isinstance(learning_rate, jax.Array):
        _check.real("learning_rate", learning_rate, at_least=0.0)
    return optax.chain(scale_by_rngd(settings), optax.scale_by_learning_rate(learning_rate))


@public
def scale_by_rngd(settings: Settings | None = None) -> optax.GradientTransformationExtraArgs:
    """The part of `rngd` before the learning rate, to chain with momentum, clipping or schedules of your own.

    >>> momentum = optax.chain(scale_by_rngd(), optax.trace(0.9), optax.scale_by_learning_rate(0.01))
    """
    settings = _checked(settings or PRESETS["default"])

    def init(params: Any) -> Any:
        found = layers(params)
        if not found:
            raise ValueError("params hold no linear layer, but RNGD needs at least one.")
        kinds = _kinds(settings, len(found))
        metrics = tuple(_identity(stacked(layer), kind, settings.rank) for layer, kind in zip(found, kinds))
        # The inverse is an array of its own, so that both can be donated.
        inverses = tuple(None if G is None or isinstance(G, Top) else G.copy() for G in metrics)
        dtype = stacked(found[0]).dtype
        damping = jnp.array([settings.damping, settings.relative_damping], dtype)
        return RNGDState(jnp.zeros((), jnp.int32), metrics, inverses, damping)

    def update(updates: Any, state: Any, params: Any = None, *, captures: Any = None, **extra: Any):
        del params, extra
        leaves, structure = nodes(updates)
        match(captures, layers(updates), len(state.metrics))
        metrics = _updated(settings, state, captures)
        inverses = state.inverses if settings.inverse == "outside" else _refreshed(settings, state, metrics)
        turn = iter(zip(metrics, inverses))
        leaves = [_natural(leaf, *next(turn), state.damping) if is_layer(leaf) else leaf for leaf in leaves]
        if settings.inputs == "batch":
            first = next(i for i, leaf in enumerate(leaves) if is_layer(leaf))
            leaves[first] = _by_batch(leaves[first], captures.inputs[0], state.damping)
        state = RNGDState(state.count + 1, metrics, inverses, state.damping)
        return jax.tree.unflatten(structure, leaves), state

    return optax.GradientTransformationExtraArgs(init, update)


@public
def refresh(state: Any) -> Any:
    """The state of an optimizer with the inverses of RNGD's metrics computed again on the host, by LAPACK.

    For `inverse="outside"`: call it between compiled stretches of T steps. Works on chained and on vmapped states.

    >>> import neft
    >>> opt = rngd(0.1, inverse="outside")
    >>> state = refresh(opt.init(neft.MLP(widths=(3, 8, 2)).init(jax.random.key(0))))
    """

    def anew(node: Any) -> Any:
        if not isinstance(node, RNGDState):
            return node
        absolute, relative = np.moveaxis(np.asarray(node.damping), -1, 0)
        inverses = []
        for G in node.metrics:
            if G is None or isinstance(G, Top):
                inverses.append(None)
                continue
            # Damping may carry the axes of a vmap, the metric one more for its neurons.
            extra = (1,) * (G.ndim - 2 - absolute.ndim)
            pair = (part.reshape(part.shape + extra) for part in (absolute, relative))
            inverses.append(jnp.asarray(lapack(damped(np.asarray(G), *pair)), G.dtype))
        return node._replace(inverses=tuple(inverses))

    return jax.tree.map(anew, state, is_leaf=lambda node: isinstance(node, RNGDState))


def _checked(settings: Settings) -> Settings:
    kinds = (settings.metric,) if isinstance(settings.metric, str) else settings.metric
    for kind in kinds:
        _check.one_of("metric", kind, METRICS if isinstance(settings.metric, str) else METRICS[:2])
    _check.one_of("inputs", settings.inputs, INPUTS)
    _check.one_of("inverse", settings.inverse, INVERSES)
    _check.one_of("start", settings.start, STARTS)
    if settings.rank is not None:
        _check.integer("rank", settings.rank, at_least=1)
        if settings.metric != "shared" or settings.inverse != "products":
            raise ValueError(f"rank is {settings.rank}, but is for metric 'shared' and inverse 'products' alone.")
    few = "inputs 'batch': a batch" if settings.inputs == "batch" else "a rank: few axes" if settings.rank else ""
    if few and settings.damping == settings.relative_damping == 0:
        verb = "does" if settings.inputs == "batch" else "do"
        raise ValueError(f"damping is 0, but must be positive for {few} {verb} not fill all directions.")
    if settings.start == "batch" and settings.inverse == "outside":
        raise ValueError("start is 'batch', but must be 'identity' for inverse 'outside', which comes after the step.")
    if _check.real("metric_step", settings.metric_step, above=0.0) > 1:
        raise ValueError(f"metric_step is {settings.metric_step:g}, but must be at most 1.")
    _check.integer("update_every", settings.update_every, at_least=1)
    _check.integer("refresh_every", settings.refresh_every, at_least=1)
    _check.real("damping", settings.damping, at_least=0.0)
    _check.real("relative_damping", settings.relative_damping, at_least=0.0)
    return dataclasses.replace(settings, neuron=response(settings.neuron))


def _kinds(settings: Settings, count: int) -> list[str]:
    # For each layer "none", "shared" or "neuron".
    if not isinstance(settings.metric, str):
        if len(settings.metric) != count:
            raise ValueError(f"metric names {len(settings.metric)} layers, but the parameters have {count}.")
        kinds = list(settings.metric)
    elif settings.metric == "hidden":
        kinds = ["shared" if l in (0, count - 1) else "neuron" for l in range(count)]
    else:
        kinds = [settings.metric] * count
    return kinds if settings.inputs == "running" else ["none", *kinds[1:]]


def _identity(rows: Float[Array, "m p"], kind: str, rank: int | None) -> Metric:
    if kind == "shared" and rank is not None:
        return start(rows.shape[1], min(rank, rows.shape[1]), rows.dtype)
    one = jnp.eye(rows.shape[1], dtype=rows.dtype)
    return {"none": lambda: None, "shared": lambda: one, "neuron": lambda: jnp.tile(one, (len(rows), 1, 1))}[kind]()


def _updated(settings: Settings, state: RNGDState, captures: Captures) -> tuple[Metric, ...]:
    def update(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        step = jnp.asarray(settings.metric_step, state.damping.dtype)
        if settings.start == "batch":
            step = jnp.where(state.count == 0, 1.0, step)
        seen = zip(metrics, captures.inputs, captures.preactivations)
        return tuple(None if G is None else _average(settings.neuron, G, x, z, step) for G, x, z in seen)

    if settings.update_every == 1:
        return update(state.metrics)
    return jax.lax.cond(state.count % settings.update_every == 0, update, lambda metrics: metrics, state.metrics)


def _average(
    neuron: Response, G: Array | Top, x: Float[Array, "batch d"], z: Float[Array, "batch m"], step: Array
) -> Array | Top:
    if isinstance(G, Top):
        return follow(G, x.astype(G.axes.dtype), step.astype(G.axes.dtype))
    x = _extended(x, G.shape[-1])
    mean = x.T @ x / len(x) if G.ndim == 2 else jnp.einsum("nm,np,nq->mpq", neuron.information(z), x, x) / len(x)
    step = step.astype(G.dtype)
    return (1 - step) * G + step * mean.astype(G.dtype)


def _extended(x: Float[Array, "batch d"], size: int) -> Float[Array, "batch p"]:
    # x̃, with a 1 for the bias if there is one.
    return x if x.shape[1] == size else jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)


def _refreshed(settings: Settings, state: RNGDState, metrics: tuple[Metric, ...]) -> tuple[Array | None, ...]:
    def invert(inverses: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        pairs = zip(metrics, inverses)
        return tuple(None if X is None else newton_schulz(damped(G, *state.damping), X) for G, X in pairs)

    if settings.rank is not None:
        return state.inverses
    # From the identity the first inverse comes at the end of the first period.
    due = (state.count + int(settings.start == "identity")) % settings.refresh_every == 0
    return jax.lax.cond(due, invert, lambda inverses: inverses, state.inverses)


def _natural(layer: Any, metric: Metric, inverse: Array | None, damping: Array) -> Any:
    if isinstance(metric, Top):
        return unstacked(layer, natural(metric, stacked(layer), damping[0] + damping[1] * metric.trace))
    if inverse is None:
        return layer
    rows = stacked(layer)
    if inverse.ndim == 2:
        return unstacked(layer, rows @ inverse)
    return unstacked(layer, jnp.einsum("mp,mpq->mq", rows, inverse))


def _by_batch(layer: Any, x: Float[Array, "batch d"], damping: Array) -> Any:
    rows = stacked(layer)
    x = _extended(x, rows.shape[1]).astype(rows.dtype) / math.sqrt(len(x))
    few = len(x) < rows.shape[1]
    gram = damped(x @ x.T if few else x.T @ x, *damping)
    inverse = newton_schulz(gram, jnp.zeros_like(gram))
    if not few:
        return unstacked(layer, rows @ inverse)
    # tr x̃x̃ᵀ is that of the Gram matrix too, so that both forms have the same damping.
    epsilon = damping[0] + damping[1] * jnp.square(x).sum()
    return unstacked(layer, (rows - (rows @ x.T) @ inverse @ x) / epsilon)
