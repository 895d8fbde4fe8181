"""Hermite expansions of activations at many variances, ⟨σσ⟩ = Σ_k a_k(K1) a_k(K2) ρ^k (docs/theory/width, eq. 75)."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._activation import Activation
from .._hermite import Terms, shared_coefficients, shared_rule, sorted_terms, tails

CHUNK = 40  # terms compiled in one piece
TERMS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # to choose from
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
    with np.errstate(divide="ignore", invalid="ignore"):
        # Averages are singular at negative K, π away from ln K; each node gains the factor that belongs to it.
        near = np.pi / np.maximum(np.log(high / low) / 2, 1e-300)
        needed = 14 * np.log(10) / np.arcsinh(near)
    for count in (n for n in _NODES if 2 * n < K.shape[1]):
        left = [i for i, one in enumerate(found) if one is None and low[i] > 0 and np.isfinite(high[i])]
        # More nodes at once where these cannot be enough.
        left = [i for i in left if needed[i] <= count or count == _NODES[-1]]
        if not left:
            continue
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
    """How a function without a closed form is expanded at one activation of a network.

    `derivatives` are those of σ that are expanded, (0, 1) or (0,); `orders` for each of them the first order and the
    step of the terms beyond orders 0 and 1; `lost` what is lost by stopping before each number of terms.
    """

    act: Activation
    derivatives: tuple[int, ...]
    nodes: np.ndarray
    weights: np.ndarray
    orders: tuple[tuple[int, int], ...]
    lost: np.ndarray
    series: Chebyshev | None = None

    @property
    def most(self) -> int:
        """The largest number of terms."""
        return len(self.lost) - 1

    def table(self, K: np.ndarray, terms: int, dtype: Any) -> tuple[Terms, ...]:
        """The coefficients at variances (n,), without what vanishes by parity: of each derivative, terms first."""
        terms = min(terms, self.most)
        exact = functools.partial(_coefficients, self.act, self.derivatives, (self.nodes, self.weights))
        found = exact(K, terms)[0] if self.series is None else self.series(K, terms)
        return tuple(_cut(a, order) for a, order in zip(found.astype(dtype), self.orders))

    def whole(self, K: np.ndarray) -> np.ndarray:
        """All coefficients at variances (n,): (derivatives, terms, n)."""
        return _coefficients(self.act, self.derivatives, (self.nodes, self.weights), K, self.most)[0]


def _cut(a: np.ndarray, order: tuple[int, int]) -> Terms:
    high = a[order[0] :: order[1]]
    whole = -(-len(high) // 4) * 4 if len(high) <= CHUNK else -(-len(high) // CHUNK) * CHUNK
    padded = np.zeros((whole, *high.shape[1:]), a.dtype)
    padded[: len(high)] = high
    return Terms(a[:2], padded)


def _coefficients(
    act: Activation, derivatives: tuple[int, ...], rule: tuple, K: np.ndarray, terms: int
) -> tuple[np.ndarray, np.ndarray]:
    # Coefficients (derivatives, terms, n) and averages of the squares (derivatives, n).
    # Padded, so that compiled code is found again.
    padded = np.pad(K, (0, (1 << (len(K) - 1).bit_length()) - len(K)), mode="edge")
    nodes = [jnp.asarray(part) for part in rule]
    found = [shared_coefficients(act.derivative(n), jnp.asarray(padded), *nodes, terms) for n in derivatives]
    return tuple(np.stack([np.asarray(one[i])[..., : len(K)] for one in found]) for i in (0, 1))  # type: ignore[return-value]


def expansion(
    act: Activation,
    K: np.ndarray,
    square: np.ndarray,
    tolerance: float,
    *,
    derivatives: tuple[int, ...] = (0, 1),
    series: bool = True,
) -> Expansion | None:
    """The expansion that is good to the tolerance at every correlation, or None where none is short.

    K and ⟨σ²⟩ are those of the inputs, (N,). A kink makes the expansion long near ρ = ±1, and so do large variances.
    `series` says to look for one in ln K that stands for all variances.
    """
    if act.kinks or act.oscillates or act.cuts:
        return None
    # The smallest, the middle and the largest variance stand for all.
    chosen = np.argsort(K)[[0, len(K) // 2, -1]]
    for most in (128, 512, TERMS[-1]):
        rule = shared_rule(float(K.max()), (), act.length, most)
        assert rule is not None
        a, total = _coefficients(act, derivatives, rule, K[chosen], most)
        # A function that changes faster than its length says would look converged to the expansion alone.
        if np.abs(total[0] - square[chosen]).max() > 1e-11 * np.abs(square[chosen]).max():
            return None
        lost = np.max([tails(one, whole) for one, whole in zip(a, total)], axis=0)
        if lost[most] > tolerance:
            continue
        orders = tuple(sorted_terms(one)[1:] for one in a)
        found = Expansion(act, derivatives, *rule, orders, lost)
        return dataclasses.replace(found, series=chebyshev(K[None], found.whole)[0]) if series else found
    return None


def reaches(
    expansions: Sequence[Expansion], starts: np.ndarray, largest: Sequence[np.ndarray], tolerance: float
) -> tuple[tuple[int, float], ...]:
    """Pairs of a number of terms and the largest |ρ| at the start that they serve; the last one serves every one.

    `largest` holds for each expansion the largest |ρ| that pairs have there, by |ρ| at the start.
    """
    found = []
    for n in TERMS:
        # What is lost at a correlation ρ is at most lost |ρ|^n.
        good = [one.lost[min(n, one.most)] * rho**n <= tolerance for one, rho in zip(expansions, largest)]
        reach = float(starts[np.all(good, axis=0)].max(initial=0.0))
        if reach > 0:
            found.append((n, reach))
        if reach == 1 or n >= max(one.most for one in expansions):
            break
    return (*found[:-1], (found[-1][0], 1.0)) if found else ((TERMS[-1], 1.0),)
