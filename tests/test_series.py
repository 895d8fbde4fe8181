import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from helpers import NAMES
from hypothesis import given, settings
from hypothesis import strategies as st

from neft import Series, activation

ORDER = 14


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


EXACT = {
    "linear": lambda z: z,
    "relu": lambda z: max(z, mp.mpf(0)),
    "leaky_relu(0.1)": lambda z: z if z > 0 else mp.mpf(0.1) * z,
    "elu(1)": lambda z: z if z > 0 else mp.expm1(z),
    "elu(0.5)": lambda z: z if z > 0 else mp.expm1(z) / 2,
    "tanh": mp.tanh,
    "hard_tanh": lambda z: max(min(z, mp.mpf(1)), mp.mpf(-1)),
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "softplus": lambda z: mp.log1p(mp.exp(z)),
    "erf": mp.erf,
    "sin": mp.sin,
    "gelu": lambda z: z * mp.ncdf(z),
    "silu": lambda z: z / (1 + mp.exp(-z)),
    "swish(2)": lambda z: z / (1 + mp.exp(-2 * z)),
    "mish": lambda z: z * mp.tanh(mp.log1p(mp.exp(z))),
    "quadratic": lambda z: z**2,
}


def _taylor(f, order=ORDER):
    with mp.workdps(60):
        return np.array([float(c) for c in mp.taylor(f, 0, order)])


def _assert_close(found: Series, exact: np.ndarray):
    scale = np.maximum.accumulate(np.abs(exact)[::-1])[::-1]
    assert (np.abs(found.coefficients() - exact) <= 1e-12 * np.maximum(scale, 1e-3)).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("start", [0.4, -1.7, 2.6])
def test_every_activation_of_a_series_agrees_with_60_digits(name, start):
    # u = start + 3t/2 - t², away from the kinks.
    t = Series.line(0.0, 1.0, order=ORDER)
    exact = _taylor(lambda s: EXACT[name](mp.mpf(start) + mp.mpf("1.5") * s - s**2))
    _assert_close((start + 1.5 * t - t * t).apply(name), exact)


def test_elementary_functions_agree_with_60_digits():
    t = Series.line(0.0, 1.0, order=ORDER)
    u = 0.7 + t * 0.9 - 0.3 * t * t
    exact_u = lambda s: mp.mpf(0.7) + mp.mpf(0.9) * s - mp.mpf(0.3) * s**2  # noqa: E731
    _assert_close(u.exp(), _taylor(lambda s: mp.exp(exact_u(s))))
    _assert_close(u.log(), _taylor(lambda s: mp.log(exact_u(s))))
    _assert_close(u.sqrt(), _taylor(lambda s: mp.sqrt(exact_u(s))))
    _assert_close(t.exp() / u, _taylor(lambda s: mp.exp(s) / exact_u(s)))
    _assert_close(2.0 / u, _taylor(lambda s: 2 / exact_u(s)))
    _assert_close(u.sin_cos()[1], _taylor(lambda s: mp.cos(exact_u(s))))


