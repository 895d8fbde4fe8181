import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import gold, one_of_each
from hypothesis import given
from hypothesis import strategies as st

from neft import activation
from neft._moments import deltas, pure_moments
from neft._quadrature import rule
from neft.gaussian import AccuracyWarning, Powers, expect, moment
from neft.gaussian._one import _checked_powers


def _rows(name):
    for row in gold()["moments"][name]:
        z, s, s1, s2, s3 = row["powers"]
        yield Powers(s, s1, s2, s3, z), float(row["K"]), float(row["value"]), float(row["absolute"])


@pytest.mark.parametrize("name", one_of_each())
def test_every_average_of_the_width_expansion_is_right_to_1e_12(name):
    for powers, K, value, absolute in _rows(name):
        assert abs(float(moment(name, powers, K)) - value) <= 1e-12 * absolute + 1e-300, (powers, K)


@pytest.mark.parametrize("name", one_of_each())
def test_the_compiled_averages_are_as_good(name):
    rows = [row for row in _rows(name) if not (activation(name).oscillates and row[1] > 1e3)]
    table, variances = sorted({row[0] for row in rows}), sorted({row[1] for row in rows})
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(lambda K: pure_moments(activation(name), table, K))(jnp.asarray(variances)))
    for powers, K, value, absolute in rows:
        assert abs(found[table.index(powers), variances.index(K)] - value) <= 1e-12 * absolute + 1e-300, (powers, K)


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.1)", "hard_tanh", "elu(0.5)"])
@pytest.mark.parametrize("powers", [Powers(s2=2), Powers(s1=2, s2=2), Powers(s1=3, s3=1)])
def test_products_of_deltas_are_refused_and_never_a_number(name, powers):
    with pytest.raises(ValueError, match="does not exist"):
        moment(name, powers, 1.0)


@pytest.mark.slow
def test_a_delta_next_to_a_jump_is_what_smooth_functions_converge_to():
    # ⟨s s'² s''⟩ of hard tanh as the limit of a steep smooth clip.
    steep = 4000.0
    soft = lambda z: (jax.nn.softplus(steep * (z + 1)) - jax.nn.softplus(steep * (z - 1))) / steep - 1  # noqa: E731
    act = activation(soft, name="soft")

    def integrand(z):
        return act(z) * act.derivative(1)(z) ** 2 * act.derivative(2)(z)

    width = 40 / steep
    limit = expect(integrand, 1.0, kinks=(-1 - width, -1, -1 + width, 1 - width, 1, 1 + width))
    assert float(limit) == pytest.approx(float(moment("hard_tanh", Powers(s=1, s1=2, s2=1), 1.0)), rel=2e-3)


def test_the_weight_of_a_delta_is_the_jump_of_the_power():
    assert deltas(activation("relu"), Powers(s1=2, s2=1)) == ((0.0, 1 / 3),)
    assert deltas(activation("elu(1)"), Powers(s1=3, s3=1)) == ((0.0, -1.0),)


@given(st.integers(0, 12), st.floats(1e-6, 1e4))
def test_powers_of_z_have_their_double_factorials(n, K):
    exact = 0.0 if n % 2 else math.prod(range(1, n, 2)) * K ** (n / 2)
    size = math.prod(range(1, n + 1, 2)) * K ** (n / 2)
    assert abs(float(expect(lambda z: z**n, K)) - exact) <= 1e-12 * size


@pytest.mark.parametrize("K", [1e-6, 0.3, 40.0, 1e4])
def test_a_step_is_integrated_exactly_when_its_place_is_given(K):
    at = 0.7
    exact = math.erfc(at / math.sqrt(2 * K)) / 2
    assert float(expect(lambda z: (z > at) * 1.0, K, kinks=(at,))) == pytest.approx(exact, rel=1e-12, abs=1e-300)


def test_a_variance_of_zero_is_the_value_at_zero():
    assert float(expect(np.cos, 0.0)) == pytest.approx(1.0, rel=1e-15)
    assert float(moment("softplus", Powers(s=1), 0.0)) == pytest.approx(math.log(2), rel=1e-15)
    assert float(expect(lambda z: np.abs(z - 1), 0.0, kinks=(1.0,))) == pytest.approx(1.0, rel=1e-15)


