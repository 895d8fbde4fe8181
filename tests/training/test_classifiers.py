"""Classifiers at finite width: draws of `sample` beside networks trained by `tools/train_classifiers.py`."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

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


def test_thirty_images_come_to_the_order_one_over_n_at_large_widths():
    # `tools/classify_widths.py`: the confidence of classifiers, n times what width n changes.
    kept = json.loads(HERE.with_name("thirty_images.json").read_text(encoding="utf-8"))
    which = kept["observed"].index("confidence")
    infinite, known = (row[which] for row in kept["infinite"])
    theory, noise = (256 * row[which] for row in kept["theory"]["changes"]["256"])
    assert abs(theory) > 5 * noise and kept["theory"]["lost"]["256"] == 0
    part, errors = [], []
    for n, (values, spread) in kept["simulation"]["found"].items():
        part.append(int(n) * (values[which] - infinite))
        errors.append(np.hypot(int(n) * np.hypot(spread[which], known), noise))
    z = (np.array(part) - theory) / errors
    # Narrow networks are far from it: with as many as 30 images the next orders are large below a thousand.
    assert abs(z[-1]) < 5 and (np.diff(np.abs(part)) > 0).all() and abs(z[0]) > 5, z


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
