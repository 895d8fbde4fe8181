"""Relative natural gradient descent: each layer's gradient is multiplied by the inverse of its own metric."""

import dataclasses
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

METRICS = ("shared", "neuron", "hidden")
INPUTS = ("white", "running")
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
    neuron: Response = dataclasses.field(default_factory=lambda: response("relu"))


PRESETS = {
    "default": Settings(),
    "published": Settings(
        metric="hidden", inputs="running", metric_step=0.005, update_every=1, refresh_every=100, relative_damping=1e-4
    ),
}


class RNGDState(NamedTuple):
    """The state: steps done, and for each layer its metric and the inverse in use (None: the identity, for good).

    A metric has shape (p, p) when it is shared by the layer and (m, p, p) when each neuron has its own; `damping` is
    the pair of the absolute and the relative one.
    """

    count: Array  # type: ignore[assignment]  # optax's own states shadow tuple.count too
    metrics: tuple[Array | None, ...]
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
    neuron: str | Response | None = None,
    omega: float | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Relative natural gradient descent, w ← w - η G⁻¹ ∂E/∂w, for optax (docs/theory/fisher, eqs. 13-14).

        G ← (1-λ)G + λ mean_batch(ν x̃x̃ᵀ)   every `update_every` steps, from the identity
        G⁻¹ is computed again, with damping, every `refresh_every` steps; until then it is the identity

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
            a metric as in every other layer.
        metric_step: λ, above 0 and at most 1.
        update_every: steps between two updates of the metric.
        refresh_every: T, steps between two inversions.
        damping: ε, added to G's diagonal at inversion.
        relative_damping: the same in units of G's trace; both are added.
        inverse: "products" inverts inside compiled code by matrix products; "outside" leaves it to calls of `refresh`.
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
        "neuron": None if neuron is None and omega is None else response(neuron or "relu", omega=omega or 1.0),
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
        metrics = tuple(_identity(stacked(layer), kind) for layer, kind in zip(found, _kinds(settings, len(found))))
        # The inverse is an array of its own, so that both can be donated.
        inverses = tuple(None if G is None else G.copy() for G in metrics)
        dtype = stacked(found[0]).dtype
        damping = jnp.array([settings.damping, settings.relative_damping], dtype)
        return RNGDState(jnp.zeros((), jnp.int32), metrics, inverses, damping)

    def update(updates: Any, state: Any, params: Any = None, *, captures: Any = None, **extra: Any):
        del params, extra
        leaves, structure = nodes(updates)
        match(captures, layers(updates), len(state.metrics))
        metrics = _updated(settings, state, captures)
        inverses = state.inverses if settings.inverse == "outside" else _refreshed(settings, state, metrics)
        turn = iter(inverses)
        leaves = [_natural(leaf, next(turn)) if is_layer(leaf) else leaf for leaf in leaves]
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
            if G is None:
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
    if _check.real("metric_step", settings.metric_step, above=0.0) > 1:
        raise ValueError(f"metric_step is {settings.metric_step:g}, but must be at most 1.")
    _check.integer("update_every", settings.update_every, at_least=1)
    _check.integer("refresh_every", settings.refresh_every, at_least=1)
    _check.real("damping", settings.damping, at_least=0.0)
    _check.real("relative_damping", settings.relative_damping, at_least=0.0)
    return settings


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
    return ["none", *kinds[1:]] if settings.inputs == "white" else kinds


def _identity(rows: Float[Array, "m p"], kind: str) -> Array | None:
    one = jnp.eye(rows.shape[1], dtype=rows.dtype)
    return {"none": lambda: None, "shared": lambda: one, "neuron": lambda: jnp.tile(one, (len(rows), 1, 1))}[kind]()


def _updated(settings: Settings, state: RNGDState, captures: Captures) -> tuple[Array | None, ...]:
    def update(metrics: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        seen = zip(metrics, captures.inputs, captures.preactivations)
        return tuple(None if G is None else _average(settings, G, x, z) for G, x, z in seen)

    if settings.update_every == 1:
        return update(state.metrics)
    return jax.lax.cond(state.count % settings.update_every == 0, update, lambda metrics: metrics, state.metrics)


def _average(settings: Settings, G: Array, x: Float[Array, "batch d"], z: Float[Array, "batch m"]) -> Array:
    if x.shape[1] < G.shape[-1]:
        x = jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)
    if G.ndim == 2:
        mean = x.T @ x / len(x)
    else:
        mean = jnp.einsum("nm,np,nq->mpq", settings.neuron.information(z), x, x) / len(x)
    step = jnp.asarray(settings.metric_step, G.dtype)
    return (1 - step) * G + step * mean.astype(G.dtype)


def _refreshed(settings: Settings, state: RNGDState, metrics: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
    def invert(inverses: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        pairs = zip(metrics, inverses)
        anew = (
            newton_schulz(damped(G, *state.damping), X) if G is not None and X is not None else None for G, X in pairs
        )
        return tuple(anew)

    due = (state.count + 1) % settings.refresh_every == 0
    return jax.lax.cond(due, invert, lambda inverses: inverses, state.inverses)


def _natural(layer: Any, inverse: Array | None) -> Any:
    if inverse is None:
        return layer
    rows = stacked(layer)
    if inverse.ndim == 2:
        return unstacked(layer, rows @ inverse)
    return unstacked(layer, jnp.einsum("mp,mpq->mq", rows, inverse))
