import dataclasses

import numpy as np
import pytest
from scipy.stats import lognorm

from neft import MLP, ensemble, fisher, plot, width
from neft.ensemble._estimate import Estimate
from neft.report._section_width import in_the_diagram

NET = MLP((3, 6, 6, 2), "tanh", C_b=0.1, C_W=1.5)
X = np.array([1.0, 0.5, -0.5])


@pytest.fixture(scope="module")
def stats():
    return width.statistics(NET, X)


def test_a_tensor_is_drawn_with_two_standard_errors(stats):
    one = Estimate(mean=np.array([0.0, 1.0, 2.0]), stderr=np.array([0.0, 0.1, 0.2]))
    found = ensemble.results.Estimates(tensors={"V": one}, widths=NET.widths, draws=8, made=stats.made)
    axes = plot.tensor(stats, found, "V").axes[0]
    assert np.allclose(axes.lines[0].get_ydata(), stats.V)
    (bars,) = axes.containers
    segments = np.array(bars.lines[2][0].get_segments())
    assert np.allclose(segments[:, 1, 1] - segments[:, 0, 1], 4 * one.stderr)
    assert len(plot.tensor(stats, found, "A").axes[0].containers) == 0


def test_densities_of_draws_are_densities(stats):
    values = np.random.default_rng(0).normal(scale=np.sqrt(stats.K[-1]), size=(3000, 2))
    axes = plot.output_distribution(width.density(stats), values).axes[0]
    x, y = axes.containers[0].lines[0].get_data()
    assert abs(np.sum(y) * np.diff(x).min() - 1) < 0.01
    axes = plot.ntk_distribution(values + 5, mean=5.0, spread=0.5, infinite=4.9).axes[0]
    x, y = axes.lines[[line.get_label() for line in axes.lines].index("predicted mean and spread")].get_data()
    # Of the logarithm's Gaussian: mean and deviation are those of H in closed form.
    deviation = np.sqrt(np.log(1 + 0.5**2 / 5.0**2))
    law = lognorm(deviation, scale=5.0**2 / np.sqrt(5.0**2 + 0.5**2))
    np.testing.assert_allclose([law.mean(), law.std()], [5.0, 0.5], rtol=1e-12)
    np.testing.assert_allclose(y, law.pdf(x), rtol=1e-9)
    assert abs(np.trapezoid(y, x) - law.cdf(x[-1])) < 1e-6
    wide = plot.ntk_distribution(np.exp(values), mean=1.0, spread=2.0, infinite=1.0).axes[0]
    assert min(line.get_xdata()[0] for line in wide.lines[:1]) >= 0 and wide.get_xlim()[0] >= 0


@pytest.mark.slow
def test_the_network_stands_on_its_phase_diagram():
    diagram = width.phase("tanh", C_b=np.linspace(0, 1, 5), C_W=np.linspace(0.5, 3, 6))
    figure = plot.placed(diagram, C_b=0.25, C_W=2.0)
    named = [c for c in figure.axes[0].collections if c.get_label() == "this network"]
    assert np.allclose(named[0].get_offsets(), [[2.0, 0.25]])
    assert "<image" not in plot.svg(figure, salt="a")


@pytest.mark.slow
def test_words_about_a_phase_diagram_name_what_is_in_it():
    grid = {"C_b": np.linspace(0, 1, 5), "C_W": np.linspace(0.5, 3, 6)}
    relu, tanh = (width.phase(name, **grid) for name in ("relu", "tanh"))
    said, stars = in_the_diagram(relu, C_b=0.0, C_W=2.0)
    assert "white line" not in said and said.endswith("; one lies under the diamond.") and stars
    said, stars = in_the_diagram(tanh, C_b=0.5, C_W=2.0)
    assert said.startswith("On the white line") and said.endswith("keeps its size too.") and stars
    assert in_the_diagram(dataclasses.replace(tanh, points=()), C_b=0.5, C_W=2.0)[1] is False


@pytest.mark.slow
def test_rivals_are_means_over_seeds():
    from neft import data

    rng = np.random.default_rng(0)
    some = data.load((rng.normal(size=(60, 2)), np.arange(60) % 2))
    found = {
        "sgd": [fisher.train(some, hidden=(3,), optimizer="sgd", batch=10, epochs=2, seed=s).curves for s in (0, 1)]
    }
    axes = plot.rivals(found, clock="epochs").axes[0]
    mean = np.mean([one.train_cost for one in found["sgd"]], axis=0)
    assert np.allclose(axes.containers[0].lines[0].get_ydata(), mean)
    assert plot.rivals(found, clock="cpu_seconds").axes[0].get_xlabel().endswith("/ s")
    with pytest.raises(ValueError, match="clock is 'hours'"):
        plot.rivals(found, clock="hours")
