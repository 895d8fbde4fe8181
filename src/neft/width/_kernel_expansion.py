"""Kernels by Hermite expansions, ⟨σσ⟩ = Σ_k a_k(K1) a_k(K2) ρ^k, a layer at a time (docs/theory/width, eq. 75)."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .._activation import Activation
from .._hermite import Terms, broadcast_sum, shared_coefficients, shared_rule, sorted_terms, tails
from ._kernel_pairs import Averages, next_pair
from ._one_input import Rates

_CHUNK = 40  # terms compiled in one piece
_TERMS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # to choose from
_NODES = (20, 40)  # numbers of variances that may stand for many


def over(K: np.ndarray, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """f(K), an array whose last axis is that of K, from few values of f where they say it all."""
    series = chebyshev(K[None], f)[0]
    return f(K) if series is None else series(K)


@dataclasses.dataclass(frozen=True)
class Chebyshev:
    """A series in ln K with coefficients (…, degree + 1), between two variances."""

    middle: float
    half: float
    coefficients: np.ndarray

    def __call__(self, K: np.ndarray, terms: int | None = None) -> np.ndarray:
        """The values (…, n), or those of the first rows of the last axis but one."""
        t = (np.log(K) - self.middle) / max(self.half, 1e-300)
        chosen = self.coefficients if terms is None else self.coefficients[..., :terms, :]
        return chosen @ np.polynomial.chebyshev.chebvander(t, chosen.shape[-1] - 1).T


def chebyshev(K: np.ndarray, f: Callable[[np.ndarray], np.ndarray]) -> list[Chebyshev | None]:
    """For each row of variances (rows, N) the series of f between its least and its largest, as good as f itself.

    Averages are smooth functions of ln K, and a series is complete where its last coefficients are rounding. None where
    the variances are few or reach too far. All rows together ask for f twice at most.
    """
    low, high = K.min(axis=1), K.max(axis=1)
    found: list[Chebyshev | None] = [None] * len(K)
    for count in (n for n in _NODES if 2 * n < K.shape[1]):
        left = [i for i, one in enumerate(found) if one is None and low[i] > 0 and np.isfinite(high[i])]
        if not left:
            break
        t = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        middle, half = (np.log(high[left]) + np.log(low[left])) / 2, (np.log(high[left]) - np.log(low[left])) / 2
        values = f(np.exp(middle[:, None] + half[:, None] * t).ravel())
        # Orthogonality at these nodes turns values into coefficients.
        transform = np.polynomial.chebyshev.chebvander(t, count - 1) * (np.where(np.arange(count), 2, 1) / count)
        for n, i in enumerate(left):
            coefficients = values[..., n * count : (n + 1) * count] @ transform
            size = np.abs(coefficients)
            if size[..., -3:].max() <= 1e-14 * size.max():
                found[i] = Chebyshev(float(middle[n]), float(half[n]), coefficients)
    return found


@dataclasses.dataclass(frozen=True)
class Expansion:
    """How an activation without a closed form is expanded.

    `orders` are the first order and the step of the terms of σ and of σ' beyond orders 0 and 1. `reaches` are pairs of
    a number of terms and the largest |ρ| at layer 1 that they serve through all layers; the last one serves every
    correlation.
    """

    act: Activation
    nodes: np.ndarray
    weights: np.ndarray
    orders: tuple[tuple[int, int], tuple[int, int]]
    reaches: tuple[tuple[int, float], ...]
    series: tuple[Chebyshev | None, ...] = ()  # of the coefficients, by layer

    @property
    def terms(self) -> int:
        """The largest number of terms."""
        return self.reaches[-1][0]

    def interpolated(self, K: np.ndarray) -> "Expansion":
        """The same, with series in ln K of the coefficients where there are many variances (L-1, N)."""
        return dataclasses.replace(self, series=tuple(chebyshev(K, self._coefficients)))

    def table(self, K: np.ndarray, terms: int, dtype: Any) -> np.ndarray:
        """The coefficients of σ and σ' at variances of shape (L-1, n), layer first: (L-1, 2, terms, n)."""
        series = self.series or (None,) * len(K)
        found = [
            self._coefficients(one, terms) if fit is None else fit(one, terms)
            for one, fit in zip(K, series, strict=True)
        ]
        return np.stack([one.astype(dtype) for one in found])

    def _coefficients(self, K: np.ndarray, terms: int | None = None) -> np.ndarray:
        return _both(self.act, K, (self.nodes, self.weights), terms or self.terms)[0]

    def cut(self, table: np.ndarray) -> tuple[Terms, Terms]:
        """One layer's table (2, terms, …) without what vanishes by parity."""
        return self._cut(table[0], self.orders[0]), self._cut(table[1], self.orders[1])

    @staticmethod
    def _cut(a: np.ndarray, order: tuple[int, int]) -> Terms:
        high = a[order[0] :: order[1]]
        whole = -(-len(high) // 4) * 4 if len(high) <= _CHUNK else -(-len(high) // _CHUNK) * _CHUNK
        padded = np.zeros((whole, *high.shape[1:]), a.dtype)
        padded[: len(high)] = high
        return Terms(a[:2], padded)


def _both(act: Activation, K: np.ndarray, rule: tuple, terms: int) -> tuple[np.ndarray, np.ndarray]:
    # Coefficients (2, terms, n) of σ and σ' and averages of their squares (2, n).
    # Padded, so that compiled code is found again.
    padded = np.pad(K, (0, (1 << (len(K) - 1).bit_length()) - len(K)), mode="edge")
    nodes = [jnp.asarray(part) for part in rule]
    found = [shared_coefficients(act.derivative(n), jnp.asarray(padded), *nodes, terms) for n in (0, 1)]
    return tuple(np.stack([np.asarray(one[i])[..., : len(K)] for one in found]) for i in (0, 1))  # type: ignore[return-value]


def expansion(act: Activation, K: np.ndarray, square: np.ndarray, rates: Rates, tolerance: float) -> Expansion | None:
    """The shortest expansions that are good to the tolerance, or None where none is short at every correlation.

    K and ⟨σ²⟩ are those of the hidden layers, (L-1, N). A kink makes the expansion long near ρ = ±1, and so do large
    variances.
    """
    if act.kinks or act.oscillates or act.cuts:
        return None
    # The smallest, the middle and the largest variance of each layer stand for all.
    order = np.argsort(K, axis=1)[:, [0, K.shape[1] // 2, -1]]
    variances, squares = (np.take_along_axis(values, order, axis=1) for values in (K, square))
    for most in (128, 512, _TERMS[-1]):
        rule = shared_rule(float(K.max()), (), act.length, most)
        assert rule is not None
        a, total = _both(act, variances.ravel(), rule, most)
        a, total = a.reshape(2, most, *variances.shape), total.reshape(2, *variances.shape)
        # A function that changes faster than its length says would look converged to the expansion alone.
        if np.abs(total[0] - squares).max() > 1e-11 * np.abs(squares).max():
            return None
        # What is lost by stopping before each number of terms, by layer: (L-1, most + 1).
        lost = np.array([np.maximum(*(tails(a[n, :, l], total[n, l]) for n in (0, 1))) for l in range(len(K))])
        if (lost[:, most] > tolerance).any():
            continue
        largest = _correlations(_STARTS, a[0], total[0], rates)
        reaches = []
        for n in (n for n in _TERMS if n <= most):
            # What is lost at a correlation ρ is at most lost |ρ|^n.
            good = (lost[:, n, None] * largest**n <= tolerance).all(axis=0)
            reaches.append((n, float(_STARTS[good].max(initial=0.0))))
            if reaches[-1][1] == 1:
                break
        orders = [sorted_terms(one.reshape(most, -1))[1:] for one in a]
        found = Expansion(act, *rule, (orders[0], orders[1]), tuple(one for one in reaches if one[1] > 0))
        return found.interpolated(K)
    return None


_STARTS = np.append(np.linspace(0.02, 0.98, 49), [0.99, 0.995, 0.998, 0.999, 1.0])


def _correlations(start: np.ndarray, a: np.ndarray, total: np.ndarray, rates: Rates) -> np.ndarray:
    # The largest |ρ| at each hidden layer, (L-1, starts), for pairs that start with at most these: with positive
    # coefficients |⟨σ₁σ₂⟩| is at most the geometric mean of Σ a_k² |ρ|^k of the two.
    found = [start]
    for l in range(total.shape[0] - 1):
        C_b, C_W = rates.C_b[l + 1], rates.C_W[l + 1]
        values = C_b + C_W * np.power.outer(found[-1], np.arange(len(a))) @ a[:, l] ** 2
        whole = C_b + C_W * total[l]
        found.append(np.minimum((values / np.where(whole > 0, whole, 1)).max(axis=1), 1))
    return np.stack(found)


@functools.partial(jax.jit, static_argnames="orders")
def layer(
    c: Array,
    Theta: Array,
    a: tuple[Terms, Terms],
    b: tuple[Terms, Terms],
    r: Any,
    s: Any,
    new: Any,
    rates: Rates,
    orders: Any,
) -> tuple[Array, Array]:
    """K and Θ of pairs at the next layer; coefficients a, b and the roots r, s, new of both sides broadcast with c.

    A call a layer, because the compiler vectorizes this sum only where no loop is around it.
    """
    scale = r[0] * r[1]
    rho = lax.optimization_barrier(c / jnp.where(scale > 0, scale, 1))
    sums = [
        broadcast_sum(one, two, rho, *order, chunk=min(one.high.shape[0], _CHUNK))
        for one, two, order in zip(a, b, orders)
    ]
    # Both are used twice and must not be computed twice.
    mean = Averages(*lax.optimization_barrier(tuple(sums)))
    pair, Theta = next_pair(rates, mean, Theta, *s, *new)
    return pair.c, Theta
