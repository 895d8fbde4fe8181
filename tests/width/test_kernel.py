import functools
import itertools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import NAMES, one_sentence

import neft
from neft import MLP, activation
from neft.width import kernel, pair_kernel, statistics
from neft.width.results import Kernel

HYPER = {"C_b": (0.1, 0.2, 0.05), "C_W": (1.3, 0.9, 1.1), "lambda_b": (0.3, 0.1, 0.2), "lambda_W": (0.7, 1.2, 0.4)}
X = np.array([[0.9, -0.4, 0.7], [0.2, 1.1, -0.3], [-0.5, 0.3, 0.8], [1.4, 0.1, 0.2]])


def test_two_layers_of_relu_are_arc_cosine_kernels():
    net = MLP((3, 9, 9, 2), "relu", **HYPER)
    found = kernel(net, X)
    assert isinstance(found, Kernel) and found.K.dtype == np.float64
    K, Theta = _by_hand(net, X, _arc_cosine)
    np.testing.assert_allclose(found.K, K, rtol=1e-13)
    np.testing.assert_allclose(found.Theta, Theta, rtol=1e-13)


def test_two_layers_of_erf_are_arcsine_kernels():
    def arcsine(a, b, c):
        scale = np.sqrt((1 + 2 * a) * (1 + 2 * b))
        return 2 / np.pi * np.arcsin(2 * c / scale), 4 / np.pi / np.sqrt(scale**2 - 4 * c**2)

    net = MLP((3, 9, 9, 2), "erf", **HYPER)
    for found, exact in zip(kernel(net, X), _by_hand(net, X, arcsine)):
        np.testing.assert_allclose(found, exact, rtol=1e-13)


def _arc_cosine(a, b, c):
    theta = np.arccos(np.clip(c / np.sqrt(a * b), -1, 1))
    value = np.sqrt(a * b) * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / (2 * np.pi)
    return value, (np.pi - theta) / (2 * np.pi)


def _by_hand(net, x, averages):
    gram = x @ x.T / x.shape[1]
    K, Theta = net.C_b[0] + net.C_W[0] * gram, net.lambda_b[0] + net.lambda_W[0] * gram
    for C_b, C_W, lambda_b, lambda_W in zip(net.C_b[1:], net.C_W[1:], net.lambda_b[1:], net.lambda_W[1:]):
        own = np.diag(K)
        square, slope = averages(own[:, None], own[None, :], K)
        K, Theta = C_b + C_W * square, lambda_b + lambda_W * square + C_W * Theta * slope
    return K, Theta


def _leaky(slope):
    return lambda z: z if z > 0 else slope * z, lambda z: mpmath.mpf(1) if z > 0 else mpmath.mpf(slope), (0,)


def _elu(alpha):
    return (
        lambda z: z if z > 0 else alpha * mpmath.expm1(z),
        lambda z: mpmath.mpf(1) if z > 0 else alpha * mpmath.exp(z),
        (0,),
    )


def _swish(beta):
    def gate(z):
        return 1 / (1 + mpmath.exp(-beta * z))

    return lambda z: z * gate(z), lambda z: gate(z) * (1 + beta * z * gate(-z)), ()


def _mish():
    def soft(z):
        return mpmath.log1p(mpmath.exp(z))

    return (
        lambda z: z * mpmath.tanh(soft(z)),
        lambda z: mpmath.tanh(soft(z)) + z * mpmath.sech(soft(z)) ** 2 / (1 + mpmath.exp(-z)),
        (),
    )


