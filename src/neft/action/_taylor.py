"""Taylor coefficients as lists, with structural zeros.

A value that depends on t is a list of its coefficients c_0..c_K, in which None stands for a coefficient that is zero
whatever the numbers are. Along t·θ most of them are: θ has one coefficient, a matrix product with data one too, and σ
of that is a sum of powers with known numbers. Up to a moderate order everything is unrolled, so that XLA fuses it and
nothing is spent on zeros.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .. import _maclaurin
from .._series import Series

Coefficients = list[Any]

UNROLLED = 16
"""Up to this order recurrences are unrolled; beyond, XLA would compile for minutes, and `Series` does them in loops."""


def constant(value: Any, order: int) -> Coefficients:
    """The series of something that does not depend on t."""
    return [value, *[None] * order]


def example(u: Coefficients) -> Any:
    """Any coefficient, for its shape and type."""
    return next(c for c in u if c is not None)


def total(terms: Sequence[Any]) -> Any:
    """The sum of the terms that are not structurally zero, or None."""
    found = [term for term in terms if term is not None]
    return functools.reduce(lambda a, b: a + b, found) if found else None


def linear(function: Callable[[Any], Any], u: Coefficients) -> Coefficients:
    """A linear function of a series."""
    return [None if c is None else function(c) for c in u]


def bilinear(function: Callable[[Any, Any], Any], a: Coefficients, b: Coefficients) -> Coefficients:
    """A function linear in each of two series, such as a product."""
    return [
        total([None if a[j] is None or b[k - j] is None else function(a[j], b[k - j]) for j in range(k + 1)])
        for k in range(len(a))
    ]


def add(a: Coefficients, b: Coefficients) -> Coefficients:
    """a + b."""
    return [total(pair) for pair in zip(a, b)]


def negative(u: Coefficients) -> Coefficients:
    """-u."""
    return linear(lambda c: -c, u)


def multiply(a: Coefficients, b: Coefficients) -> Coefficients:
    """a·b, elementwise."""
    if _long(a) and sum(c is not None for c in a) > 2 < sum(c is not None for c in b):
        return _opened(_stacked(a) * _stacked(b))
    return bilinear(lambda x, y: x * y, a, b)


def divide(a: Coefficients, b: Coefficients) -> Coefficients:
    """a/b: q_k b_0 = a_k - Σ_{j≥1} b_j q_{k-j}."""
    first = _first(b, "a division by zero")
    if _long(a):
        return _opened(_stacked(a, b) / _stacked(b, a))
    quotient: Coefficients = []
    for k in range(len(a)):
        known = _convolved(b, quotient, k)
        above = total([a[k], None if known is None else -known])
        quotient.append(None if above is None else above / first)
    return quotient


def exp(u: Coefficients, first: Any = None) -> Coefficients:
    """e^u from y' = u'y; `first` replaces the constant term (e^u - 1 differs in nothing else)."""
    if (known := _monomial(u, "exp" if first is None else "expm1")) is not None:
        return known
    if _long(u):
        y = _opened(_stacked(u).exp())
    else:
        slope, y = _slope(u), [jnp.exp(u[0]) if u[0] is not None else jnp.ones_like(example(u))]
        for k in range(1, len(u)):
            y.append(_over(_convolved(slope, y, k), k))
    return y if first is None else [first, *y[1:]]


def expm1(u: Coefficients) -> Coefficients:
    """e^u - 1, accurate near 0."""
    return exp(u, jnp.zeros_like(example(u)) if u[0] is None else jnp.expm1(u[0]))


def log(u: Coefficients, first: Any = None) -> Coefficients:
    """ln u from u y' = u'."""
    base = _first(u, "the logarithm of zero")
    if _long(u):
        found = _opened(_stacked(u).log())
        return found if first is None else [first, *found[1:]]
    y: Coefficients = [jnp.log(base) if first is None else first]
    slope: Coefficients = [None]
    for k in range(1, len(u)):
        known = _convolved(u, slope, k)
        above = total([u[k], None if known is None else -known / k])
        y.append(None if above is None else above / base)
        slope.append(None if y[k] is None else k * y[k])
    return y


def log1p(u: Coefficients) -> Coefficients:
    """ln(1 + u), accurate near 0."""
    if (known := _monomial(u, "log1p")) is not None:
        return known
    if u[0] is None:
        one = jnp.ones_like(example(u))
        return log([one, *u[1:]], first=jnp.zeros_like(one))
    return log([1 + u[0], *u[1:]], first=jnp.log1p(u[0]))


def power(u: Coefficients, exponent: Any, first: Any = None) -> Coefficients:
    """u^r for a constant r, from u y' = r u' y."""
    base = _first(u, "a power of zero")
    value = base**exponent if first is None else first
    if _long(u):
        # (1 + (u - u_0)/u_0)^r, which is the same for either sign of u_0.
        relative = [jnp.ones_like(base), *linear(lambda c: c / base, u)[1:]]
        return linear(lambda c: value * c, exp(linear(lambda c: exponent * c, [None, *log(relative)[1:]])))
    y: Coefficients = [value]
    for k in range(1, len(u)):
        terms = [
            None if u[j] is None or y[k - j] is None else (exponent * j - (k - j)) * u[j] * y[k - j]
            for j in range(1, k + 1)
        ]
        above = total(terms)
        y.append(None if above is None else above / (k * base))
    return y


def integer_power(u: Coefficients, exponent: int) -> Coefficients:
    """u^n by repeated squaring; 1/u^|n| for n < 0."""
    if exponent < 0:
        one = constant(jnp.ones_like(example(u)), len(u) - 1)
        return divide(one, integer_power(u, -exponent))
    if exponent == 0:
        return constant(jnp.ones_like(example(u)), len(u) - 1)
    half = integer_power(u, exponent // 2) if exponent > 1 else None
    square = None if half is None else multiply(half, half)
    if square is None:
        return u
    return multiply(square, u) if exponent % 2 else square


def sin_cos(u: Coefficients) -> tuple[Coefficients, Coefficients]:
    """The sine and the cosine: s' = c u', c' = -s u'."""
    sine, cosine = _monomial(u, "sin"), _monomial(u, "cos")
    if sine is not None and cosine is not None:
        return sine, cosine
    return _rotation(u, jnp.sin, jnp.cos, -1)


def sinh_cosh(u: Coefficients) -> tuple[Coefficients, Coefficients]:
    """The hyperbolic sine and cosine."""
    if _long(u):
        up, down = exp(u), exp(negative(u))
        half = lambda a: linear(lambda c: c / 2, a)  # noqa: E731
        return half(add(up, negative(down))), half(add(up, down))
    return _rotation(u, jnp.sinh, jnp.cosh, 1)


def _rotation(u: Coefficients, sine: Callable, cosine: Callable, sign: int) -> tuple[Coefficients, Coefficients]:
    if _long(u) and sign < 0:
        found = _stacked(u).sin_cos()
        return _opened(found[0]), _opened(found[1])
    at = jnp.zeros_like(example(u)) if u[0] is None else u[0]
    slope, s, c = _slope(u), [sine(at)], [cosine(at)]
    for k in range(1, len(u)):
        up, down = _over(_convolved(slope, c, k), k), _over(_convolved(slope, s, k), k)
        s.append(up)
        c.append(None if down is None else sign * down)
    return s, c


def tanh(u: Coefficients) -> Coefficients:
    """tanh u = 2 sigmoid(2u) - 1, with the constant term of the function itself."""
    if (known := _monomial(u, "tanh")) is not None:
        return known
    y = linear(lambda c: 2 * c, sigmoid(linear(lambda c: 2 * c, u)))
    return [None if u[0] is None else jnp.tanh(u[0]), *y[1:]]


def sigmoid(u: Coefficients) -> Coefficients:
    """1/(1 + e^-u) from y' = y(u) y(-u) u', which does not cancel in the tails as y(1 - y) does."""
    if (known := _monomial(u, "sigmoid")) is not None:
        return known
    if _long(u):
        return _opened(_stacked(u).sigmoid())
    at = jnp.zeros_like(example(u)) if u[0] is None else u[0]
    slope = _slope(u)
    y: Coefficients = [lax.logistic(at)]
    mirrored: Coefficients = [lax.logistic(-at)]
    density: Coefficients = [y[0] * mirrored[0]]
    for k in range(1, len(u)):
        y.append(_over(_convolved(slope, density, k), k))
        mirrored.append(None if y[k] is None else -y[k])
        density.append(
            total([None if y[j] is None or mirrored[k - j] is None else y[j] * mirrored[k - j] for j in range(k + 1)])
        )
    return y


def integrated(u: Coefficients, derivative: Coefficients, first: Any) -> Coefficients:
    """The function of u with the given derivative in u and the given constant term."""
    slope = multiply(_slope(u), derivative)
    return [first, *(_over(c, k) for k, c in enumerate(slope[1:], start=1))]


def erf(u: Coefficients) -> Coefficients:
    """The error function, from its Gaussian derivative."""
    if (known := _monomial(u, "erf")) is not None:
        return known
    at = jnp.zeros_like(example(u)) if u[0] is None else u[0]
    return integrated(u, linear(lambda c: c * (2 / math.sqrt(math.pi)), exp(negative(multiply(u, u)))), lax.erf(at))


def erfc(u: Coefficients) -> Coefficients:
    """1 - erf u, with the constant term of the function itself."""
    at = jnp.zeros_like(example(u)) if u[0] is None else u[0]
    return [lax.erfc(at), *negative(erf(u))[1:]]


def side(u: Coefficients) -> Any:
    """The sign of u for small t > 0: that of the first coefficient that does not vanish."""
    sign = None
    for c in u:
        if c is not None:
            sign = jnp.sign(c) if sign is None else jnp.where(sign == 0, jnp.sign(c), sign)
    return sign


def _long(u: Coefficients) -> bool:
    return len(u) - 1 > UNROLLED


def _stacked(u: Coefficients, *others: Coefficients) -> Series:
    present = [c for v in (u, *others) for c in v if c is not None]
    shape, dtype = jnp.broadcast_shapes(*map(jnp.shape, present)), jnp.result_type(*present)
    return Series(jnp.stack([jnp.broadcast_to(jnp.asarray(0 if c is None else c, dtype), shape) for c in u]))


def _opened(series: Series) -> Coefficients:
    return list(series.scaled)


def _first(u: Coefficients, what: str) -> Any:
    if u[0] is None:
        raise ValueError(f"{what} stands where the line starts (t = 0), so the loss has no Taylor series there.")
    return u[0]


def _slope(u: Coefficients) -> Coefficients:
    # k u_k, the coefficients of t·du/dt.
    return [None if c is None or k == 0 else c if k == 1 else k * c for k, c in enumerate(u)]


def _convolved(a: Coefficients, y: Coefficients, k: int) -> Any:
    # Σ_j a_j y_{k-j} over the y that are known already.
    return total([None if a[j] is None or y[k - j] is None else a[j] * y[k - j] for j in range(k - len(y) + 1, k + 1)])


def _over(value: Any, k: int) -> Any:
    return None if value is None else value if k == 1 else value / k


_AT_ZERO: dict[str, Callable[[int], list]] = {
    "exp": _maclaurin.exponential,
    "expm1": lambda order: [0, *_maclaurin.exponential(order)[1:]],
    "log1p": lambda order: [0, *((-1) ** (k + 1) / k for k in range(1, order + 1))],
    "sigmoid": _maclaurin.sigmoid,
    "tanh": _maclaurin.tanh,
    "sin": _maclaurin.sin,
    "cos": lambda order: [c * (k + 1) for k, c in enumerate(_maclaurin.sin(order + 1)[1:])],
    "erf": lambda order: [float(c) * 2 / math.sqrt(math.pi) for c in _maclaurin.erf_over_slope(order)],
}


def _monomial(u: Coefficients, name: str) -> Coefficients | None:
    """f(u_p t^p) = Σ a_k u_p^k t^pk from the known Maclaurin coefficients of f; None if u is no such thing."""
    present = [p for p, c in enumerate(u) if c is not None]
    if len(present) != 1 or present[0] == 0:
        return None
    (p,) = present
    return powers(_AT_ZERO[name]((len(u) - 1) // p), u[p], step=p, order=len(u) - 1)


def powers(numbers: Sequence[Any], x: Any, *, step: int, order: int) -> Coefficients:
    """Σ_k a_k x^k t^(step·k); only the powers whose number is not zero are formed."""
    y: Coefficients = [None] * (order + 1)
    last, power_ = 0, None
    ladder = {1: x}
    for k, number in enumerate(numbers):
        if not number:
            continue
        if k == 0:
            y[0] = jnp.full_like(x, float(number))
            continue
        gap = k - last
        if gap not in ladder:
            ladder[gap] = functools.reduce(lambda a, _: a * x, range(gap - 1), x)
        power_ = ladder[gap] if power_ is None else power_ * ladder[gap]
        last = k
        y[step * k] = power_ if number == 1 else float(number) * power_
    return y
