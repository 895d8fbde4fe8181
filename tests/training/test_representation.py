import dataclasses

import jax
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, Dense, Network, Residual
from neft.plot import draw
from neft.report import tables
from neft.training import predict_from_tensors, representation
from neft.training._response import TENSORS
from neft.training.results import Evolution, Representation

X = 1.6 * np.array([[1.0, 0.0], [0.1, 1.0]])


@pytest.mark.slow
def test_kernels_move_as_predicted_and_less_in_wider_networks():
    net = MLP((2, 8, 1), "tanh", C_b=0.05)
    found = representation(net, X, [0.3, -0.2], widths=[32, 256], depths=[2], draws=16, key=jax.random.key(0))
    assert found.lost.tolist() == [[0, 0]]
    # A few draws with small eigenvalues rule these averages, so they come close but slowly.
    errors = [np.abs(moved / found.moved - 1)[0] for moved in (found.moved_2, found.moved_3)]
    assert errors[1][1] < min(0.25, errors[0][1], errors[1][0])
    assert found.moved[0, 0] > 3 * found.moved[0, 1]


@pytest.mark.slow
def test_kernels_of_streams_move_as_those_of_networks_trained_by_hand():
    def stream(n):
        return Network(2, [Dense(n, C_b=0.05), Residual("tanh", Dense(n), skip=0.8), Dense(1)])

    y, key = np.array([0.3, -0.2]), jax.random.key(0)
    found = representation(stream(8), X, y, widths=[24], depths=[3], draws=2, key=key)
    with jax.enable_x64(True):
        net = stream(24)

        def kernel(params):
            leaves = jax.tree.leaves(jax.jacrev(lambda p: net.apply(p, X)[:, 0])(params))
            each = zip(jax.tree.leaves(net.rates()), (leaf.reshape(2, -1) for leaf in leaves))
            return sum(rate * leaf @ leaf.T for rate, leaf in each)

        @jax.jit
        def trained(params):
            loss = jax.grad(lambda p: ((net.apply(p, X)[:, 0] - y) ** 2).sum() / 2)
            step = lambda _, p: jax.tree.map(lambda w, g, rate: w - 0.0005 * rate * g, p, loss(p), net.rates())  # noqa: E731
            return jax.lax.fori_loop(0, 12_000, step, params)

        draws = [net.init(jax.random.fold_in(key, i), dtype=np.float64) for i in range(2)]
        before = np.mean([kernel(p) for p in draws], axis=0)
        after = np.mean([kernel(trained(p)) for p in draws], axis=0)
    np.testing.assert_allclose(found.before[0, 0], before, rtol=1e-10)
    change = np.abs(after - before).max()
    assert np.abs(found.after[0, 0] - after).max() < 0.02 * change


def test_bad_input_gets_one_clear_sentence():
    key = jax.random.key(0)
    with one_sentence("C_W", "the same in all layers"):
        representation(MLP((2, 8, 1), C_W=(1.0, 2.0)), X, [1.0, 2.0], widths=[8], depths=[3], key=key)
    stream = Network(2, [Dense(8), Residual("tanh", Dense(8)), Dense(1)])
    with one_sentence("depths is 2", "must be 3"):
        representation(stream, X, [1.0, 2.0], widths=[8], depths=[3, 2], key=key)
    with one_sentence("widths is ()"):
        representation(MLP((2, 8, 1)), X, [1.0, 2.0], widths=[], depths=[2], key=key)


def made():
    return neft.Made.by("a test")


def zeros(*shape):
    return np.zeros(shape)


def some_representation():
    kernels = np.random.default_rng(0).normal(size=(3, 2, 2, 3, 3))
    moved = np.array([[0.2, 0.1], [0.3, 0.15]])
    return Representation(
        before=kernels[0],
        after=kernels[1],
        predicted=kernels[2],
        moved=moved,
        stderr=moved / 10,
        moved_2=moved,
        moved_3=moved,
        lost=np.zeros((2, 2), int),
        depths=(2, 3),
        widths=(16, 64),
        activation="tanh",
        draws=8,
        made=made(),
    )


def some_evolution():
    return Evolution(
        train=zeros(2, 1, 2),
        test=zeros(2, 1, 2),
        H=np.ones((2, 2, 2, 2)),
        H_star=np.ones((2, 2, 2, 2, 2)) * 1.25,
        moved=np.array([0.1, 0.25]),
        truncation=2,
        time=None,
        steps=np.array([3, 9]),
        learning_rate=0.1,
        step_effect=zeros(2, 1, 2) + 0.5,
        converged=np.array([True, False]),
        reason="it stopped",
        made=made(),
    )


def some_prediction():
    pairs = ("K", "Theta", "K1", "Theta1")
    tensors = {name: np.eye(3) if name in pairs else np.full((3,) * 4, 0.1) for name in TENSORS}
    return predict_from_tensors(tensors, np.ones((2, 2)), 50)


@pytest.mark.parametrize("some", [some_representation, some_evolution, some_prediction])
def test_each_result_has_a_picture_a_table_and_a_file(some, tmp_path):
    found = some()
    assert draw(found).axes[0].get_title()
    (table,) = tables(found)
    assert table.rows and all(len(row) == len(table.columns) for row in table.rows)
    found.save(tmp_path / "found.json")
    assert neft.load(tmp_path / "found.json") == found


def test_tables_say_what_went_wrong_and_what_is_correlated():
    (table,) = tables(some_evolution())
    assert table.rows[1][2:] == ("no", "0.5") and table.notes == ("It stopped.",)
    (table,) = tables(some_prediction())
    assert "distinct outputs" in table.notes[1] and "width 50" in table.notes[0]
    titles = [axes.get_title() for axes in draw(dataclasses.replace(some_evolution(), moved=np.array([0.1, 0.5]))).axes]
    assert "50.00%" in titles[1]