# The activations once more, in mpmath: the function, its derivative and the places where one of them jumps.
PLAIN = {
    "linear": (lambda z: z, lambda z: mpmath.mpf(1), ()),
    "relu": _leaky(0),
    "leaky_relu(0.1)": _leaky(0.1),
    "elu(1)": _elu(1),
    "elu(0.5)": _elu(0.5),
    "tanh": (mpmath.tanh, lambda z: mpmath.sech(z) ** 2, ()),
    "hard_tanh": (lambda z: max(-1, min(1, z)), lambda z: mpmath.mpf(abs(z) < 1), (-1, 1)),
    "sigmoid": (lambda z: 1 / (1 + mpmath.exp(-z)), lambda z: mpmath.sech(z / 2) ** 2 / 4, ()),
    "softplus": (lambda z: mpmath.log1p(mpmath.exp(z)), lambda z: 1 / (1 + mpmath.exp(-z)), ()),
    "erf": (mpmath.erf, lambda z: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-z * z), ()),
    "sin": (mpmath.sin, mpmath.cos, ()),
    "gelu": (lambda z: z * mpmath.ncdf(z), lambda z: mpmath.ncdf(z) + z * mpmath.npdf(z), ()),
    "silu": _swish(1),
    "swish(2)": _swish(2),
    "mish": _mish(),
    "quadratic": (lambda z: z * z, lambda z: 2 * z, ()),
}


def _exact(name, net, x1, x2):
    # One hidden layer by Gauss-Legendre in both variables, cut where the integrand has a corner.
    f, df, jumps = PLAIN[name]
    n = len(x1)
    a, b, c = (net.C_b[0] + net.C_W[0] * float(p @ q) / n for p, q in ((x1, x1), (x2, x2), (x1, x2)))
    r1, r2 = mpmath.sqrt(a), mpmath.sqrt(b)
    rho = c / (r1 * r2)
    across = mpmath.sqrt(1 - rho**2)

    def average(one, two):
        def inner(p):
            ends = sorted([-9, 9, *(q for k in jumps if abs(q := (k / r2 - rho * p) / across) < 9)])
            return (
                one(r1 * p) * mpmath.npdf(p) * _gauss(lambda q: two(r2 * (rho * p + across * q)) * mpmath.npdf(q), ends)
            )

        # The outer integrand is smooth but for kinks of the first variable; the inner one smooths those of the second.
        return _gauss(inner, sorted([-9, 9, *(k / r1 for k in jumps)]))

    square, slope = average(f, f), average(df, df)
    Theta = net.lambda_b[0] + net.lambda_W[0] * float(x1 @ x2) / n
    return (
        float(net.C_b[1] + net.C_W[1] * square),
        float(net.lambda_b[1] + net.lambda_W[1] * square + net.C_W[1] * Theta * slope),
    )


def _gauss(f, ends, panels=8):
    total = mpmath.mpf(0)
    for left, right in itertools.pairwise(ends):
        width = (mpmath.mpf(right) - left) / panels
        for i in range(panels):
            total += sum(w * f(left + width * (i + (x + 1) / 2)) for x, w in _rule()) * width / 2
    return total


@functools.cache
def _rule():
    nodes, weights = np.polynomial.legendre.leggauss(12)
    return [(mpmath.mpf(float(x)), mpmath.mpf(float(w))) for x, w in zip(nodes, weights)]


