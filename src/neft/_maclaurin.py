"""Exact Maclaurin coefficients: rational arithmetic, rounded once at the end.

A series is a list of Fractions, lowest order first. Recurrences in floating point lose digits with every order; these
do not.
"""

import math
from fractions import Fraction

import numpy as np


def exponential(order: int, rate: Fraction = Fraction(1)) -> list[Fraction]:
    """Coefficients of e^(rate·z).

    >>> exponential(3)
    [Fraction(1, 1), Fraction(1, 1), Fraction(1, 2), Fraction(1, 6)]
    """
    return [rate**k / math.factorial(k) for k in range(order + 1)]


def divide(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    """Coefficients of a/b, with b[0] ≠ 0."""
    quotient: list[Fraction] = []
    for k in range(len(a)):
        known = sum((quotient[j] * b[k - j] for j in range(k)), Fraction(0))
        quotient.append((a[k] - known) / b[0])
    return quotient


def times_z(a: list[Fraction]) -> list[Fraction]:
    """Coefficients of z·a(z), to the same order."""
    return [Fraction(0), *a[:-1]]


def sigmoid(order: int, rate: Fraction = Fraction(1)) -> list[Fraction]:
    """1/(1 + e^(-rate·z))."""
    below = exponential(order, -rate)
    below[0] += 1
    return divide(_constant(1, order), below)


def tanh(order: int) -> list[Fraction]:
    """(1 - e^-2z)/(1 + e^-2z)."""
    e = exponential(order, Fraction(-2))
    one = _constant(1, order)
    return divide([a - b for a, b in zip(one, e)], [a + b for a, b in zip(one, e)])


def softplus(order: int) -> list[float]:
    """ln(1 + e^z): ln 2 at 0, and its derivative is the sigmoid."""
    slope = sigmoid(order)
    return [math.log(2), *(float(slope[k - 1] / k) for k in range(1, order + 1))]


def mish(order: int) -> list[Fraction]:
    """z·tanh(softplus(z)) = z (e^2z + 2e^z)/(e^2z + 2e^z + 2)."""
    above = [a + 2 * b for a, b in zip(exponential(order, Fraction(2)), exponential(order))]
    below = [above[0] + 2, *above[1:]]
    return times_z(divide(above, below))


def sin(order: int, rate: Fraction = Fraction(1)) -> list[Fraction]:
    """The sine of rate·z."""
    zero = Fraction(0)
    return [rate**k * Fraction((-1) ** (k // 2), math.factorial(k)) if k % 2 else zero for k in range(order + 1)]


def erf_over_slope(order: int) -> list[Fraction]:
    """erf(z)·√π/2 = Σ (-1)^j z^(2j+1) / (j! (2j+1))."""
    odd = {2 * j + 1: Fraction((-1) ** j, math.factorial(j) * (2 * j + 1)) for j in range(order // 2 + 1)}
    return [odd.get(k, Fraction(0)) for k in range(order + 1)]


def gelu(order: int) -> list[float]:
    """z Φ(z) = z/2 + (z/√π) Σ (-1)^j (z/√2)^(2j+1) / (j! (2j+1))."""
    # (z/√2)^(2j+1) = z^(2j+1) / (2^j √2), so that only one irrational factor, 1/√(2π), is left.
    inner = [c / 2 ** ((k - 1) // 2) if k % 2 else c for k, c in enumerate(erf_over_slope(order))]
    coefficients = [float(c) / math.sqrt(2 * math.pi) for c in times_z(inner)]
    if order >= 1:
        coefficients[1] += 0.5
    return coefficients


def monomial(power: int, order: int, factor: float = 1.0) -> list[float]:
    """factor·z^power."""
    return [factor if k == power else 0.0 for k in range(order + 1)]


def rounded(series: list[Fraction] | list[float], factor: float = 1.0) -> np.ndarray:
    """The coefficients as float64, or a refusal where that cannot hold them."""
    numbers = []
    for k, c in enumerate(series):
        try:
            numbers.append(float(c) * factor)
        except OverflowError:
            raise ValueError(
                f"order is {len(series) - 1}, but must be at most {k - 1} for coefficients that float64 can hold."
            ) from None
    return np.array(numbers)


def _constant(value: int, order: int) -> list[Fraction]:
    return [Fraction(value)] + [Fraction(0)] * order
