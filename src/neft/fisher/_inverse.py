"""Inverses of metrics: by matrix products alone inside compiled code, or by LAPACK outside it.

Batched factorizations inside one compiled program can hang under load, so the optimizer does without them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._promote import to_rank

_MOST_STEPS = 100


class _Iterate(NamedTuple):
    X: Array
    R: Array
    size: Array
    before: Array
    step: Array


def newton_schulz(A: Float[Array, "*batch p p"], guess: Float[Array, "*batch p p"]) -> Float[Array, "*batch p p"]:
    """A⁻¹ of positive definite matrices, by X ← X + XR with R = 1 - AX, to rounding.

    R is squared by each step. The guess is used where its R has norm below 1; elsewhere the start is 1/|A|, for which
    the number of steps is about log₂ of the condition number plus five.

    >>> A = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    >>> bool(jnp.allclose(newton_schulz(A, jnp.eye(2)) @ A, jnp.eye(2), atol=1e-6))
    True
    """
    one = to_rank(jnp.eye(A.shape[-1], dtype=A.dtype), A.ndim)
    norm = jnp.abs(A).sum(-1).max(-1)[..., None, None]
    near = _size(one - A @ guess) < 0.9
    X = jnp.where(near[..., None, None], guess, one / norm)
    R = one - A @ X
    enough = 4 * A.shape[-1] * jnp.finfo(A.dtype).eps

    def unfinished(at: _Iterate) -> Array:
        # Sizes fall at every step until rounding stops them.
        return jnp.any((at.size > enough) & (at.size < at.before)) & (at.step < _MOST_STEPS)

    def advance(at: _Iterate) -> _Iterate:
        X = at.X + at.X @ at.R
        X = (X + jnp.swapaxes(X, -1, -2)) / 2
        R = one - A @ X
        return _Iterate(X, R, _size(R), at.size, at.step + 1)

    start = _Iterate(X, R, _size(R), jnp.full_like(_size(R), jnp.inf), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(unfinished, advance, start).X


def lapack(A: np.ndarray) -> np.ndarray:
    """A⁻¹ of a stack of positive definite matrices, on the host."""
    try:
        return np.linalg.inv(np.asarray(A, np.promote_types(A.dtype, np.float32)))
    except np.linalg.LinAlgError:
        raise ValueError("a metric has no inverse: damping or relative_damping must be larger.") from None


def damped(G: Any, damping: Any, relative: Any) -> Any:
    """G + (damping + relative·tr G)·1, for JAX and NumPy arrays of shape (…, p, p)."""
    trace = G.diagonal(axis1=-2, axis2=-1).sum(-1)
    epsilon = damping + relative * trace
    return G + epsilon[..., None, None] * to_rank(np.eye(G.shape[-1], dtype=G.dtype), G.ndim)


def _size(R: Float[Array, "*batch p p"]) -> Float[Array, "*batch"]:
    return jnp.sqrt(jnp.square(R).sum((-2, -1)))
