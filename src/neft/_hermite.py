"""Hermite expansions: ⟨f(z₁) f(z₂)⟩ = Σ_k a_k(K1) a_k(K2) ρ^k with a_k(K) = ⟨He_k(z/√K) f(z)⟩/√k!.

This is docs/theory/width, eq. 75.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._quadrature import in_units, unit_rule

_CHUNK = 40  # terms evaluated in one piece
_CHAINS = 4  # independent Horner chains: one chain alone waits for its own latency
_REACH = 13.0


def functions(x: Float[Array, "*nodes"], terms: int) -> Float[Array, "terms *nodes"]:
    """He_k(x)/√k! times e^(-x²/4), k < terms: bounded, so that no order overflows.

    >>> h = functions(jnp.asarray([0.0]), 3)
    >>> [round(float(v), 4) for v in h[:, 0]]
    [1.0, 0.0, -0.7071]
    """
    return _each_function(x, terms, lambda h: h)


def _each_function(x: Array, terms: int, use: Callable[[Array], Array]) -> Array:
    def step(pair, k):
        before, now = pair
        return (now, (x * now - jnp.sqrt(k) * before) / jnp.sqrt(k + 1)), use(now)

    start = (jnp.zeros_like(x), jnp.exp(-x * x / 4))
    return lax.scan(step, start, jnp.arange(terms, dtype=x.dtype))[1]


def shared_rule(K: float, kinks: Sequence[float], length: float, terms: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes x = z/√K and weights that serve all variances up to K and every order k < terms.

    Smooth functions get the trapezoid rule, whose step resolves poles of f at 1.5 lengths from the real axis and He_k,
    whose shortest wave is about π/√k; functions with a kink at 0 only get panels cut there. None where a kink lies
    elsewhere, because its place in x moves with K.
    """
    if any(kinks):
        return None
    if kinks:
        return unit_rule(np, np.sqrt(K), [np.zeros(())], length=length, panels=16 + math.isqrt(terms))
    step = min(0.2, 0.22 * length / math.sqrt(K) if K > 0 else 0.2, 2.0 / math.sqrt(terms))
    half = math.ceil(_REACH / step)
    step = _REACH / half
    x = np.arange(-half, half + 1) * step
    return x, np.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))


@functools.partial(jax.jit, static_argnames=("f", "terms"))
def shared_coefficients(
    f: Callable, K: Float[Array, " variances"], x: Float[Array, " nodes"], w: Float[Array, " nodes"], terms: int
) -> tuple[Float[Array, "terms variances"], Float[Array, " variances"]]:
    """a_k(K) and ⟨f²⟩ by a rule that all variances share: one matrix product."""
    values = f(jnp.sqrt(K)[:, None] * x[None, :])
    # The weights hold the whole Gaussian; half of it belongs to the Hermite functions.
    a = (functions(x, terms) * (w * jnp.exp(x * x / 4))[None, :]) @ values.T
    return a, (values * values) @ w


@functools.partial(jax.jit, static_argnames=("f", "kinks", "length", "terms"))
def kinked_coefficients(
    f: Callable, K: Float[Array, " variances"], kinks: tuple[float, ...], length: float, terms: int
) -> tuple[Float[Array, "terms variances"], Float[Array, " variances"]]:
    """a_k(K) and ⟨f²⟩ for kinks away from 0, where every variance has a rule of its own."""
    panels = 16 + math.isqrt(terms)

    def one(variance):
        spread = jnp.sqrt(variance)
        x, w = unit_rule(jnp, spread, in_units(jnp, kinks, spread), length=length, panels=panels)
        values = f(spread * x)
        weighted = w * jnp.exp(x * x / 4) * values
        return _each_function(x, terms, lambda h: h @ weighted), (w * values**2).sum()

    a, square = lax.map(one, K, batch_size=16)
    return a.T, square


