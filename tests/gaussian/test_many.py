import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import covariance

from neft import _tuples as many
from neft import activation
from neft.gaussian import AccuracyWarning, Powers, moment, pair, products


@pytest.mark.slow
def test_linear_functions_give_wicks_theorem():
    K = covariance(5, 3)
    (found,) = products("linear", [(0, 0, 0, 0)], K)
    pairs = np.einsum("ab,cd->abcd", K, K)
    exact = pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
    assert np.abs(found - exact).max() < 1e-8 * exact.max()


@pytest.mark.slow
def test_products_of_sines_and_cosines_are_sums_of_exponentials():
    K = covariance(5, 5, seed=1)
    pattern = (0, 1, 0, 1)
    (found,) = products("sin", [pattern], K)
    exact = np.zeros_like(found)
    for index in itertools.product(range(5), repeat=4):
        for signs in itertools.product((1, -1), repeat=4):
            v = np.zeros(5)
            np.add.at(v, list(index), signs)
            # sin = (e^iz - e^-iz)/2i and cos = (e^iz + e^-iz)/2; two sines give -1/16.
            exact[index] -= signs[0] * signs[2] * np.exp(-v @ K @ v / 2) / 16
    assert np.abs(found - exact).max() < 1e-8 * np.abs(exact).max()


@pytest.mark.slow
def test_smooth_activations_agree_with_a_dense_grid_in_the_space_of_a_singular_covariance():
    K, act = covariance(5, 2, seed=2), activation("tanh")
    patterns = [(0, 0, 0, 0), (2, 1, 1, 0), (3, 1, 1, 1), (1, 2, 0), (2, 2)]
    eigenvalues, vectors = np.linalg.eigh(K)
    x = np.linspace(-9, 9, 181)
    nodes = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    weight = np.exp(-(nodes**2).sum(1) / 2)
    weight /= weight.sum()
    z = nodes @ (vectors[:, -2:] * np.sqrt(eigenvalues[-2:])).T
    with jax.enable_x64(True):
        s = [np.asarray(act.derivative(n)(z)) for n in range(4)]
    for pattern, found in zip(patterns, products(act, patterns, K)):
        letters = "abcd"[: len(pattern)]
        terms = ",".join(["q", *(f"q{letter}" for letter in letters)])
        exact = np.einsum(f"{terms}->{letters}", weight, *(s[n] for n in pattern), optimize=True)
        assert np.abs(found - exact).max() < 1e-8 * np.abs(exact).max(), pattern


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", pytest.param("relu", marks=pytest.mark.slow)])
def test_coincident_inputs_reduce_to_pairs_and_single_averages(name):
    K = np.diag([1.0, 0.5]) @ covariance(2, 2, seed=3) @ np.diag([1.0, 0.5])
    fourth, second = products(name, [(0, 0, 0, 0), (0, 0)], K, rtol=1e-6)
    rho = K[0, 1] / np.sqrt(K[0, 0] * K[1, 1])
    assert second[0, 1] == pytest.approx(float(pair(name, K[0, 0], K[1, 1], rho)), rel=1e-6)
    np.testing.assert_allclose(np.diag(second), moment(name, Powers(s=2), np.diag(K)), rtol=1e-6)
    np.testing.assert_allclose([fourth[i, i, i, i] for i in (0, 1)], moment(name, Powers(s=4), np.diag(K)), rtol=1e-6)


@pytest.mark.slow
def test_three_steps_give_the_orthant_probability():
    K = covariance(3, 3, seed=4)
    (found,) = products("relu", [(1, 1, 1)], K, rtol=1e-6)
    angles = np.arcsin(K[0, 1]) + np.arcsin(K[0, 2]) + np.arcsin(K[1, 2])
    assert found[0, 1, 2] == pytest.approx(1 / 8 + angles / (4 * np.pi), rel=1e-6)


@pytest.mark.slow
def test_independent_groups_factorize():
    K = np.kron(np.eye(2), [[1.0, 0.8], [0.8, 1.0]])
    for name in ("relu", "silu"):
        fourth, second = products(name, [(0, 0, 0, 0), (0, 0)], K, rtol=1e-6)
        assert fourth[0, 1, 2, 3] == pytest.approx(second[0, 1] * second[2, 3], rel=1e-6)


