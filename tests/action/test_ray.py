import functools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from helpers import one_sentence
from jax import lax

from neft import action

from . import exact

ACTIVATIONS = {
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "softplus": jax.nn.softplus,
    "exp": jnp.exp,
    "relu": jax.nn.relu,
}


SLOW = ("tanh", "gelu", "softplus", "exp")


def classifier(activation, data):
    z, m = data

    @jax.jit
    def loss(q):
        f = activation(z.astype(q["W"].dtype) @ q["W"].T + q["b"][None, :]) @ q["U"].T + q["c"][None, :]
        return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()

    return loss


@pytest.mark.parametrize("name", ["silu", "relu", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_order_twelve_agrees_with_fifty_digits(name):
    params, data = exact.problem(False, seed=5)
    direction = 1 if name == "relu" else 0
    wanted = [float(c) for c in exact.along(params, data, exact.SIGMA[name], 12, direction=direction)]
    found = action.ray(classifier(ACTIVATIONS[name], data), params, 12)
    assert np.abs(found - wanted).max() < 1e-11 * np.abs(wanted).max()


# Functions of one number near a point, with mpmath's name for them where it is not the same.
FUNCTIONS = {
    "exp": (jnp.exp, mp.exp, 0.3),
    "exp2": (jnp.exp2, lambda x: mp.mpf(2) ** x, 0.3),
    "expm1": (jnp.expm1, mp.expm1, 0.0),
    "log": (jnp.log, mp.log, 1.3),
    "log1p": (jnp.log1p, mp.log1p, 0.0),
    "logistic": (jax.nn.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), 0.7),
    "tanh": (jnp.tanh, mp.tanh, 0.4),
    "sin": (jnp.sin, mp.sin, 0.4),
    "cos": (jnp.cos, mp.cos, 0.0),
    "tan": (jnp.tan, mp.tan, 0.3),
    "sinh": (jnp.sinh, mp.sinh, 0.3),
    "cosh": (jnp.cosh, mp.cosh, 0.3),
    "erf": (lax.erf, mp.erf, 0.3),
    "erfc": (lax.erfc, mp.erfc, 0.2),
    "sqrt": (jnp.sqrt, mp.sqrt, 1.1),
    "rsqrt": (lax.rsqrt, lambda x: 1 / mp.sqrt(x), 1.1),
    "cbrt": (jnp.cbrt, mp.cbrt, 1.2),
    "atan": (jnp.arctan, mp.atan, 0.2),
    "asin": (jnp.arcsin, mp.asin, 0.2),
    "acos": (jnp.arccos, mp.acos, 0.2),
    "asinh": (jnp.arcsinh, mp.asinh, 0.2),
    "acosh": (jnp.arccosh, mp.acosh, 2.2),
    "atanh": (jnp.arctanh, mp.atanh, 0.2),
    "square": (jnp.square, lambda x: x * x, 0.3),
    "cube": (lambda x: x**3, lambda x: x**3, 0.3),
    "inverse": (lambda x: x**-2, lambda x: x**-2, 0.8),
    "power": (lambda x: x**1.7, lambda x: x ** mp.mpf(1.7), 0.8),
    "tower": (lambda x: x**x, lambda x: x**x, 1.2),
    "quotient": (lambda x: jnp.sin(x) / (2 + x), lambda x: mp.sin(x) / (2 + x), 0.1),
    "softplus": (jax.nn.softplus, lambda x: mp.log1p(mp.exp(x)), 0.0),
    "logaddexp": (lambda x: jnp.logaddexp(x, 1 - x), lambda x: mp.log(mp.exp(x) + mp.exp(1 - x)), 0.5),
    "log_sigmoid": (jax.nn.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x)), 0.0),
    "mish": (jax.nn.mish, lambda x: x * mp.tanh(mp.log1p(mp.exp(x))), 0.0),
    "gelu of tanh": (
        jax.nn.gelu,
        lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))),
        0.0,
    ),
}


# Where the line starts at 0, known coefficients or a refusal take the place of recurrences.
AT_ZERO = ("exp", "expm1", "log1p", "logistic", "tanh", "sin", "cos", "erf", "log", "softplus")
INSIDE = ("exp", "log", "logistic", "sin", "erfc", "power", "quotient", "atan", "logaddexp", "cube")
QUICK = [(name, False) for name in INSIDE] + [(name, True) for name in AT_ZERO]
ALL = [(name, at_zero) for name in FUNCTIONS for at_zero in (False, True)]
REST = [pytest.param(*case, marks=pytest.mark.slow) for case in ALL if case not in QUICK]


