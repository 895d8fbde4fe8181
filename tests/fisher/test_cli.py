"""`neft fisher` and `neft train` as commands, and their pictures."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from neft import BatchNorm, Dense, Network, Residual, data, fisher, load, plot
from neft.cli import app
from neft.cli._specification import text_of

SMALL = data.load("fashion-mnist", preprocess="pool(16)+unit", full=False).balanced(7)


@pytest.fixture
def neft():
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def arrays(tmp_path):
    """A small data set of the user's own."""
    file = tmp_path / "small.npz"
    np.savez(file, x=SMALL.x, y=SMALL.y)
    return file


LAYERS = [pytest.param(name, 51, marks=pytest.mark.slow) for name in ("linear", "layer", "softmax", "two")]


@pytest.mark.slow
@pytest.mark.parametrize(("subsystem", "size"), [("neuron", 17), *LAYERS])
def test_fisher_shows_a_metric(neft, arrays, tmp_path, subsystem, size):
    line = ("fisher", arrays, "--subsystem", subsystem, "--neurons", 3, "--count", 20, "--json")
    found = neft(*line, "--plot", tmp_path / "metric.svg")
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["parameters"] == len(record["spectrum"]) == size and record["samples"] == 20
    assert sorted(set(record["order"])) == sorted(record["order"]) and max(record["order"]) < 70
    assert (tmp_path / "metric.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_train_writes_curves_and_goes_on_from_a_checkpoint(neft, arrays, tmp_path):
    line = ["train", arrays, "--optimizer", "sgd", "--hidden", "5,5", "--batch", 10, "--quiet"]
    files = ["--checkpoint", tmp_path / "run.npz", "--out", tmp_path / "curves.json"]
    first = neft(*line, *files, "--epochs", 1)
    assert (first.exit_code, first.output) == (0, "")
    again = neft(*line, *files, "--epochs", 2)
    assert again.exit_code == 0
    curves = load(tmp_path / "curves.json")
    assert isinstance(curves, fisher.results.Curves) and curves.epochs.tolist() == [0.0, 1.0, 2.0]
    assert isinstance(plot.draw(curves), Figure)


@pytest.mark.slow
def test_train_takes_a_network_from_a_file(neft, arrays, tmp_path):
    file = tmp_path / "net.toml"
    file.write_text(text_of(Network(16, [Dense(5), Residual(BatchNorm(), "relu", Dense(5)), Dense(10)])))
    line = ("train", arrays, "--optimizer", "sgd", "--network", file, "--batch", 10, "--epochs", 1)
    found = neft(*line, "--json")
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["widths"] == [16, 5, 5, 10] and record["batch_norm"] and record["activation"] == "relu"
    wrong = neft(*line, "--hidden", 5)
    assert wrong.exit_code == 2 and "hidden is given with net" in wrong.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train {} --optimizer adm", "did you mean 'adam'"),
        ("train {} --optimizer sgd --learning-rate 1e9 --hidden 5 --batch 5", "at step"),
        ("train {} --hidden a,b", "--hidden is 'a,b'"),
        ("train {} --checkpoint run.json", "must end in .npz"),
        ("fisher {} --subsystem all", "subsystem is 'all'"),
        ("fisher {} --count 1000", "count is 1000"),
        ("fisher {} --activation tahn", "did you mean 'tanh'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(neft, arrays, line, words):
    found = neft(*line.format(arrays).split())
    assert found.exit_code == 2 and found.stdout == ""
    assert words in found.stderr and found.stderr.count("\n") == 1 and found.stderr.startswith("neft: ")


def test_results_have_pictures():
    survey = fisher.survey(SMALL, "layer", activation="relu", neurons=2, count=5)
    assert survey.rank <= 10 and isinstance(plot.draw(survey), Figure)
