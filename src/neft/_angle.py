"""Angles between two Gaussian variables, elementwise: fast where the library's arc functions are not, and with
derivatives that stay finite where the variables become multiples of each other.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float


@jax.custom_jvp
def angle(gap: Float[Array, "*shape"], total: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """θ = arccos ρ in [0, π] from 1 - ρ and 1 + ρ, or the same multiple of both; exact where either is small.

    At the two ends θ has a corner as a function of what ρ is made of; its derivative there is taken as 0. Where both
    vanish there is no correlation, and θ = π/2.

    >>> float(angle(jnp.asarray(2.0), jnp.asarray(0.0))) == float(jnp.float32(math.pi))
    True
    """
    return 2 * _quarter(jnp.sqrt(gap), jnp.sqrt(total))


@angle.defjvp
def _angle_jvp(primals, tangents):
    (gap, total), (dgap, dtotal) = primals, tangents
    both = gap + total
    change = (total * dgap - gap * dtotal) / jnp.where(both > 0, both, 1)
    return angle(gap, total), change * _inverse_sine(gap, total)


@jax.custom_jvp
def sine(gap: Float[Array, "*shape"], total: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sin θ = √(1 - ρ²) from 1 - ρ and 1 + ρ, or the same multiple of all three, with the derivative 0 at both ends.

    >>> float(sine(jnp.asarray(1.0), jnp.asarray(1.0)))
    1.0
    """
    return jnp.sqrt(gap * total)


@sine.defjvp
def _sine_jvp(primals, tangents):
    (gap, total), (dgap, dtotal) = primals, tangents
    return sine(gap, total), (gap * dtotal + total * dgap) / 2 * _inverse_sine(gap, total)


def _inverse_sine(gap: Array, total: Array) -> Array:
    product = gap * total
    inside = product > 0
    return jnp.where(inside, 1 / jnp.sqrt(jnp.where(inside, product, 1)), 0)


@jax.custom_jvp
def arctan(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """arctan of numbers in [-1, 1], such as the tangents y/(√(x² + y²) + x) of half the angle of a point with x ≥ 0.

    >>> round(float(arctan(jnp.asarray(-1.0))), 6)
    -0.785398
    """
    # A polynomial, because arc functions of the library are calls that do not vectorize.
    square = ratio * ratio
    return ratio * _polynomial(_coefficients(8 if square.dtype.itemsize < 8 else 18), square)


@arctan.defjvp
def _arctan_jvp(primals, tangents):
    (ratio,), (change,) = primals, tangents
    return arctan(ratio), change / (1 + ratio * ratio)


@jax.custom_jvp
def arcsine(sine: Float[Array, "*shape"], cosine: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The angle φ in [-π/2, π/2] of this sine and this cosine.

    >>> round(float(arcsine(jnp.asarray(-0.6), jnp.asarray(0.8))), 6)
    -0.643501
    """
    # sin φ/φ = 1 - (1 - cos φ)W(cos φ): the polynomial W bears on a part only, so its rounding does not add up from
    # layer to layer. A division comes last because the compiler does not do that again for everyone who uses it.
    part = _polynomial(_part_of_sine(7 if cosine.dtype.itemsize < 8 else 17), cosine)
    return sine / (1 - (1 - cosine) * part)


@arcsine.defjvp
def _arcsine_jvp(primals, tangents):
    (y, x), (dy, dx) = primals, tangents
    return arcsine(y, x), x * dy - y * dx


def arcsine_and_secant(sine: Float[Array, "*shape"], scale: float = 1.0) -> tuple[Array, Array]:
    """φ/scale from sin φ/scale, and 1/cos φ, for |sin φ| ≤ 32/33, in float32 and without derivatives.

    Sums and products only: roots and quotients take several times as long, and the compiler cuts loops at them.

    >>> arc, secant = arcsine_and_secant(jnp.asarray(0.6, jnp.float32))
    >>> round(float(arc), 6), round(float(secant), 6)
    (0.643501, 1.25)
    """
    square = 1 - scale**2 * (sine * sine)
    secant = _inverse_root(square)
    lost = 1 - square * secant
    return sine + (sine * lost) * _polynomial(_part_of_arc(7), lost), secant


def _inverse_root(value: Array) -> Array:
    # 1/√value in float32: half the exponent is in the bits (Lomont 2003), to 3.5 %, and the rest is a series.
    bits = lax.shift_right_arithmetic(lax.bitcast_convert_type(value, jnp.int32), jnp.int32(1))
    guess = lax.bitcast_convert_type(jnp.int32(0x5F375A86) - bits, jnp.float32)
    rest = 1 - (value * guess) * guess
    return guess + (guess * rest) * _polynomial(_part_of_inverse_root(3), rest)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    highest, *rest = coefficients
    total = jnp.full_like(x, highest)
    for coefficient in rest:
        total = total * x + coefficient
    return total


def _quarter(y: Array, x: Array) -> Array:
    # arctan(y/x) for y, x ≥ 0.
    y, x = jnp.broadcast_arrays(y, x)
    first = arctan(_divide_or_one(jnp.minimum(y, x), jnp.maximum(y, x)))
    return jnp.where(y > x, math.pi / 2 - first, first)


def _divide_or_one(small: Array, large: Array) -> Array:
    # 1 where both vanish.
    return jnp.where(large > 0, small / jnp.where(large > 0, large, 1), 1)


@functools.cache
def _coefficients(degree: int) -> tuple[float, ...]:
    # arctan(√s)/√s on [0, 1]: the nearest singularity is at s = -1, so each power gains 0.17.
    return _fitted(lambda s: np.arctan(np.sqrt(s)) / np.sqrt(s), degree)


@functools.cache
def _part_of_sine(degree: int) -> tuple[float, ...]:
    # (1 - sin φ/φ)/(1 - cos φ) by cos φ in [0, 1]; its singularity is there too.
    return _fitted(lambda s: (1 - np.sqrt(1 - s * s) / np.arccos(s)) / (1 - s), degree)


@functools.cache
def _part_of_arc(degree: int) -> tuple[float, ...]:
    # (φ/sin φ - 1)/(1 - cos φ) by 1 - cos φ, as far as sin φ = 32/33.
    return _fitted(lambda s: (np.arccos(1 - s) / np.sqrt(s * (2 - s)) - 1) / s, degree, 0.0, 0.757)


@functools.cache
def _part_of_inverse_root(degree: int) -> tuple[float, ...]:
    # (1/√(1 - r) - 1)/r for what the guess by bits leaves.
    return _fitted(lambda r: (1 / np.sqrt(1 - r) - 1) / r, degree, -0.0702, 0.0678)


def _fitted(
    function: Callable[[np.ndarray], np.ndarray], degree: int, low: float = 0.0, high: float = 1.0
) -> tuple[float, ...]:
    # Coefficients of the polynomial that goes through the function at Chebyshev nodes of [low, high], highest power
    # first.
    nodes = low + (high - low) * (1 - np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))) / 2
    series = np.polynomial.Chebyshev.fit(nodes, function(nodes), degree, domain=[low, high])
    return tuple(float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef[::-1])