def test_logsumexp_is_that_of_the_functions():
    slopes = np.array([1.0, -2.0, 0.5])
    found = Series.line(jnp.array([300.0, 301.0, 299.0]), slopes, order=8).logsumexp()
    exact = _taylor(lambda s: mp.log(sum(mp.exp(a + b * s) for a, b in zip([300, 301, 299], slopes))), 8)
    np.testing.assert_allclose(found.coefficients(), exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_coefficients_and_recurrence_agree_for_a_series_that_starts_at_0(name):
    act = activation(name)
    w = jnp.array([0.3, 1.1, 2.0])
    by_recurrence = Series.line(jnp.zeros(3), w, order=20).apply(act).coefficients()
    by_powers = Series.of_powers(act.taylor(20), w).coefficients()
    np.testing.assert_allclose(by_powers, by_recurrence, rtol=1e-11, atol=1e-13 * np.abs(by_recurrence).max())
    if act.singularity > 0:
        composed = Series.line(jnp.zeros(3), w, order=20).compose(act.taylor(20)).coefficients()
        np.testing.assert_allclose(composed, by_recurrence, rtol=1e-11, atol=1e-13 * np.abs(by_recurrence).max())


def test_a_users_own_activation_goes_by_its_coefficients():
    own = activation(lambda z: z / (1 + z**2), name="bump")
    found = Series.line(0.0, 0.5, order=9).apply(own).coefficients()
    exact = [0 if k % 2 == 0 else 0.5**k * (-1) ** (k // 2) for k in range(10)]
    np.testing.assert_allclose(found, exact, atol=1e-12)
    with pytest.raises(ValueError, match="must start at 0"):
        Series.line(0.5, 1.0, order=3).apply(own)


@pytest.mark.parametrize(
    ("name", "right", "left"), [("relu", 1.0, 0.0), ("leaky_relu(0.1)", 1.0, 0.1), ("elu(0.5)", 1.0, 0.5)]
)
def test_at_a_kink_the_side_is_that_of_small_positive_t(name, right, left):
    ray = Series.line(jnp.zeros(2), jnp.array([1.0, -1.0]), order=3).apply(name).coefficients()
    np.testing.assert_allclose(ray[1], [right, -left])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", ["silu", "tanh", "softplus", "gelu", "mish"])
def test_order_60_stays_finite_in_float32_with_a_scale(name, dtype):
    # Arguments of 50 make coefficients of 1e100: without the scale float32 overflows.
    act = activation(name)
    w = jnp.array([1.0, -7.0, 50.0], dtype)
    scale = min(act.singularity, 2.0) / 50
    found = Series.line(jnp.zeros(3, dtype), w, order=60, scale=scale).apply(act)
    powers = Series.of_powers(act.taylor(60), w, scale=scale)
    assert found.scaled.dtype == powers.scaled.dtype == dtype
    assert np.isfinite(found.scaled).all() and np.isfinite(powers.scaled).all()
    tolerance = 1e-4 if dtype == jnp.float32 else 1e-12
    assert np.abs(found.scaled - powers.scaled).max() < tolerance * np.abs(powers.scaled).max()


@given(st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=4, max_size=4), st.floats(0.1, 10))
@settings(max_examples=25, deadline=None)
def test_the_scale_changes_nothing_but_the_storage(numbers, scale):
    with jax.enable_x64(True):
        a, b, c, d = numbers
        plain, scaled = (
            (Series.line(a, b, order=6, scale=s).exp() * Series.line(c, d, order=6, scale=s)).coefficients()
            for s in (1.0, scale)
        )
        np.testing.assert_allclose(plain, scaled, rtol=1e-9, atol=1e-9 * np.abs(plain).max() + 1e-290)


def test_the_ring_rules_hold_and_batches_broadcast():
    rng = np.random.default_rng(0)
    a, b, c = (Series(jnp.asarray(rng.normal(size=(7, 3)))) for _ in range(3))
    for left, right in (((a + b) * c, a * c + b * c), ((a * b) * c, a * (b * c)), (a * b / b, a), (a - a, 0 * a)):
        np.testing.assert_allclose(left.scaled, right.scaled, atol=1e-9)
    assert (a + jnp.ones((2, 1))).scaled.shape == (7, 2, 3)
    assert (jnp.ones((2, 1)) * a).scaled.shape == (7, 2, 3)
    total = a.map(jnp.sum)
    np.testing.assert_allclose(total.scaled, a.scaled.sum(axis=1))


def test_the_partial_sum_is_the_polynomial():
    s = Series.line(0.0, 1.0, order=5, scale=2.0).exp()
    assert float(s(0.1)) == pytest.approx(np.exp(0.1), rel=1e-8)


def test_series_pass_through_jit_vmap_and_grad():
    def fifth(a):
        return Series.line(a, 1.0, order=5).tanh().scaled[5]

    step = 1e-4
    slope = (float(fifth(0.3 + step)) - float(fifth(0.3 - step))) / (2 * step)
    assert float(jax.jit(jax.grad(fifth))(0.3)) == pytest.approx(slope, rel=1e-6)
    assert jax.vmap(fifth)(jnp.arange(3.0)).shape == (3,)


def test_series_of_other_order_or_scale_are_refused():
    with pytest.raises(ValueError, match="both must agree"):
        Series.line(0.0, 1.0, order=2) + Series.line(0.0, 1.0, order=3)
    with pytest.raises(ValueError, match="scale is 0"):
        Series.line(0.0, 1.0, order=2, scale=0.0)
    with pytest.raises(ValueError, match="order is -1"):
        Series.line(0.0, 1.0, order=-1)
