import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from helpers import NAMES, one_of_each, one_sentence

import neft
from neft import MLP, Kink, activation
from neft.gaussian import Powers, moment, pair, products
from neft.width import kernel, statistics

SLOW = pytest.mark.slow


@pytest.fixture
def unhinted(monkeypatch):
    """The library as its users run it: no annotation is checked before ours."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize(
    ("f", "kinks"),
    [
        pytest.param(lambda z: jnp.abs(z - 1), [(1, 1, 2)], marks=SLOW),
        (lambda z: jnp.maximum(z - 2, 0), [(2, 1, 1)]),
        pytest.param(lambda z: 1e-7 * jnp.maximum(z, 0), [(0, 1, 1e-7)], marks=SLOW),
        pytest.param(lambda z: 1e7 * jnp.abs(z + 1 / 3), [(-1 / 3, 1, 2e7)], marks=SLOW),
        (lambda z: jnp.clip(1000 * z, -1, 1), [(-0.001, 1, 1000), (0.001, 1, -1000)]),
        pytest.param(jax.nn.relu6, [(0, 1, 1), (6, 1, -1)], marks=SLOW),
        pytest.param(jax.nn.hard_swish, [(-3, 1, -0.5), (3, 1, -0.5)], marks=SLOW),
        pytest.param(jax.nn.sparse_plus, [(-1, 2, 0.5), (1, 2, -0.5)], marks=SLOW),
        pytest.param(jax.nn.soft_sign, [(0, 2, -4)], marks=SLOW),
        pytest.param(jax.nn.celu, [(0, 2, -1)], marks=SLOW),
        pytest.param(lambda z: jnp.exp(z) + jnp.abs(z - 0.3) ** 3, [(0.3, 3, 12)], marks=SLOW),
        (lambda z: jnp.sin(9 * z) + jnp.where(z > 1.5, 0.01, 0.0), [(1.5, 0, 0.01)]),
        pytest.param(lambda z: jnp.tanh(z) + 1e-4 * jnp.maximum(z + 20, 0), [(-20, 1, 1e-4)], marks=SLOW),
    ],
)
def test_kinks_that_nobody_declares_are_found(f, kinks):
    shown = activation(f).kinks
    assert [k.order for k in shown] == [k[1] for k in kinks]
    np.testing.assert_allclose([k.position for k in shown], [k[0] for k in kinks], rtol=4e-16, atol=0)
    np.testing.assert_allclose([k.jump for k in shown], [k[2] for k in kinks], rtol=1e-9)


SMOOTH = [name for name in NAMES if not activation(name).kinks]


@pytest.mark.parametrize("unit", [pytest.param(0.01, marks=SLOW), pytest.param(1.0, marks=SLOW), 100.0])
@pytest.mark.parametrize("name", one_of_each(SMOOTH))
def test_smooth_functions_have_none(name, unit):
    act = activation(name)
    assert activation(lambda z: act.function(unit * z), name=name).kinks == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda z: jnp.log(1 + jnp.exp(z)), marks=SLOW),
        pytest.param(lambda z: z / (1 + jnp.exp(-z)), marks=SLOW),
        pytest.param(lambda z: 0.5 * z * (1 + jax.scipy.special.erf(z / math.sqrt(2))), marks=SLOW),
        lambda z: jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z))),
        lambda z: jnp.where(z == 0, 1.0, (jnp.exp(z) - 1) / jnp.where(z == 0, 1.0, z)),
        lambda z: jnp.tanh(1e6 * z),
        pytest.param(lambda z: jnp.exp(z**2), marks=SLOW),
    ],
    ids=["softplus", "silu", "gelu", "stable softplus", "guarded", "steep", "growing"],
)
def test_rounding_overflow_and_steepness_are_not_taken_for_kinks(f):
    assert activation(f).kinks == ()


@pytest.mark.slow
def test_the_deltas_of_a_kink_that_nobody_declares_are_in_the_averages():
    # ⟨σ''⟩ of |z - 1| is 2 φ(1), all of it delta.
    found = moment(lambda z: jnp.abs(z - 1), Powers(s2=1), 1.0)
    assert float(found) == pytest.approx(2 * math.exp(-0.5) / math.sqrt(2 * math.pi), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", [lambda z: jnp.sqrt(jnp.abs(z)), jnp.cbrt, lambda z: z * jnp.log(jnp.abs(z) + 1e-300)])
def test_a_slope_without_bound_is_no_finite_jump(f):
    assert activation(f).kinks == (Kink(0.0, 1, math.inf),)


def test_a_pole_on_the_real_line_is_refused():
    with one_sentence("'pole' is not bounded near 1.25", "whole real line"):
        activation(lambda z: 1 / (z - 1.25), name="pole")


@pytest.mark.slow
def test_teeth_without_end_are_refused():
    with one_sentence("'saw'", "more than 128 kinks"):
        activation(lambda z: (10 * z) % 1, name="saw")


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ((0.0, 1, 1.0), "derivative 1 jumps by 1 at 0, but the lowest that jumps there is derivative 1, by 2"),
        ((0.0, 2, 2.0), "derivative 2 jumps by 2 at 0, but the lowest that jumps there is derivative 1, by 2"),
        ((0.0, 1, -2.0), "derivative 1 jumps by -2 at 0"),
        ((0.5, 1, 2.0), "no derivative up to the third jumps there (the nearest that shows is at 0)"),
    ],
)
def test_a_declared_kink_that_the_function_contradicts_is_refused(declared, words):
    with one_sentence("'abs'", words):
        activation(jnp.abs, kinks=[declared])


@pytest.mark.slow
def test_a_declared_kink_is_kept_as_declared_also_far_out():
    far = activation(lambda z: jnp.abs(z - 300), kinks=[(300, 1, 2)])
    assert far.kinks == (Kink(300.0, 1, 2.0),)
    assert activation(lambda z: jnp.abs(z - 1 / 3), kinks=np.array([1 / 3])).kinks[0].position == 1 / 3


@pytest.mark.slow
def test_the_modulus_is_singular_at_0_and_a_shifted_ramp_at_its_kink():
    assert activation(jnp.abs).singularity == 0
    assert activation(lambda z: jnp.where(z > 1.02, 1.0, z)).singularity == 1.02


@pytest.mark.slow
def test_a_clip_far_out_is_not_scale_invariant():
    assert not activation(lambda z: jnp.clip(z, -20, 20)).scale_invariant
    assert activation(lambda z: jnp.maximum(z, 0.2 * z)).scale_invariant


@pytest.mark.slow
def test_a_callable_that_cannot_be_hashed_is_known_by_identity():
    prelu = eqx.nn.PReLU(0.125)
    own = activation(prelu)
    assert own == activation(prelu) and hash(own) == hash(activation(prelu)) and own.name == "PReLU"
    assert own != activation(eqx.nn.PReLU(0.125))
    assert own.kinks == (Kink(0.0, 1, 0.875),)
    assert MLP((2, 2), prelu) == MLP((2, 2), prelu)


@pytest.mark.slow
def test_an_activation_can_be_made_while_jax_is_tracing():
    @jax.jit
    def inside(x):
        own = activation(lambda z: jnp.abs(z - 1) + jnp.tanh(z) / 2)
        assert own.kinks[0].position == 1.0
        np.testing.assert_allclose(activation(lambda z: jnp.tanh(2 * z)).taylor(3), [0, 2, 0, -8 / 3], atol=1e-14)
        return own(x)

    np.testing.assert_allclose(inside(jnp.zeros(2)), 1.0)


def test_an_activation_of_a_traced_value_is_refused():
    with one_sentence("'ramp' depends on a value that JAX is tracing"):
        jax.grad(lambda slope: activation(lambda z: slope * z, name="ramp")(1.0))(2.0)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (jax.nn.softmax, "mixes the elements"),
        (lambda z: z - z.mean(), "mixes the elements"),
        (lambda z: z > 0, "returns bool"),
        (lambda z: z.astype(jnp.float32), "returns float32"),
        (lambda z: jax.lax.complex(z, z), "returns complex128"),
        (lambda z: jnp.sqrt(z + 7), "NaN at -7.0"),
        (lambda z: None, "cannot be traced"),
        (math.tanh, "cannot be traced"),
    ],
)
def test_functions_that_are_no_activation_get_one_sentence(f, words):
    with one_sentence("'bad'", words):
        activation(f, name="bad")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kinks": 0.0}, "kinks is 0.0"),
        ({"kinks": [(0.0, 1)]}, "kinks of 'absolute' hold (0.0, 1)"),
        ({"kinks": ["a"]}, "position of a kink is 'a'"),
        ({"kinks": [(0.0, 4, 1.0)]}, "order of a kink is 4"),
        ({"name": 3}, "name is 3"),
        ({"name": ""}, "name is ''"),
    ],
)
def test_bad_options_get_one_sentence(unhinted, options, words):
    with one_sentence(words):
        neft.activation(jnp.abs if "name" in options else _named_absolute, **options)


def _named_absolute(z):
    return jnp.abs(z)


_named_absolute.__name__ = "absolute"


@pytest.mark.parametrize("options", [{"kinks": (1.0,)}, {"name": "mine"}])
def test_a_named_activation_takes_no_options(options):
    with one_sentence("only a function"):
        activation("relu", **options)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda z: jax.lax.stop_gradient(jnp.tanh(z)), "it changes by"),
        pytest.param(lambda z: z * jax.lax.stop_gradient(jax.nn.sigmoid(z)), "it changes by", marks=SLOW),
        (lambda z: z + jax.lax.stop_gradient(jnp.round(z) - z), "it changes by 0, where its derivative says 0.49"),
        (lambda z: jnp.tanh(z) + jax.lax.stop_gradient(jnp.sign(z) - jnp.tanh(z)), "it changes by 0"),
    ],
    ids=["stopped", "half stopped", "straight through", "surrogate"],
)
def test_derivatives_that_are_not_those_of_the_function_are_refused(f, words):
    with one_sentence("'bad' has derivatives in JAX that are not its own", words):
        activation(f, name="bad")


def test_a_function_whose_values_change_is_refused():
    slope = [1.0]
    f = lambda z: jnp.tanh(slope[0] * z)  # noqa: E731
    activation(f, name="state")
    slope[0] = 2.0
    with one_sentence("'state' gives other values than when it was first used"):
        activation(f, name="state")


def test_a_narrow_feature_is_found_with_its_jumps():
    narrow = activation(lambda z: jnp.tanh(z) + jnp.where(jnp.abs(z - 1.7) < 1e-4, 100.0, 0.0))
    np.testing.assert_allclose([k.position for k in narrow.kinks], [1.6999, 1.7001], rtol=1e-12)
    assert narrow.parity is None
    density = math.exp(-(1.7**2) / 3.2) / math.sqrt(3.2 * math.pi)
    extra = float(moment(narrow, Powers(s=2), 1.6) - moment("tanh", Powers(s=2), 1.6))
    assert extra == pytest.approx(2e-4 * density * (100**2 + 200 * math.tanh(1.7)), rel=1e-6)


def test_kinks_far_out_are_found_and_end_the_straight_lines():
    far = activation(lambda z: jnp.clip(z / 256, -1, 1) + z)
    assert far.kinks == (Kink(-256.0, 1, 1 / 256), Kink(256.0, 1, -1 / 256)) and not far.scale_invariant


def test_steep_functions_are_resolved_by_moments_and_statistics():
    steep = lambda z: jnp.tanh(1e4 * z)  # noqa: E731
    # ∫ sech⁴ = 4/3, and the Gaussian is flat there.
    flat = 1e4 * 4 / 3 / math.sqrt(2 * math.pi * 1.6)
    assert float(moment(steep, Powers(s1=2), 1.6)) == pytest.approx(flat, rel=1e-8)
    stats = statistics(MLP((1, 8, 1), steep, C_W=1.6, lambda_W=1.0, lambda_b=1.0), [1.0])
    square = float(moment(steep, Powers(s=2), 1.6))
    assert stats.Theta[-1] == pytest.approx(1 + square + 1.6 * 2 * flat, rel=1e-8)


def test_siren_is_exact_by_name_and_as_one_s_own_function():
    own = activation(lambda z: jnp.sin(30 * z))
    for act in (own, activation("sin(30)")):
        stats = statistics(MLP((1, 8, 8, 1), act, C_W=1.7, lambda_W=1.0, lambda_b=0.0), [1.0])
        np.testing.assert_allclose(stats.K, [1.7, 0.85, 0.85], rtol=1e-13)
        np.testing.assert_allclose(stats.Theta[1], 0.5 + 1.7 * 450, rtol=1e-12)
        np.testing.assert_allclose(stats.V[1], 1.7**2 / 8, rtol=1e-12)
        assert 0 < float(pair(act, 1.0, 1.0, 0.5)) < 1e-195
        # ⟨sin⁴⟩ and ⟨z² cos²⟩ at a variance that no panels reach; at a small one nothing cancels.
        assert float(moment(act, Powers(s=4), 1e9)) == pytest.approx(3 / 8, rel=1e-13)
        assert float(moment(act, Powers(s1=2, z=2), 1e9)) == pytest.approx(450e9, rel=1e-13)
        assert float(moment(act, Powers(s=2), 1e-12)) == pytest.approx(900e-12 * (1 - 900e-12), rel=1e-12)
        np.testing.assert_allclose(act.taylor(3), [0, 30, 0, -4500], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda z: jnp.sin(50 * z) + jnp.exp(-(((z - 9.9) / 0.09) ** 2)), marks=SLOW),
        lambda z: jnp.sin(30 * z) + 1e-6 * z,
        lambda z: jnp.sin(z) + jnp.sin(math.sqrt(2) * z),
        pytest.param(lambda z: z + jnp.sin(30 * z) ** 2 / 30, marks=SLOW),
    ],
    ids=["with a bump", "with a slope", "two periods", "snake"],
)
def test_what_only_looks_periodic_is_not_taken_for_it(f):
    assert activation(f).fourier is None


@pytest.mark.slow
def test_a_periodic_function_of_many_harmonics_has_the_averages_of_its_panels():
    act = activation(lambda z: jnp.tanh(1.5 * jnp.sin(3 * z + 0.4)))
    assert len(act.fourier.coefficients) > 10
    plain = dataclasses.replace(act, fourier=None, oscillates=False)
    for powers in (Powers(s=2, s1=1, z=1), Powers(s1=2)):
        np.testing.assert_allclose(moment(act, powers, [0.2, 3.0]), moment(plain, powers, [0.2, 3.0]), atol=1e-13)
    for order in (0, 1):
        found, other = (pair(one, 0.3, 0.5, [0.3, -0.999], order=order) for one in (act, plain))
        np.testing.assert_allclose(found, other, atol=1e-11)


@pytest.mark.parametrize(
    "average",
    [lambda f: moment(f, Powers(s=2), 1.6), pytest.param(lambda f: pair(f, 1.6, 1.6, 0.5), marks=SLOW)],
)
def test_an_average_that_does_not_exist_is_refused(average):
    growing = activation(lambda z: jnp.exp(z**2 / 2), name="growing")
    with one_sentence("growing", "does not exist"):
        average(growing)
    with one_sentence("growing", "does not exist"):
        statistics(MLP((1, 8, 1), growing, C_W=1.6), [1.0])
    # This one does, beyond the thirteen standard deviations that serve others.
    assert float(moment(growing, Powers(s=2), 0.4)) == pytest.approx(1 / math.sqrt(1 - 0.8), rel=1e-11)


def test_own_functions_of_two_lines_have_the_kernel_of_the_named_one():
    x = np.random.default_rng(0).normal(size=(4, 3))
    own, named = (kernel(MLP((3, 8, 8, 8, 1), act), x) for act in (jnp.abs, "leaky_relu(-1)"))
    for one, other in zip(own, named):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_products_of_own_sines_agree_with_quadrature_in_every_tensor():
    x = np.random.default_rng(0).normal(size=(3, 2))
    act = activation(lambda z: jnp.sin(3 * z + 0.4))
    plain = dataclasses.replace(act, fourier=None, name="by quadrature")
    one, other = (statistics(MLP((2, 8, 8, 1), a), x) for a in (act, plain))
    for name, values in one.tensors.items():
        np.testing.assert_allclose(values, other.tensors[name], atol=1e-9 * np.abs(values).max())


def test_what_would_take_hours_is_refused_with_the_time():
    with one_sentence("would take about", "hours", "must take at most a minute"):
        products("tanh", [(0, 0, 0, 0)], 1e6 * (np.eye(4) + 0.3))


def test_repeated_variables_are_one_variable():
    (found,) = products("relu", [(0, 0, 0, 0)], np.ones((4, 4)))
    np.testing.assert_allclose(found, 1.5, rtol=1e-12)


@pytest.mark.slow
def test_pairs_of_wide_variances_are_done():
    # So wide that tanh is a sign.
    found = float(pair("tanh", 1e12, 1e12, 0.9999999999))
    assert found == pytest.approx(2 / math.pi * math.asin(0.9999999999), abs=1e-5)


def waved(z):
    return jnp.sin(z) + z


def waved_pair(K1, K2, c):
    return jnp.exp(-(K1 + K2) / 2) * jnp.sinh(c) + c * (1 + jnp.exp(-K1 / 2) + jnp.exp(-K2 / 2))


def waved_series(u):
    return u.apply("sin") + u


@pytest.mark.slow
def test_a_closed_form_and_a_series_that_are_given_are_used():
    given = activation(waved, pair=waved_pair, series=waved_series)
    x = np.array([[1.0, -0.5], [0.3, 0.8], [0.9, -0.6]])
    found, wanted = (kernel(MLP((2, 4, 4, 1), act), x) for act in (given, activation(waved)))
    np.testing.assert_allclose(found.Theta, wanted.Theta, rtol=1e-10)
    # Away from 0 only what was given has a series.
    ray = neft.Series.line(0.4, 1.0, order=2).apply(given).coefficients()
    np.testing.assert_allclose(ray, [np.sin(0.4) + 0.4, np.cos(0.4) + 1, -np.sin(0.4) / 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pair": lambda K1, K2, c: 1.001 * waved_pair(K1, K2, c)}, "pair is 1.043"),
        ({"pair": lambda K1, K2, c: waved_pair(K1, K2, c) + c**2 * (K1 * K2 - c**2)}, "the derivative of pair in c"),
        ({"pair": lambda K1, K2: K1}, "pair cannot be evaluated"),
        ({"pair": 3}, "pair is 3, but must be a function"),
        ({"series": lambda u: u}, "series gives the coefficients"),
        ({"series": lambda u: 1.0}, "series cannot be applied"),
    ],
)
def test_what_is_given_is_held_against_the_function(given, words):
    with one_sentence(words):
        activation(waved, **given)
    with one_sentence(f"only a function can be given its {next(iter(given))}"):
        activation("tanh", **dict.fromkeys(given, waved))
