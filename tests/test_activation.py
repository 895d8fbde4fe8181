import math
import pickle

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from helpers import NAMES, gold, numbers, one_of_each, one_sentence
from hypothesis import given, settings
from hypothesis import strategies as st

import neft
from neft import Kink, activation


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", one_of_each())
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3])
def test_derivatives_agree_with_50_digits_also_in_the_tails(name, n):
    known = gold()["derivatives"][name]
    found = np.asarray(activation(name).derivative(n)(numbers(known["z"])))
    # Relative: tails of 1e-200 count as much as the middle. What double precision cannot hold is 0.
    np.testing.assert_allclose(found, numbers(known["values"][n]), rtol=2e-13, atol=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_taylor_coefficients_are_exact_to_double_precision_through_order_40(name):
    np.testing.assert_allclose(activation(name).taylor(40), numbers(gold()["taylor"][name]), rtol=5e-16, atol=0)


@pytest.mark.parametrize("function", ["tanh", "gelu", "relu", jnp.tanh])
def test_an_order_that_would_take_minutes_is_refused(function):
    for ask in (activation(function).taylor, lambda order: neft.Series.line(0.0, 1.0, order=order)):
        with one_sentence("order is 100000", "at most 503"):
            ask(100_000)


def test_silu_has_the_coefficients_that_the_notes_need():
    np.testing.assert_array_equal(activation("silu").taylor(6), [0, 1 / 2, 1 / 4, 0, -1 / 48, 0, 1 / 480])


@pytest.mark.parametrize("name", NAMES)
def test_declared_kinks_are_the_points_where_a_derivative_jumps(name):
    act = activation(name)
    step = 1e-9
    for kink in act.kinks:
        for n in range(kink.order + 1):
            right, left = (float(act.derivative(n)(kink.position + side * step)) for side in (1, -1))
            assert right - left == pytest.approx(kink.jump if n == kink.order else 0.0, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each())
def test_no_jump_is_left_undeclared(name):
    act = activation(name)
    declared = [kink.position for kink in act.kinks]
    points = np.linspace(-4, 4, 1601)
    away = points[np.min(np.abs(points[:, None] - np.array([*declared, 1e9])), axis=1) > 0.01]
    for n in range(3):
        right, left = (np.asarray(act.derivative(n)(away + side * 1e-7)) for side in (1, -1))
        assert np.abs(right - left).max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_parity_and_scale_invariance_are_what_the_function_shows(name):
    act = activation(name)
    z = np.array([1e-3, 0.2, 0.9, 1.7, 6.0])
    right, left = np.asarray(act(z)), np.asarray(act(-z))
    assert (act.parity == "odd") == np.allclose(left, -right, rtol=1e-12)
    assert (act.parity == "even") == np.allclose(left, right, rtol=1e-12)
    scales = np.allclose(act(3 * z), 3 * right, rtol=1e-12) and np.allclose(act(-3 * z), 3 * left, rtol=1e-12)
    assert act.scale_invariant == scales


@pytest.mark.parametrize(
    "name", [n for n in NAMES if 0 < activation(n).singularity < math.inf and not activation(n).kinks]
)
def test_taylor_coefficients_grow_as_the_nearest_singularity_says(name):
    act = activation(name)
    series = np.abs(act.taylor(200))
    windows = [series[a : a + 8].max() for a in (120, 184)]
    assert (windows[0] / windows[1]) ** (1 / 64) == pytest.approx(act.singularity, rel=0.02)


def _softplus(z):
    return jnp.log(1 + jnp.exp(z))


WRITTEN_BY_A_USER = {
    "tanh": lambda z: jnp.tanh(z),
    "silu": lambda z: z / (1 + jnp.exp(-z)),
    "softplus": _softplus,
    "mish": lambda z: z * jnp.tanh(_softplus(z)),
}


@pytest.mark.parametrize("name", one_of_each(WRITTEN_BY_A_USER, quick=["silu"]))
def test_a_users_function_gets_what_the_named_one_knows(name):
    named, own = activation(name), activation(WRITTEN_BY_A_USER[name])
    exact = named.taylor(40)
    np.testing.assert_allclose(own.taylor(40), exact, atol=1e-14 * np.abs(exact).max(), rtol=1e-9)
    errors = np.abs(own.taylor(40) - exact)
    assert (errors <= 4 * own.taylor_error(40) + 1e-15 * np.abs(exact)).all()
    assert own.singularity == pytest.approx(named.singularity, rel=0.02)
    assert own.parity == named.parity


def test_an_entire_function_has_no_singularity():
    own = activation(jnp.exp)
    assert own.singularity == math.inf
    factorials = np.array([math.factorial(k) for k in range(41)], dtype=float)
    np.testing.assert_allclose(own.taylor(40) * factorials, 1, rtol=1e-13)


def test_a_polynomial_has_its_coefficients():
    np.testing.assert_allclose(activation(lambda z: z + z**2, name="bent").taylor(8), [0, 1, 1] + [0] * 6, atol=1e-12)


def test_a_kink_named_twice_is_refused():
    with pytest.raises(ValueError, match="more than once"):
        activation(lambda z: jnp.maximum(z, 0), kinks=(0.0, 0.0))


def test_kinks_of_a_users_function_are_examined():
    own = activation(lambda z: jnp.where(z > 0, z, 0) + 0.5 * jnp.where(z > 1, (z - 1) ** 2, 0), kinks=(1.0, 0.0))
    assert [k.order for k in own.kinks] == [1, 2]
    np.testing.assert_allclose([k.position for k in own.kinks], [0, 1])
    np.testing.assert_allclose([k.jump for k in own.kinks], [1, 1], rtol=1e-6)
    assert own.one_sided and own.singularity == 0


def test_one_sided_series_say_so():
    assert activation("relu").one_sided and "right-hand side" in repr(activation("relu"))
    assert not activation("hard_tanh").one_sided


@pytest.mark.parametrize("f", [jnp.abs, lambda z: jnp.maximum(z, 0), lambda z: jnp.sqrt(jnp.abs(z))])
def test_a_function_that_is_not_analytic_at_0_is_refused(f):
    with pytest.raises(ValueError, match="Maclaurin"):
        activation(f, name="sharp").taylor(6)


def test_the_same_name_gives_an_equal_activation_that_survives_pickling():
    leaky = activation("leaky_relu(0.1)")
    assert leaky == activation(" Leaky_ReLU( slope=0.1 ) ") and hash(leaky) == hash(activation("leaky_relu(0.1)"))
    assert leaky != activation("leaky_relu(0.2)")
    assert pickle.loads(pickle.dumps(leaky)) == leaky
    assert activation(leaky) is leaky


@pytest.mark.parametrize("name", ["elu(1.673263)", "leaky_relu(0.01000977)", "swish(1.702)", "elu(2)"])
def test_names_have_the_digits_that_were_given(name):
    assert activation(name).name == name


@pytest.mark.parametrize(("long", "short"), [("swish(1)", "silu"), ("leaky_relu(0)", "relu")])
def test_two_spellings_of_one_function_agree(long, short):
    z = np.linspace(-3, 3, 13)
    np.testing.assert_array_equal(activation(long)(z), activation(short)(z))
    np.testing.assert_array_equal(activation(long).taylor(20), activation(short).taylor(20))


@pytest.mark.slow
@given(st.floats(0.1, 5.0))
@settings(deadline=None)
def test_swish_scales_like_silu(beta):
    with jax.enable_x64(True):
        swish, silu = activation(f"swish({beta!r})"), activation("silu")
        z = np.linspace(-4, 4, 9)
        np.testing.assert_allclose(swish(z), np.asarray(silu(beta * z)) / beta, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(swish.taylor(10), silu.taylor(10) * beta ** (np.arange(11) - 1.0), rtol=1e-12)


@pytest.mark.slow
def test_works_under_jit_vmap_and_grad_in_the_callers_dtype():
    act = activation("gelu")
    assert act(jnp.ones(3, jnp.float32)).dtype == jnp.float32
    assert jax.jit(act)(jnp.ones(3)).shape == (3,)
    assert float(jax.grad(act)(0.3)) == pytest.approx(float(act.derivative(1)(0.3)), rel=1e-14)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("rleu", "did you mean 'relu'"),
        ("relu(1)", "relu takes none"),
        ("leaky_relu(a)", "must be a number for slope"),
        ("leaky_relu(1, 2)", "takes 1"),
        ("elu(inf)", "must be finite"),
        ("swish(slope=2)", "must be a number for beta"),
        ("__import__('os').getcwd()", "must be a name"),
        ("", "must be a name"),
    ],
)
def test_bad_names_get_one_clear_sentence(source, message):
    with pytest.raises(ValueError, match="activation") as refusal:
        activation(source)
    assert message in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda z: z.sum(), "elementwise"),
        (lambda z: float(z), "cannot be traced"),
        (lambda z: jnp.log(z), "not finite"),
    ],
)
def test_bad_functions_get_one_clear_sentence(function, message):
    with pytest.raises(ValueError, match=message):
        activation(function, name="bad")