def _agrees(name, pairs):
    net = MLP((3, 7, 2), name, **{key: value[:2] for key, value in HYPER.items()})
    K, Theta = kernel(net, X)
    for i, j in pairs:
        value, tangent = _exact(name, net, X[i], X[j])
        assert K[i, j] == pytest.approx(value, rel=1e-9, abs=1e-9)
        assert Theta[i, j] == pytest.approx(tangent, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_a_pair_agrees_with_quadrature_in_mpmath():
    _agrees("silu", [(0, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_random_pairs_agree_with_quadrature_in_mpmath_for_every_activation(name):
    _agrees(name, [(0, 1)])


@pytest.mark.parametrize("name", ["relu", *(pytest.param(n, marks=pytest.mark.slow) for n in ("tanh", "hard_tanh"))])
def test_the_diagonal_is_that_of_one_input(name):
    net = MLP((3, 9, 9, 2), name, **HYPER)
    K, Theta = kernel(net, X)
    for i, x in enumerate(X):
        stats = statistics(net, x)
        assert K[i, i] == pytest.approx(stats.K[-1], rel=1e-12)
        assert Theta[i, i] == pytest.approx(stats.Theta[-1], rel=1e-10)
    again = kernel(net, X, X[:2])
    for whole, part in zip((K, Theta), again):
        assert (whole == whole.T).all() and np.linalg.eigvalsh(whole)[0] > 0
        np.testing.assert_allclose(part, whole[:, :2], rtol=2e-8 if name == "hard_tanh" else 1e-12)


DEEP = MLP((20, *(5,) * 16, 1), "relu", C_b=0.05, C_W=1.9, lambda_b=0.1, lambda_W=1.0)


@functools.cache
def _inputs():
    # Random inputs, one close to another, one opposite, one longer, one that vanishes, one repeated.
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 20)).astype(np.float32)
    x[1] = x[0] + 1e-4 * rng.normal(size=20)
    x[2], x[3], x[4], x[5] = -x[0], 3 * x[0], 0, x[0]
    return x


@pytest.mark.slow
def test_float32_keeps_its_digits_at_depth_sixteen_also_next_to_the_diagonal():
    x = _inputs()
    single, double = kernel(DEEP, x), kernel(DEEP, x.astype(np.float64))
    for found, exact in zip(single, double):
        assert found.dtype == np.float32 and exact.dtype == np.float64
        assert np.abs(found / exact - 1).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("size", [1.0, 2.3, 5.0])
def test_float32_keeps_its_digits_for_erf_where_sums_and_products_serve_and_where_not(size):
    net = MLP((20, *(5,) * 16, 1), "erf", C_b=0.1, C_W=1.5, lambda_b=0.2, lambda_W=0.7)
    x = size * _inputs()[np.r_[:3, 4:40]]
    z = x.astype(np.float64)
    K = 0.1 + 1.5 * z @ z.T / 20
    # Variances are beyond 16 for the largest inputs only.
    assert (K.max() > 16) == (size > 3)
    Theta = 0.2 + 0.7 * z @ z.T / 20
    for _ in range(16):
        D = np.outer(1 + 2 * K.diagonal(), 1 + 2 * K.diagonal())
        square = 2 / np.pi * np.arcsin(np.clip(2 * K / np.sqrt(D), -1, 1))
        Theta = 0.2 + 0.7 * square + 1.5 * 4 / np.pi / np.sqrt(D - 4 * K**2) * Theta
        K = 0.1 + 1.5 * square
    for found, exact in zip(kernel(net, x), (K, Theta)):
        assert found.dtype == np.float32
        assert np.abs(found - exact).max() < 3e-6 * np.abs(exact).max()


@pytest.mark.slow
def test_the_ntk_close_to_the_diagonal_agrees_with_mpmath():
    x, net = _inputs().astype(np.float64), MLP((20, 5, 5, 1), "relu", C_W=2.0)
    K, Theta = kernel(net, x)
    with mpmath.workdps(40):
        for i, j in ((0, 1), (0, 2), (0, 3), (0, 5), (6, 7)):
            p, q = ([mpmath.mpf(float(v)) for v in x[n]] for n in (i, j))
            exact = _relu_exactly(p, q)
            assert K[i, j] == pytest.approx(float(exact[0]), rel=1e-13, abs=1e-13)
            assert Theta[i, j] == pytest.approx(float(exact[1]), rel=1e-13)


def _relu_exactly(p, q):
    # C_W = 2, C_b = 0, learning rates 1, two hidden layers.
    def dot(u, v):
        return sum(s * t for s, t in zip(u, v)) / len(u)

    scale = 2 * mpmath.sqrt(dot(p, p) * dot(q, q))
    cosine, Theta = 2 * dot(p, q) / scale, 1 + dot(p, q)
    for _ in range(2):
        theta = mpmath.acos(max(-1, min(1, cosine)))
        cosine = (mpmath.sin(theta) + (mpmath.pi - theta) * mpmath.cos(theta)) / mpmath.pi
        Theta = 1 + scale * cosine / 2 + Theta * (mpmath.pi - theta) / mpmath.pi
    return scale * cosine, Theta


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", pytest.param("tanh", marks=pytest.mark.slow)])
def test_blocks_do_not_change_values(name, monkeypatch):
    net, x = MLP((20, 5, 5, 1), name, C_b=0.1), _inputs().astype(np.float64)
    whole, apart = kernel(net, x), kernel(net, x, x[:23])
    monkeypatch.setattr("neft.width._kernel._TILE", 16)
    for one, two in zip(whole, kernel(net, x)):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)
    for one, two in zip(apart, kernel(net, x, x[:23])):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_many_variances_take_a_series_and_few_correlations_all_terms():
    # More inputs than there are nodes of the series; pairs close to each other are listed.
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 30)) * rng.uniform(0.5, 1.5, size=(100, 1))
    x[1] = x[0] + 1e-3
    net = MLP((30, 5, 5, 1), "tanh", C_b=0.1, C_W=1.4)
    whole = kernel(net, x)
    few = np.r_[0:5, 60:65]
    for found, exact in zip(whole, kernel(net, x[few])):
        np.testing.assert_allclose(found[np.ix_(few, few)], exact, rtol=1e-11)


