import jax.numpy as jnp
import numpy as np
import pytest
from helpers import NAMES, covariance, gold, one_of_each
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from scipy import special

from neft import activation
from neft._closed import closed_form
from neft.gaussian import AccuracyWarning, Powers, expect, moment, pair

CLOSED = [name for name in NAMES if closed_form(activation(name), 0)]


@pytest.mark.parametrize("name", one_of_each(quick=["gelu"]))
@pytest.mark.parametrize("order", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_pairs_agree_with_50_digits(name, order):
    rows = [row for row in gold()["pairs"][name] if row["orders"] == [order, order]]
    K1, K2, rho, value = (np.array([float(row[key]) for row in rows]) for key in ("K1", "K2", "rho", "value"))
    scale = np.sqrt([float(moment(name, _square(order), a) * moment(name, _square(order), b)) for a, b in zip(K1, K2)])
    assert np.abs((pair(name, K1, K2, rho, order=order) - value) / scale).max() < 1e-10


def _square(order):
    return Powers(s=2) if order == 0 else Powers(s1=2)


OWN = {
    "relu": lambda z: jnp.where(z > 0, z, 0.0),
    "erf": lambda z: lax.erf(z),
    "gelu": lambda z: z * lax.erfc(-z / np.sqrt(2)) / 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("order", [0, 1])
def test_closed_forms_and_expansions_agree_at_every_variance_and_correlation(name, order):
    K1, K2 = np.array([1e-3, 0.4, 3.0, 90.0]), np.array([2e-3, 0.7, 5.0, 110.0])
    rho = np.array([1, -1, 1 - 1e-12, 1 - 1e-6, -0.9999, 0.99, 0.5, 0.0])
    arguments = (K1[:, None, None], K2[None, :, None], rho)
    exact, found = (pair(f, *arguments, order=order) for f in (name, OWN[name]))
    scale = np.sqrt(pair(name, K1, K1, 1.0, order=order)[:, None, None] * pair(name, K2, K2, 1.0, order=order)[:, None])
    assert np.abs((found - exact) / scale).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "silu", "mish", "hard_tanh", "elu(1)"])
def test_kernels_and_lists_of_pairs_are_the_same_numbers(name):
    K, rho = np.linspace(0.2, 4, 7), covariance(7, 4)
    kernel = pair(name, K[:, None], K[None, :], rho)
    listed = pair(name, np.repeat(K, 7), np.tile(K, 7), rho.ravel()).reshape(7, 7)
    np.testing.assert_allclose(kernel, listed, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(kernel, kernel.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.diag(kernel), moment(name, Powers(s=2), K), rtol=1e-12)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-10


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each(["tanh", "softplus", "gelu", "sin", "hard_tanh"], quick=["hard_tanh"]))
def test_the_derivative_in_the_covariance_is_the_average_of_derivatives(name):
    # Price's theorem, which none of the code for tanh, softplus and hard tanh uses.
    K1, K2, rho, step = 1.3, 0.6, 0.4, 1e-3
    c = np.sqrt(K1 * K2)
    around = pair(name, K1, K2, rho + step / c * np.array([-2, -1, 1, 2]))
    slope = np.dot(around, [1, -8, 8, -1]) / (12 * step)
    assert slope == pytest.approx(float(pair(name, K1, K2, rho, order=1)), rel=1e-9)


@pytest.mark.parametrize("name", one_of_each())
def test_independent_variables_factorize(name):
    means = [float(moment(name, Powers(s=1), K)) for K in (0.7, 2.5)]
    assert float(pair(name, 0.7, 2.5, 0.0)) == pytest.approx(means[0] * means[1], abs=1e-12)


@pytest.mark.slow
@given(st.sampled_from(["tanh", "relu"]), st.floats(0.01, 20.0), st.floats(-1, 1))
@settings(max_examples=15, deadline=None)
def test_the_cauchy_schwarz_bound_holds(name, K, rho):
    bound = float(moment(name, Powers(s=2), K))
    assert abs(float(pair(name, K, K, rho))) <= bound * (1 + 1e-12)


def test_higher_derivatives_are_there_too():
    exact = float(expect(lambda z: np.sin(z) ** 2, 1.5))
    assert float(pair("sin", 1.5, 1.5, 1.0, order=2)) == pytest.approx(exact, rel=1e-12)


def test_a_variable_without_variance_is_a_constant():
    assert float(pair("softplus", 0.0, 2.0, 0.3)) == pytest.approx(
        np.log(2) * float(moment("softplus", Powers(s=1), 2.0)), rel=1e-12
    )


def test_a_function_that_changes_fast_is_resolved_without_being_told():
    steep = activation(lambda z: jnp.tanh(10 * z), name="steep")
    x = np.linspace(-9, 9, 2001)
    w = np.exp(-x * x / 2) * (x[1] - x[0]) / np.sqrt(2 * np.pi)
    exact = (w * np.tanh(10 * x)) @ np.tanh(10 * (0.3 * x[:, None] + np.sqrt(1 - 0.09) * x)) @ w
    assert float(pair(steep, 1.0, 1.0, 0.3)) == pytest.approx(exact, rel=1e-10)


