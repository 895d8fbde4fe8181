"""Steps in units of the metric: how much an update changes the preactivations of a layer, against their size.

With the batch's metric G = mean x̃x̃ᵀ the mean square of a layer's preactivations is tr WGWᵀ/m, and that of their
change under ΔW is tr ΔWGΔWᵀ/m. Both are taken from the captures, so no metric need be kept.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from ._capture import Captures, match
from ._layers import is_layer, layers, nodes, stacked

_FLOOR = 0.1

_EARLY = 20
"""Steps in which momentum builds up, so that sizes are taken at each of them."""


class UnitsState(NamedTuple):
    """The state: steps done, and the factors of the layers and of all other parameters in use."""

    count: Array  # type: ignore[assignment]  # optax's own states shadow tuple.count too
    factors: Float[Array, " layers+1"]


@public
def scale_by_preactivations(
    *, examples: int | None = None, every: int = 1, floor: float = _FLOOR
) -> optax.GradientTransformationExtraArgs:
    """Updates that change the preactivations of each layer by their own size, to be multiplied by a small rate.

        ΔW ← ΔW √(tr WGWᵀ / tr ΔWGΔWᵀ),   G = mean_batch x̃x̃ᵀ   (docs/theory/fisher, eq. 23)

    Then a rate of 0.02 means a change of 2 % in every layer, whatever its width, its inputs and its metric. It goes
    behind what makes the direction (`scale_by_rngd`, momentum) and before the rate, which must fall to 0 at the end:
    steps do not shrink by themselves. Parameters outside linear layers are taken together, by their Euclidean norms:
    gains and biases of norms multiply entries of unit size.

    Args:
        examples: how many examples of the batch the sizes are taken from, all by default.
        every: steps between two looks at the sizes, after the first 20; the factors stay in between.
        floor: preactivations count as at least this large (root mean square), so that a layer of zeros can move.

    >>> opt = optax.chain(scale_by_preactivations(), optax.scale_by_learning_rate(0.02))
    """
    return _by_preactivations(examples, every, floor, lambda ratio: ratio)


@public
def clip_by_preactivations(
    largest: float = 0.1, *, examples: int | None = None, floor: float = _FLOOR
) -> optax.GradientTransformationExtraArgs:
    """Updates that change no layer's preactivations by more than the share `largest` of their size.

    Goes last, behind the learning rate; smaller updates pass unchanged. `scale_by_preactivations` has the formula and
    the other arguments.

    >>> opt = optax.chain(optax.sgd(0.5), clip_by_preactivations(0.05))
    """
    largest = _check.real("largest", largest, above=0.0)
    return _by_preactivations(examples, 1, floor, lambda ratio: jnp.minimum(largest * ratio, 1))


def _by_preactivations(
    examples: Any, every: Any, floor: Any, factor: Callable[[Array], Array]
) -> optax.GradientTransformationExtraArgs:
    examples = None if examples is None else _check.integer("examples", examples, at_least=1)
    every = _check.integer("every", every, at_least=1)
    floor = _check.real("floor", floor, above=0.0)

    def init(params: Any) -> Any:
        found = layers(params)
        if not found:
            raise ValueError("params hold no linear layer, but a step in units of preactivations needs at least one.")
        return UnitsState(jnp.zeros((), jnp.int32), jnp.ones(len(found) + 1, stacked(found[0]).dtype))

    def update(updates: Any, state: Any, params: Any = None, *, captures: Any = None, **extra: Any):
        del extra
        if params is None:
            raise ValueError("params is missing, but a step in units of preactivations needs update(…, params, …).")
        match(captures, layers(updates), len(state.factors) - 1)

        def looked() -> Array:
            ratios = [*_of_layers(updates, captures, examples, floor), _of_others(updates, params, floor)]
            return jnp.stack([factor(ratio).astype(state.factors.dtype) for ratio in ratios])

        if every == 1:
            factors = looked()
        else:
            due = (state.count % every == 0) | (state.count < _EARLY)
            factors = jax.lax.cond(due, looked, lambda: state.factors)
        leaves, structure = nodes(updates)
        places = iter(range(len(state.factors)))
        changed = [_times(leaf, factors[next(places) if is_layer(leaf) else -1]) for leaf in leaves]
        return jax.tree.unflatten(structure, changed), UnitsState(state.count + 1, factors)

    return optax.GradientTransformationExtraArgs(init, update)


def _of_layers(updates: Any, captures: Captures, examples: int | None, floor: float) -> list[Array]:
    # The size of each layer's preactivations over that of their change.
    found = []
    for layer, x, z in zip(layers(updates), captures.inputs, captures.preactivations):
        rows = stacked(layer)
        x, z = (value.reshape(-1, value.shape[-1])[:examples] for value in (x, z))
        d = x.shape[1]
        change = x @ rows[:, :d].T + (rows[:, d][None, :] if rows.shape[1] > d else 0)
        found.append(_ratio(jnp.maximum(_rms(z), floor), _rms(change)))
    return found


def _of_others(updates: Any, params: Any, floor: float) -> Array:
    values, changes = ([leaf for leaf in nodes(tree)[0] if not is_layer(leaf)] for tree in (params, updates))
    return _ratio(jnp.maximum(_norm(values), floor), _norm(changes)) if values else jnp.ones(())


def _ratio(size: Array, change: Array) -> Array:
    # An update of zero stays one.
    moved = change > 0
    return jnp.where(moved, size / jnp.where(moved, change, 1), 0)


def _times(node: Any, factor: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), node)


def _rms(values: Float[Array, "batch m"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.square(values)))


def _norm(leaves: list[Array]) -> Float[Array, ""]:
    return jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in leaves))