@pytest.mark.parametrize(
    "name", ["relu", *(pytest.param(n, marks=pytest.mark.slow) for n in ("erf", "tanh", "sin", "elu"))]
)
def test_gradients_are_finite_everywhere_and_right_where_they_exist(name):
    net = MLP((3, 7, 7, 2), name, C_W=1.3)
    x, zero = X[0], np.zeros(3)
    with jax.enable_x64(True):
        value = jax.jit(lambda a, b: jnp.stack(pair_kernel(net, a, b, terms=48)))
        slope = jax.jit(jax.jacfwd(value))
        for a, b in ((x, x), (x, -x), (x, 2 * x), (zero, x), (x, zero), (zero, zero)):
            assert np.isfinite(slope(a, b)).all()
        for a in (X[1], *([] if activation(name).kinks else [zero, x])):
            steps = 1e-5 * np.eye(3)
            numeric = np.stack([(value(a + e, x) - value(a - e, x)) / 2e-5 for e in steps], axis=-1)
            np.testing.assert_allclose(slope(a, x), numeric, atol=2e-8)
        K, Theta = kernel(net, X)
        pairs = np.asarray(jax.vmap(value, (None, 0))(x, X))
    # Kinks without a closed form leave the expansion long at ρ = 1.
    part = slice(1, None) if name == "elu" else slice(None)
    tolerance = 1e-5 if name == "elu" else 1e-9
    np.testing.assert_allclose(pairs[part], np.stack([K[0], Theta[0]], axis=1)[part], rtol=tolerance, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("on", [False, True])
def test_a_pair_has_the_type_of_its_inputs_with_sixty_four_bits_on_or_off(on):
    net, x = MLP(widths=(3, 8, 2), activation="silu", C_b=0.2), np.array([[0.5, -1.0, 2.0], [1.0, 0.3, 0.7]])
    wanted = kernel(net, x).Theta[0, 1]
    with jax.enable_x64(on):
        found = jax.jit(lambda a, b: pair_kernel(net, a, b, terms=24).Theta)(*jnp.asarray(x, jnp.float32))
    assert found.dtype == np.float32 and float(found) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.slow
def test_an_interrupted_file_is_taken_up_where_it_stopped(tmp_path, monkeypatch):
    net, x, path = MLP((20, 5, 5, 1), "relu"), _inputs(), tmp_path / "kernel.npy"
    exact = kernel(net, x)
    monkeypatch.setattr("neft.width._kernel._TILE", 8)
    finished, done = neft.width._kernel_file._File.finished, []

    def interrupted(self, rows):
        finished(self, rows)
        if rows == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("neft.width._kernel_file._File.finished", interrupted)
        kernel(net, x, out=path)
    assert not path.exists()
    note = json.loads((tmp_path / "kernel.npy.json").read_text())
    assert note["rows"] == 2
    with one_sentence("another network", "kernel.npy"):
        kernel(MLP((20, 5, 5, 1), "erf"), x, out=path)
    tiles = neft.width._kernel.by_forms
    monkeypatch.setattr("neft.width._kernel.by_forms", lambda *a, **k: (done.append(1), tiles(*a, **k))[1])
    found = kernel(net, x, out=path)
    assert len(done) == 3 + 2 + 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kernel.npy"]
    np.testing.assert_array_equal(np.load(path), np.stack(found))
    for one, two in zip(found, exact):
        np.testing.assert_allclose(one, two, rtol=1e-6)
    with one_sentence("exists already"):
        kernel(net, x, out=path)


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    """A kernel of which one row of tiles is done, as its path, network and inputs."""
    net, x, path = MLP((20, 5, 5, 1), "relu"), _inputs(), tmp_path / "kernel.npy"
    finished = neft.width._kernel_file._File.finished

    def interrupted(self, rows):
        finished(self, rows)
        if rows == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("neft.width._kernel._TILE", 8)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("neft.width._kernel_file._File.finished", interrupted)
        kernel(net, x, out=path)
    return path, net, x


def test_an_unfinished_file_that_was_cut_off_is_refused(unfinished):
    path, net, x = unfinished
    part = path.with_name("kernel.npy.part")
    whole = part.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-1], whole + b"0", whole[:20], b"", b"0" + whole[1:]):
        part.write_bytes(damaged)
        with one_sentence("kernel.npy.part", "remove it"):
            kernel(net, x, out=path)
    part.write_bytes(whole)
    np.testing.assert_array_equal(kernel(net, x, out=path).Theta, kernel(net, x).Theta)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with one_sentence("cannot write", "No space left on device"):
        kernel(MLP((20, 5, 5, 1), "relu"), _inputs(), out=tmp_path / "kernel.npy")
    assert not list(tmp_path.iterdir())