def tails(a: Float[np.ndarray, "terms variances"], square: Float[np.ndarray, " variances"]) -> np.ndarray:
    """The largest Σ_{j≥k} a_j²/⟨f²⟩ over the variances, for k = 0..terms: what is lost by stopping before k.

    What the computed coefficients leave of ⟨f²⟩ (Parseval) stands for those that were not computed.
    """
    safe = np.where(square > 0, square, 1.0)
    share = a * a / safe
    rest = np.abs(1 - share.sum(axis=0)) * (square > 0)
    # Rounding alone leaves something of this size, which is no tail.
    rest = np.where(rest < 64 * np.finfo(float).eps, 0.0, rest)
    sums = np.concatenate([np.cumsum(share[::-1], axis=0)[::-1], np.zeros((1, a.shape[1]))])
    return (sums + rest).max(axis=1)


def parity_of(a: np.ndarray) -> int | None:
    """0 or 1 where only even or only odd orders are left beyond order 1, None where both are.

    >>> parity_of(np.array([[0.5], [1.0], [0.2], [0.0], [0.1]]))
    0
    """
    size = np.abs(a).max(axis=1)
    floor = 1e-15 * size.max()
    even, odd = size[2::2].max(initial=0.0) > floor, size[3::2].max(initial=0.0) > floor
    return None if even and odd else int(odd)


class Terms(NamedTuple):
    """Coefficients of several variances, sorted: (2, variances) of orders 0 and 1, then orders start, start+step, ….

    Both are arrays, of NumPy or of JAX.
    """

    low: Any
    high: Any


def sorted_terms(a: Float[np.ndarray, "terms variances"], *, chunk: int = _CHUNK) -> tuple[Terms, int, int]:
    """The coefficients without those that vanish by parity, and (start, step) of the orders that stay.

    The number of orders is rounded up to whole chunks with zeros, so that compiled code is found again.
    """
    parity = parity_of(a)
    start, step = (2, 1) if parity is None else (2 + parity, 2)
    high = a[start::step]
    return Terms(a[:2], np.pad(high, ((0, -len(high) % chunk), (0, 0)))), start, step


@functools.partial(jax.jit, static_argnames=("start", "step"))
def outer_sum(
    a1: Terms, a2: Terms, rho: Float[Array, "rows columns"], start: int, step: int
) -> Float[Array, "rows columns"]:
    """Σ_k a_k(K1_i) a_k(K2_j) ρ_ij^k."""

    def row(inputs):
        low, high, r = inputs
        return broadcast_sum(Terms(low[:, None], high[:, None]), a2, r, start, step)

    # A few rows at a time stay in the cache.
    return lax.map(row, (a1.low.T, a1.high.T, rho), batch_size=32)


@functools.partial(jax.jit, static_argnames=("start", "step"))
def flat_sum(a1: Terms, a2: Terms, rho: Float[Array, " pairs"], start: int, step: int) -> Float[Array, " pairs"]:
    """Σ_k a_k(K1_i) a_k(K2_i) ρ_i^k."""
    return broadcast_sum(a1, a2, rho, start, step)


def broadcast_sum(a1: Terms, a2: Terms, rho: Array, start: int, step: int, *, chunk: int = _CHUNK) -> Array:
    """Σ_k a_k b_k ρ^k where each order's coefficients broadcast with ρ; `chunk` terms are compiled in one piece."""
    low = a1.low[0] * a2.low[0] + a1.low[1] * a2.low[1] * rho
    return low + rho**start * _polynomial(a1.high, a2.high, rho**step, chunk)


def _polynomial(a1: Array, a2: Array, x: Array, size: int) -> Array:
    a1, a2 = (a.reshape(-1, size, *a.shape[1:]) for a in (a1, a2))
    stride = x**_CHAINS
    jump = stride ** (size // _CHAINS)
    count = a1.shape[0]

    def chunk(i, total):
        left, right = a1[count - 1 - i], a2[count - 1 - i]
        chains = []
        for first in range(_CHAINS):
            orders = range(size - _CHAINS + first, -1, -_CHAINS)
            chain = jnp.zeros_like(x)
            for k in orders:
                chain = chain * stride + left[k] * right[k]
            chains.append(chain)
        piece = chains[-1]
        for chain in reversed(chains[:-1]):
            piece = piece * x + chain
        return total * jump + piece

    return lax.fori_loop(0, count, chunk, jnp.zeros_like(x))
