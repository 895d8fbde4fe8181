"""Truncated power series in one variable t, on batched arrays.

A series is stored as c_k·scale^k, so that coefficients that grow like scale^-k stay finite in float32 at any order. All
recurrences are the same for the scaled coefficients, because scaling t commutes with them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from . import _check
from ._activation import Activation
from ._activation import activation as _activation
from ._promote import common_dtype, to_rank


class Series(eqx.Module):
    """Σ_k c_k t^k, k = 0..order, for every element of a batch.

    Arithmetic with series of the same order and scale, numbers and arrays; `exp`, `log`, `sqrt`, `logsumexp`; `apply`
    for any activation. It is a pytree: it passes through jit, vmap and grad.

    Attributes:
        scaled: c_k·scale^k, shape (order+1, *batch).
        scale: the unit of t, best near the radius of convergence.

    >>> t = Series.line(0.0, 1.0, order=4)
    >>> [round(float(c), 4) for c in (t.exp() / (1 - t)).coefficients()]
    [1.0, 2.0, 2.5, 2.6667, 2.7083]
    """

    # NumPy leaves arithmetic with a series to the series, instead of spreading it over the elements of an array.
    __array_ufunc__ = None

    scaled: Float[Array, "terms *batch"]
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        _check.real("scale", self.scale, above=0.0)
        if not isinstance(self.scaled, jax.Array):
            _check.as_array("scaled", self.scaled)
        if np.ndim(self.scaled) == 0 or not np.shape(self.scaled)[0]:
            raise ValueError(f"scaled has shape {np.shape(self.scaled)}, but must have one entry per order, from 0 on.")

    @classmethod
    def line(cls, start: Any, direction: Any, *, order: int, scale: float = 1.0) -> "Series":
        """start + t·direction."""
        order, scale = (
            _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER),
            _check.real("scale", scale, above=0.0),
        )
        start, direction = jnp.broadcast_arrays(_real("start", start), _real("direction", direction))
        dtype = common_dtype(start, direction)
        scaled = jnp.zeros((order + 1, *start.shape), dtype).at[0].set(start)
        return cls(scaled.at[1].set(scale * direction) if order else scaled, scale)

    @classmethod
    def of_powers(cls, coefficients: Any, direction: Any, *, scale: float = 1.0) -> "Series":
        """Σ_k a_k (t·direction)^k from the numbers a_k: one pass per order instead of a composition."""
        a, scale = _powers(coefficients), _check.real("scale", scale, above=0.0)
        direction = _real("direction", direction)
        dtype, order = direction.dtype, len(a) - 1
        # Powers behind the last coefficient may overflow, and nobody needs them.
        a = np.trim_zeros(a, "b") if a.any() else a[:1]
        # a_k and direction^k may leave the range of float32 where their product does not. The steps of the envelope go
        # into the powers, one each, and what is left of a_k is at most 1.
        envelope = _envelope(a)
        steps = scale * np.exp(np.diff(envelope))
        if steps.max(initial=0.0) > float(jnp.finfo(dtype).max):
            raise ValueError(
                f"coefficients grow by a factor of {steps.max():g} from one to the next, but {dtype} cannot hold that "
                "without a smaller scale."
            )
        steps = np.maximum([math.exp(envelope[0]), *steps], float(jnp.finfo(dtype).tiny)).astype(dtype)
        left = jnp.asarray(_left_over(a, steps.astype(float), scale), dtype)
        column = (-1, *(1,) * direction.ndim)
        factors = jnp.concatenate([jnp.ones((1, *direction.shape), dtype), jnp.repeat(direction[None], len(a) - 1, 0)])
        scaled = left.reshape(column) * jnp.cumprod(steps.reshape(column) * factors, axis=0)
        return cls(jnp.concatenate([scaled, jnp.zeros((order + 1 - len(a), *direction.shape), dtype)]), scale)

    @property
    def order(self) -> int:
        """The highest power that is kept."""
        return self.scaled.shape[0] - 1

    def coefficients(self) -> Float[np.ndarray, "terms *batch"]:
        """c_k as NumPy float64, shape (order+1, *batch); for reading, outside of traced code."""
        k = np.arange(self.order + 1).reshape(-1, *(1,) * (self.scaled.ndim - 1))
        # scale^-k alone may overflow where the coefficient does not, so its power of two comes last.
        mantissa, exponent = math.frexp(self.scale)
        return np.ldexp(np.asarray(self.scaled, np.float64) * mantissa ** (-1.0 * k), -exponent * k)

    def __call__(self, t: Any) -> Array:
        """The partial sum at t, by Horner's rule."""
        scaled, u = self._beside(jnp.asarray(t, self.scaled.dtype) / self.scale)
        return lax.fori_loop(0, self.order, lambda i, total: total * u + scaled[self.order - 1 - i], scaled[-1] + 0 * u)

    def map(self, linear: Callable[[Array], Array]) -> "Series":
        """A linear function of the batch, such as a matrix product or a sum, applied to every coefficient."""
        # A constant would be added to every coefficient.
        if _known(jnp.any(linear(jnp.zeros_like(self.scaled[0])) != 0)):
            raise ValueError("linear does not map 0 to 0, but must be linear; add a constant with +.")
        return self._like(jax.vmap(linear)(self.scaled))

    def __neg__(self) -> "Series":
        return self._like(-self.scaled)

    def __add__(self, other: Any) -> "Series":
        if isinstance(other, Series):
            return self._like(_aligned(self.scaled, other) + _aligned(self._matched(other), self))
        other = self._number(other)
        shape = jnp.broadcast_shapes(self.scaled.shape[1:], other.shape)
        return self._like(jnp.broadcast_to(_padded(self.scaled, len(shape)), (self.order + 1, *shape)).at[0].add(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Series":
        return self + (-other if isinstance(other, Series) else -self._number(other))

    def __rsub__(self, other: Any) -> "Series":
        return -self + other

    def __mul__(self, other: Any) -> "Series":
        if isinstance(other, Series):
            return self._like(_multiply(_aligned(self.scaled, other), _aligned(self._matched(other), self)))
        scaled, other = self._beside(self._number(other))
        return self._like(scaled * other[None])

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Series":
        if not isinstance(other, Series):
            other = self._number(other)
            if _known(jnp.any(other == 0)):
                raise ValueError("series is divided by 0, but must be divided by other numbers.")
            scaled, other = self._beside(other)
            return self._like(scaled / other[None])
        divisor = self._matched(other)
        if _known(jnp.any(divisor[0] == 0)):
            raise ValueError("series is divided by one that starts at 0, but must be divided by one that does not.")
        return self._like(_divide(_aligned(self.scaled, other), _aligned(divisor, self)))

    def __rtruediv__(self, other: Any) -> "Series":
        return (self * 0 + other) / self

    def __pow__(self, power: Any) -> "Series":
        """A whole power; a negative one of a series that does not start at 0."""
        left = _check.integer("power of a series", power)
        if left < 0:
            return 1 / self**-left
        result, square = self * 0 + 1, self
        while left:
            result = result * square if left % 2 else result
            left //= 2
            square = square * square if left else square
        return result

    def exp(self) -> "Series":
        """The exponential."""
        return self._like(_exp(self.scaled))

    def log(self) -> "Series":
        """The natural logarithm, of a series that starts above 0."""
        if _known(jnp.any(self.scaled[0] <= 0)):
            raise ValueError(f"series starts at {self._lowest():g}, but must start above 0 to have a logarithm.")
        return self._like(_log(self.scaled))

    def sqrt(self) -> "Series":
        """The square root, of a series that starts above 0."""
        if _known(jnp.any(self.scaled[0] <= 0)):
            raise ValueError(f"series starts at {self._lowest():g}, but must start above 0 to have a square root.")
        return self._like(_sqrt(self.scaled))

    def tanh(self) -> "Series":
        """The hyperbolic tangent."""
        return self._like(_tanh(self.scaled))

    def sin_cos(self) -> tuple["Series", "Series"]:
        """The sine and the cosine."""
        sine, cosine = _sin_cos(self.scaled)
        return self._like(sine), self._like(cosine)

    def sigmoid(self) -> "Series":
        """1/(1 + e^-u)."""
        half = (0.5 * self).tanh() * 0.5
        # (1 + tanh)/2 cancels in the left tail; the constant term is taken from the function itself.
        return self._like(half.scaled.at[0].set(jax.nn.sigmoid(self.scaled[0])))

    def integrated(self, derivative: "Series", value: Array) -> "Series":
        """The function of u whose derivative in u is the given series and whose constant term is `value`."""
        product = _multiply(_aligned(_slope(self.scaled), derivative), _aligned(self._matched(derivative), self))
        return self._like((product / jnp.maximum(_orders(product), 1)).at[0].set(value))

    def logsumexp(self, axis: int = -1) -> "Series":
        """ln Σ e^u over an axis of the batch; the largest constant term is taken out first."""
        axes = self.scaled.ndim - 1
        if not axes:
            raise ValueError("series has no batch, but must have an axis to sum over.")
        axis = _check.integer("axis", axis, at_least=-axes, at_most=axes - 1) % axes
        top = lax.stop_gradient(self.scaled[0].max(axis=axis, keepdims=True))
        total = self._like((self - top).exp().scaled.sum(axis=axis + 1))
        return total.log() + jnp.squeeze(top, axis)

    def compose(self, coefficients: Sequence[float] | np.ndarray) -> "Series":
        """Σ_k a_k u^k by Horner's rule: an outer function's Maclaurin polynomial, exact if u starts at 0."""
        a = _powers(coefficients)
        total = self * 0 + a[-1]
        for c in a[-2::-1]:
            total = total * self + c
        return total

    def apply(self, activation: str | Activation | Callable) -> "Series":
        """σ(u) for any activation: named ones by their recurrence, a user's own by what was given
        for it or by its Maclaurin coefficients.

        With those, a user's own function needs a series that starts at 0. At a kink the side is that of small t > 0.

        >>> [int(c) for c in Series.line(0.0, -1.0, order=2).apply("relu").coefficients()]
        [0, 0, 0]
        """
        act = _activation(activation)
        name, _, numbers = act.name.rstrip(")").partition("(")
        if act.named:
            return _RECURRENCES[name](self, *(float(n) for n in numbers.split(",") if n))
        if act.series is not None:
            return act.series(self)
        # While tracing the caller vouches for it.
        if _known(jnp.any(self.scaled[0] != 0)):
            raise ValueError(f"activation {act.name!r} is a user's own, so the series it acts on must start at 0.")
        return self.compose(act.taylor(self.order))

    def side_of(self, point: float) -> Array:
        """The sign (-1, 0, 1) of u - point for small t > 0: that of the first coefficient that does not vanish."""
        shifted = (self - point).scaled
        return lax.fori_loop(
            0, self.order + 1, lambda k, s: jnp.where(s == 0, jnp.sign(shifted[k]), s), jnp.zeros_like(shifted[0])
        )

    def where(self, condition: Array, other: "Series") -> "Series":
        """This series where the condition on the batch holds, the other one elsewhere."""
        axes = max(np.ndim(condition), self.scaled.ndim - 1, other.scaled.ndim - 1)
        return self._like(jnp.where(condition, _padded(self.scaled, axes), _padded(self._matched(other), axes)))

    def _like(self, scaled: Array) -> "Series":
        return Series(scaled, self.scale)

    def _matched(self, other: "Series") -> Array:
        if other.order != self.order or other.scale != self.scale:
            raise ValueError(
                f"series of order {other.order} and scale {other.scale:g} meets one of order {self.order} and scale "
                f"{self.scale:g}, but both must agree."
            )
        return other.scaled

    def _beside(self, number: Array) -> tuple[Array, Array]:
        """The coefficients and the number, which has as many axes as each coefficient has."""
        scaled = _padded(self.scaled, number.ndim)
        return scaled, to_rank(number, scaled.ndim - 1)

    def _number(self, other: Any) -> Array:
        return _real("operand of a series", other).astype(self.scaled.dtype)

    def _lowest(self) -> float:
        return float(self.scaled[0].min())


def _known(condition: Array) -> bool:
    """Whether a condition holds, as far as that is known: while tracing it is not."""
    try:
        return bool(condition)
    except jax.errors.TracerBoolConversionError:
        return False


def _real(argument: str, value: Any) -> Array:
    try:
        # JAX would take a text for the name of a type.
        number = jnp.asarray(None if isinstance(value, str) else value)
        if not (jnp.issubdtype(number.dtype, jnp.floating) or jnp.issubdtype(number.dtype, jnp.integer)):
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{argument} is {_check.brief(value)}, but must be a real number or an array.") from None
    return number if jnp.issubdtype(number.dtype, jnp.floating) else number.astype(jnp.result_type(float))


def _powers(coefficients: Any) -> np.ndarray:
    a = _check.array("coefficients", coefficients, ndim=1)
    if not len(a):
        raise ValueError("coefficients is empty, but must hold one number per order, from 0 on.")
    return a


def _envelope(a: np.ndarray) -> np.ndarray:
    """The lowest concave function of k that is nowhere below ln|a_k|."""
    # Concave, because its running product with powers of anything then rises once and falls once, and has lost nothing
    # where it underflows.
    k = np.flatnonzero(a)
    if not len(k):
        return np.zeros(len(a))
    height = np.log(np.abs(a[k]))
    if not k[0]:
        height[0] = max(height[0], -80.0)
    else:
        # The first coefficients vanish: continue with the slope of the next ones, to a number that any type can hold.
        slope = (height[1] - height[0]) / (k[1] - k[0]) if len(k) > 1 else height[0] / k[0]
        k, height = np.insert(k, 0, 0), np.insert(height, 0, np.clip(height[0] - slope * k[0], -80.0, 80.0))
    corners: list[int] = []
    for i in range(len(k)):
        while len(corners) > 1 and _below(k, height, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return np.interp(np.arange(len(a)), k[corners], height[corners])


def _below(k: np.ndarray, height: np.ndarray, i: int, j: int, l: int) -> bool:
    return bool((height[j] - height[i]) * (k[l] - k[i]) <= (height[l] - height[i]) * (k[j] - k[i]))


def _left_over(a: np.ndarray, steps: np.ndarray, scale: float) -> list[float]:
    """a_k·scale^k over the product of the first k + 1 steps, whatever the range of either."""
    left, mantissa, exponent = [], scale, 0
    for coefficient, step in zip(a, steps):
        mantissa, moved = math.frexp(mantissa * (step / scale))
        exponent += moved
        left.append(math.ldexp(coefficient / mantissa, -exponent))
    return left


def _padded(scaled: Array, ndim: int) -> Array:
    # Room for an array with more axes, on the left of the batch as broadcasting has it.
    missing = max(0, ndim - (scaled.ndim - 1))
    return scaled.reshape(scaled.shape[0], *(1,) * missing, *scaled.shape[1:])


def _aligned(scaled: Array, other: Series) -> Array:
    return _padded(scaled, other.scaled.ndim - 1)


def _orders(u: Array) -> Array:
    return jnp.arange(u.shape[0], dtype=u.dtype).reshape(-1, *(1,) * (u.ndim - 1))


def _slope(u: Array) -> Array:
    # k u_k, the coefficients of t·du/dt.
    return _orders(u) * u


@jax.jit
def _multiply(a: Array, b: Array) -> Array:
    order = a.shape[0] - 1
    shape = (order + 1, *jnp.broadcast_shapes(a.shape[1:], b.shape[1:]))
    padded = jnp.concatenate([jnp.zeros_like(b[1:]), b])

    def step(j, total):
        return total + a[j][None] * lax.dynamic_slice_in_dim(padded, order - j, order + 1)

    return lax.fori_loop(0, order + 1, step, jnp.zeros(shape, jnp.result_type(a, b)))


def _conv(a: Array, b: Array, k: Any) -> Array:
    """Σ_j a_j b_{k-j}, j = 0..k, in which coefficients that are not known yet stand as zeros."""
    order = b.shape[0] - 1
    flipped = jnp.concatenate([b[::-1], jnp.zeros_like(b[1:])])
    return (a * lax.dynamic_slice_in_dim(flipped, order - k, order + 1)).sum(axis=0)


def _recurrence(step: Callable[[Any, Array], Array], like: Array, first: Array | None = None) -> Array:
    # Fills y_k = step(k, y) in turn; without `first` the step gives y_0 too.
    y = jnp.zeros_like(like)
    if first is not None:
        y = y.at[0].set(first)
    return lax.fori_loop(0 if first is None else 1, like.shape[0], lambda k, y: y.at[k].set(step(k, y)), y)


@jax.jit
def _divide(a: Array, b: Array) -> Array:
    # q_k b_0 = a_k - Σ_{j<k} q_j b_{k-j}
    return _recurrence(lambda k, q: (a[k] - _conv(b, q, k)) / b[0], a + 0 * b)


@jax.jit
def _exp(u: Array) -> Array:
    # y' = u' y
    slope = _slope(u)
    return _recurrence(lambda k, y: _conv(slope, y, k) / k, u, jnp.exp(u[0]))


@jax.jit
def _log(u: Array) -> Array:
    # u y' = u'
    return _recurrence(lambda k, y: (u[k] - _conv(u, _slope(y), k) / k) / u[0], u, jnp.log(u[0]))


@jax.jit
def _sqrt(u: Array) -> Array:
    # y² = u
    return _recurrence(lambda k, y: (u[k] - _conv(y, y, k)) / (2 * y[0]), u, jnp.sqrt(u[0]))


@jax.jit
def _tanh(u: Array) -> Array:
    # y' = w u' with w = 1 - y², which cancels; sech² = 4 s(2u) s(-2u) does not.
    slope, twice = _slope(u), 2 * u[0]
    y = jnp.zeros_like(u).at[0].set(jnp.tanh(u[0]))
    w = jnp.zeros_like(u).at[0].set(4 * jax.nn.sigmoid(twice) * jax.nn.sigmoid(-twice))

    def step(k, carry):
        y, w = carry
        y = y.at[k].set(_conv(slope, w, k) / k)
        return y, w.at[k].set(-_conv(y, y, k))

    return lax.fori_loop(1, u.shape[0], step, (y, w))[0]


@jax.jit
def _sin_cos(u: Array) -> tuple[Array, Array]:
    # s' = c u' and c' = -s u'
    slope = _slope(u)
    start = (jnp.zeros_like(u).at[0].set(jnp.sin(u[0])), jnp.zeros_like(u).at[0].set(jnp.cos(u[0])))

    def step(k, carry):
        s, c = carry
        return s.at[k].set(_conv(slope, c, k) / k), c.at[k].set(-_conv(slope, s, k) / k)

    return lax.fori_loop(1, u.shape[0], step, start)


def _softplus(u: Series) -> Series:
    return u.integrated(u.sigmoid(), jax.nn.softplus(u.scaled[0]))


def _erf(u: Series) -> Series:
    return u.integrated((-(u * u)).exp() * (2 / math.sqrt(math.pi)), lax.erf(u.scaled[0]))


def _gelu(u: Series) -> Series:
    density = (u * u * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return u * u.integrated(density, lax.erfc(-u.scaled[0] * math.sqrt(0.5)) / 2)


def _leaky_relu(u: Series, slope: float = 0.01) -> Series:
    return u.where(u.side_of(0.0) > 0, u * slope)


def _elu(u: Series, alpha: float = 1.0) -> Series:
    right = u.side_of(0.0) > 0
    # The exponential never sees the positive side, where it could overflow.
    left = (u * 0).where(right, u)
    # e^u - 1 cancels near 0; the constant term is taken from the function itself.
    below = left._like(left.exp().scaled.at[0].set(jnp.expm1(left.scaled[0])))
    return u.where(right, below * alpha)


def _hard_tanh(u: Series) -> Series:
    middle = u.where(u.side_of(-1.0) > 0, u * 0 - 1.0)
    return middle.where(u.side_of(1.0) < 0, u * 0 + 1.0)


_RECURRENCES: dict[str, Callable[..., Series]] = {
    "linear": lambda u: u,
    "relu": lambda u: _leaky_relu(u, 0.0),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "tanh": Series.tanh,
    "hard_tanh": _hard_tanh,
    "sigmoid": Series.sigmoid,
    "softplus": _softplus,
    "erf": _erf,
    "sin": lambda u, frequency=1.0: (u if frequency == 1 else u * frequency).sin_cos()[0],
    "gelu": _gelu,
    "silu": lambda u: u * u.sigmoid(),
    "swish": lambda u, beta=1.0: u * (u * beta).sigmoid(),
    "mish": lambda u: u * _softplus(u).tanh(),
    "quadratic": lambda u: u * u,
}
