"""Averages of four variables given two of them (docs/theory/width, eqs. 76-77)."""

import itertools

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from neft import activation
from neft._given_pair import given_pairs
from neft._tuples import almost_everywhere

PATTERNS = [(0, 0, 0, 0), (0, 0, 1, 1), (2, 1, 1, 0), (3, 1, 1, 1), (2, 2, 1, 1)]


def covariance(count: int) -> np.ndarray:
    """Of inputs that share a part, the second nearly the first and the last the third again."""
    z = 0.8 + np.random.default_rng(3).normal(size=(count, 6))
    z[1] = z[0] + 1e-3 * z[1]
    z[-1] = z[2]
    return 0.1 + z @ z.T / 6


def of_sines(pattern: tuple[int, ...], K: np.ndarray) -> np.ndarray:
    """⟨Π sin(z + nπ/2)⟩ over all tuples: the average of e^{iεz} is e^{-εKε/2}."""
    total, N = 0, len(K)
    for signs in itertools.product((1, -1), repeat=4):
        exponent = sum(
            e * f * np.expand_dims(K, [k for k in range(4) if k not in (i, j)])
            for (i, e), (j, f) in itertools.combinations(enumerate(signs), 2)
        )
        own = sum(np.diag(K).reshape([N if k == i else 1 for k in range(4)]) / 2 for i in range(4))
        phase = np.prod([e / 2j * np.exp(1j * e * n * np.pi / 2) for e, n in zip(signs, pattern)])
        total = total + phase * np.exp(-exponent - own)
    return np.real(total)


def sines(rtol: float, first: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    K = covariance(6)
    with jax.enable_x64(True):
        found = list(given_pairs(activation("sin"), PATTERNS, K, rtol=rtol, first=first))
    return found, [of_sines(pattern, K) for pattern in PATTERNS]


def off(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(found - truth).max() / np.abs(truth).max())


@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
def test_products_of_sines_have_a_closed_form(rtol):
    found, truth = sines(rtol)
    for one, other in zip(found, truth):
        assert off(one, other) < rtol


@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
def test_tails_of_a_function_that_grows_are_not_left_out(rtol):
    """⟨σσσσ⟩ and ⟨σσσ'σ'⟩ of one wide gelu, whose integrands reach further than the Gaussian does."""
    spread = 2.85
    z = np.linspace(0.2, 1.0, 6)[:, None] * spread * np.array([[1.0, 0.3]]) / np.hypot(1, 0.3)
    with jax.enable_x64(True):
        found = given_pairs(activation("gelu"), [(0, 0, 0, 0), (0, 0, 1, 1)], z @ z.T, rtol=rtol)
    for array, slopes in zip(found, (0, 2)):

        def integrand(x: float, slopes: int = slopes) -> float:
            value, slope = spread * x * ndtr(spread * x), ndtr(spread * x) + spread * x * norm.pdf(spread * x)
            return value ** (4 - slopes) * slope**slopes * norm.pdf(x)

        exact = quad(integrand, -20, 20, points=[0.0], epsabs=1e-12, epsrel=1e-12, limit=200)[0]
        assert array[-1, -1, -1, -1] == pytest.approx(exact, rel=rtol)


@pytest.mark.slow
def test_tuples_of_at_most_two_inputs_beyond_the_first():
    found, truth = sines(1e-5, first=3)
    a = np.indices((6,) * 4)
    beyond = [{int(i) for i in tuple_ if i >= 3} for tuple_ in a.reshape(4, -1).T]
    known = np.array([len(others) <= 2 for others in beyond]).reshape((6,) * 4)
    for one, other in zip(found, truth):
        assert off(one[known], other[known]) < 1e-5
        assert (one[~known] == 0).all()


@pytest.mark.slow
def test_nested_quadrature_gives_the_same():
    K, act, some, patterns = 1.3 * covariance(6), activation("gelu"), [0, 1, 3, 4], PATTERNS[2:4]
    found = almost_everywhere(act, patterns, K, rtol=1e-6)
    nested = almost_everywhere(act, patterns, K[np.ix_(some, some)], rtol=1e-9)
    for one, other in zip(found, nested):
        assert np.abs(one[np.ix_(some, some, some, some)] - other).max() < 1e-6 * np.abs(one).max()
