import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import MLP, training
from neft.training._momentum import Momentum, updates
from neft.training.results import Prediction

RNG = np.random.default_rng(5)
K, THETA = (m @ m.T / 6 for m in RNG.normal(size=(2, 6, 8)))
Y = RNG.normal(size=(4, 2))
LARGEST = float(np.linalg.eigvalsh(THETA[:4, :4])[-1])
KINDS = [(0.0, False), (0.7, False), (0.7, True)]


def left(step, T, beta, nesterov):
    """What T steps leave of a residual, in 60 digits, by the two roots of the recursion."""
    with mpmath.workdps(60):
        u, b = mpmath.mpf(step), mpmath.mpf(beta)
        total, product = ((1 + b) * (1 - u), b * (1 - u)) if nesterov else (1 + b - u, b)
        first = 1 - u * (1 + b) if nesterov else 1 - u
        root = mpmath.sqrt(mpmath.mpc(total**2 - 4 * product))
        x, w = (total + root) / 2, (total - root) / 2
        if abs(root) < mpmath.mpf(10) ** -40:
            return mpmath.re(first * T * x ** (T - 1) - product * (T - 1) * x ** (T - 2))
        power = lambda k: (x**k - w**k) / root  # noqa: E731
        return mpmath.re(first * power(T) - product * power(T - 1))


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("T", [2, 9, 400])
def test_what_is_learned_is_what_the_roots_say(T, nesterov):
    beta = 0.81
    # Small, critically damped ((1-√β)², and Nesterov's 1 - 4β/(1+β)²), oscillating, and at the edge.
    critical = 1 - 4 * beta / (1 + beta) ** 2 if nesterov else 0.01
    step = np.array([1e-9, critical, critical * (1 + 1e-9), 0.3, Momentum(beta, nesterov).reach * 0.999])
    exact = [float((1 - left(s, T, beta, nesterov)) / mpmath.mpf(s)) for s in step]
    np.testing.assert_allclose(updates(step, T, Momentum(beta, nesterov)), exact, rtol=1e-10)


@pytest.mark.parametrize("beta, nesterov", KINDS)
def test_the_prediction_is_its_own_iteration(beta, nesterov):
    rate = 0.9 * training.max_learning_rate(THETA[:4, :4], momentum=beta, nesterov=nesterov)
    options = {"momentum": beta, "nesterov": nesterov}
    found = training.predict_from_kernels(K, THETA, Y, steps=[0, 1, 23], learning_rate=rate, **options)
    outputs, targets, velocity = np.eye(6), np.zeros((6, 4)), np.zeros((4, 10))
    for T in range(24):
        if T in (0, 1, 23):
            at = (0, 1, 23).index(T)
            np.testing.assert_allclose(found.mean[at], (targets @ Y)[4:], atol=1e-11)
            np.testing.assert_allclose(found.cov[at], (outputs @ K @ outputs.T)[4:, 4:], atol=1e-11)
        gradient = np.concatenate([outputs[:4], targets[:4] - np.eye(4)], axis=1)
        velocity = beta * velocity + gradient
        update = rate * THETA[:, :4] @ (gradient + beta * velocity if nesterov else velocity)
        outputs, targets = outputs - update[:, :6], targets - update[:, 6:]
    assert found.max_learning_rate == pytest.approx(rate / 0.9)


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_linearized_network_is_what_optax_makes_of_it(nesterov):
    net = MLP((2, 5, 1), "tanh", C_b=0.3)
    x, y = np.array([[1.0, 0.2], [-0.4, 0.9], [0.3, -0.8]]), np.array([0.4, -0.7])
    with jax.enable_x64(True):
        params = net.init(jax.random.key(2), dtype=np.float64)
        J = jax.jit(jax.jacrev(net.apply))(params, jnp.asarray(x))
        flat = np.concatenate([np.asarray(leaf).reshape(3, -1) for leaf in jax.tree.leaves(J)], axis=1)
        optimizer = optax.sgd(0.05, 0.8, nesterov)

        @jax.jit
        def trained(J):
            def step(_, now):
                change, state = optimizer.update(J.T @ (J @ now[0] - y), now[1])
                return now[0] + change, state

            start = jnp.zeros(J.shape[1])
            return jax.lax.fori_loop(0, 15, step, (start, optimizer.init(start)))[0]

        after = flat[2:] @ np.asarray(trained(flat[:2]))
    options = {"steps": 15, "learning_rate": 0.05, "momentum": 0.8, "nesterov": nesterov}
    found = training.predict_from_kernels(np.zeros((3, 3)), flat @ flat.T, y, **options)
    np.testing.assert_allclose(found.mean[:, 0], after, rtol=1e-10)


@pytest.mark.parametrize("beta, nesterov", KINDS)
def test_the_largest_stable_rate_is_where_training_turns(beta, nesterov):
    largest = training.max_learning_rate(THETA, momentum=beta, nesterov=nesterov)
    sizes = []
    for part in (0.98, 1.02):
        residual, velocity = np.ones(6), np.zeros(6)
        for _ in range(1500):
            velocity = beta * velocity + residual
            step = residual + beta * velocity if nesterov else velocity
            residual = residual - part * largest * THETA @ step
        sizes.append(np.abs(residual).max())
    assert sizes[0] < 1 < 1e3 < sizes[1]