@pytest.mark.parametrize(("name", "at_zero"), QUICK + REST)
def test_elementary_functions_agree_with_mpmath(name, at_zero):
    function, reference, point = FUNCTIONS[name]
    if at_zero and name in ("log", "sqrt", "rsqrt", "cbrt", "acosh", "inverse", "power", "tower"):
        with one_sentence("Taylor series"):
            action.ray(lambda x: function(x), 1.0, 3)
        return
    start = 0.0 if at_zero else point
    with mp.workdps(40):
        wanted = [float(c) for c in mp.taylor(lambda t: reference(start + t), start * 0, 7)]
    found = action.ray(function, np.float64(start + 1.0), 7, start=np.float64(start))
    # `gelu` holds single-precision numbers of its own.
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "log", "logistic", "sin", "cosh", "power", "quotient", "mish"])
def test_loops_beyond_the_unrolled_orders_agree_with_mpmath(name):
    function, reference, point = FUNCTIONS[name]
    with mp.workdps(80):
        wanted = [float(c) for c in mp.taylor(lambda t: reference(mp.mpf(point) + t / 2), 0, 20)]
    found = action.ray(function, point + 0.5, 20, start=point)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-13 * np.abs(wanted).max())


KINKED = {
    "relu": lambda x: jax.nn.relu(x).sum(),
    "relu6": lambda x: jax.nn.relu6(3 + 4 * x).sum(),
    "celu": lambda x: jax.nn.celu(x).sum(),
    "elu": lambda x: jax.nn.elu(x).sum(),
    "selu": lambda x: jax.nn.selu(x).sum(),
    "leaky": lambda x: jax.nn.leaky_relu(x).sum(),
    "abs": lambda x: jnp.abs(x * (1 + x)).sum(),
    "max": lambda x: jnp.max(x + x**2) + jnp.min(x),
    "clip": lambda x: jnp.clip(x, -0.3, 0.0).sum() + jnp.clip(x + 1, 0, 1).sum(),
    "where": lambda x: jnp.where(x > 0, x**2, jnp.sin(x)).sum(),
    "sign": lambda x: (jnp.sign(x) * x**2).sum(),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks_are_taken_on_the_side_of_small_t(name):
    loss, x = KINKED[name], np.array([0.4, -0.7, 0.2, 0.0])
    found = action.ray(loss, x, 6)
    with jax.enable_x64(True):
        t = 1e-2
        truth = float(loss(jnp.asarray(t * x)))
    assert np.polynomial.polynomial.polyval(t, found) == pytest.approx(truth, abs=1e-13)


STRUCTURES = {
    "nested jit": lambda x: jax.jit(lambda y: jax.jit(jnp.sin)(y) * 2)(x).sum(),
    "checkpoint": lambda x: jax.checkpoint(lambda y: jnp.exp(jnp.sin(y)))(x).sum(),
    "scan": lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), 0.1, x)[0],
    "scan of outputs": lambda x: lax.scan(lambda c, y: (c + 1.0, jnp.exp(c * y)), 0.0, x)[1].sum(),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) + i * x[0], x[1]),
    "cond": lambda x: lax.cond(jnp.arange(3).sum() > 2, jnp.sin, jnp.cos, x[0]),
    "vmap": lambda x: jax.vmap(lambda a, b: jnp.sin(a) * jnp.exp(b))(x, x[::-1]).sum(),
    "grad": lambda x: jax.grad(lambda y: jnp.sin(y).prod())(x).sum(),
    "concatenate": lambda x: jnp.concatenate([x, jnp.ones(2), x**2]).prod(),
    "stack and pad": lambda x: jnp.pad(jnp.stack([x, 2 * x]), 1, constant_values=1.0).cumsum().prod(),
    "update": lambda x: (jnp.ones(4).at[1].set(x[0]).at[2].add(x[1] ** 2)).prod(),
    "take": lambda x: jnp.sin(x[jnp.array([0, 2, 2])]).sum() + x[1:].sum(),
    "split": lambda x: sum(jnp.sin(part).sum() for part in jnp.split(x, 3)),
    "convolution": lambda x: jnp.convolve(x, jnp.array([1.0, 2.0]) * x[0]).sum(),
    "einsum": lambda x: jnp.einsum("i,j,ij->", x, jnp.sin(x), jnp.ones((3, 3))),
    "logsumexp": lambda x: jax.nn.logsumexp(x * 3) ** 2,
    "softmax": lambda x: (jax.nn.softmax(x) * x).sum(),
    "variance": lambda x: jnp.log(1 + x.var()) + x.mean(),
    "norm": lambda x: jnp.linalg.norm(1 + x),
    "transpose": lambda x: (x.reshape(3, 1) @ x.reshape(1, 3)).T[0].sum(),
    "stop_gradient": lambda x: (lax.stop_gradient(x) * x).sum(),
}