def test_a_declared_kink_where_nothing_jumps_is_refused():
    with pytest.raises(ValueError, match="no derivative up to the third jumps"):
        activation(jnp.tanh, kinks=(0.5,))


@pytest.mark.parametrize("n", [-1, 4])
def test_only_derivatives_up_to_the_third_are_given(n):
    with pytest.raises(ValueError, match="n is"):
        activation("tanh").derivative(n)


def test_names_are_all_known():
    assert all(activation(name).name.split("(")[0] == name for name in neft.activation_names())
    assert activation("relu").kinks == (Kink(0.0, 1, 1.0),)


def test_the_singularity_of_mish_is_where_its_denominator_vanishes():
    # z tanh(ln(1 + e^z)) = z (w² + 2w)/(w² + 2w + 2) with w = e^z.
    with mp.workdps(40):
        pole = mp.findroot(lambda z: mp.exp(2 * z) + 2 * mp.exp(z) + 2, mp.mpc(0.3, 2.4))
        assert activation("mish").singularity == pytest.approx(float(abs(pole)), rel=1e-15)


@pytest.mark.parametrize(("name", "far"), [("tanh", math.pi / 2), ("silu", math.pi), ("swish(2)", math.pi / 2)])
def test_singularities_are_the_known_poles(name, far):
    assert activation(name).singularity == pytest.approx(far, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_elu_has_its_gradient_where_the_exponential_would_overflow(dtype):
    elu = activation("elu(0.5)")
    slopes = [float(jax.grad(elu)(jnp.asarray(z, dtype))) for z in (1000.0, 1e-3, -1.0, -1000.0)]
    np.testing.assert_allclose(slopes, [1, 1, math.exp(-1) / 2, 0], rtol=1e-6)
    assert float(elu.derivative(2)(jnp.asarray(1000.0, dtype))) == 0


def test_coefficients_beyond_double_precision_are_refused():
    steep = activation("swish(1e10)")
    with one_sentence("order is 40", "at most 33"):
        steep.taylor(40)
    assert steep.taylor(33)[2] == pytest.approx(1e10 / 4) and np.isfinite(steep.taylor(33)).all()
