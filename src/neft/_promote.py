"""Ranks and types of arrays that meet are said where they differ; the tests ask JAX to promote nothing by itself."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import _check

A = TypeVar("A", Array, np.ndarray)


def to_rank(array: A, ndim: int) -> A:
    """The array with axes of length 1 in front, `ndim` axes in all.

    >>> to_rank(np.ones(3), 2).shape
    (1, 3)
    """
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def common_dtype(*values: Any) -> np.dtype:
    """The type in which JAX would compute with all of these arrays and types, which users may mix.

    >>> common_dtype(np.arange(3), jnp.ones(2, jnp.float16))
    dtype('float16')
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


def library_of(*values: Any) -> Any:
    """`jax.numpy` where any of the values is an array of JAX, else `numpy`: formulas that serve both ask this.

    >>> library_of(np.ones(2), 1.0).__name__, library_of(jnp.ones(2)).__name__
    ('numpy', 'jax.numpy')
    """
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def cast(value: Any, like: Any) -> Any:
    """A number, which may be traced, as an array without axes in the type of another."""
    return library_of(value, like).asarray(value, like.dtype)


def traced(value: Any) -> bool:
    """Whether a JAX array or key stands for values that are not known yet, because a function of it is being compiled.

    >>> seen = []
    >>> jax.eval_shape(lambda x: seen.append(traced(x)), jnp.ones(2))
    >>> seen, traced(jnp.ones(2)), traced(jax.random.key(0)), traced(3.0)
    ([True], False, False, False)
    """
    if not isinstance(value, jax.Array):
        return False
    try:
        np.asarray(jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value)
    except jax.errors.TracerArrayConversionError:
        return True
    return False


def numeric(argument: str, value: Any) -> Array:
    """`value` as a JAX array of real numbers, traced or not, for pure functions; NaN passes.

    >>> numeric("q", [1.0, 2.0]).shape
    (2,)
    """
    found = value if isinstance(value, jax.Array) else _check.as_array(argument, value)
    if not jnp.issubdtype(found.dtype, jnp.number) or jnp.issubdtype(found.dtype, jnp.complexfloating):
        raise ValueError(f"{argument} is {_check.brief(value)}, but must be an array of real numbers.")
    return jnp.asarray(found)


def floating(argument: str, value: Any) -> Array:
    """What `numeric` gives, where whole numbers become floating ones.

    >>> floating("q", 2).dtype.name
    'float32'
    """
    found = numeric(argument, value)
    return found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(jnp.result_type(float))