@pytest.mark.slow
def test_undeclared_kinks_are_found():
    for name, function in (("hard_tanh", lambda z: jnp.clip(z, -1, 1)), ("relu", lambda z: jnp.maximum(z, 0.0))):
        own = activation(function, name=f"own {name}")
        assert [k.order for k in own.kinks] == [k.order for k in activation(name).kinks]
        assert float(pair(own, 1.0, 1.0, 0.3)) == pytest.approx(float(pair(name, 1.0, 1.0, 0.3)), rel=1e-9)


@pytest.mark.slow
def test_a_function_too_wild_for_the_quadrature_says_so():
    with pytest.warns(AccuracyWarning, match="missed its tolerance"):
        pair(lambda z: jnp.sin(1e6 * z) + jnp.tanh(z), 1.0, 1.0, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("K1", "K2"), [(30.0, 45.0), (1e3, 700.0), (1e4, 9e3)])
@pytest.mark.parametrize("name", ["tanh", "silu"])
def test_wide_pairs_of_moderate_correlation_agree_with_a_trapezoid_rule_in_the_plane(name, K1, K2):
    # The poles of both lie at least π/2 off the real axis: this step leaves an error of 1e-13.
    rho, step, jet = np.array([0.6, -0.3]), 0.3, {"tanh": np.tanh, "silu": lambda z: z * special.expit(z)}[name]
    z1, z2 = (np.arange(-half, half + 1) * step for half in (int(8.5 * np.sqrt(K) / step) for K in (K1, K2)))
    exact = []
    for r in rho:
        exponent = (z1[:, None] / np.sqrt(K1) - r * z2 / np.sqrt(K2)) ** 2 / (1 - r * r) + z2**2 / K2
        density = np.exp(-exponent / 2)
        exact.append(jet(z1) @ density @ jet(z2) / (2 * np.pi * np.sqrt(K1 * K2 * (1 - r * r))) * step**2)
    found = pair(name, K1, K2, rho)
    scale = np.sqrt(float(moment(name, Powers(s=2), K1) * moment(name, Powers(s=2), K2)))
    assert np.abs(found - exact).max() < 1e-10 * scale


def test_a_wave_of_ones_own_is_resolved_at_both_ends():
    own = activation(lambda z: jnp.sin(z), name="own sin")
    K = np.array([100.0, 1e4])
    exact = -np.expm1(-2 * K) / 2
    np.testing.assert_allclose(pair(own, K, K, 1.0), exact, rtol=1e-10)
    np.testing.assert_allclose(pair(own, K, K, -1.0), -exact, rtol=1e-10)


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_the_sine_return(order):
    K, rho = np.array([0.3, 20.0, 400.0]), np.array([1.0, -0.7, 0.2])
    np.testing.assert_array_equal(pair("sin", K, K, rho, order=order), pair("sin", K, K, rho, order=order - 2))


@pytest.mark.slow
def test_blocks_of_nodes_and_of_pairs_change_nothing(monkeypatch):
    K, rho = np.linspace(0.5, 400, 9), np.linspace(-0.95, 0.9, 9)
    whole = pair("tanh", K, K[::-1], rho)
    monkeypatch.setattr("neft.gaussian._pair.block_size", lambda bytes_per_item, total: min(total, 4))
    np.testing.assert_allclose(pair("tanh", K, K[::-1], rho), whole, rtol=1e-11)


def test_results_may_be_written_to():
    for name in ("relu", "sin"):
        pair(name, np.ones(2), 1.0, 0.5)[0] = 0.0


def test_a_wave_of_ones_own_at_a_large_variance_is_that_of_the_closed_form():
    wild = activation(lambda z: jnp.sin(z), name="own sin")
    # K(1 - ρ) = 1, and what comes from z₁ + z₂ is e^{-20,000}.
    assert float(pair(wild, 1e4, 1e4, 0.9999)) == pytest.approx(np.exp(-1) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1.0, 1.0, 1.1), {}, "rho holds 1.1"),
        ((-1.0, 1.0, 0.0), {}, "K1 holds -1"),
        ((1.0, np.inf, 0.0), {}, "K2 holds inf"),
        ((np.ones(2), np.ones(3), 0.0), {}, "do not broadcast"),
        ((1.0, 1.0, 0.5), {"order": 4}, "order is 4"),
        ((1.0, 1.0, 0.5), {"rtol": -1e-9}, "rtol is -1e-09"),
        ((1.0, 1.0, 0.5), {"rtol": float("nan")}, "rtol is nan"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, options, message):
    with pytest.raises(ValueError, match=message) as refusal:
        pair("tanh", *arguments, **options)
    assert "\n" not in str(refusal.value)


def test_a_derivative_beyond_the_kink_is_refused():
    with pytest.raises(ValueError, match="jumps"):
        pair("relu", 1.0, 1.0, 0.5, order=2)


def test_no_pairs_give_no_values():
    assert pair("tanh", np.ones((0, 1)), np.ones((1, 3)), np.ones((0, 3))).shape == (0, 3)