@pytest.mark.slow
def test_equal_functions_give_symmetric_arrays():
    K = covariance(6, 6, seed=5)
    (found,) = products("silu", [(0, 1, 1, 0)], K, rtol=1e-6)
    np.testing.assert_allclose(found, found.transpose(3, 1, 2, 0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found, found.transpose(0, 2, 1, 3), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_a_repeated_input_is_ordinary():
    K = covariance(2, 2, seed=6)
    repeated = K[np.ix_([0, 1, 0], [0, 1, 0])]
    (single,), (double,) = (products("tanh", [(0, 1, 2, 1)], k) for k in (K, repeated))
    np.testing.assert_allclose(double[2, 1, 0, 1], single[0, 1, 0, 1], rtol=1e-8)


@pytest.mark.slow
def test_relu_quadruples_agree_with_monte_carlo():
    K = covariance(4, 4, seed=7)
    (found,) = products("relu", [(0, 0, 0, 0)], K, rtol=1e-5)
    rng, total, squares, draws = np.random.default_rng(0), 0.0, 0.0, 0
    for _ in range(20):
        z = np.maximum(rng.multivariate_normal(np.zeros(4), K, size=10**6), 0).prod(axis=1)
        total, squares, draws = total + z.sum(), squares + (z**2).sum(), draws + len(z)
    mean = total / draws
    stderr = np.sqrt((squares / draws - mean**2) / draws)
    assert abs(found[0, 1, 2, 3] - mean) < 5 * stderr and mean > 10 * stderr


@pytest.mark.parametrize("K", [1e-2, 1e-6])
def test_small_variances_keep_their_digits(K):
    (found,) = products("silu", [(0, 0, 0, 0)], [[K]])
    assert found.item() == pytest.approx(float(moment("silu", Powers(s=4), K)), rel=1e-8)


@pytest.mark.slow
def test_nearly_aligned_steps_are_right_to_what_is_claimed():
    K = np.eye(4)
    K[2, 3] = K[3, 2] = 0.99999
    (found,) = products("relu", [(1, 1, 1, 1)], K, rtol=1e-4)
    exact = (1 / 4 + np.arcsin(K[2, 3]) / (2 * np.pi)) / 4
    assert found[0, 1, 2, 3] == pytest.approx(exact, rel=1e-4)


def test_arrays_that_vanish_by_parity_and_kernels_of_float32_are_ordinary():
    x = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    (found,) = products("tanh", [(0, 1)], x @ x.T, rtol=1e-6)
    assert np.abs(found).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_pieces_of_the_integral_change_nothing(name, monkeypatch):
    K = covariance(3, 3, seed=4)
    whole = products(name, [(0, 1, 0)], K, rtol=1e-5)[0]
    for function in (many._smooth, many._kinked):
        function.clear_cache()
    monkeypatch.setattr(many, "_POINTS", 5000)
    np.testing.assert_allclose(products(name, [(0, 1, 0)], K, rtol=1e-5)[0], whole, rtol=1e-12, atol=1e-14)
    for function in (many._smooth, many._kinked):
        function.clear_cache()


@pytest.mark.slow
def test_products_that_miss_their_tolerance_say_so():
    K = np.array([[1.0, 0.9999], [0.9999, 1.0]])
    fast = activation(lambda z: jnp.abs(z) * jnp.cos(30 * z), name="fast")
    with pytest.warns(AccuracyWarning, match="missed its tolerance"):
        products(fast, [(1, 1)], K, rtol=1e-10)


@pytest.mark.parametrize(
    ("patterns", "K", "message"),
    [
        ([(0, 0)], np.ones((2, 3)), "must be square"),
        ([(0, 0)], [[1.0, 2.0], [2.0, 1.0]], "positive semi-definite"),
        ([(0, 0)], [[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([(0,) * 5], np.eye(2), "one to four"),
        ([(4, 0)], np.eye(2), "at most 3"),
        ([], np.eye(2), "not empty"),
    ],
)
def test_bad_input_gets_one_clear_sentence(patterns, K, message):
    with pytest.raises(ValueError, match=message):
        products("tanh", patterns, K)


def test_derivatives_beyond_a_kink_are_refused():
    with pytest.raises(ValueError, match="jumps"):
        products("relu", [(2, 0)], np.eye(2))
