"""The kinds of work: trainings in one program against single ones, and what the other kinds return."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import one_sentence
from matplotlib.figure import Figure
from typer.testing import CliRunner

from neft import data, fisher, load, plot, sweep
from neft.cli import app
from neft.fisher import _many_seeds
from neft.plot._sweep import learning_curves
from neft.report import tables
from neft.sweep._folder import Plan
from neft.sweep._registry import KINDS

from . import toy

assert "toy" in KINDS and toy.specification().kind == "toy"
FIXED = {"full": False, "preprocess": "pool(49)+unit", "hidden": [8, 8], "epochs": 2, "batch": 100}
SETS = [data.load("fashion-mnist", split, preprocess="pool(49)+unit", full=False) for split in ("train", "test")]


@pytest.fixture
def neft():
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


pytestmark = pytest.mark.xdist_group("sweep train")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small sweep of trainings, one of which diverges."""
    path = tmp_path_factory.mktemp("sweeps") / "small"
    cases = ({"optimizer": ["sgd"], "learning_rate": [0.1, 0.3, 1e9]}, {"optimizer": ["adam"], "learning_rate": [0.01]})
    sweep.run(sweep.Specification(kind="train", fixed={**FIXED, "seeds": 3}, grid={}, cases=cases), path)
    return path


@pytest.mark.slow
def test_a_sweep_holds_the_curves_of_every_seed(folder):
    status = sweep.status(folder)
    assert (status.done, status.failed) == (3, 1)
    (reason,) = status.reasons.values()
    assert "not finite from step" in reason and "3 of 3 seeds" in reason and "1e+09" in reason
    place = sweep.Folder.open(folder)
    values = place.read(place.configurations[0]).values
    assert values["train_cost"].shape == values["validation_accuracy"].shape == (3, 3)
    assert values["test_accuracy"].shape == (3,) and len(set(values["train_cost"][:, 0])) == 3
    assert (values["train_cost"][:, -1] < values["train_cost"][:, 0]).all()


def test_a_seed_of_a_stack_is_the_single_training(folder):
    # Seed 0, whose split is also that of the single training.
    place = sweep.Folder.open(folder)
    values = place.read(place.configurations[1]).values
    alone, _ = fisher.train(*SETS, hidden=(8, 8), optimizer="sgd", learning_rate=0.3, epochs=2, batch=100, seed=0)
    np.testing.assert_allclose(values["train_cost"][0], alone.train_cost, rtol=1e-5)
    np.testing.assert_allclose(values["validation_cost"][0], alone.validation_cost, rtol=1e-5)
    np.testing.assert_allclose(values["validation_accuracy"][0], alone.validation_accuracy, atol=2e-3)
    assert abs(values["test_accuracy"][0] - alone.test_accuracy) < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "batch_norm"), [("rngd", False), ("rngd", True), ("rngd-published", False), ("muon", False)]
)
def test_every_optimizer_in_a_stack_is_the_single_training(optimizer, batch_norm):
    options = {"optimizer": optimizer, "batch_norm": batch_norm, "learning_rate": 0.02, "schedule": "cosine"}
    # Long enough that metrics are inverted on the way, and six seeds fill one stack and a half.
    many = KINDS["train"].work(**{**FIXED, **options, "epochs": 3, "seeds": 6})
    alone, _ = fisher.train(*SETS, **options, hidden=(8, 8), epochs=3, batch=100, seed=0)
    np.testing.assert_allclose(many["train_cost"][0], alone.train_cost, rtol=2e-4)
    assert many["train_cost"].shape == (6, 4) and len(set(many["train_cost"][:, -1])) == 6
    one = KINDS["train"].work(**{**FIXED, **options, "epochs": 3, "seeds": 1, "first_seed": 5})
    np.testing.assert_allclose(one["train_cost"][0], many["train_cost"][5], rtol=2e-4)


def test_seeds_in_rows_are_put_back_in_order():
    for count in (1, 3, 4, 5, 9):
        stacks = _many_seeds._stacks(count)
        assert stacks.shape[1] == min(count, _many_seeds.STACK)
        assert _many_seeds._unstacked(stacks, stacks).tolist() == list(range(count))


@pytest.mark.slow
def test_the_best_rate_is_that_of_the_validation_accuracy(folder):
    place, found = sweep.Folder.open(folder), sweep.summary(folder)
    read = {c.values["learning_rate"]: place.read(c) for c in place.configurations}
    accuracy = {rate: f.values["validation_accuracy"][:, -1].mean() for rate, f in read.items() if not f.reason}
    sgd, adam = found.best
    assert sgd.learning_rate == max((0.1, 0.3), key=accuracy.get) and sgd.rates == (0.1, 0.3)
    assert adam.learning_rate == 0.01 and adam.by_rate == (accuracy[0.01],)
    np.testing.assert_array_equal(sgd.test_accuracy, read[sgd.learning_rate].values["test_accuracy"])
    assert len(sgd.cpu_seconds) == 3 and sgd.seconds_per_epoch > 0
    assert "best by mean validation accuracy" in tables(found)[0].text()


