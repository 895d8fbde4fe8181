"""Elementary functions whose derivatives keep their relative precision in the tails.

Plain autodiff writes sigmoid' as s(1 - s) and tanh' as 1 - t², which cancel for large arguments. Here every derivative
is a product of the function at z and at -z, so that derivatives of any order are accurate relative to themselves.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_jvp
def sigmoid(z):
    """1/(1 + e^-z)."""
    return lax.logistic(z)


@sigmoid.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    s = sigmoid(z)
    return s, s * sigmoid(-z) * dz


@jax.custom_jvp
def tanh(z):
    """The hyperbolic tangent."""
    return jnp.tanh(z)


@tanh.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return tanh(z), 4 * sigmoid(2 * z) * sigmoid(-2 * z) * dz


@jax.custom_jvp
def softplus(z):
    """ln(1 + e^z)."""
    return jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z)))


@softplus.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return softplus(z), sigmoid(z) * dz


def normal_cdf(z):
    """The standard normal distribution function, by erfc so that the left tail keeps its precision."""
    return lax.erfc(-z * math.sqrt(0.5)) / 2
