"""The coordinate check tells right rates from wrong ones; the eight cases were chosen before any was run."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

from neft import load, plot
from neft.report import tables
from neft.scaling import coordinate_check

X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True))
# μP (Yang et al. 2022, table 3): rates of the first, the hidden and the last weights as powers of the width.
RATES = {"sgd": {"first": 1, "hidden": 0, "last": -1}, "adam": {"first": 0, "hidden": -1, "last": -1}}
SIZE = {"sgd": 0.05, "adam": 0.02}


def square(outputs, y):
    return jnp.mean((outputs - y) ** 2)


def mlp(key, width):
    first, one, two, last = jax.random.split(key, 4)
    return {
        "first": jax.random.normal(first, (8, width)) / 8**0.5,
        "hidden": [(2 / width) ** 0.5 * jax.random.normal(k, (width, width)) for k in (one, two)],
        "last": jax.random.normal(last, (width, 1)) / width,
    }


def apply_mlp(params, x):
    z = x @ params["first"]
    for W in params["hidden"]:
        z = jax.nn.relu(z) @ W
    return jax.nn.relu(z) @ params["last"]


def normed(z):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6)


def apply_residual(params, x):
    z = x @ params["first"]
    for W in params["hidden"]:
        z = z + jax.nn.relu(normed(z)) @ W
    return normed(z) @ params["last"]


def optimizer_of(kind, wrong=None):
    make = optax.sgd if kind == "sgd" else optax.adam

    def optimizer(width):
        rates = {name: SIZE[kind] * (width / 64) ** power for name, power in RATES[kind].items()}
        if wrong is not None:
            rates[wrong] *= (width / 64) ** 0.5
        labels = {"first": "first", "hidden": ["hidden", "hidden"], "last": "last"}
        return optax.multi_transform({name: make(rate) for name, rate in rates.items()}, labels)

    return optimizer


@contextlib.contextmanager
def promoting():
    """As users run: optax and their own models promote."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def checked(apply, optimizer, widths=(32, 128, 512), **more):
    return coordinate_check(mlp, apply, optimizer, widths, x=X, y=Y, loss=square, **more)


CASES = [
    (apply_mlp, "sgd", None),
    (apply_mlp, "sgd", "hidden"),
    (apply_mlp, "adam", None),
    (apply_mlp, "adam", "last"),
    (apply_residual, "sgd", None),
    (apply_residual, "sgd", "first"),
    (apply_residual, "adam", None),
    (apply_residual, "adam", "hidden"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("apply", "kind", "wrong"), CASES)
def test_wrong_rates_are_called_wrong_and_right_ones_right(apply, kind, wrong):
    with promoting():
        found = checked(apply, optimizer_of(kind, wrong), steps=1)
    assert found.names == ("first", "hidden.0", "hidden.1", "last")
    for name, verdict, power, error in zip(found.names, found.verdicts, found.power_own, found.error_own):
        expected = 0.5 if wrong is not None and name.startswith(wrong) else 0.0
        assert verdict == ("updates grow" if expected else "right"), (name, power, error)
        assert abs(power - expected) < 0.2 and error < 0.1
    assert found.right == (wrong is None)


@pytest.mark.slow
def test_own_changes_are_those_of_the_parameters_alone(tmp_path):
    with promoting():
        found = checked(apply_mlp, optax.sgd(0.1), (8, 16, 32), steps=1, draws=2, key=jax.random.key(5))
        keys = jax.random.split(jax.random.key(5), 2)
        params = mlp(keys[1], 16)
        gradient = jax.grad(lambda params: square(apply_mlp(params, X), Y))(params)
        later = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    before = [X @ params["first"]]
    after = [X @ later["first"]]
    own = [X @ (later["first"] - params["first"])]
    for W, V in zip([*params["hidden"], params["last"]], [*later["hidden"], later["last"]]):
        own.append(jax.nn.relu(before[-1]) @ (V - W))
        before.append(jax.nn.relu(before[-1]) @ W)
        after.append(jax.nn.relu(after[-1]) @ V)
    for i in range(4):
        for values, wanted in (
            (found.sizes[i, 1, 1], (before[i], after[i])),
            (found.changes[i, 1, 1, 1:], (after[i] - before[i],)),
            (found.own[i, 1, 1, 1:], (own[i],)),
        ):
            np.testing.assert_allclose(values, [np.sqrt(np.mean(np.square(one))) for one in wanted], rtol=2e-5)
    # One rate for all is the standard parameterization, which learns differently at every width.
    assert not found.right and "first" in found.summary
    found.save(tmp_path / "check.json")
    assert load(tmp_path / "check.json") == found
    assert "hidden.1" in tables(found)[0].text() and len(plot.draw(found).axes) == 2


@pytest.mark.slow
def test_bad_arguments_get_a_sentence():
    with one_sentence("widths are (8, 16)", "three"):
        checked(apply_mlp, optax.sgd(0.1), (8, 16))
    with one_sentence("optimizer is 'adam'"):
        checked(apply_mlp, "adam")
    with one_sentence("apply(params, x) failed"):
        checked(lambda params, x: x @ params["second"], optax.sgd(0.1))
    with one_sentence("by no parameter"):
        checked(lambda params, x: x * 2.0, optax.sgd(0.1), (8, 16, 32))
