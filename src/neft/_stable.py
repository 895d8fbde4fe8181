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
    return sigmoid(z), logistic_density(z) * dz


@jax.custom_jvp
def logistic_density(z):
    """The derivative of the sigmoid, s(z) s(-z)."""
    return sigmoid(z) * sigmoid(-z)


@logistic_density.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    density = logistic_density(z)
    return density, -density * tanh(z / 2) * dz


@jax.custom_jvp
def tanh(z):
    """The hyperbolic tangent."""
    return jnp.tanh(z)


@tanh.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return tanh(z), 4 * logistic_density(2 * z) * dz


@jax.custom_jvp
def softplus(z):
    """ln(1 + e^z)."""
    return jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z)))


@softplus.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return softplus(z), sigmoid(z) * dz


@jax.custom_jvp
def expm1(z):
    """e^z - 1."""
    return jnp.expm1(z)


@expm1.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    # Not expm1 + 1, which is what autodiff takes and what rounds to 0 in the left tail.
    return expm1(z), jnp.exp(z) * dz


def normal_cdf(z):
    """The standard normal distribution function, by erfc so that the left tail keeps its precision."""
    return lax.erfc(-z * math.sqrt(0.5)) / 2
