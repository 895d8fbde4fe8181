"""One network by mini-batches with momentum on any loss, against the network itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from jax.flatten_util import ravel_pytree

from neft import MLP
from neft.training import evolve, max_learning_rate
from neft.training._evolve import _descend
from neft.training._hierarchy import Hierarchy, drawn
from neft.training._loss import LOSSES
from neft.training._momentum import Momentum
from neft.training.results import Evolution

X = np.array([[1.0, 0.2], [-0.3, 1.0], [0.8, -0.7]])
XT = np.array([[0.4, 0.9]])
TARGETS = {"square": np.array([[0.5, -0.3], [0.2, 0.8], [-0.4, 0.1]]), "cross_entropy": np.eye(2)[[0, 1, 1]]}
# The last batch takes an input twice.
BATCHES = np.array([[0, 1], [2, 0], [1, 2], [0, 2], [1, 1]])
RATES = (0.001, 0.002)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


pytestmark = pytest.mark.xdist_group("training steps")  # what is cached is computed once


@functools.cache
def setting(activation):
    """A small network, and its whole hierarchy over training and test inputs."""
    net = MLP((2, 4, 2), activation, C_b=0.1, C_W=1.2, lambda_b=0.7, lambda_W=0.8)
    params = net.init(jax.random.key(3), dtype=np.float64)
    every = jnp.asarray(np.concatenate([X, XT]))
    return net, params, jax.jit(lambda p: drawn(net, p, every, len(X), 3, net.rates()))(params)


def trained(net, params, loss, eta, beta, nesterov, batches):
    """Outputs and NTK over all inputs of the network itself, after one step for each batch."""
    theta, back = ravel_pytree(params)
    rates = ravel_pytree(jax.tree.map(lambda rate, leaf: jnp.full_like(leaf, rate), net.rates(), params))[0]
    every = jnp.concatenate([X, XT])
    z = lambda theta: net.apply(back(theta), every)  # noqa: E731

    def each(z, y):
        if loss == "square":
            return 0.5 * ((z - y) ** 2).sum()
        return -(y * (z - jax.scipy.special.logsumexp(z))).sum()

    @jax.jit
    def gradient(theta, taken):
        def cost(theta):
            outputs = z(theta)
            return sum(each(outputs[a], jnp.asarray(TARGETS[loss])[a]) for a in taken) * len(X) / len(taken)

        return rates * jax.grad(cost)(theta)

    velocity = 0 * theta
    for taken in batches:
        g = gradient(theta, taken)
        velocity = beta * velocity + g
        theta = theta - eta * (g + beta * velocity if nesterov else velocity)
    J = jax.jit(jax.jacrev(lambda theta: z(theta).ravel()))(theta)
    return np.asarray(z(theta)).ravel(), np.asarray((J * rates[None, :]) @ J.T)


def cut(h, order):
    """The hierarchy up to an order, with zeros beyond it, so that one program serves all orders."""
    return Hierarchy(*(part if i <= order or order == 3 else 0 * part for i, part in enumerate(h)))


CASES = [
    pytest.param("tanh", "cross_entropy", 0.8, True),
    pytest.param("tanh", "square", 0.8, False, marks=pytest.mark.slow),
    pytest.param("gelu", "cross_entropy", 0.8, False, marks=pytest.mark.slow),
    pytest.param("gelu", "square", 0.6, True, marks=pytest.mark.slow),
    pytest.param("tanh", "cross_entropy", 0.0, False, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("activation, loss, beta, nesterov", CASES)
def test_each_order_is_right_to_its_power_of_the_step(activation, loss, beta, nesterov):
    # Outputs are missed by η^(order+1) and kernels by η^order: every coefficient of the expansion counts.
    net, params, h = setting(activation)
    exact = [trained(net, params, loss, eta, beta, nesterov, BATCHES) for eta in RATES]
    options = {"loss": LOSSES[loss], "outputs": 2}
    given = (jnp.asarray(BATCHES), Momentum(beta, nesterov).parts)
    for order in (1, 2, 3):
        errors = []
        for eta, (z, H) in zip(RATES, exact):
            course = _descend(cut(h, order), jnp.asarray(TARGETS[loss]), jnp.array([2, 5]), eta, *given, **options)
            assert np.asarray(course.reached).all()
            errors.append([np.abs(np.asarray(course.z)[1] - z).max(), np.abs(np.asarray(course.H)[1] - H).max()])
        np.testing.assert_allclose(np.log2(np.divide(*errors[::-1])), [order + 1, order], atol=0.12)


@pytest.mark.slow
def test_evolve_takes_batches_momentum_and_a_loss():
    net, params, _ = setting("tanh")
    options = {"momentum": 0.8, "nesterov": True, "loss": "cross_entropy", "learning_rate": 0.02}
    found = evolve(net, params, X, [0, 1, 1], XT, truncation=3, batches=BATCHES, steps=[5, 0], **options)
    z, H = trained(net, params, "cross_entropy", 0.02, 0.8, True, BATCHES)
    start = np.asarray(net.apply(params, jnp.asarray(XT)))
    assert np.abs(found.test[0] - z[6:]).max() < 0.01 * np.abs(z[6:] - start).max()
    np.testing.assert_allclose(found.test[1], start, atol=1e-14)
    moved = np.abs(found.H_star[0] - found.H).max()
    assert np.abs(found.H_star[0].transpose(0, 2, 1, 3).reshape(8, 8) - H).max() < 0.1 * moved
    assert found.step_effect is None and found.made.specification["batch"] == 2
    alone = evolve(net, params, X, [0, 1, 1], XT, truncation=3, batches=BATCHES, **options)
    np.testing.assert_allclose(alone.test, found.test[0], atol=1e-14)


def test_order_one_of_the_square_loss_is_the_closed_form():
    # A batch of all inputs in any order is the full batch, whose linear model is solved and not stepped.
    net, params, _ = setting("tanh")
    options = {"learning_rate": 0.05, "momentum": 0.7, "truncation": 1}
    solved = evolve(net, params, X, TARGETS["square"], XT, steps=9, **options)
    stepped = evolve(net, params, X, TARGETS["square"], XT, batches=[[2, 0, 1]] * 9, **options)
    np.testing.assert_allclose(stepped.test, solved.test, atol=1e-12)
    largest = max_learning_rate(solved.H[:3, :3], momentum=0.7)
    with one_sentence(f"at most {largest:g}"):
        evolve(net, params, X, TARGETS["square"], steps=2, **options | {"learning_rate": 1.01 * largest})


@pytest.mark.slow
def test_flow_on_the_cross_entropy_is_the_limit_of_small_steps():
    net, params, _ = setting("tanh")
    options = {"loss": "cross_entropy", "truncation": 2}
    flow = evolve(net, params, X, [0, 1, 1], XT, time=0.5, **options)
    errors = [
        np.abs(evolve(net, params, X, [0, 1, 1], XT, steps=T, learning_rate=0.5 / T, **options).test - flow.test).max()
        for T in (50, 100)
    ]
    assert errors[1] < 0.01 * np.abs(flow.test - np.asarray(net.apply(params, jnp.asarray(XT)))).max()
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_a_course_that_runs_away_is_told():
    net, params, _ = setting("tanh")
    with pytest.warns(UserWarning, match="did not get to its end"):
        found = evolve(net, params, X, [0, 1, 1], XT, batches=BATCHES, learning_rate=60.0, loss="cross_entropy")
    assert not found.converged and np.isfinite(found.test).all()


def test_older_files_still_load():
    net, params, _ = setting("tanh")
    found = evolve(net, params, X, TARGETS["square"], XT, truncation=1, time=1.0)
    record = found.to_dict()
    record["order"] = record.pop("truncation")
    assert Evolution.from_dict(record) == found


def test_bad_input_gets_one_clear_sentence():
    net, params, _ = setting("tanh")
    go = functools.partial(evolve, net, params, X, TARGETS["square"], learning_rate=0.1)
    with one_sentence("batches holds 3", "from 0 to 2"):
        go(batches=[[0, 3]])
    with one_sentence("batches has shape (0, 2)"):
        go(batches=np.zeros((0, 2), int))
    with one_sentence("steps is 4", "2 steps"):
        go(batches=[[0], [1]], steps=4)
    with one_sentence("momentum is 2"):
        go(steps=2, momentum=2.0)
    with one_sentence("loss is 'hinge'"):
        go(steps=2, loss="hinge")
    with one_sentence("time is missing"):
        evolve(net, params, X, [0, 1, 1], loss="cross_entropy")
    with one_sentence("batch is 1", "goes with steps"):
        evolve(net, params, X, TARGETS["square"], time=1.0, batches=[[0]])
