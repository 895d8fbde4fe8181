import dataclasses

import numpy as np
import pytest
from helpers import one_sentence
from typer.testing import CliRunner

import neft
from neft import MLP, plot, training
from neft.cli import app
from neft.report import tables

X, Y, TEST = np.array([[-1.0], [0.2], [1.1]]), np.array([0.3, -0.4, 0.6]), np.linspace(-1.5, 1.5, 5)[:, None]


@pytest.fixture(scope="module")
def found():
    net = MLP(widths=(1, 8, 1), activation="erf", C_b=0.4, C_W=1.2)
    options = {"steps": 60, "learning_rate": 0.2, "draws": 6}
    import jax

    return training.forecast(net, X, Y, TEST, key=jax.random.key(0), **options)


@pytest.mark.slow
def test_a_forecast_holds_prediction_and_trained_networks(found, tmp_path):
    assert found.mean.shape == found.std.shape == found.apart.shape == (5, 1)
    assert found.trained.test.shape == (6, 5, 1)
    found.save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found


def test_the_picture_shows_mean_spread_networks_and_targets(found):
    axes = plot.draw(found).axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["trained networks", "predicted mean ± 2 std", "training targets"]
    line = next(line for line in axes.lines if line.get_label().startswith("predicted"))
    np.testing.assert_allclose(line.get_ydata(), found.mean[:, 0])
    assert sum(len(line.get_xdata()) == 5 for line in axes.lines) == 7


def test_the_legend_stands_above_bars_side_by_side(found):
    figure = plot.draw(dataclasses.replace(found, x_test=np.repeat(found.x_test, 2, axis=1)))
    axes = figure.axes[0]
    figure.canvas.draw()
    bottom = axes.transData.inverted().transform(axes.get_legend().get_window_extent())[0, 1]
    assert bottom > max((found.mean + 2 * found.std).max(), found.trained.test.max())


def test_the_table_has_a_row_for_each_input(found):
    (table,) = tables(found)
    assert len(table.rows) == 5 and table.columns[-1] == "z-score"
    assert float(table.rows[0][2]) == pytest.approx(found.mean[0, 0], rel=1e-3)
    for other in (found.prediction, training.nngp_from_kernel(np.eye(3), [1.0, 2.0])):
        (table,) = tables(other)
        assert "±" in table.rows[0][-1]


def test_the_command_predicts_from_a_file(tmp_path):
    path, picture = tmp_path / "data.npz", tmp_path / "picture.svg"
    np.savez(path, x_train=X[:, 0], y_train=Y, x_test=TEST[:, 0])
    line = ["predict", str(path), "--activation", "erf", "--depth", "2", "--C-b", "0.4", "--plot", str(picture)]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert "infinite width" in done.output and picture.read_text().startswith("<?xml")
    np.savez(path, x_train=X, y_train=Y)
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 2 and "holds no x_test" in done.output


@pytest.mark.slow
def test_the_command_predicts_bundled_data():
    done = CliRunner().invoke(app, ["predict", "--train", "6", "--test", "2", "--activation", "relu", "--C-W", "2"])
    assert done.exit_code == 0 and "Shown: 2 of 2 inputs, 3 of 10 outputs" in done.output, done.output


def test_bad_input_gets_one_clear_sentence():
    net = MLP(widths=(1, 8, 1))
    with one_sentence("draws is 1"):
        training.forecast(net, X, Y, TEST, draws=1)
    with one_sentence("key is missing"):
        training.forecast(net, X, Y, TEST, draws=4)
    with one_sentence("y_test is given", "square"):
        training.forecast(net, X, Y, TEST, y_test=[0, 1, 0, 0, 1])
    with one_sentence("widths is empty"):
        training.forecast(net, X, Y, TEST, widths=[])
    with one_sentence("time and steps are both given"):
        training.forecast(net, X, Y, TEST, time=[1.0, 2.0], steps=3)


@pytest.mark.slow
def test_the_command_predicts_classifiers_by_batches_with_momentum(tmp_path):
    path, out = tmp_path / "data.npz", tmp_path / "found.json"
    np.savez(path, x_train=X[:2], y_train=[0, 1], x_test=TEST)
    line = f"predict {path} --activation erf --depth 2 --width 400 --C-b 0.4 --loss cross_entropy --steps 5"
    line += f" --learning-rate 0.1 --batch 1 --momentum 0.9 --samples 8 --draws 2 --out {out}"
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 0, done.output
    found = neft.load(out)
    assert found.prediction.order == 0 and found.prediction.outputs.shape == (8, 5, 2)
    assert found.mean.shape == found.trained.mean.shape == (5, 2)
    done = CliRunner().invoke(app, (line + " --order 1 --hidden-widths 200,400").split())
    assert done.exit_code == 0, done.output
    several = neft.load(out)
    assert several.hidden == (200, 400) and several.each[1][0].widths == (1, 400, 2)
    np.testing.assert_allclose(several.each[1][0].prediction.infinite_outputs, found.prediction.outputs, atol=1e-12)
    for wrong in ("--batch 3", "--momentum 1.5", "--loss hinge"):
        done = CliRunner().invoke(app, (line + " " + wrong).split())
        assert done.exit_code == 2 and wrong.split()[0].strip("-") in done.output


def test_order_one_with_momentum_is_sampled(monkeypatch):
    asked = {}

    def instead(*args, **options):
        asked.update(options)
        return training.sample_from_kernels(np.eye(8), np.eye(8), Y, 1.0, outputs=1, loss="square", draws=2)

    monkeypatch.setattr("neft.training._forecast.sample", instead)
    net = MLP(widths=(1, 8, 1), activation="erf", C_b=0.4)
    training.forecast(net, X, Y, TEST, steps=3, learning_rate=0.1, momentum=0.5, order=1)
    assert asked["order"] == 1 and asked["momentum"] == 0.5 and asked["draws"] == 256


@pytest.mark.slow
def test_widths_and_moments_stand_in_one_picture():
    import jax

    net = MLP(widths=(1, 8, 2), activation="erf", C_b=0.4, C_W=1.2)
    options = {"loss": "cross_entropy", "learning_rate": 0.2, "steps": [1, 4], "draws": 3, "samples": 5}
    found = training.forecast(
        net, X[:2], [0, 1], TEST, y_test=[0, 0, 1, 1, 1], widths=[8, 16], key=jax.random.key(1), **options
    )
    alone = training.forecast(net, X[:2], [0, 1], TEST, key=jax.random.key(1), **(options | {"steps": 4}))
    np.testing.assert_allclose(found.each[0][1].mean, alone.mean)
    np.testing.assert_allclose(found.each[0][1].trained.test, alone.trained.test)
    figure = plot.draw(found)
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [one.assessment.accuracy for one in found.each[0]])
    assert [axes.get_xlabel() for axes in figure.axes] == ["steps", "steps"]
    (table,) = tables(found)
    assert len(table.rows) == 4 and "right answers" in table.columns
    assert any(one.title == "Answers at 5 test inputs" for one in tables(found.each[0][0]))
