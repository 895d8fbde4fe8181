"""The step of an optimizer, which is optax's or a user's own."""

from typing import Any

import jax
import optax


def update(
    optimizer: optax.GradientTransformation, gradient: Any, state: Any, params: Any, **extra: Any
) -> tuple[Any, Any]:
    """What the optimizer adds to the parameters, and its next state.

    >>> change, _ = update(optax.sgd(0.5), 2.0, optax.sgd(0.5).init(1.0), 1.0)
    >>> float(change)
    -1.0
    """
    # Adam's bias correction raises a float to a whole-numbered count of steps.
    with jax.numpy_dtype_promotion("standard"):
        return optax.with_extra_args_support(optimizer).update(gradient, state, params, **extra)
