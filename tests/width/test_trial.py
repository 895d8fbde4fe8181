"""A short run that verifies an advice, against gradient descent written by hand."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, Dense, Layer, LayerNorm, Residual
from neft.report import tables
from neft.width import advise

RNG = np.random.default_rng(4)
X = RNG.normal(size=(12, 3)).astype(np.float32)
Y = RNG.normal(size=(12, 2)).astype(np.float32)


def by_hand(params, x, y, rate, steps):
    """Losses before each step and after the last of gradient descent on the mean squared error, tanh, two layers."""
    (W1, b1), (W2, b2) = ((np.asarray(W, float), np.asarray(b, float)) for W, b in params)
    losses = []
    for _ in range(steps + 1):
        s = np.tanh(x @ W1.T + b1)
        error = s @ W2.T + b2 - y
        losses.append((error**2).mean())
        slope = 2 * error / error.size
        inner = (slope @ W2) * (1 - s**2)
        W2, b2 = W2 - rate * slope.T @ s, b2 - rate * slope.sum(0)
        W1, b1 = W1 - rate * inner.T @ x, b1 - rate * inner.sum(0)
    return np.array(losses)


@pytest.fixture(scope="module")
def found():
    advice = advise("tanh", depth=2, width=5, inputs=3, outputs=2)
    params = tuple(
        Layer(RNG.normal(size=(m, n)).astype(np.float32), RNG.normal(size=m).astype(np.float32))
        for n, m in ((3, 5), (5, 2))
    )
    net = MLP((3, 5, 2), "tanh")
    return advice.trial(X, Y, present=(net, params), rate=0.3, steps=25, batch=50), params


def test_the_present_settings_are_trained_as_by_hand(found):
    trial, params = found
    losses = by_hand(params, X.astype(float), Y, 0.3, 25)
    means = [part.mean() for part in np.split(losses[:-1], trial.step[:-1])]
    np.testing.assert_allclose(trial.losses[1], means, rtol=1e-4)
    assert trial.final[1] == pytest.approx(losses[-1], rel=1e-4) and trial.final[1] < 0.7 * losses[0]
    assert trial.batch == 12 and trial.points == 12


def test_the_rates_are_those_of_the_settings(found):
    rate = advise("tanh", depth=2, width=5, inputs=3, outputs=2).settings("sgd").rate_W[1]
    assert found[0].rates == pytest.approx([rate, 0.3])
    assert found[0].guess == pytest.approx(Y.astype(float).var(0).mean())
    text = tables(found[0])[0].text()
    assert found[0].summary in text and f"{found[0].final[0]:.4g}" in text


def test_a_trial_goes_to_a_file_and_has_a_picture(found, tmp_path):
    found[0].save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json") == found[0]
    axes = neft.plot.draw(found[0]).axes[0]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), float), found[0].losses[0])


def test_one_class_needs_no_guess():
    trial = advise("tanh", depth=2, width=4, inputs=3, outputs=2).trial(X, np.zeros(12, int), steps=1)
    assert "(0 with the same answer" in trial.summary


@pytest.mark.slow
def test_what_diverges_is_infinite_and_said():
    advice = advise("relu", depth=3, width=8, inputs=3, outputs=4)
    trial = advice.trial(X, np.arange(12) % 4, rate=1e6, steps=30)
    assert trial.final[1] == math.inf or trial.final[1] > 100
    assert math.isfinite(trial.final[0]) and trial.guess == pytest.approx(math.log(4))
    assert "so the advice is better on this data" in trial.summary and trial.loss == "cross-entropy"
    neft.plot.draw(trial)


@pytest.mark.slow
def test_an_own_function_and_the_default_of_frameworks_are_tried():
    own = neft.activation(lambda z: z / jnp.sqrt(1 + z * z), name="softsign-like")
    trial = advise(own, depth=2, width=400, inputs=3, outputs=2).trial(X, Y, steps=1, batch=12, optimizer="adamw")
    # Uniform weights ±1/√fan-in make outputs of about this variance before the first step: 1/3⟨σ²⟩ and less.
    assert trial.losses[1, 0] == pytest.approx((Y**2).mean(), rel=0.35)
    assert np.isfinite(trial.final).all()


@pytest.mark.slow
def test_frozen_biases_stay_and_dead_units_do_no_harm():
    # A unit that is never on has gradients of 0, and Adam's 0/0 without an ε would be no number.
    advice = advise("relu", depth=2, width=4, inputs=3, outputs=2)
    chosen = advice.settings("adam")
    trial = advice.trial(0 * X, Y, optimizer=dataclasses.replace(chosen, rate_b=0 * chosen.rate_b), steps=3)
    # Without biases that learn nothing can be learned of inputs of 0.
    assert trial.losses[0] == pytest.approx(np.full(3, (Y**2).mean()), rel=1e-5)


def test_bad_input_gets_a_sentence():
    advice = advise("tanh", depth=2, width=4, inputs=3, outputs=2)
    for given, words in (
        ((X[:, :2], Y), ("x has 2 entries", "takes 3")),
        ((X, Y[:5]), ("y is of 5 inputs", "x holds 12")),
        ((X, Y[:, :1]), ("y has 1 numbers", "2 outputs")),
        ((X, np.arange(12)), ("y holds class 11", "2 outputs")),
        ((X[:0], Y[:0]), ("x has shape (0, 3)", "at least one input")),
        ((X[:0], np.zeros(0, int)), ("x has shape (0, 3)", "at least one input")),
    ):
        with one_sentence(*words):
            advice.trial(*given)
    bad: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"steps": 0}, ("steps is 0",)),
        ({"batch": 0}, ("batch is 0",)),
        ({"rate": 0.0}, ("rate is 0", "greater than 0")),
        ({"optimizer": "lion"}, ("optimizer is 'lion'",)),
        ({"key": 3}, ("key is 3",)),
        ({"present": MLP((3, 4, 2), "tanh")}, ("present is MLP", "must be a network and its parameters")),
        # One output beside targets of two would be repeated, and a class that there is no output for be no number.
        (
            {"present": (one := MLP((3, 4, 1), "tanh"), one.init(jax.random.key(0)))},
            ("3 inputs and 1 outputs",),
        ),
    ]
    for more, words in bad:
        with one_sentence(*words):
            advice.trial(X, Y, **more)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("adamw", {"rate_W": [0.1, -0.1]}, "rate_W of optimizer holds -0.1, but must be at least 0"),
        ("adamw", {"rate_b": [0.1, math.nan]}, "rate_b of optimizer holds nan"),
        ("adamw", {"rate_W": 0.1}, "rate_W of optimizer has shape ()"),
        (
            "adamw",
            {"epsilon_b": np.zeros(2)},
            "epsilon_b of optimizer holds 0, but must be greater",
        ),
        ("adam", {"rate_norm": -1.0}, "rate_norm of optimizer is -1"),
        ("adam", {"betas": (0.9, 1.0)}, "betas of optimizer holds 1, but must be at least 0 and less than 1"),
        ("sgd", {"optimizer": "adam"}, "betas of optimizer are None, but must be two numbers with 'adam'"),
        ("adam", {"optimizer": "sgd"}, "betas of optimizer are (0.9, 0.999), but must be None with 'sgd'"),
        ("momentum", {"momentum": 1.5}, "momentum of optimizer holds 1.5"),
        ("sgd", {"momentum": 0.5}, "momentum of optimizer is 0.5, but must be 0 with 'sgd'"),
    ],
)
def test_settings_that_no_optimizer_can_take_get_a_sentence(name, change, words):
    advice = advise("tanh", depth=2, width=4, inputs=3, outputs=2)
    with one_sentence(words):
        advice.code("torch", optimizer=dataclasses.replace(advice.settings(name), **change))


def test_settings_may_be_changed_by_lists():
    advice = advise("tanh", depth=2, width=4, inputs=3, outputs=2)
    listed = dataclasses.replace(advice.settings("adamw"), rate_W=[0.1, 0.2])
    plain = dataclasses.replace(advice.settings("adamw"), rate_W=np.array([0.1, 0.2]))
    assert advice.code("torch", optimizer=listed) == advice.code("torch", optimizer=plain)


@pytest.mark.slow
def test_residual_networks_of_few_inputs_train_at_the_given_rate():
    x = np.random.default_rng(0).normal(size=(1000, 6)).astype(np.float32)
    y = np.tanh(x @ np.random.default_rng(1).normal(size=(6, 3))).argmax(1).astype(np.int32)
    norm = LayerNorm(lambda_gain=1.0, lambda_bias=1.0)
    found = advise(Residual(norm, Dense(32), "relu", Dense(32)), 6, 32, inputs=6, outputs=3)
    as_given = found.settings("sgd")
    # What the NTK as it is would have: the first layer's part is that of 6 inputs.
    larger = 150 / float((found.fan_in * found.share).sum()) / as_given.rate_W[0]
    rates = {name: larger * getattr(as_given, name) for name in ("rate_W", "rate_b", "rate_norm")}
    runs = [found.trial(x, y, optimizer=one, steps=150) for one in (as_given, dataclasses.replace(as_given, **rates))]
    assert larger > 5 and runs[0].final[0] < 0.15 < 0.5 < runs[1].final[0]
