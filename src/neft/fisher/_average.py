"""An average of the weights along the way, and which weights an optimizer means to be used."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jaxtyping import Array

from .. import _check
from .._public import public


class AverageState(NamedTuple):
    """The state: steps done, and the average of the parameters after them."""

    count: Array  # type: ignore[assignment]  # optax's own states shadow tuple.count too
    average: Any


@public
def average_weights(decay: float = 0.99) -> optax.GradientTransformation:
    """Keeps an average of the parameters and leaves the updates as they are; goes last, behind the learning rate.

        θ̄ ← θ̄ + max(1 - decay, 1/t)(θ_t - θ̄)   at step t = 1, 2, …

    This is the plain mean of θ_1 … θ_t at first and forgets exponentially after 1/(1 - decay) steps. `averaged` takes
    it out of the state.

    >>> opt = optax.chain(optax.sgd(0.5), average_weights())
    >>> updates, state = opt.update(jnp.array(1.0), opt.init(jnp.array(1.0)), jnp.array(1.0))
    >>> float(averaged(state, 1.0 + updates))
    0.5
    """
    if _check.real("decay", decay, at_least=0.0) >= 1:
        raise ValueError(f"decay is {decay:g}, but must be below 1.")

    def init(params: Any) -> Any:
        return AverageState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ValueError("params is missing, but an average of weights needs update(updates, state, params).")
        count = state.count + 1
        share = jnp.maximum(1 - decay, 1 / count)

        def moved(mean: Array, value: Array, change: Array) -> Array:
            return mean + share.astype(mean.dtype) * (value + change - mean)

        return updates, AverageState(count, jax.tree.map(moved, state.average, params, updates))

    return optax.GradientTransformation(init, update)


@public
def averaged(state: Any, params: Any) -> Any:
    """The parameters to use for predictions: an optimizer's average of them if it keeps one, else `params` themselves.

    Knows `average_weights` and optax's schedule-free optimizers, chained or not.

    >>> float(averaged(optax.sgd(0.1).init(jnp.array(1.0)), jnp.array(1.0)))
    1.0
    """
    kinds = (AverageState, optax.contrib.ScheduleFreeState)
    found = [node for node in jax.tree.leaves(state, is_leaf=lambda n: isinstance(n, kinds)) if isinstance(node, kinds)]
    if not found:
        return params
    kept = found[0].average if isinstance(found[0], AverageState) else found[0].z
    given, known = (jax.tree.flatten(tree) for tree in (params, kept))
    same = (isinstance(leaf, (jax.Array, np.ndarray)) and leaf.shape == z.shape for leaf, z in zip(given[0], known[0]))
    if given[1] != known[1] or not all(same):
        raise ValueError("params do not have the shapes of the weights in the optimizer's state, but must be the same.")
    return kept if isinstance(found[0], AverageState) else optax.contrib.schedule_free_eval_params(found[0], params)