@pytest.mark.parametrize("beta, nesterov", KINDS)
def test_the_spread_of_batches_is_that_of_all_of_them(beta, nesterov):
    # Every sequence of three batches of two inputs, each with the exact average over initial outputs.
    rate, pairs, T = 0.5 / LARGEST, list(itertools.combinations(range(4), 2)), 3
    options = {"momentum": beta, "nesterov": nesterov, "batch": 2}
    found = training.predict_from_kernels(K, THETA, Y, steps=[0, T], learning_rate=rate, **options)
    second, mean = np.zeros((6, 2, 6, 2)), np.zeros((6, 2))
    for path in itertools.product(pairs, repeat=T):
        outputs, targets, velocity = np.eye(6), np.zeros((6, 4)), np.zeros((4, 10))
        for taken in path:
            gradient = np.zeros((4, 10))
            for a in taken:
                gradient[a] = 2 * np.concatenate([outputs[a], targets[a] - np.eye(4)[a]])
            velocity = beta * velocity + gradient
            update = rate * THETA[:, :4] @ (gradient + beta * velocity if nesterov else velocity)
            outputs, targets = outputs - update[:, :6], targets - update[:, 6:]
        one, spread = targets @ Y, np.einsum("ij,ab->iajb", outputs @ K @ outputs.T, np.eye(2))
        mean += one / len(pairs) ** T
        second += (spread + np.einsum("ia,jb->iajb", one, one)) / len(pairs) ** T
    cov = (second - np.einsum("ia,jb->iajb", mean, mean))[4:, :, 4:]
    np.testing.assert_allclose(found.mean[1], mean[4:], atol=1e-13)
    np.testing.assert_allclose(np.einsum("ij,ab->iajb", found.cov[1], np.eye(2)) + found.batch_cov[1], cov, atol=1e-13)
    np.testing.assert_allclose(found.std[1] ** 2, np.einsum("iaia->ia", cov), atol=1e-13)
    assert not found.batch_cov[0].any() and np.abs(found.batch_cov[1]).max() > 0.02


def test_a_batch_of_all_inputs_adds_nothing():
    options = {"steps": 5, "learning_rate": 0.1, "momentum": 0.5}
    all_of_them = training.predict_from_kernels(K, THETA, Y, batch=4, **options)
    assert np.abs(all_of_them.batch_cov).max() == 0
    np.testing.assert_allclose(all_of_them.std, training.predict_from_kernels(K, THETA, Y, **options).std)


def test_older_files_still_load(tmp_path):
    found = training.predict_from_kernels(K, THETA, Y, steps=2, learning_rate=0.1, batch=2, momentum=0.5)
    found.save(tmp_path / "new.npz")
    assert neft.load(tmp_path / "new.npz") == found
    plain = training.predict_from_kernels(K, THETA, Y, steps=2, learning_rate=0.1)
    record = plain.to_dict()
    for name in ("momentum", "nesterov", "batch", "batch_cov"):
        del record[name]
    assert Prediction.from_dict(record) == plain


def test_bad_input_gets_one_clear_sentence():
    steps = {"steps": 3, "learning_rate": 0.1}
    with one_sentence("momentum is 1", "below 1"):
        training.predict_from_kernels(K, THETA, Y, momentum=1.0, **steps)
    with one_sentence("momentum is -0.1", "at least 0"):
        training.max_learning_rate(THETA, momentum=-0.1)
    with one_sentence("nesterov is True", "momentum"):
        training.predict_from_kernels(K, THETA, Y, nesterov=True, **steps)
    with one_sentence("nesterov is 3"):
        training.max_learning_rate(THETA, momentum=0.1, nesterov=3)  # type: ignore[arg-type]
    with one_sentence("momentum is 0.9", "goes with steps"):
        training.predict_from_kernels(K, THETA, Y, momentum=0.9)
    with one_sentence("batch is 2", "goes with steps"):
        training.predict_from_kernels(K, THETA, Y, time=1.0, batch=2)
    with one_sentence("batch is 5", "at most 4"):
        training.predict_from_kernels(K, THETA, Y, batch=5, **steps)
    with one_sentence("learning_rate is 50", "3.4 over"):
        training.predict_from_kernels(K, THETA, Y, steps=3, learning_rate=50.0, momentum=0.7)
    net = MLP((2, 4, 1), "tanh")
    for name, value in (("momentum", 0.5), ("batch", 1)):
        with one_sentence(f"{name} is {value}", "order 1"):
            training.predict(net, np.eye(2), [0.0, 1.0], order=1, **steps, **{name: value})


def test_adam_is_refused_by_name():
    net, x = MLP((2, 8, 2), "tanh"), np.eye(2)
    plan = {"steps": 3, "learning_rate": 0.1, "momentum": "adam"}
    with one_sentence("momentum is 'adam'", "Adam and others"):
        training.predict(net, x, x, **plan)
    for order in (0, 1):
        with one_sentence("momentum is 'adam'", "Adam and others"):
            training.sample(net, x, [0, 1], order=order, **plan)
    with one_sentence("momentum is an optimizer", "Adam and others"):
        training.sample(net, x, [0, 1], **plan | {"momentum": optax.adam(0.1)})
