"""Layers that stay one operation of the graph, because what they do to numbers does not say what they are."""

import jax
import jax.numpy as jnp
from jaxtyping import Array


@jax.jit
def neft_batch_norm(x: Array, mean: Array, variance: Array, gain: Array, bias: Array, epsilon: Array) -> Array:
    """Batch normalization with given moments, of entries along the last axis."""
    return (x - mean) * (gain * jax.lax.rsqrt(variance + epsilon)) + bias


def batch_norm(x: Array, mean: Array, variance: Array, gain: Array | None, bias: Array | None, epsilon: float) -> Array:
    """The same, where gains and biases may be missing."""
    gain = jnp.ones(len(mean), mean.dtype) if gain is None else gain
    bias = jnp.zeros(len(mean), mean.dtype) if bias is None else bias
    return neft_batch_norm(x, mean, variance, gain, bias, jnp.asarray(epsilon, mean.dtype))
