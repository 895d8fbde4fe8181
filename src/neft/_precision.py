"""Theory runs in float64, whatever the caller's configuration, and leaves that configuration alone."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def float64(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run with 64-bit JAX; the JAX arrays in its result become NumPy arrays.

    An array of 64 bits that left the context as a JAX array would silently drop to 32.

    >>> import jax.numpy as jnp
    >>> float64(lambda: jnp.asarray(1 / 3))().dtype
    dtype('float64')
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return jax.tree.map(_to_numpy, function(*args, **kwargs))

    return run


def _to_numpy(leaf):
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
