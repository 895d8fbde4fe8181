"""How errors of the truncated hierarchy fall with the width."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, Dense, Made, Network, Residual, RMSNorm, load, plot, training
from neft.report import tables
from neft.training._function_space import draw_batches

X = 1.6 * np.array([[1.0, 0.0, 0.2], [0.0, 1.0, -0.1], [0.1, -0.2, 1.0]])
XT = np.array([[0.9, -0.8, 0.5], [0.3, 0.9, 0.6]])
Y = 0.5 * np.array([[0.6], [-0.5], [0.3]])
SCHEDULE = {"steps": 30, "learning_rate": 0.2}


def net(*hidden, activation="tanh"):
    # The hidden widths of the specification do not matter: others take their place.
    C_W = (*(1.0,) * len(hidden), 0.25)
    return MLP((3, *hidden, 1), activation, C_b=0.05, C_W=C_W, lambda_b=1.0, lambda_W=1.0)


TWO_WIDTHS = training.results.Orders(
    rms=np.array([[0.1, 0.05], [0.03, 0.01], [0.01, 0.002]]),
    stderr=np.full((3, 2), 0.02),
    lost=np.zeros((3, 2), int),
    widths=(8, 16),
    activation="tanh",
    depth=2,
    draws=2,
    made=Made.by("test"),
)


@pytest.mark.slow
def test_errors_are_those_of_each_draws_own_evolution():
    found = training.orders(net(5), X, Y, XT, widths=(6,), draws=2, key=jax.random.key(3), **SCHEDULE)
    trained = training.ensemble(net(6), X, Y, XT, draws=2, key=jax.random.key(3), **SCHEDULE).test
    for order in (1, 2, 3):
        squares = []
        for draw in range(2):
            with jax.enable_x64(True):
                params = net(6).init(jax.random.fold_in(jax.random.key(3), draw), dtype=np.float64)
                own = training.evolve(net(6), params, X, Y, XT, truncation=order, **SCHEDULE)
            squares.append(np.square(own.test - trained[draw]).mean())
        rms = np.sqrt(np.mean(squares))
        assert found.rms[order - 1, 0] == pytest.approx(rms, rel=1e-6)
        assert found.stderr[order - 1, 0] == pytest.approx(np.std(squares, ddof=1) / np.sqrt(2) / (2 * rms), rel=1e-6)


@pytest.mark.slow
def test_orders_of_classifiers_are_those_of_their_own_batches():
    two, key, labels = MLP((3, 6, 2), "tanh", C_b=0.05), jax.random.key(3), [0, 1, 0]
    # Steps so small that each order is better than the one before, by its power of the step.
    plan = {"steps": 8, "learning_rate": 0.005, "momentum": 0.7, "loss": "cross_entropy"}
    found = training.orders(two, X, labels, XT, widths=(6,), draws=2, key=key, batch=2, **plan)
    trained = training.ensemble(two, X, labels, XT, draws=2, key=key, batch=2, **plan).test
    batches = np.asarray(draw_batches(key, np.arange(2), steps=8, count=3, batch=2))
    squares = []
    for draw in range(2):
        with jax.enable_x64(True):
            params = two.init(jax.random.fold_in(key, draw), dtype=np.float64)
            own = training.evolve(two, params, X, labels, XT, truncation=2, batches=batches[draw], **plan)
        squares.append(np.square(own.test - trained[draw]).mean())
    assert found.rms[1, 0] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    assert found.rms[2, 0] < found.rms[1, 0] < found.rms[0, 0]


@pytest.mark.slow
def test_streams_have_orders_too():
    def stream(n):
        return Network(3, [Dense(n), Residual(RMSNorm(), "tanh", Dense(n), skip=0.8), Dense(1, C_W=0.25)])

    found = training.orders(stream(5), X, Y, XT, widths=(12,), draws=3, key=jax.random.key(3), **SCHEDULE)
    assert found.activation == "tanh" and found.depth == 3
    trained = training.ensemble(stream(12), X, Y, XT, draws=3, key=jax.random.key(3), **SCHEDULE).test
    wide, both, squares = stream(12), np.concatenate([X, XT]), []
    with jax.enable_x64(True):
        for draw in range(3):
            # Order 1 is the linear model of the same draw, step by step.
            params = wide.init(jax.random.fold_in(jax.random.key(3), draw), dtype=np.float64)
            z = np.asarray(wide.apply(params, both))[:, 0]
            jacobian = jax.jacrev(lambda p: wide.apply(p, both)[:, 0])(params)
            # Weights, with two axes of their own, are trained at 1/fan-in, and biases at 1.
            leaves = [np.asarray(leaf) / np.sqrt(leaf.shape[2:3] or 1) for leaf in jax.tree.leaves(jacobian)]
            J = np.concatenate([leaf.reshape(len(both), -1) for leaf in leaves], axis=1)
            for _ in range(SCHEDULE["steps"]):
                z = z - SCHEDULE["learning_rate"] * J @ J[:3].T @ (z[:3] - Y[:, 0])
            squares.append(np.square(z[3:] - trained[draw, :, 0]).mean())
    assert found.rms[0, 0] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    assert found.rms[2, 0] < 0.5 * found.rms[0, 0]


def test_a_power_is_a_slope_with_its_uncertainty():
    # With two widths the line goes through both points.
    slope = -np.log(TWO_WIDTHS.rms[:, 1] / TWO_WIDTHS.rms[:, 0]) / np.log(2)
    error = np.hypot(*(TWO_WIDTHS.stderr / TWO_WIDTHS.rms).T) / np.log(2)
    np.testing.assert_allclose(TWO_WIDTHS.powers, np.stack([slope, error], axis=1))
    with one_sentence("a power needs at least two"):
        _ = dataclasses.replace(TWO_WIDTHS, widths=(8,)).powers


def test_it_is_drawn_and_tabulated_and_kept(tmp_path):
    axes = plot.draw(TWO_WIDTHS).axes[0]
    assert [c.get_label() for c in axes.containers] == ["order 1", "order 2", "order 3"]
    assert all(np.array(c.lines[2][0].get_segments())[:, 0, 1].min() > 0 for c in axes.containers)
    (table,) = tables(TWO_WIDTHS)
    assert [row[0] for row in table.rows] == ["8", "16"] and "Theory says 1, 1 and 2" in table.notes[0]
    TWO_WIDTHS.save(tmp_path / "orders.npz")
    np.testing.assert_array_equal(load(tmp_path / "orders.npz").rms, TWO_WIDTHS.rms)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_errors_fall_like_the_powers_of_theory(activation):
    network = net(4, activation=activation)
    found = training.orders(network, X, Y, XT, widths=(32, 64, 128, 256), draws=128, key=jax.random.key(11))
    for (p, stderr), theory in zip(found.powers, (1, 1, 2)):
        assert stderr < 0.2 and abs(p - theory) < 5 * stderr, found.powers
    assert (found.powers[[0, 2], 0] > 8 * found.powers[[0, 2], 1]).all(), found.powers
    assert (found.rms[2] < found.rms[0]).all() and found.rms[2, -1] < found.rms[1, -1]


KEPT = json.loads(Path(__file__).with_name("orders.json").read_text(encoding="utf-8"))


def fitted(values, errors, widths, powers):
    """Coefficients of the powers of 1/n, their standard errors, and χ² for each degree of freedom that is left."""
    design = np.array([[n**-p for p in powers] for n in map(float, widths)]) / np.array(errors)[:, None]
    gain = np.linalg.pinv(design)
    found = gain @ (values / np.array(errors))
    left = values / np.array(errors) - design @ found
    return found, np.linalg.norm(gain, axis=1), left @ left / (len(widths) - len(powers))


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_classifiers_by_batches_and_momentum_miss_by_the_powers_of_theory(activation):
    # `tools/follow_classifiers.py` trained networks and followed each from its own kernels.
    kept = KEPT[activation]
    assert not np.any(kept["lost"])
    found = dataclasses.replace(
        TWO_WIDTHS, rms=np.array(kept["rms"]), stderr=np.array(kept["stderr"]), widths=tuple(kept["widths"])
    )
    for order, theory in ((0, 1), (2, 2)):
        p, stderr = found.powers[order]
        assert stderr < 0.05 and abs(p - theory) < 5 * stderr, found.powers
        # The leading term is there and the next one down is not: 1/n has no part in the third order.
        (a, _), (error, _), chi = fitted(found.rms[order], found.stderr[order], found.widths, (theory, theory + 1))
        assert a > 10 * error and chi < 6
    (none, *_), (error, *_), _ = fitted(found.rms[2], found.stderr[2], found.widths, (1, 2, 3))
    assert abs(none) < 5 * error
    # The second order falls like a/n + b/n² with an a that is not 0.
    (a, _), (error, _), chi = fitted(found.rms[1], found.stderr[1], found.widths, (1, 2))
    assert a > 10 * error and chi < 6


def test_bad_input_gets_one_clear_sentence():
    options = {"widths": (8,), "draws": 2, "key": jax.random.key(0)}
    with one_sentence("widths is empty"):
        training.orders(net(4), X, Y, **(options | {"widths": ()}))
    with one_sentence("draws is 1, but must be at least 2"):
        training.orders(net(4), X, Y, **(options | {"draws": 1}))
    with one_sentence("net has 1 layer, but must have at least 2"):
        training.orders(MLP((3, 1)), X, Y, **options)
    with one_sentence("relu, whose derivative 1 jumps at 0"):
        training.orders(net(4, activation="relu"), X, Y, **options)
    with one_sentence("each of widths is 0"):
        training.orders(net(4), X, Y, **(options | {"widths": (0,)}))
