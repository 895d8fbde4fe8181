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
from neft.gaussian import Powers, moment


@pytest.fixture
def unhinted(monkeypatch):
    """The library as its users run it: no annotation is checked before ours."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize(
    ("f", "kinks"),
    [
        (lambda z: jnp.abs(z - 1), [(1, 1, 2)]),
        (lambda z: jnp.maximum(z - 2, 0), [(2, 1, 1)]),
        (lambda z: 1e-7 * jnp.maximum(z, 0), [(0, 1, 1e-7)]),
        (lambda z: 1e7 * jnp.abs(z + 1 / 3), [(-1 / 3, 1, 2e7)]),
        (lambda z: jnp.clip(1000 * z, -1, 1), [(-0.001, 1, 1000), (0.001, 1, -1000)]),
        (jax.nn.relu6, [(0, 1, 1), (6, 1, -1)]),
        (jax.nn.hard_swish, [(-3, 1, -0.5), (3, 1, -0.5)]),
        (jax.nn.sparse_plus, [(-1, 2, 0.5), (1, 2, -0.5)]),
        (jax.nn.soft_sign, [(0, 2, -4)]),
        (jax.nn.celu, [(0, 2, -1)]),
        (lambda z: jnp.exp(z) + jnp.abs(z - 0.3) ** 3, [(0.3, 3, 12)]),
        (lambda z: jnp.sin(9 * z) + jnp.where(z > 1.5, 0.01, 0.0), [(1.5, 0, 0.01)]),
        (lambda z: jnp.tanh(z) + 1e-4 * jnp.maximum(z + 20, 0), [(-20, 1, 1e-4)]),
    ],
)
def test_kinks_that_nobody_declares_are_found(f, kinks):
    shown = activation(f).kinks
    assert [k.order for k in shown] == [k[1] for k in kinks]
    np.testing.assert_allclose([k.position for k in shown], [k[0] for k in kinks], rtol=4e-16, atol=0)
    np.testing.assert_allclose([k.jump for k in shown], [k[2] for k in kinks], rtol=1e-9)


SMOOTH = [name for name in NAMES if not activation(name).kinks]


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("name", one_of_each(SMOOTH))
def test_smooth_functions_have_none(name, unit):
    act = activation(name)
    assert activation(lambda z: act.function(unit * z), name=name).kinks == ()


@pytest.mark.parametrize(
    "f",
    [
        lambda z: jnp.log(1 + jnp.exp(z)),
        lambda z: z / (1 + jnp.exp(-z)),
        lambda z: 0.5 * z * (1 + jax.scipy.special.erf(z / math.sqrt(2))),
        lambda z: jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z))),
        lambda z: jnp.where(z == 0, 1.0, (jnp.exp(z) - 1) / jnp.where(z == 0, 1.0, z)),
        lambda z: jnp.tanh(1e6 * z),
        lambda z: jnp.exp(z**2),
    ],
    ids=["softplus", "silu", "gelu", "stable softplus", "guarded", "steep", "growing"],
)
def test_rounding_overflow_and_steepness_are_not_taken_for_kinks(f):
    assert activation(f).kinks == ()


def test_the_deltas_of_a_kink_that_nobody_declares_are_in_the_averages():
    # ⟨σ''⟩ of |z - 1| is 2 φ(1), all of it delta.
    found = moment(lambda z: jnp.abs(z - 1), Powers(s2=1), 1.0)
    assert float(found) == pytest.approx(2 * math.exp(-0.5) / math.sqrt(2 * math.pi), rel=1e-12)


@pytest.mark.parametrize("f", [lambda z: jnp.sqrt(jnp.abs(z)), jnp.cbrt, lambda z: z * jnp.log(jnp.abs(z) + 1e-300)])
def test_a_slope_without_bound_is_no_finite_jump(f):
    assert activation(f).kinks == (Kink(0.0, 1, math.inf),)


def test_a_pole_on_the_real_line_is_refused():
    with one_sentence("'pole' is not bounded near 1.25", "whole real line"):
        activation(lambda z: 1 / (z - 1.25), name="pole")


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


def test_a_declared_kink_is_kept_as_declared_also_far_out():
    far = activation(lambda z: jnp.abs(z - 300), kinks=[(300, 1, 2)])
    assert far.kinks == (Kink(300.0, 1, 2.0),)
    assert activation(lambda z: jnp.abs(z - 1 / 3), kinks=np.array([1 / 3])).kinks[0].position == 1 / 3


def test_the_modulus_is_singular_at_0_and_a_shifted_ramp_at_its_kink():
    assert activation(jnp.abs).singularity == 0
    assert activation(lambda z: jnp.where(z > 1.02, 1.0, z)).singularity == 1.02


def test_a_clip_far_out_is_not_scale_invariant():
    assert not activation(lambda z: jnp.clip(z, -20, 20)).scale_invariant
    assert activation(lambda z: jnp.maximum(z, 0.2 * z)).scale_invariant


def test_a_callable_that_cannot_be_hashed_is_known_by_identity():
    prelu = eqx.nn.PReLU(0.125)
    own = activation(prelu)
    assert own == activation(prelu) and hash(own) == hash(activation(prelu)) and own.name == "PReLU"
    assert own != activation(eqx.nn.PReLU(0.125))
    assert own.kinks == (Kink(0.0, 1, 0.875),)
    assert MLP((2, 2), prelu) == MLP((2, 2), prelu)


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
