"""A metric by its largest eigenvalues and their axes, followed from batch to batch (docs/theory/fisher, eqs. 20-22).

All by products with few columns: nothing of the size of the metric is made, and nothing is decomposed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Top(NamedTuple):
    """Axes U of shape (p, k) with orthonormal columns, the eigenvalues on them, and the trace of the whole metric."""

    axes: Float[Array, "p k"]
    values: Float[Array, " k"]
    trace: Float[Array, ""]


def start(size: int, rank: int, dtype: Any) -> Top:
    """The identity, with axes in general position: a unit vector may belong to an input that is always zero.

    >>> start(4, 2, jnp.float32).axes.shape
    (4, 2)
    """
    return Top(_general(size, rank, dtype), jnp.ones(rank, dtype), jnp.asarray(size, dtype))


def follow(top: Top, x: Float[Array, "batch d"], step: Float[Array, ""]) -> Top:
    """One step of orthogonal iteration on (1-λ)G + λ mean x̃x̃ᵀ, where G is known by its top; x̃ = x if d is p."""
    U, count = top.axes, len(x)
    seen = _product(x, U)
    mean = x.T @ seen / count
    if len(U) > x.shape[1]:
        mean = jnp.concatenate([mean, seen.mean(0)[None, :]])
    axes = orthonormal(_spread((1 - step) * U * top.values[None, :] + step * mean))
    before = (jnp.square(axes.T @ U) * top.values[None, :]).sum(1)
    values = (1 - step) * before + step * jnp.square(_product(x, axes)).mean(0)
    size = jnp.square(x).sum(1).mean() + (len(U) - x.shape[1])
    return Top(axes, values, (1 - step) * top.trace + step * size)


def natural(top: Top, rows: Float[Array, "m p"], epsilon: Float[Array, ""]) -> Float[Array, "m p"]:
    """rows (G + ε)⁻¹, G without its smaller eigenvalues."""
    kept = top.values / (top.values + epsilon)
    return (rows - ((rows @ top.axes) * kept[None, :]) @ top.axes.T) / epsilon


def orthonormal(Y: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """The columns of Y made orthonormal one after the other (Gram, Schmidt), each twice against rounding."""

    def one(i: Array, Q: Array) -> Array:
        # Columns from i on are zero still, so that they take no part.
        v = jax.lax.dynamic_index_in_dim(Y, i, 1, keepdims=False)
        for _ in range(2):
            v = v - Q @ (v @ Q)
        v = v / jnp.maximum(jnp.sqrt(v @ v), jnp.finfo(Y.dtype).tiny)
        return jax.lax.dynamic_update_index_in_dim(Q, v, i, 1)

    return jax.lax.fori_loop(0, Y.shape[1], one, jnp.zeros_like(Y))


def _spread(Y: Float[Array, "p k"]) -> Float[Array, "p k"]:
    # Inputs that are always zero may leave fewer directions than columns; without a little of all directions the last
    # axes would then be rounding, and not orthogonal to the others.
    size = jnp.sqrt(jnp.square(Y).sum())
    little = 64 * jnp.finfo(Y.dtype).eps * jnp.where(size > 0, size, 1)
    return Y + little * _general(Y.shape[0], Y.shape[1], Y.dtype)


def _general(size: int, rank: int, dtype: Any) -> Float[Array, "p k"]:
    return jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(size, rank)))[0], dtype)


def _product(x: Float[Array, "batch d"], U: Float[Array, "p k"]) -> Float[Array, "batch k"]:
    d = x.shape[1]
    return x @ U if len(U) == d else x @ U[:d] + U[d][None, :]