def test_pictures_have_all_seeds_and_their_mean(folder):
    found = sweep.summary(folder)
    pictures = plot.pictures(found)
    assert set(pictures) == {"curves-8-8", "learning-rates"}
    panels = pictures["curves-8-8"].axes
    assert len(panels) == 4 and all(len(axes.lines) == 2 * (3 + 1) for axes in panels)
    mean = panels[0].lines[3].get_ydata()
    np.testing.assert_allclose(mean, found.best[0].train_cost.mean(0))
    assert isinstance(plot.draw(found), Figure)
    with one_sentence("architecture is '9'"):
        learning_curves(found, "9")


@pytest.mark.slow
def test_the_command_goes_on_and_shows_status_and_pictures(neft, folder, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text('kind = "toy"\n[grid]\nnumber = [1, 2]\n')
    first = neft("sweep", spec, "--out", tmp_path / "a")
    assert first.exit_code == 0 and "done            2" in first.stdout and "toy: mean" in first.stdout, first.output
    again = neft("sweep", spec, "--out", tmp_path / "a", "--json")
    assert json.loads(again.stdout)["done"] == 2
    shown = neft("sweep", "status", folder).stdout
    assert "failed          1" in shown and "not finite" in shown and "adam" in shown
    drawn = neft("sweep", "plot", folder)
    files = [Path(line) for line in drawn.stdout.split()]
    assert len(files) == 2 and all(file.read_text().startswith("<?xml") for file in files)
    assert neft("sweep", "plot", tmp_path / "a").exit_code == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sweep --quick", "--out is missing"),
        ("sweep --out {}", "one specification, or --quick"),
        ("sweep a.toml --quick --out {}", "one specification, or --quick"),
        ("sweep nowhere.toml --out {}", "cannot read"),
        ("sweep status", "takes the sweep's folder"),
        ("sweep status {}", "is not a sweep"),
        ("sweep plot {}", "is not a sweep"),
        ("sweep --quick --out {} --scheduler tcp://127.0.0.1:1 --timeout 0.3", "no scheduler answers"),
    ],
)
def test_bad_command_lines_are_one_sentence(neft, tmp_path, line, words):
    found = neft(*line.format(tmp_path / "x").split())
    assert found.exit_code == 2 and words in found.stderr and found.stderr.count("\n") == 1


def test_other_data_than_the_sweep_began_with_is_refused(folder, tmp_path):
    place = sweep.Folder.open(folder)
    (source,) = place.plan.data
    plan = Plan(specification=place.plan.specification, data={source: "other"}, made=place.plan.made)
    (tmp_path / "x").mkdir()
    plan.save(tmp_path / "x" / "sweep.json")
    with pytest.raises(ValueError, match="is not what this sweep began with"):
        sweep.run(plan.specification, tmp_path / "x")
    assert sweep.status(tmp_path / "x").failed == 0


@pytest.mark.slow
def test_the_loss_scales_with_hidden_units_and_inputs(tmp_path):
    fixed = {"full": False, "epochs": 3, "batch": 64, "learning_rate": 0.003}
    spec = sweep.Specification(kind="action", fixed=fixed, grid={"hidden": [2, 32], "inputs": [16, 196]})
    assert sweep.run(spec, tmp_path / "a").done == 4
    found = sweep.summary(tmp_path / "a")
    loss = dict(zip(found.rows, found.numbers))
    assert loss["32", "16"] < loss["2", "16"] and loss["32", "196"] < loss["32", "16"]
    assert isinstance(plot.draw(found), Figure)
    place = sweep.Folder.open(tmp_path / "a")
    values = place.read(place.configurations[0]).values
    assert values["S"].shape == (5,) and values["S"][0] == pytest.approx(np.log(10))


@pytest.mark.slow
def test_ensembles_over_widths_and_depths(tmp_path):
    fixed = {"draws": 256, "activation": "relu", "C_W": 2.0}
    sweep.run(sweep.Specification(kind="check", fixed=fixed, grid={"depth": [1, 2], "width": [6, 12]}), tmp_path / "a")
    found = sweep.summary(tmp_path / "a")
    assert found.varied == ("depth", "width") and len(found.numbers) == 4 and (found.numbers < 5).all()
    place = sweep.Folder.open(tmp_path / "a")
    values = place.read(place.configurations[-1]).values
    # The second layer of a critical relu network: V = C_W²(⟨s⁴⟩ - ⟨s²⟩²) with ⟨s⁴⟩ = 3K²/2, K = 2.
    assert values["theory.V"][1] == pytest.approx(4 * (3 * 4 / 2 - 1)) and values["z.V"].shape == (2,)


@pytest.mark.slow
def test_fits_keep_their_parameters(tmp_path):
    spec = sweep.Specification(
        kind="fit", fixed={"full": False, "preprocess": "pool(16)+global", "epochs": 1}, grid={"hidden": [4, 5]}
    )
    assert sweep.run(spec, tmp_path / "a").done == 2
    place = sweep.Folder.open(tmp_path / "a")
    found = load(place.file(place.configurations[1]))
    assert found.values["W"].shape == (5, 16) and found.values["U"].shape == (10, 5)
    assert found.values["evaluation_loss"] == found.values["evaluation_loss_history"].min()
