"""The first screen: what it says of networks, and that theory at order 1/width is seen to beat infinite width."""

import jax
import numpy as np
import pytest

from neft import Made, report, width
from neft.report._drawn import drawn
from neft.report._finite import disagreements
from neft.report._first import misplaced, sizes, verdict
from neft.report._subject import Subject
from neft.training.results import Orders


@pytest.fixture(scope="module")
def of():
    train, test = report.examples(full=False)
    return Subject(net=report.default(train.features, train.classes), train=train, test=test, seed=0)


@pytest.mark.slow
def test_draws_of_the_default_network_follow_order_one_and_not_infinite_width(of):
    outputs = drawn(of.net, of.x, 4000, jax.random.key(7)).outputs
    density = width.density(of.stats)
    gaussian, finite, chance = misplaced(of, density, outputs)
    assert finite < gaussian / 3 and gaussian > 4 * chance
    # At the top, where the eye looks: the share of outputs within a third of a standard deviation, draw by draw.
    edge = np.sqrt(of.stats.K[-1]) / 3
    share = (np.abs(outputs) < edge).mean(1)
    seen, error = share.mean(), share.std(ddof=1) / np.sqrt(len(share))
    z = np.linspace(-edge, edge, 2001)
    curves = width.density(of.stats, z)
    infinite, first = (np.trapezoid(curve, z) for curve in (curves.gaussian, curves.density))
    assert (seen - infinite) / error > 10 and abs(first - seen) < (seen - infinite) / 3
    # The three numbers, from draws alone.
    kurtosis = (outputs**4).mean() / (outputs**2).mean() ** 2 - 3
    assert float(sizes(of)[0][0]) == pytest.approx(kurtosis, rel=0.25)


def test_curves_that_are_right_misplace_by_chance_alone(of):
    rng = np.random.default_rng(0)
    outputs = rng.normal(scale=np.sqrt(of.stats.K[-1]), size=(4000, 10))
    gaussian, finite, chance = misplaced(of, width.density(of.stats), outputs)
    assert 0.5 * chance < gaussian < 1.5 * chance and finite > 5 * chance


@pytest.mark.parametrize(
    ("n", "depth", "says"),
    [(32, 3, "matters: at width 32"), (4096, 3, "changes little"), (4, 6, "Too deep"), (9, 1, "one layer")],
)
def test_the_verdict_goes_with_depth_and_width(of, n, depth, says):
    net = of.net.replace(widths=(of.net.inputs, *[n] * (depth - 1), of.net.outputs))
    assert says in verdict(Subject(net=net, train=of.train, test=None, seed=0))


def test_fitted_powers_that_disagree_with_theory_have_a_sentence():
    n, powers, error = np.array([16.0, 32.0]), (0.55, 1.1, 2.0), 0.17
    rms = np.stack([n**-power for power in powers])
    # Two widths, each with this relative error, give the power an error of √2/ln 2 times it.
    stderr = rms * error * np.log(2) / np.sqrt(2)
    fields = {"lost": np.zeros((3, 2), int), "rms": rms, "stderr": stderr, "widths": (16, 32), "draws": 24}
    found = Orders(activation="tanh", depth=3, made=Made.by("test"), **fields)
    (said,) = disagreements(found)
    assert said.startswith("Order 1 disagrees with theory: 0.55 is 2.6 standard errors from 1.")
    assert said in report.tables(found)[0].notes
