import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, tangent
from neft.training import evolve
from neft.training._evolve import ConvergenceWarning, _descend, _flow
from neft.training._hierarchy import Hierarchy, drawn

from .reference import XT, Trained, X, Y

NET = MLP((2, 6, 2), "tanh", C_b=0.1, C_W=1.2, lambda_b=0.7, lambda_W=0.8)
ALL = np.concatenate([X, XT])
A = Y.size
TARGETS = Y.ravel()


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


pytestmark = pytest.mark.xdist_group("training evolve")  # what is cached is computed once


@functools.cache
def setting():
    """One small network: its whole hierarchy, and itself to train."""
    params = NET.init(jax.random.key(1), dtype=np.float64)
    h = jax.jit(lambda p: drawn(NET, p, jnp.asarray(ALL), len(X), 3, NET.rates()))(params)
    return params, h, Trained(NET, params, X, Y, XT)


def cut(h, order):
    """The hierarchy up to an order. Zeros serve as well as None, and one compiled program all orders."""
    return Hierarchy(*(part if i <= order or order == 3 else 0 * part for i, part in enumerate(h)))


def errors(course, moment, trained, theta):
    """The largest errors of outputs and of kernels at one of the moments."""
    H = np.asarray(course.H)[moment].reshape(3, 2, 3, 2).transpose(0, 2, 1, 3)
    z = np.asarray(course.z)[moment].reshape(3, 2)
    return np.array([np.abs(z - trained.outputs(theta)).max(), np.abs(H - trained.kernel(theta)).max()])


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_each_order_of_flow_is_right_to_its_power_of_time(order):
    # Outputs are missed by t^(order+1) and kernels by t^order: every coefficient of the hierarchy counts.
    _, h, trained = setting()
    times = (0.02, 0.04)
    course = _flow(cut(h, order), jnp.asarray(Y), jnp.array(times))
    short, long = (errors(course, i, trained, trained.flow(t)) for i, t in enumerate(times))
    np.testing.assert_allclose(np.log2(long / short), [order + 1, order], atol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_each_order_of_descent_is_right_to_its_power_of_the_step(order):
    _, h, trained = setting()
    rates = (0.01, 0.02)
    courses = [_descend(cut(h, order), jnp.asarray(Y), jnp.array([2, 3]), eta) for eta in rates]
    short, long = (errors(course, 1, trained, trained.descend(3, eta)) for course, eta in zip(courses, rates))
    np.testing.assert_allclose(np.log2(long / short), [order + 1, order], atol=0.25)


@pytest.mark.slow
def test_the_third_order_is_closest_to_the_trained_network():
    net = MLP((2, 128, 2), "tanh", C_b=0.1, C_W=1.2, lambda_b=0.7, lambda_W=0.8)
    params = net.init(jax.random.key(2), dtype=np.float64)
    h = jax.jit(lambda p: drawn(net, p, jnp.asarray(ALL), len(X), 3, net.rates()))(params)
    trained = Trained(net, params, X, Y, XT)
    theta = trained.flow(60.0)
    error = []
    for order in (1, 2, 3):
        course = _flow(cut(h, order), jnp.asarray(Y), None)
        assert np.asarray(course.reached).all()
        np.testing.assert_allclose(np.asarray(course.z)[0, :A], TARGETS, atol=1e-12)
        error.append(np.abs(np.asarray(course.z)[0].reshape(3, 2) - trained.outputs(theta)).max())
    assert error[2] < error[1] / 3 and error[2] < error[0] / 5
    H = trained.kernel(theta)[:2, :2].transpose(0, 2, 1, 3).reshape(A, A)
    moved = np.linalg.norm(H - np.asarray(h.H)[:A, :A])
    assert np.linalg.norm(np.asarray(course.H)[0, :A, :A] - H) < 0.1 * moved


@pytest.mark.slow
def test_evolve_gives_outputs_kernels_and_what_the_steps_change():
    params, h, trained = setting()
    found = evolve(NET, params, X, Y, XT, truncation=3, steps=[40, 4], learning_rate=0.05)
    still = _flow(h, jnp.asarray(Y), jnp.array([0.2, 2.0]))
    assert found.train.shape == (2, 2, 2) and found.test.shape == (2, 1, 2) and found.H_star.shape == (2, 3, 3, 2, 2)
    np.testing.assert_allclose(found.step_effect, found.test - still.z[::-1, None, A:], atol=1e-9)
    np.testing.assert_allclose(
        found.test[1], _descend(h, jnp.asarray(Y), jnp.array([4, 40]), 0.05).z[:1, A:], atol=1e-12
    )
    effect = (trained.outputs(trained.descend(4, 0.05)) - trained.outputs(trained.flow(0.2)))[2:]
    assert np.abs(found.step_effect[1] - effect).max() < 0.05 * np.abs(effect).max()
    np.testing.assert_allclose(found.H, tangent.ntk(NET, params, ALL, rates=NET.rates()), atol=1e-14)
    change = (found.H_star - found.H)[:, :2, :2]
    np.testing.assert_allclose(
        found.moved, np.sqrt((change**2).sum((1, 2, 3, 4)) / (found.H[:2, :2] ** 2).sum()), rtol=1e-12
    )
    assert found.converged.all() and found.reason is None


def test_any_function_goes_and_a_result_can_be_kept(tmp_path):
    with jax.enable_x64(False):
        f = lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"]  # noqa: E731
        params = {"a": jnp.ones((2, 4)) * jnp.arange(1.0, 5.0)[None, :] / 3, "b": jnp.linspace(-1.0, 1.0, 4)[:, None]}
        found = evolve(f, params, X, [0.3, -0.2], truncation=1, rates=0.5)
    assert found.test.dtype == np.float64 and found.test.shape == (2, 1) and float(found.moved) == 0
    np.testing.assert_allclose(found.train, [[0.3], [-0.2]], atol=1e-12)
    np.testing.assert_allclose(found.test, found.train)
    found.save(tmp_path / "found.json")
    assert neft.load(tmp_path / "found.json") == found


@pytest.mark.slow
def test_a_kernel_that_loses_positivity_is_told_and_nothing_is_nan(monkeypatch):
    params, h, _ = setting()
    wild = cut(h._replace(dH=50 * h.dH), 2)
    times = _flow(wild, jnp.asarray(Y), jnp.array([1e-4, 50.0]))
    assert np.asarray(times.reached).tolist() == [True, False] and np.isfinite(np.asarray(times.H)).all()
    assert np.linalg.eigvalsh(np.asarray(times.H)[1, :A, :A])[0] < 0
    monkeypatch.setattr("neft.training._evolve.hierarchy", lambda *_: wild)
    with pytest.warns(ConvergenceWarning, match="lost positivity"):
        found = evolve(NET, params, X, Y, XT, time=[1e-4, 50.0])
    assert found.converged.tolist() == [True, False] and "lost positivity" in found.reason
    assert np.isfinite(found.train).all()


@pytest.mark.slow
def test_bad_input_gets_one_clear_sentence():
    params = setting()[0]
    with one_sentence("truncation", "4", "at most 3"):
        evolve(NET, params, X, Y, truncation=4)
    with one_sentence("y_train", "(2, 1)"):
        evolve(NET, params, X, np.ones((2, 1)))
    with one_sentence("x_train", "nan"):
        evolve(NET, params, X * np.nan, Y)
    with one_sentence("x_test", "(3,)"):
        evolve(NET, params, X, Y, np.ones((1, 3)))
    with one_sentence("time", "-1"):
        evolve(NET, params, X, Y, time=-1.0)
    with one_sentence("learning_rate is 50"):
        evolve(NET, params, X, Y, truncation=1, steps=3, learning_rate=50.0)
    with one_sentence("order 3 holds"):
        evolve(NET, params, np.ones((60, 2)), np.ones((60, 2)))
