"""Pair averages ⟨σ^(n)(z₁) σ^(n)(z₂)⟩ in closed form, n = 0 and 1.

Each function takes a `Pair`, is pure, keeps its dtype, and is written so that nothing cancels at ρ = ±1 or at large K
and that derivatives stay finite. By Price's theorem the average of the derivatives is the derivative of the average in
the covariance c = ρ√(K1 K2).
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._activation import Activation
from ._angle import angle, arcsine, arcsine_and_secant, sine


class Pair(NamedTuple):
    """Two Gaussian variables, elementwise: more than is needed, so that every digit is there at both ends of ρ."""

    r1: Any  # √K1
    r2: Any
    c: Any  # their covariance ρ√(K1 K2)
    gap: Any  # √(K1 K2) - c
    total: Any  # √(K1 K2) + c

    @classmethod
    def of(cls, K1: Any, K2: Any, rho: Any) -> "Pair":
        """The pair of these variances and this correlation."""
        r1, r2 = jnp.sqrt(K1), jnp.sqrt(K2)
        return cls(r1, r2, r1 * r2 * rho, r1 * r2 * (1 - rho), r1 * r2 * (1 + rho))

    @classmethod
    def one(cls, K: Any, r: Any) -> "Pair":
        """A variable of variance K = r² paired with itself."""
        return cls(r, r, K, jnp.zeros_like(K), 2 * K)


Average = Callable[[Pair], Any]


class Fast(NamedTuple):
    """⟨σσ⟩ and ⟨σ'σ'⟩ for K ≤ 16 in float32 by sums and products only, from c and one number for each side."""

    factor: Callable[[Any], Any]  # of K, of one side
    averages: Callable[[Any, Any], tuple[Any, Any]]  # of the product of both factors and c


class Form(NamedTuple):
    """⟨σσ⟩, ⟨σ'σ'⟩, and √(⟨σ₁²⟩⟨σ₂²⟩) - ⟨σσ⟩ where a kink asks for more digits of it than a difference has."""

    value: Average
    derivative: Average
    gap: Average | None = None
    frequency: float | None = None  # of a sine
    fast: Fast | None = None


def form_of(act: Activation) -> Form | None:
    """The closed form for this activation, or None where there is none.

    >>> from neft import activation
    >>> float(form_of(activation("linear")).value(Pair.of(4.0, 4.0, 0.5)))
    2.0
    """
    return _named_form(act.name) if act.named else _form_of_own(act)


@functools.lru_cache(maxsize=64)
def _named_form(name: str) -> Form | None:
    name, _, parameters = name.rstrip(")").partition("(")
    make = _FORMS.get(name)
    return None if make is None else make(*(float(p) for p in re.findall(r"[^,\s]+", parameters)))


def closed_form(act: Activation, order: int) -> Callable[..., jnp.ndarray] | None:
    """The function of (K1, K2, ρ) for this activation and derivative order, or None where there is none.

    >>> from neft import activation
    >>> form = closed_form(activation("linear"), 0)
    >>> float(form(4.0, 4.0, 0.5))
    2.0
    """
    form = form_of(act)
    if form is None or (order > 1 and form.frequency is None):
        return None
    average = form.derivative if order % 2 else form.value
    # σ'' = -w²σ of a sine, and a product of two loses the sign.
    factor = form.frequency ** (4 * (order // 2)) if form.frequency is not None else 1.0
    return lambda K1, K2, rho: factor * average(Pair.of(K1, K2, rho))


def _form_of_own(act: Activation) -> Form | None:
    # Found out about a function, but exact: σ(z) = cσ(z/c) makes it two lines, and one Fourier coefficient a sine.
    if act.pair is not None:
        return _given(act.pair)
    if act.scale_invariant:
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            right, left = (float(act.function(jnp.asarray(z))) for z in (1.0, -1.0))
        return _two_lines(right, -left)
    fourier = act.fourier
    return None if fourier is None or fourier.sine is None else _sin(fourier.frequency, *fourier.sine)


def _given(average: Callable[[Any, Any, Any], Any]) -> Form:
    # By Price's theorem ⟨σ'σ'⟩ is the derivative in the covariance.
    def value(pair):
        return average(pair.r1**2, pair.r2**2, pair.c)

    def derivative(pair):
        return jax.jvp(lambda c: average(pair.r1**2, pair.r2**2, c), (pair.c,), (jnp.ones_like(pair.c),))[1]

    return Form(value, derivative)


def _linear() -> Form:
    return Form(lambda pair: pair.c, lambda pair: jnp.ones_like(pair.c))


def _quadratic() -> Form:
    return Form(lambda pair: (pair.r1 * pair.r2) ** 2 + 2 * pair.c**2, lambda pair: 4 * pair.c)


def _leaky_relu(slope: float = 0.01) -> Form:
    return _two_lines(1.0, slope)


def _two_lines(right: float, left: float) -> Form:
    # σ(z) = √odd z + √even |z|; products of an odd and an even function average to zero. The rest are the arc-cosine
    # kernels of Cho, Saul 2009.
    odd, even = ((right + left) / 2) ** 2, ((right - left) / 2) ** 2

    def value(pair):
        theta, sin = angle(pair.gap, pair.total), sine(pair.gap, pair.total)
        return odd * pair.c + even * ((2 / math.pi) * (sin + pair.c * (math.pi / 2 - theta)))

    def derivative(pair):
        return odd + even * (1 - (2 / math.pi) * angle(pair.gap, pair.total))

    def gap(pair):
        # What is left of the second bracket is of order θ³, so its cancellation costs no digit of θ.
        theta, sin = angle(pair.gap, pair.total), sine(pair.gap, pair.total)
        return (odd + even) * pair.gap - even * (2 / math.pi) * (sin - theta * pair.c)

    return Form(value, derivative, gap)


def _erf() -> Form:
    # The arcsine kernel (Williams 1997).
    def value(pair):
        _, arc, _ = _arc(pair, 2.0)
        return _precisely(2 / math.pi, arc)

    def derivative(pair):
        _, _, inverse = _arc(pair, 2.0)
        return _precisely(4 / math.pi, inverse)

    def averages(factor, c):
        square, secant = arcsine_and_secant(factor * c, math.pi / 2)
        return square, factor * secant

    # The product of the factors is 4/π over the root of (1 + 2 K1)(1 + 2 K2), so that no other constant is rounded.
    fast = Fast(lambda K: 1 / np.sqrt(math.pi / 4 * (1 + 2 * K)), averages)
    return Form(value, derivative, fast=fast)


def _arc(pair: Pair, rate: float) -> tuple[Any, Any, Any]:
    # D = (1 + rate K1)(1 + rate K2) - (rate c)², the angle whose sine is rate c/√(D + (rate c)²), and 1/√D.
    one, two = (1 / jnp.sqrt(1 + rate * r**2) for r in (pair.r1, pair.r2))
    D = 1 + rate * (pair.r1**2 + pair.r2**2) + rate**2 * (pair.gap * pair.total)
    cosine = jnp.sqrt(D) * (one * two)
    # Of 1/√D the compiler would make another root, which takes longer than a quotient.
    return D, arcsine(rate * pair.c * (one * two), cosine), (one * two) / cosine


def _precisely(factor: float, value: Any) -> Any:
    # A factor rounded to float32 would be off by the same at every layer.
    high = float(np.float32(factor))
    return high * value + (factor - high) * value


def _sin(frequency: float = 1.0, size: float = 1.0, phase: float = 0.0) -> Form:
    # ⟨sin z₁ sin z₂⟩ = [cos-average of z₁-z₂ minus that of z₁+z₂]/2, with the smaller exponent taken out. A phase
    # mixes in the cosine, whose products with the sine average to zero.
    odd, even = (size * math.cos(phase)) ** 2, (size * math.sin(phase)) ** 2

    def parts(pair):
        if frequency != 1:
            rate = frequency * frequency
            pair = Pair(frequency * pair.r1, frequency * pair.r2, *(rate * value for value in pair[2:]))
        sign = jnp.where(pair.c < 0, -1, 1).astype(jnp.result_type(pair.c))
        difference = (pair.r1 - pair.r2) ** 2 + 2 * jnp.where(pair.c < 0, pair.total, pair.gap)
        # The same with derivatives that also hold where a variance, and with it the correlation, vanishes.
        plain = pair.r1**2 + pair.r2**2 - 2 * sign * pair.c
        difference = lax.stop_gradient(difference - plain) + plain
        return sign, jnp.exp(-difference / 2) / 2, -2 * sign * pair.c

    def sines(pair):
        sign, front, exponent = parts(pair)
        return -sign * front * jnp.expm1(exponent)

    def cosines(pair):
        _, front, exponent = parts(pair)
        return front * (1 + jnp.exp(exponent))

    def sum_of(first, of_first, second, of_second):
        # Neither is computed for nothing, and a factor 1 changes no bit.
        terms = [(factor, f) for factor, f in ((first, of_first), (second, of_second)) if factor]
        return lambda pair: sum(f(pair) if factor == 1 else factor * f(pair) for factor, f in terms)

    rate = frequency * frequency
    value, derivative = sum_of(odd, sines, even, cosines), sum_of(rate * odd, cosines, rate * even, sines)
    return Form(value, derivative, frequency=frequency)


def _gelu() -> Form:
    # σ(z) = z/2 + z·erf(z/√2)/2, an odd and an even part. With E = erf(z₁/√2)erf(z₂/√2), Stein's lemma turns ⟨z₁z₂E⟩
    # into ⟨E⟩ (an arcsine) and its derivatives in K1, K2, c.
    def parts(pair):
        K1, K2, c = pair.r1**2, pair.r2**2, pair.c
        share = (K1 / (1 + K1)) * (K2 / (1 + K2))
        rest = 1 / (1 + K1) * (1 / (1 + K2))
        D, arc, inverse = _arc(pair, 1.0)
        return c, share, rest, share * D + c * c * rest, arc, inverse

    def value(pair):
        c, _, _, bracket, arc, inverse = parts(pair)
        return (c + _precisely(2 / math.pi, c * arc + bracket * inverse)) / 4

    def derivative(pair):
        c, share, rest, bracket, arc, inverse = parts(pair)
        inner = c * (1 + bracket * inverse**2 + 2 * (rest - share)) * inverse
        return (1 + _precisely(2 / math.pi, arc + inner)) / 4

    return Form(value, derivative)


_FORMS: dict[str, Callable[..., Form]] = {
    "linear": _linear,
    "quadratic": _quadratic,
    "relu": lambda: _leaky_relu(0.0),
    "leaky_relu": _leaky_relu,
    "erf": _erf,
    "sin": _sin,
    "gelu": _gelu,
}
