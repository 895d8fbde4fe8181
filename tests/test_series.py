import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from helpers import one_of_each, one_sentence
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


@pytest.mark.parametrize("name", one_of_each())
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


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each())
def test_coefficients_and_recurrence_agree_for_a_series_that_starts_at_0(name):
    act = activation(name)
    w = jnp.array([0.3, 1.1, 2.0])
    by_recurrence = Series.line(jnp.zeros(3), w, order=20).apply(act).coefficients()
    by_powers = Series.of_powers(act.taylor(20), w).coefficients()
    np.testing.assert_allclose(by_powers, by_recurrence, rtol=1e-11, atol=1e-13 * np.abs(by_recurrence).max())
    if act.singularity > 0:
        composed = Series.line(jnp.zeros(3), w, order=20).compose(act.taylor(20)).coefficients()
        np.testing.assert_allclose(composed, by_recurrence, rtol=1e-11, atol=1e-13 * np.abs(by_recurrence).max())


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", one_of_each(["silu", "tanh", "softplus", "gelu", "mish"], quick=["silu"]))
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


def _line(*, start=0.0, order=3):
    return Series.line(start, 1.0, order=order)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda t: t.log(), "starts at 0, but must start above 0"),
        (lambda t: (t - 1).log(), "starts at -1"),
        (lambda t: t.sqrt(), "square root"),
        (lambda t: 1 / t, "divided by one that starts at 0"),
        (lambda t: t / t, "divided by one that starts at 0"),
        (lambda t: t**-1, "divided by one that starts at 0"),
        (lambda t: t / 0, "divided by 0"),
        (lambda t: t**0.5, "power of a series is 0.5"),
        (lambda t: t + "a", "operand of a series is 'a'"),
        (lambda t: t * 1j, "operand of a series is 1j"),
        (lambda t: t.logsumexp(), "no batch"),
        (lambda t: (t + jnp.zeros(3)).logsumexp(axis=5), "axis is 5"),
        (lambda t: (t + jnp.zeros(3)).logsumexp(axis=-2), "axis is -2"),
        (lambda t: t.map(lambda u: u + 1), "linear"),
        (lambda t: t.compose([]), "coefficients is empty"),
        (lambda t: Series.of_powers([], 1.0), "coefficients is empty"),
        (lambda t: Series.of_powers([1.0], 1.0, scale=-1.0), "scale is -1"),
        (lambda t: Series.of_powers([1.0, 1e300], jnp.float32(1.0)), "float32 cannot hold"),
        (lambda t: Series(t.scaled, -1.0), "scale is -1"),
        (lambda t: Series.line(1j, 1.0, order=2), "start is 1j"),
    ],
)
def test_what_has_no_series_gets_one_sentence(make, words):
    with one_sentence(words):
        make(_line())


@pytest.mark.slow
def test_while_tracing_the_start_is_not_known():
    assert np.isfinite(jax.jit(lambda a: Series.line(a, 1.0, order=3).log().scaled)(2.0)).all()
    assert jax.vmap(lambda a: (1 / Series.line(a, 1.0, order=3)).sqrt().scaled)(jnp.ones(2)).shape == (2, 4)


def test_whole_powers_are_products():
    u = 1 + _line(order=6)
    np.testing.assert_allclose((u**5).coefficients(), [1, 5, 10, 10, 5, 1, 0])
    np.testing.assert_allclose((u**-2).coefficients(), [(-1) ** k * (k + 1) for k in range(7)])
    np.testing.assert_array_equal((_line() ** 0).coefficients(), [1, 0, 0, 0])


@pytest.mark.parametrize("array", [np.array([1.0, 2.0, 4.0]), jnp.array([1.0, 2.0, 4.0])], ids=["numpy", "jax"])
def test_arrays_on_the_left_are_spread_over_the_batch(array):
    u = _line(start=2.0, order=2)
    for found, wanted in (
        (array + u, [[3, 4, 6], [1, 1, 1]]),
        (array - u, [[-1, 0, 2], [-1, -1, -1]]),
        (array * u, [[2, 4, 8], [1, 2, 4]]),
        (array / u, [[0.5, 1, 2], [-0.25, -0.5, -1]]),
    ):
        assert isinstance(found, Series)
        np.testing.assert_allclose(found.coefficients()[:2], wanted)
    assert isinstance(np.float64(2) * u, Series)


@pytest.mark.slow
def test_batches_of_different_rank_broadcast_from_the_right():
    # With order 2 and a batch of 3 the axis of orders could be taken for one of the batch.
    wide = Series(jnp.arange(27.0).reshape(3, 3, 3))
    narrow = Series(jnp.arange(1.0, 10.0).reshape(3, 3))
    for found, one_row in (
        (wide + narrow, lambda a: a + narrow),
        (wide - narrow, lambda a: a - narrow),
        (narrow * wide, lambda a: a * narrow),
        (wide / narrow, lambda a: a / narrow),
        (wide.where(jnp.ones(3, bool), narrow), lambda a: a),
    ):
        for row in range(3):
            alone = one_row(Series(wide.scaled[:, row]))
            np.testing.assert_allclose(found.scaled[:, row], alone.scaled, atol=1e-13)


