"""Pair averages ⟨σ^(n)(z₁) σ^(n)(z₂)⟩ in closed form, n = 0 and 1.

Each function takes the variances K1, K2 and the correlation ρ, is pure, keeps its dtype, and is written so that
nothing cancels at ρ = ±1 or at large K. By Price's theorem the average of the derivatives is the derivative of the
average in K12 = ρ√(K1 K2).
"""

import math
import re
from collections.abc import Callable

import jax.numpy as jnp

from .._activation import Activation

Form = Callable[..., jnp.ndarray]


def closed_form(act: Activation, order: int) -> Form | None:
    """The function of (K1, K2, ρ) for this activation and derivative order, or None where there is none.

    >>> from neft import activation
    >>> form = closed_form(activation("linear"), 0)
    >>> float(form(2.0, 2.0, 0.5))
    1.0
    """
    if not act.named:
        return None
    name, _, parameters = act.name.rstrip(")").partition("(")
    if name == "sin":
        order %= 2  # σ'' = -σ, and a product of two loses the sign
    numbers = [float(p) for p in re.findall(r"[^,\s]+", parameters)]
    make = _FORMS.get(name)
    return None if make is None or order > 1 else make(*numbers)[order]


def _linear() -> tuple[Form, Form]:
    return (lambda K1, K2, rho: rho * jnp.sqrt(K1 * K2)), (lambda K1, K2, rho: 0 * (K1 + K2) + 0 * rho + 1)


def _quadratic() -> tuple[Form, Form]:
    return (
        lambda K1, K2, rho: K1 * K2 * (1 + 2 * rho**2),
        lambda K1, K2, rho: 4 * rho * jnp.sqrt(K1 * K2),
    )


def _leaky_relu(slope: float = 0.01) -> tuple[Form, Form]:
    # σ(z) = odd·z + even·|z|; products of an odd and an even function average to zero (arc-cosine kernels).
    odd, even = ((1 + slope) / 2) ** 2, ((1 - slope) / 2) ** 2

    def value(K1, K2, rho):
        magnitudes = (jnp.sqrt(_sine2(rho)) + rho * jnp.arcsin(rho)) * (2 / math.pi)
        return jnp.sqrt(K1 * K2) * (odd * rho + even * magnitudes)

    def derivative(K1, K2, rho):
        return odd + even * (2 / math.pi) * jnp.arcsin(rho) + 0 * (K1 + K2)

    return value, derivative


def _erf() -> tuple[Form, Form]:
    # The arcsine kernel (Williams 1997).
    def value(K1, K2, rho):
        c = rho * jnp.sqrt(K1 * K2)
        return (2 / math.pi) * jnp.arcsin(2 * c / jnp.sqrt((1 + 2 * K1) * (1 + 2 * K2)))

    def derivative(K1, K2, rho):
        return (4 / math.pi) / jnp.sqrt(1 + 2 * K1 + 2 * K2 + 4 * K1 * K2 * _sine2(rho))

    return value, derivative


def _sin() -> tuple[Form, Form]:
    # ⟨sin z₁ sin z₂⟩ = [cos-average of z₁-z₂ minus that of z₁+z₂]/2, with the smaller exponent taken out.
    def parts(K1, K2, rho):
        difference = (jnp.sqrt(K1) - jnp.sqrt(K2)) ** 2 + 2 * jnp.sqrt(K1 * K2) * (1 - jnp.abs(rho))
        return jnp.exp(-difference / 2) / 2, -2 * jnp.abs(rho) * jnp.sqrt(K1 * K2)

    def value(K1, K2, rho):
        front, exponent = parts(K1, K2, rho)
        return -jnp.sign(rho) * front * jnp.expm1(exponent)

    def derivative(K1, K2, rho):
        front, exponent = parts(K1, K2, rho)
        return front * (1 + jnp.exp(exponent))

    return value, derivative


def _gelu() -> tuple[Form, Form]:
    # σ(z) = z/2 + z·erf(z/√2)/2, an odd and an even part. With E = erf(z₁/√2)erf(z₂/√2), Stein's lemma turns ⟨z₁z₂E⟩
    # into ⟨E⟩ (an arcsine) and its derivatives in K1, K2, K12.
    def parts(K1, K2, rho):
        product, sine2 = K1 * K2, _sine2(rho)
        c = rho * jnp.sqrt(product)
        scale = (1 + K1) * (1 + K2)
        D = 1 + K1 + K2 + product * sine2
        bracket = product * (1 + K1 + K2 + rho**2 + product * sine2) / scale
        arc = (2 / math.pi) * jnp.arcsin(c / jnp.sqrt(scale))
        return c, product, scale, D, bracket, arc

    def value(K1, K2, rho):
        c, _, _, D, bracket, arc = parts(K1, K2, rho)
        return (c + c * arc + (2 / math.pi) * bracket / jnp.sqrt(D)) / 4

    def derivative(K1, K2, rho):
        c, product, scale, D, bracket, arc = parts(K1, K2, rho)
        inner = c * (1 + bracket / D + 2 * (1 - product) / scale) / jnp.sqrt(D)
        return (1 + arc + (2 / math.pi) * inner) / 4

    return value, derivative


def _sine2(rho):
    # 1 - ρ², exact where ρ is close to ±1.
    return (1 - rho) * (1 + rho)


_FORMS: dict[str, Callable[..., tuple[Form, Form]]] = {
    "linear": _linear,
    "quadratic": _quadratic,
    "relu": lambda: _leaky_relu(0.0),
    "leaky_relu": _leaky_relu,
    "erf": _erf,
    "sin": _sin,
    "gelu": _gelu,
}
