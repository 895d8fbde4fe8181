import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, Layer
from neft.fisher import capture, rngd
from neft.fisher._top import follow, natural, orthonormal, start

RNG = np.random.default_rng(6)
X = RNG.normal(size=(60, 6)) * [4.0, 2.0, 1.0, 0.2, 0.1, 0.0] + [1, 0, 0, 0, 0, 0]
TILDE = np.hstack([X, np.ones((60, 1))])
G = TILDE.T @ TILDE / 60


def test_axes_and_values_go_to_the_largest_of_the_metric():
    with jax.enable_x64(True):
        top, step = start(7, 2, jnp.float64), jax.jit(follow)
        for _ in range(60):
            top = step(top, X, 1.0)
        values, axes = np.linalg.eigh(G)
        np.testing.assert_allclose(top.values, values[:-3:-1], rtol=1e-8)
        P = axes[:, -2:] @ axes[:, -2:].T
        np.testing.assert_allclose(top.axes @ top.axes.T, P, atol=1e-6)
        assert float(top.trace) == pytest.approx(np.trace(G), rel=1e-12)
        g = RNG.normal(size=(2, 7))
        dense = g @ np.linalg.inv(P @ G @ P + 0.3 * np.eye(7))
        np.testing.assert_allclose(natural(top, g, jnp.array(0.3)), dense, rtol=1e-5, atol=1e-6)


def test_a_step_is_orthogonal_iteration_on_the_running_metric():
    with jax.enable_x64(True):
        before = start(6, 2, jnp.float64)._replace(values=jnp.array([5.0, 2.0]), trace=jnp.array(9.0))
        after = follow(before, X, jnp.array(0.25))
        U = np.asarray(before.axes)
        running = 0.75 * U @ np.diag([5.0, 2.0]) @ U.T + 0.25 * X.T @ X / 60
        expected = np.linalg.qr(running @ U)[0]
        np.testing.assert_allclose(after.axes @ after.axes.T, expected @ expected.T, atol=1e-12)
        np.testing.assert_allclose(after.values, np.diag(after.axes.T @ running @ after.axes), rtol=1e-11)
        assert float(after.trace) == pytest.approx(0.75 * 9 + 0.25 * (X**2).sum(1).mean(), rel=1e-12)


def test_axes_stay_orthonormal_where_inputs_are_dead():
    # The last input is always zero, and then all of them are.
    top = start(6, 6, jnp.float32)
    for x in (X, X, np.zeros_like(X)):
        top = follow(top, jnp.asarray(x, jnp.float32), jnp.float32(1.0))
        np.testing.assert_allclose(top.axes.T @ top.axes, np.eye(6), atol=2e-5)
        assert np.isfinite(np.asarray(natural(top, jnp.ones((1, 6)), jnp.float32(0.1)))).all()


def test_columns_become_orthonormal_even_where_they_are_nearly_parallel():
    Y = np.ones((9, 3)) + 1e-3 * RNG.normal(size=(9, 3))
    Q = np.asarray(orthonormal(jnp.asarray(Y, jnp.float32)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-5)
    assert not np.asarray(orthonormal(jnp.zeros((4, 2)))).any()


def gradient_and_update(net, params, x, **settings):
    opt = rngd(1.0, **settings)

    @jax.jit
    def step(params):
        seen = capture(net, x, params, loss=lambda z: jnp.square(z - 1).sum())
        return seen, *opt.update(seen.gradient, opt.init(params), params, captures=seen)

    return step(params)


@pytest.mark.parametrize("count", [4, 60])
def test_the_metric_of_the_batch_is_the_dense_formula(count):
    # Fewer examples than parameters of a neuron, and more.
    with jax.enable_x64(True):
        net = MLP(widths=(6, 3), activation="linear")
        params = (Layer(jnp.asarray(RNG.normal(size=(3, 6))), jnp.zeros(3)),)
        found = gradient_and_update(net, params, X[:count], inputs="batch", damping=0.01, relative_damping=1e-3)
        seen, updates, state = found
        tilde = TILDE[:count]
        metric = tilde.T @ tilde / count
        metric = metric + (0.01 + 1e-3 * np.trace(metric)) * np.eye(7)
        g = np.hstack([seen.gradient[0].W, seen.gradient[0].b[:, None]])
        expected = -g @ np.linalg.inv(metric)
        np.testing.assert_allclose(np.hstack([updates[0].W, updates[0].b[:, None]]), expected, rtol=1e-8, atol=1e-9)
        assert state[0].metrics == (None,)


@pytest.mark.parametrize("rank", [None, 7])
def test_a_start_from_the_batch_uses_its_metric_at_once(rank):
    with jax.enable_x64(True):
        net = MLP(widths=(6, 3), activation="linear")
        params = (Layer(jnp.asarray(RNG.normal(size=(3, 6))), jnp.zeros(3)),)
        seen, updates, _ = gradient_and_update(
            net, params, X, inputs="running", start="batch", rank=rank, relative_damping=0.1
        )
        g = np.hstack([seen.gradient[0].W, seen.gradient[0].b[:, None]])
        expected = -g @ np.linalg.inv(G + 0.1 * np.trace(G) * np.eye(7))
        found = np.hstack([updates[0].W, updates[0].b[:, None]])
        if rank is None:
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
        else:  # one step of iteration: the axes are not yet eigenvectors, and the values are Rayleigh quotients
            top = follow(start(7, 7, jnp.float64), X, 1.0)
            by_top = -np.asarray(natural(top, g, 0.1 * np.trace(G)))
            np.testing.assert_allclose(found, by_top, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("rank is 0",), lambda: rngd(0.1, rank=0)),
        (("rank is 3", "'shared'"), lambda: rngd(0.1, rank=3, metric="neuron")),
        (("start is 'zero'", "identity"), lambda: rngd(0.1, start="zero")),
        (("damping is 0", "'batch'"), lambda: rngd(0.1, inputs="batch", relative_damping=0.0)),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
