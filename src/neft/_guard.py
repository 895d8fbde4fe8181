"""Roots, quotients and cuts at zero that stay finite, with their derivatives, in NumPy and in JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._promote import cast, library_of


def root(K: Any) -> Any:
    """√K, with the derivative 0 at 0.

    >>> float(jax.grad(root)(0.0))
    0.0
    """
    library = library_of(K)
    return library.where(K > 0, library.sqrt(positive(K)), cast(0, K))


def positive(value: Any) -> Any:
    """The value where it is positive, else 1: something to divide by."""
    return library_of(value).where(value > 0, value, cast(1, value))


def at_least_zero(value: Any) -> Any:
    """The larger of a number and 0, with the number's own derivative: rounding must not change one."""
    return _at_least_zero(value) if isinstance(value, jax.Array) else np.maximum(value, 0)


@jax.custom_jvp
def _at_least_zero(value: Any) -> Any:
    return jnp.maximum(value, 0)


@_at_least_zero.defjvp
def _(primals, tangents):
    return _at_least_zero(*primals), tangents[0]
