"""Losses: functions of outputs and targets, summed over the training inputs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check
from ._kernels import targets

Loss = Callable[[Array, Array], Array]


def square(z: Float[Array, "N O"], y: Float[Array, "N O"]) -> Float[Array, ""]:
    """½Σ(z-y)²."""
    return ((z - y) ** 2).sum() / 2


def cross_entropy(z: Float[Array, "N O"], y: Float[Array, "N O"]) -> Float[Array, ""]:
    """-Σ_a Σ_i y_ai ln softmax_i(z_a), for probabilities y."""
    return optax.softmax_cross_entropy(z, y).sum()


LOSSES: dict[str, Loss] = {"square": square, "cross_entropy": cross_entropy}


def chosen(loss: Any) -> Loss:
    """The loss of a name, or a user's own function loss(z, y), which sums over the training inputs."""
    if callable(loss):
        _check.function("loss", loss, "outputs", "targets")
    function: Loss = loss if callable(loss) else LOSSES[_check.one_of("loss", loss, tuple(LOSSES))]  # type: ignore
    return function


def prepared(loss: Loss, y: Any, count: int, outputs: int) -> np.ndarray:
    """y_train as the loss takes it: targets (N, O), or probabilities (N, O), which labels 0, 1, 2, … stand for."""
    if loss is square:
        return targets(y, count, outputs)
    if loss is not cross_entropy:
        y = _check.as_array("y_train", y)
        if y.ndim == 0 or len(y) != count:
            raise ValueError(f"y_train has shape {y.shape}, but its first axis must have {count} entries.")
        return _check.array("y_train", y, dtype=y.dtype if y.dtype.kind in "iu" else np.float64)
    if _check.as_array("y_train", y).ndim == 1:
        labels = _check.array("y_train", y, shape=(count,), at_least=0, dtype=np.int64)
        if labels.max(initial=0) >= outputs:
            raise ValueError(f"y_train holds the label {labels.max()}, but labels must be from 0 to {outputs - 1}.")
        return np.eye(outputs)[labels]
    y = _check.array("y_train", y, shape=(count, outputs), at_least=0.0)
    if np.abs(y.sum(1) - 1).max(initial=0.0) > 1e-6:
        raise ValueError(
            f"y_train has a row that sums to {y.sum(1)[np.abs(y.sum(1) - 1).argmax()]:g}, but must hold 1."
        )
    return y


def slope(loss: Loss, z: Array, y: Array) -> Array:
    """dL/dz, in the shape of z."""
    return jnp.asarray(jax.grad(loss)(z, y))