KILLED = """
import os, sys, numpy as np, neft
from neft.width import _kernel, _kernel_file
finished, _kernel._TILE = _kernel_file._File.finished, 8
def killed(self, rows):
    finished(self, rows)
    if rows == 3:
        os.kill(os.getpid(), 9)
_kernel_file._File.finished = killed
net = neft.MLP((20, 5, 5, 1), "erf")
neft.width.kernel(net, np.load(sys.argv[1]), out=sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_process_leaves_what_it_did(tmp_path, monkeypatch):
    inputs, path = tmp_path / "x.npy", tmp_path / "kernel.npy"
    np.save(inputs, _inputs())
    done = subprocess.run([sys.executable, "-c", KILLED, str(inputs), str(path)], check=False)
    assert done.returncode == -9 and not path.exists()
    monkeypatch.setattr("neft.width._kernel._TILE", 8)
    net = MLP((20, 5, 5, 1), "erf")
    found = kernel(net, _inputs(), out=path)
    for one, two in zip(found, kernel(net, _inputs())):
        np.testing.assert_array_equal(one, two)


def test_bad_input_is_one_sentence(tmp_path):
    net = MLP((3, 7, 2), "tanh")
    with one_sentence("x1", "5 columns", "3"):
        kernel(net, np.ones((2, 5)))
    with one_sentence("x2", "nan"):
        kernel(net, X, np.full((1, 3), np.nan))
    with one_sentence("dtype", "float16"):
        kernel(net, X, dtype="float16")
    with one_sentence("x1", "axes"):
        kernel(net, X[0])
    with one_sentence("x1", "at least one"):
        kernel(net, X[:0])
    with one_sentence("out", ".npy"):
        kernel(net, X, out=tmp_path / "kernel.txt")
    with one_sentence("cannot write"):
        kernel(net, X, out=tmp_path / "nowhere" / "kernel.npy")
    with one_sentence("K overflows", "layer 5"):
        kernel(MLP((3, *(7,) * 9), "quadratic", C_W=50.0), 1e3 * X)
    with one_sentence("jumps at 0", "Theta"):
        kernel(MLP((3, 7, 2), activation(jnp.sign, name="sign", kinks=(0.0,))), X)


def test_a_network_without_hidden_layers_has_the_kernels_of_its_inputs():
    net = MLP((3, 2), "tanh", C_b=0.1, C_W=1.5, lambda_b=0.3, lambda_W=0.7)
    K, Theta = kernel(net, X, X[:3])
    np.testing.assert_allclose(K, 0.1 + 1.5 * X @ X[:3].T / 3, rtol=1e-14)
    np.testing.assert_allclose(Theta, 0.3 + 0.7 * X @ X[:3].T / 3, rtol=1e-14)
