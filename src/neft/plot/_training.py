"""Pictures of trained networks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..training.results import Forecast, LearningCurve
from ._style import COLOURS, INK, panel, styled

_LINES = 24
"""The most trained networks that are drawn one by one."""


@styled
def forecast(found: Forecast) -> Figure:
    """The predicted mean with twice its spread and the trained networks: over the input if it is one number.

    Otherwise test input by test input, in the order of their predicted means. Of the outputs the first is drawn.
    """
    where = "infinite width" if found.order == 0 else f"order {found.order} in 1/width"
    title = f"{found.activation}, {'-'.join(map(str, found.widths))}: {where}"
    one = found.x_test.shape[1] == 1
    figure, axes = panel(
        title, "input" if one else "test input, by its mean", "output 1" if found.mean.shape[1] > 1 else "output"
    )
    figure.set_size_inches(5.2, 3.3)
    if one:
        _over_input(axes, found)
    else:
        _by_sample(axes, found)
    axes.legend(fontsize=8, loc="best")
    return figure


@styled
def learning_curve(found: LearningCurve) -> Figure:
    """The expected test error over the number of training inputs, with what was measured; beyond the sample dashed."""
    title = f"{found.kernel}, ridge {found.ridge:g}: spectrum of {found.sample} inputs"
    figure, axes = panel(title, "training inputs", "mean square error at new inputs")
    figure.set_size_inches(5.2, 3.3)
    order = np.argsort(found.sizes)
    sizes, error, beyond = found.sizes[order], found.error[order], found.beyond[order]
    within = np.count_nonzero(~beyond)
    axes.plot(sizes[:within], error[:within], "o-", color=COLOURS[0], markersize=3, label="expected")
    if beyond.any():
        last = slice(max(0, within - 1), None)
        axes.plot(sizes[last], error[last], "o--", color=COLOURS[0], markersize=3, label="expected, beyond the sample")
    if found.measured is not None:
        axes.plot(found.sizes, found.measured, "x", color=COLOURS[1], label="measured")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(fontsize=8, loc="best")
    return figure


def _over_input(axes: Axes, found: Forecast) -> None:
    order = np.argsort(found.x_test[:, 0])
    x, mean, std = found.x_test[order, 0], found.mean[order, 0], found.std[order, 0]
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, color=COLOURS[0], alpha=0.18, linewidth=0)
    if found.trained is not None:
        drawn = found.trained.test[found.trained.good][:_LINES]
        for i, z in enumerate(drawn):
            label = "trained networks" if i == 0 else None
            axes.plot(x, z[order, 0], color=COLOURS[1], linewidth=0.6, alpha=0.6, label=label)
    axes.plot(x, mean, color=COLOURS[0], label="predicted mean ± 2 std")
    axes.plot(
        found.x_train[:, 0], found.y_train[:, 0], "o", color=INK, markersize=4, label="training targets", linestyle=""
    )


def _by_sample(axes: Axes, found: Forecast) -> None:
    order = np.argsort(found.mean[:, 0])
    place = np.arange(1, len(order) + 1)
    mean, std = found.mean[order, 0], found.std[order, 0]
    if found.trained is not None:
        drawn = found.trained.test[found.trained.good][:_LINES, order, 0]
        spread = 0.3 * (np.arange(len(drawn)) / max(1, len(drawn) - 1) - 0.5)
        at = place[None, :] + spread[:, None]
        axes.plot(at.ravel(), drawn.ravel(), ".", color=COLOURS[1], markersize=2.5, label="trained networks")
    look = {"color": COLOURS[0], "capsize": 2, "linewidth": 1.0, "markersize": 4}
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.errorbar(place, mean, 2 * std, fmt="o", label="predicted mean ± 2 std", **look)
