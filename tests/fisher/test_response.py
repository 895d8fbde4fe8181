import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import one_sentence

from neft.fisher import response

POINTS = [-30.0, -2.5, -0.3, 0.0, 0.7, 4.0, 40.0]

EXACT = {
    "tanh": lambda t: mpmath.tanh(t),
    "sigmoid": lambda t: 1 / (1 + mpmath.exp(-t)),
    "relu": lambda t: mpmath.mpf("0.5") * mpmath.log(mpmath.exp(0.2 * t / 0.5) + mpmath.exp(t / 0.5)),
    "elu": lambda t: t if t >= 0 else mpmath.mpf("1.5") * mpmath.expm1(t),
    "silu": lambda t: t / (1 + mpmath.exp(-t)),
}


def kind(name, **more):
    return response(name, omega=0.5, iota=0.2, alpha=1.5, **more)


@pytest.mark.parametrize("name", EXACT)
def test_mean_and_slope_are_those_of_the_seed(name):
    f = EXACT[name]
    with mpmath.workdps(50), jax.enable_x64(True):
        exact = np.array([float(f(mpmath.mpf(t))) for t in POINTS])
        smooth = [t for t in POINTS if t != 0]
        slopes = np.array([float(mpmath.diff(f, mpmath.mpf(t))) for t in smooth])
        neuron = kind(name)
        np.testing.assert_allclose(neuron.mean(np.array(POINTS)), exact, rtol=1e-14)
        np.testing.assert_allclose(neuron.slope(np.array(smooth)), slopes, rtol=1e-13)


def test_the_slope_of_elu_at_zero_is_one():
    assert float(kind("elu").slope(np.zeros(()))) == 1.0


def test_tails_keep_their_relative_precision():
    with jax.enable_x64(True):
        found = float(response("tanh").information(np.array(-50.0)))
    assert found == pytest.approx(float(mpmath.sech(-50) ** 2), rel=1e-13)


def test_the_dtype_is_kept_and_jit_and_grad_work():
    neuron = response("relu")
    t = jnp.linspace(-2, 2, 5)
    assert neuron.information(t).dtype == jnp.float32
    assert jax.jit(jax.vmap(jax.grad(neuron.information)))(t).shape == (5,)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("omega", "0"), lambda: response("relu", omega=0.0)),
        (("iota", "less than 1"), lambda: response("relu", iota=1.0)),
        (("variance", "-1"), lambda: response("elu", variance=-1.0)),
        (("bernoulli", "relu"), lambda: response("relu", output="bernoulli")),
        (("output", "poisson"), lambda: response("tanh", output="poisson")),
        (("activation", "tahn", "did you mean"), lambda: response("tahn")),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
