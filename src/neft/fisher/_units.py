"""Steps in units of the metric: how much an update changes the preactivations of a layer, against their size.

With the batch's metric G = mean x̃x̃ᵀ the mean square of a layer's preactivations is tr WGWᵀ/m, and that of their
change under ΔW is tr ΔWGΔWᵀ/m. Both are taken from the captures, so no metric need be kept.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from ._capture import match
from ._layers import is_layer, layers, nodes, stacked, unstacked

_FLOOR = 0.1


@public
def scale_by_preactivations(
    *, examples: int | None = None, floor: float = _FLOOR
) -> optax.GradientTransformationExtraArgs:
    """Updates that change the preactivations of each layer by their own size, to be multiplied by a small rate.

        ΔW ← ΔW √(tr WGWᵀ / tr ΔWGΔWᵀ),   G = mean_batch x̃x̃ᵀ   (docs/theory/fisher, eq. 21)

    Then a rate of 0.02 means a change of 2 % in every layer, whatever its width, its inputs and its metric. It goes
    behind what makes the direction (`scale_by_rngd`, momentum) and before the rate, which must fall to 0 at the end:
    steps do not shrink by themselves. Parameters outside linear layers are taken together, by their Euclidean norms:
    gains and biases of norms multiply entries of unit size.

    Args:
        examples: how many examples of the batch the sizes are taken from, all by default.
        floor: preactivations count as at least this large (root mean square), so that a layer of zeros can move.

    >>> opt = optax.chain(scale_by_preactivations(), optax.scale_by_learning_rate(0.02))
    """
    return _by_preactivations(examples, floor, lambda ratio: ratio)


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
    return _by_preactivations(examples, floor, lambda ratio: jnp.minimum(largest * ratio, 1))


def _by_preactivations(examples: Any, floor: Any, factor: Any) -> optax.GradientTransformationExtraArgs:
    examples = None if examples is None else _check.integer("examples", examples, at_least=1)
    floor = _check.real("floor", floor, above=0.0)

    def init(params: Any) -> Any:
        if not layers(params):
            raise ValueError("params hold no linear layer, but a step in units of preactivations needs at least one.")
        return optax.EmptyState()

    def update(updates: Any, state: Any, params: Any = None, *, captures: Any = None, **extra: Any):
        del extra
        if params is None:
            raise ValueError("params is missing, but a step in units of preactivations needs update(…, params, …).")
        leaves, structure = nodes(updates)
        match(captures, layers(updates), len(layers(updates)))
        seen = iter(zip(captures.inputs, captures.preactivations))
        found = [_scaled(leaf, *next(seen), examples, floor, factor) if is_layer(leaf) else leaf for leaf in leaves]
        rest = [i for i, leaf in enumerate(leaves) if not is_layer(leaf)]
        values = [node for node in nodes(params)[0] if not is_layer(node)]
        if rest:
            size, change = _norm(values), _norm([leaves[i] for i in rest])
            by = _factor(jnp.maximum(size, floor), change, factor)
            for i in rest:
                found[i] = leaves[i] * by.astype(leaves[i].dtype)
        return jax.tree.unflatten(structure, found), state

    return optax.GradientTransformationExtraArgs(init, update)


def _scaled(layer: Any, x: Array, z: Array, examples: int | None, floor: float, factor: Any) -> Any:
    rows = stacked(layer)
    x, z = (value.reshape(-1, value.shape[-1])[:examples] for value in (x, z))
    d = x.shape[1]
    change = x @ rows[:, :d].T + (rows[:, d][None, :] if rows.shape[1] > d else 0)
    by = _factor(jnp.maximum(_rms(z), floor), _rms(change), factor)
    return unstacked(layer, rows * by.astype(rows.dtype))


def _factor(size: Array, change: Array, factor: Any) -> Array:
    # An update of zero stays one.
    moved = change > 0
    return jnp.where(moved, factor(size / jnp.where(moved, change, 1)), 0)


def _rms(values: Float[Array, "batch m"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(jnp.square(values)))


def _norm(leaves: list[Array]) -> Float[Array, ""]:
    return jnp.sqrt(sum((jnp.square(leaf).sum() for leaf in leaves), jnp.zeros(())))