def test_arrays_of_variances_keep_their_shape():
    K = np.linspace(0.1, 3, 6).reshape(2, 3)
    np.testing.assert_allclose(expect(lambda z: z**2, K), K, rtol=1e-14)
    assert expect(lambda z: 1.0, K).shape == (2, 3)


def test_the_rule_can_be_differentiated_also_across_a_kink():
    # d⟨f⟩/dK = ⟨f(z² - K)⟩/2K², here for the step of ReLU's derivative shifted off the origin.
    def average(K):
        z, w = rule(K, kinks=(0.5,))
        return jnp.where(z > 0.5, w, 0.0).sum()

    with jax.enable_x64(True):
        slope = float(jax.jit(jax.grad(average))(0.8))
    exact = expect(lambda z: (z > 0.5) * (z**2 - 0.8) / (2 * 0.8**2), 0.8, kinks=(0.5,))
    assert slope == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.slow
def test_a_variance_of_zero_gives_the_value_at_the_origin_in_both_precisions():
    for x64 in (False, True):
        with jax.enable_x64(x64):
            found = pure_moments(activation("softplus"), [Powers(s=1), Powers(s1=2)], jnp.zeros(2))
            relu = pure_moments(activation("relu"), [Powers(s=2), Powers(s=1, s1=1)], jnp.zeros(()))
        np.testing.assert_allclose(found, [[np.log(2)] * 2, [0.25] * 2], rtol=1e-6)
        np.testing.assert_array_equal(relu, [0.0, 0.0])
    assert float(moment("relu", Powers(s1=1, s2=1), 0.0)) == np.inf  # the density of z at its kink
    assert float(moment("hard_tanh", Powers(s1=1, s2=1), 0.0)) == 0.0


def test_the_callers_precision_is_left_alone():
    before = jax.config.jax_enable_x64
    assert expect(jnp.tanh, 1.0).dtype == np.float64
    assert jax.config.jax_enable_x64 == before and jnp.zeros(1).dtype == jnp.float32


def test_an_average_that_misses_its_tolerance_says_so():
    with pytest.warns(AccuracyWarning, match="missed its tolerance") as caught:
        expect(lambda z: np.sin(1e8 * z) ** 2, 1.0)
    assert caught[0].filename == __file__


@pytest.mark.slow
def test_a_root_that_nobody_declared_is_resolved():
    exact = 0.0
    for side in (-1, 1):  # u^0.3 is a polynomial weight of Gauss-Jacobi's, here by a change of variables
        t, w = np.polynomial.legendre.leggauss(400)
        u = (1 + t) / 2 * 14**0.1
        density = np.exp(-((0.123 + side * u**10) ** 2) / 2) / np.sqrt(2 * np.pi)
        exact += (w / 2 * 14**0.1 * u**3 * density * 10 * u**9).sum()
    assert float(expect(lambda z: np.abs(z - 0.123) ** 0.3, 1.0)) == pytest.approx(exact, rel=1e-10)


def test_what_is_beyond_the_reach_is_reached_for_or_refused():
    assert float(expect(np.exp, 100.0)) == pytest.approx(np.exp(50.0), rel=1e-11)
    with pytest.raises(ValueError, match="does not exist"):
        expect(lambda z: np.exp(z / 5), 2.5e5)


def test_an_integrand_that_is_not_finite_is_refused_and_never_nan():
    overflowing = activation(lambda z: jnp.log(1 + jnp.exp(z)), name="naive softplus")
    with pytest.raises(ValueError, match="not finite"):
        moment(overflowing, Powers(s1=2), 3e3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expect(np.tanh, -1.0), "K holds -1"),
        (lambda: expect(np.tanh, math.nan), "K holds nan"),
        (lambda: expect(lambda z: z[:-1], 1.0), "must act elementwise"),
        (lambda: expect(lambda z: np.where(np.abs(z) < 1, np.inf, z), 1.0), "f is not finite"),
        (lambda: expect(np.tanh, 1.0, rtol=0.0), "rtol is 0"),
        (lambda: moment("tanh", Powers(s=2), 1.0, rtol=-1.0), "rtol is -1"),
        (lambda: moment("tanh", Powers(s=-2), 1.0), "powers.s is -2"),
        (lambda: _checked_powers((2, 0)), "must be Powers"),
    ],
)
def test_bad_input_gets_one_clear_sentence(call, message):
    with pytest.raises(ValueError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)