@pytest.mark.slow
def test_results_keep_the_precision_of_the_series():
    u = 1 + Series.line(jnp.float32(0), jnp.float32(1), order=2)
    assert {s.scaled.dtype for s in (2.0 / u, u + 1, np.ones(3) * u, u**-1)} == {np.dtype("f4")}


@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1e10])
def test_coefficients_survive_scales_whose_powers_overflow(scale):
    found = Series.line(0.0, 1.0, order=60, scale=scale).coefficients()
    np.testing.assert_allclose(found, [0, 1] + [0] * 59, rtol=1e-15)


@pytest.mark.parametrize(("name", "w"), [("sin", 30.0), ("erf", 5.0), ("tanh", 3.0), ("gelu", -4.0), ("linear", 1e10)])
def test_powers_stay_in_the_range_of_float32_where_their_sum_does(name, w):
    a = activation(name).taylor(60)
    exact = np.array([float(mp.mpf(c) * mp.mpf(w) ** k) for k, c in enumerate(a)])
    found = np.asarray(Series.of_powers(a, jnp.float32(w)).scaled, float)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("a", [[1, 1e-50, 1], [1e-60, 1, 2], [0, 1e-30, 1], [0, 1e30, 1], [0, 0, 3], [0, 0]])
def test_powers_of_uneven_coefficients_are_kept(a):
    found = np.asarray(Series.of_powers(np.array(a, float), jnp.float32(1.0)).scaled, float)
    np.testing.assert_allclose(found, a, rtol=1e-6, atol=1e-40)


def test_whole_numbers_are_real_directions():
    np.testing.assert_array_equal(Series.of_powers([0, 0.5, 0.25], 3).coefficients(), [0, 1.5, 2.25])


@pytest.mark.slow
@pytest.mark.parametrize("top", [900.0, pytest.param(-900.0, marks=pytest.mark.slow)])
def test_logsumexp_far_from_0_does_not_overflow(top):
    starts, slopes = [top, top + 1, top - 2], [1.0, -2.0, 0.5]
    exact = _taylor(lambda s: mp.log(sum(mp.exp(a + b * s) for a, b in zip(starts, slopes))), 8)
    found = Series.line(jnp.array(starts), jnp.array(slopes), order=8).logsumexp().coefficients()
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-12)
    columns = Series.line(jnp.array(starts)[:, None], jnp.array(slopes)[:, None], order=8).logsumexp(axis=0)
    np.testing.assert_allclose(columns.coefficients()[:, 0], exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("start", [30.0, -30.0])
@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_tails_of_series_are_accurate_relative_to_themselves(name, start):
    # The slope is 1e-13 or 1e-25 there, and 1 - tanh² would be all rounding.
    exact = _taylor(lambda s: EXACT[name](mp.mpf(start) + s), 6)
    np.testing.assert_allclose(_line(start=start, order=6).apply(name).coefficients(), exact, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_elu_of_a_series_far_to_the_right_is_the_series(dtype):
    u = Series.line(jnp.asarray(1000.0, dtype), jnp.asarray(1.0, dtype), order=3)
    np.testing.assert_array_equal(u.apply("elu").coefficients(), [1000, 1, 0, 0])
    slope = jax.grad(lambda a: Series.line(a, 1.0, order=3).apply("elu").scaled.sum())(jnp.asarray(1000.0, dtype))
    assert float(slope) == 1


def test_elu_of_a_series_just_left_of_0_does_not_cancel():
    found = _line(start=-1e-10).apply("elu(1)").coefficients()
    np.testing.assert_allclose(found, [np.expm1(-1e-10), *np.exp(-1e-10) / np.array([1, 2, 6])], rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "u", "exact"),
    [
        ("relu", lambda t: -(t * t), [0, 0, 0, 0]),
        ("relu", lambda t: t * t - 5 * t * t * t, [0, 0, 1, -5]),
        ("relu", lambda t: t * t * t, [0, 0, 0, 1]),
        ("leaky_relu(0.25)", lambda t: 4 * t * t * t - t * t, [0, 0, -0.25, 1]),
        ("elu(0.5)", lambda t: -(t * t), [0, 0, -0.5, 0]),
        ("hard_tanh", lambda t: 1 - t * t, [1, 0, -1, 0]),
        ("hard_tanh", lambda t: 1 + t * t - t, [1, -1, 1, 0]),
        ("hard_tanh", lambda t: 1 + t * t, [1, 0, 0, 0]),
        ("hard_tanh", lambda t: t * t - 1, [-1, 0, 1, 0]),
        ("hard_tanh", lambda t: -1 - t * t, [-1, 0, 0, 0]),
    ],
)
def test_the_side_of_a_kink_is_that_of_the_first_term_that_moves(name, u, exact):
    np.testing.assert_allclose(u(_line()).apply(name).coefficients(), exact, atol=1e-15)
