"""Classifiers at finite width: draws of `sample` beside networks trained by `tools/train_classifiers.py`."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import neft

HERE = Path(__file__)
KEPT = json.loads(HERE.with_name("classifiers.json").read_text(encoding="utf-8"))
OBSERVED = ("mean of z1", "mean of p1", "variance of z1", "variance of p1")


def found(name):
    """What is of order 1/n by simulation and by theory, and the standard error of their difference."""
    simulation, error = np.transpose([KEPT[name]["found"][what] for what in OBSERVED])
    theory = KEPT[name]["theory"]["all"]
    return simulation, np.array(theory["mean"]), np.hypot(error, theory["error"])


@pytest.mark.parametrize("name", KEPT)
def test_trained_networks_have_the_predicted_part_of_order_one_over_n(name):
    simulation, theory, error = found(name)
    z, resolved = (simulation - theory) / error, np.abs(simulation) / error
    assert np.abs(z).max() < 5, z
    assert resolved[:2].min() > 10, resolved
    assert resolved[2:].max() > 5, resolved
    assert max(KEPT[name]["chi_squared"]) < 25


def test_without_the_fourth_cumulant_the_prediction_is_excluded():
    name = "one hidden layer, full batch"
    simulation, theory, error = found(name)
    of_V = KEPT[name]["theory"]["V"]
    z = (simulation - theory + of_V["mean"]) / np.hypot(error, of_V["error"])
    assert np.abs(z).max() > 10, z


def of_thirty_images(training):
    """Widths, and n times what they change in trained networks and by theory, with standard errors."""
    kept = json.loads((Path(neft.__file__).parent / "plot" / "classifiers.json").read_text(encoding="utf-8"))[training]
    assert kept["observed"] == ["accuracy", "confidence", "overconfidence", "nll"]
    n = np.array([int(width) for width in kept["simulation"]["changes"]])
    found = n[:, None, None] * np.array(list(kept["simulation"]["changes"].values()))
    return n, found[:, 0], found[:, 1], *np.array(kept["theory"]["times n"])


def test_thirty_images_come_to_the_order_one_over_n():
    n, trained, noise, theory, error = of_thirty_images("short")
    fits = [np.polyfit(1 / n, v, 2, w=1 / e, cov="unscaled") for v, e in zip(trained.T, noise.T)]
    limit, spread = np.array([(fit[-1], np.sqrt(cov[-1, -1])) for fit, cov in fits]).T
    both = np.hypot(spread, error)
    assert np.abs((limit - theory) / both).max() < 5
    resolved = np.abs(limit) / both
    assert resolved[0] > 10 and resolved[3] > 10 and resolved.min() > 3, resolved
    z = (trained - theory) / np.hypot(noise, error)
    assert np.abs(z[n >= 256]).max() < 5
    # As many neurons as images: the next orders are there.
    assert np.abs(z[n < 64]).max() > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one hidden layer, batches and momentum"])
def test_the_kept_theory_is_what_draws_still_give(name):
    spec = importlib.util.spec_from_file_location("tool", HERE.parents[2] / "tools" / "train_classifiers.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    laws, Theta = tool.laws(name)
    kept = KEPT[name]["theory"]
    values = tool.theory(name, laws["all"], Theta, KEPT[name]["centre"], np.arange(1024))
    error = values.std(0, ddof=1) / 32
    assert np.abs((values.mean(0) - kept["all"]["mean"]) / error).max() < 5
    assert np.abs(values.mean(0) / error).max() > 5