PROGRAMS = ("nested jit", "checkpoint", "scan", "cond", "take", "einsum", "logsumexp", "update")
BOTH = [(name, from_origin) for name in STRUCTURES for from_origin in (False, True)]


@pytest.mark.parametrize(
    ("name", "from_origin"),
    [case if case[0] in PROGRAMS and not case[1] else pytest.param(*case, marks=pytest.mark.slow) for case in BOTH],
)
def test_programs_agree_with_their_own_values(name, from_origin):
    loss = STRUCTURES[name]
    rng = np.random.default_rng(0)
    end, start = rng.normal(size=3) * 0.5, np.zeros(3) if from_origin else rng.normal(size=3)
    found = action.ray(loss, end, 5, start=start)
    with jax.enable_x64(True):
        for t in (0.002, -0.002) if name not in ("logsumexp",) else (0.002,):
            truth = float(loss(jnp.asarray(start + t * (end - start))))
            assert np.polynomial.polynomial.polyval(t, found) == pytest.approx(truth, abs=1e-13, rel=1e-13)


@pytest.mark.slow
def test_a_line_through_two_points_agrees_with_nested_autodiff():
    params, data = exact.problem(False)
    start = {name: 0.5 * value + 0.1 for name, value in params.items()}
    loss = classifier(jax.nn.silu, data)
    found = action.ray(loss, params, 2, start=start)
    with jax.enable_x64(True):
        derivative = lambda t: loss({k: start[k] + t * (params[k] - start[k]) for k in params})  # noqa: E731
        for k in range(3):
            assert found[k] * np.prod(range(1, k + 1)) == pytest.approx(float(derivative(0.0)), rel=1e-9)
            derivative = jax.grad(derivative)


@pytest.mark.slow
def test_order_sixty_is_finite_in_single_precision():
    params, data = exact.problem(True)
    params = {name: 4 * value for name, value in params.items()}
    loss = classifier(jax.nn.silu, data)
    single, double = (action.ray(loss, params, 60, dtype=kind) for kind in (np.float32, np.float64))
    assert np.abs(double).max() > 1e38
    assert np.abs(single[2:] / double[2:] - 1).max() < 1e-3


@pytest.mark.slow
def test_the_pure_function_can_be_jitted_mapped_and_differentiated():
    run = action.taylor(lambda w: jnp.sin(w).sum(), 3)
    many = jax.vmap(lambda d: run(None, d))(jnp.ones((2, 4)))
    assert many.shape == (2, 4)
    slope = jax.grad(lambda d: run(None, d)[3])(jnp.ones(4))
    np.testing.assert_allclose(slope, -0.5, rtol=1e-6)


def test_trees_of_any_structure_are_taken():
    tree = {"a": [np.ones(2), np.ones((2, 2))], "b": (np.float64(0.5),)}
    found = action.ray(lambda q: (q["a"][1] @ q["a"][0]).sum() * q["b"][0], tree, 4)
    np.testing.assert_allclose(found, [0, 0, 0, 2, 0])


def test_what_has_no_series_is_refused_in_one_sentence():
    x = np.array([0.3, 0.1])
    with one_sentence("'sort'"):
        action.ray(lambda q: jnp.sort(q)[0], x, 3)
    with one_sentence("'lgamma'"):
        action.ray(lambda q: lax.lgamma(1 + q).sum(), x, 3)
    with one_sentence("t = 0"):
        action.ray(lambda q: jnp.log(q).sum(), x, 3)
    with one_sentence("coefficient 0", "Taylor series"):
        action.ray(lambda q: jnp.log(q).sum(), x, 3, start=np.array([0.0, 1.0]))
    with one_sentence("one number"):
        action.ray(lambda q: q, x, 3)
    with one_sentence("order", "-1"):
        action.ray(jnp.sum, x, -1)
    with one_sentence("start", "structure"):
        action.ray(jnp.sum, x, 1, start=np.ones(3))
    with one_sentence("params holds nan"):
        action.ray(jnp.sum, x * np.nan, 1)
    with one_sentence("empty"):
        action.ray(lambda q: 1.0, {}, 1)
    with one_sentence("whole numbers"):
        action.ray(lambda q: jnp.asarray(x)[q.astype(int)].sum(), x, 1)
