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

    scaled: Float[Array, "terms *batch"]
    scale: float = eqx.field(static=True, default=1.0)

    @classmethod
    def line(cls, start: Any, direction: Any, *, order: int, scale: float = 1.0) -> "Series":
        """start + t·direction."""
        order, scale = _check.integer("order", order, at_least=0), _check.real("scale", scale, above=0.0)
        start, direction = jnp.broadcast_arrays(jnp.asarray(start), jnp.asarray(direction))
        dtype = jnp.result_type(start, direction)
        dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
        scaled = jnp.zeros((order + 1, *start.shape), dtype).at[0].set(start)
        return cls(scaled.at[1].set(scale * direction) if order else scaled, scale)

    @classmethod
    def of_powers(cls, coefficients: Any, direction: Any, *, scale: float = 1.0) -> "Series":
        """Σ_k a_k (t·direction)^k from the numbers a_k: one pass per order instead of a composition."""
        a = _check.array("coefficients", coefficients, ndim=1)
        direction = jnp.asarray(direction)
        # a_k and direction^k may leave the range of float32 where their product does not: share a factor between them.
        # It is the typical ratio of two coefficients.
        tail = [abs(c) ** (-1 / k) for k, c in enumerate(a) if k and c]
        unit = float(min(max(min(tail), 1e-3), 1e3)) if tail else 1.0
        balanced = jnp.asarray(a * unit ** np.arange(len(a)), direction.dtype)
        ratio = direction * (scale / unit)
        powers = jnp.concatenate(
            [jnp.ones((1, *ratio.shape), ratio.dtype), jnp.repeat(ratio[None], len(a) - 1, axis=0)]
        )
        return cls(balanced.reshape(-1, *(1,) * ratio.ndim) * jnp.cumprod(powers, axis=0), scale)

    @property
    def order(self) -> int:
        """The highest power that is kept."""
        return self.scaled.shape[0] - 1

    def coefficients(self) -> Float[np.ndarray, "terms *batch"]:
        """c_k as NumPy float64, shape (order+1, *batch); for reading, outside of traced code."""
        k = np.arange(self.order + 1).reshape(-1, *(1,) * (self.scaled.ndim - 1))
        return np.asarray(self.scaled, np.float64) * self.scale ** (-1.0 * k)

    def __call__(self, t: Any) -> Array:
        """The partial sum at t, by Horner's rule."""
        u = jnp.asarray(t, self.scaled.dtype) / self.scale
        return lax.fori_loop(
            0, self.order, lambda i, total: total * u + self.scaled[self.order - 1 - i], self.scaled[-1] + 0 * u
        )

    def map(self, linear: Callable[[Array], Array]) -> "Series":
        """A linear function of the batch, such as a matrix product or a sum, applied to every coefficient."""
        return self._like(jax.vmap(linear)(self.scaled))

    def __neg__(self) -> "Series":
        return self._like(-self.scaled)

    def __add__(self, other: Any) -> "Series":
        if isinstance(other, Series):
            return self._like(self.scaled + self._matched(other))
        other = jnp.asarray(other, self.scaled.dtype)
        shape = jnp.broadcast_shapes(self.scaled.shape[1:], other.shape)
        return self._like(jnp.broadcast_to(self._padded(len(shape)), (self.order + 1, *shape)).at[0].add(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Series":
        return self + (-other)

    def __rsub__(self, other: Any) -> "Series":
        return -self + other

    def __mul__(self, other: Any) -> "Series":
        if isinstance(other, Series):
            return self._like(_multiply(self.scaled, self._matched(other)))
        other = jnp.asarray(other, self.scaled.dtype)
        return self._like(self._padded(other.ndim) * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Series":
        if not isinstance(other, Series):
            return self * (1 / jnp.asarray(other, self.scaled.dtype))
        return self._like(_divide(self.scaled, self._matched(other)))

    def __rtruediv__(self, other: Any) -> "Series":
        return Series.line(other, jnp.zeros(()), order=self.order, scale=self.scale) / self

    def exp(self) -> "Series":
        """The exponential."""
        return self._like(_exp(self.scaled))

    def log(self) -> "Series":
        """The natural logarithm."""
        return self._like(_log(self.scaled))

    def sqrt(self) -> "Series":
        """The square root."""
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
        product = _multiply(_slope(self.scaled), self._matched(derivative))
        return self._like((product / jnp.maximum(_orders(self.scaled), 1)).at[0].set(value))

    def logsumexp(self, axis: int = -1) -> "Series":
        """ln Σ e^u over an axis of the batch; the largest constant term is taken out first."""
        axis = axis % (self.scaled.ndim - 1)
        top = lax.stop_gradient(self.scaled[0].max(axis=axis, keepdims=True))
        total = self._like((self - top).exp().scaled.sum(axis=axis + 1))
        return total.log() + jnp.squeeze(top, axis)

    def compose(self, coefficients: Sequence[float] | np.ndarray) -> "Series":
        """Σ_k a_k u^k by Horner's rule: an outer function's Maclaurin polynomial, exact if u starts at 0."""
        a = _check.array("coefficients", coefficients, ndim=1)
        total = self * 0 + a[-1]
        for c in a[-2::-1]:
            total = total * self + c
        return total

    def apply(self, activation: str | Activation | Callable) -> "Series":
        """σ(u) for any activation: named ones by their recurrence, a user's own by its Maclaurin coefficients.

        A user's own function therefore needs a series that starts at 0. At a kink the side is that of small t > 0.

        >>> [int(c) for c in Series.line(0.0, -1.0, order=2).apply("relu").coefficients()]
        [0, 0, 0]
        """
        act = _activation(activation)
        name, _, numbers = act.name.rstrip(")").partition("(")
        if act.named:
            return _RECURRENCES[name](self, *(float(n) for n in numbers.split(",") if n))
        try:
            starts_at_zero = not bool(jnp.any(self.scaled[0] != 0))
        except jax.errors.TracerBoolConversionError:
            starts_at_zero = True  # the values are not known while tracing; the caller vouches for them
        if not starts_at_zero:
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
        return self._like(jnp.where(condition, self.scaled, self._matched(other)))

    def _like(self, scaled: Array) -> "Series":
        return Series(scaled, self.scale)

    def _matched(self, other: "Series") -> Array:
        if other.order != self.order or other.scale != self.scale:
            raise ValueError(
                f"series of order {other.order} and scale {other.scale:g} meets one of order {self.order} and scale "
                f"{self.scale:g}, but both must agree."
            )
        return other.scaled

    def _padded(self, ndim: int) -> Array:
        # Room for an array with more axes, on the left of the batch as broadcasting has it.
        missing = max(0, ndim - (self.scaled.ndim - 1))
        return self.scaled.reshape(self.order + 1, *(1,) * missing, *self.scaled.shape[1:])


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
        return total + a[j] * lax.dynamic_slice_in_dim(padded, order - j, order + 1)

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
    return u.where(right, ((u * 0).where(right, u).exp() - 1) * alpha)


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
    "sin": lambda u: u.sin_cos()[0],
    "gelu": _gelu,
    "silu": lambda u: u * u.sigmoid(),
    "swish": lambda u, beta=1.0: u * (u * beta).sigmoid(),
    "mish": lambda u: u * _softplus(u).tanh(),
    "quadratic": lambda u: u * u,
}
