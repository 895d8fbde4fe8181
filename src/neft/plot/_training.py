"""Pictures of trained networks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..training.results import Assessment, Forecast, Forecasts, LearningCurve
from ._style import COLOURS, INK, panel, panels, styled

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
def forecasts(found: Forecasts) -> Figure:
    """Widths and moments in one picture: accuracy and overconfidence of classifiers, or an output's mean and spread.

    Over time or steps where there are several, a colour for each width; else over the width. Lines are theory, dashed
    ones infinite width, points with two standard errors trained networks. Outputs are the first one at the first input.
    """
    first = found.each[0][0]
    moments = np.asarray(found.steps if found.time is None else found.time)
    over_time = len(found.each[0]) > 1
    across = ("steps" if found.time is None else "time") if over_time else "width of the hidden layers"
    labels = ("output 1 at test input 1", "its spread over draws")
    if first.assessment is not None:
        labels = ("share of right answers", "confidence - right answers")
    figure, axes = panels(*((across, label) for label in labels))
    lines = found.each if over_time else tuple(zip(*found.each))
    for i, line in enumerate(lines):
        x, colour = moments if over_time else np.array(found.hidden), COLOURS[i % len(COLOURS)]
        name = f"width {found.hidden[i]}" if over_time else "theory"
        for kind, ax in enumerate(axes):
            ax.plot(x, [_seen(one, kind) for one in line], "o-", color=colour, markersize=3, label=name)
            if first.infinite is not None:
                dashed = [_answers(one.infinite, kind) for one in line if one.infinite is not None]
                ax.plot(x, dashed, "--", color=colour, linewidth=0.9, label=None if i else "infinite width")
            if first.trained is not None:
                values = np.array([_trained(one, kind) for one in line])
                look = {"capsize": 2, "markersize": 4, "color": colour if over_time else COLOURS[1]}
                ax.errorbar(x, values[:, 0], 2 * values[:, 1], fmt="x", label=None if i else "trained", **look)
            if not over_time:
                ax.set_xscale("log")
    axes[0].legend(fontsize=8, loc="best")
    return figure


def _seen(one: Forecast, kind: int) -> float:
    if one.assessment is not None:
        return _answers(one.assessment, kind)
    return float((one.mean, one.std)[kind][0, 0])


def _answers(found: Assessment, kind: int) -> float:
    return float(found.overconfidence if kind else found.accuracy)


def _trained(one: Forecast, kind: int) -> tuple[float, float]:
    # The value and its standard error.
    seen, trained = one.trained_assessment, one.trained
    assert trained is not None
    draws = int(trained.good.sum())
    if seen is not None:
        spread = seen.overconfidence_spread if kind else seen.accuracy_spread
        return _answers(seen, kind), float(spread) / np.sqrt(draws)
    z = trained.test[trained.good][:, 0, 0]
    std = float(z.std(ddof=1))
    return (std, std / np.sqrt(2 * draws - 2)) if kind else (float(z.mean()), std / np.sqrt(draws))


@styled
def calibration(found: Assessment) -> Figure:
    """The share of right answers over the confidence of the answers; on the dotted line classifiers are calibrated."""
    figure, axes = panel(
        f"{found.draws} draws, {len(found.labels)} test inputs", "confidence", "share of right answers"
    )
    figure.set_size_inches(3.8, 3.3)
    sure, right, share = (np.atleast_2d(part) for part in (found.bin_confidence, found.bin_accuracy, found.bin_share))
    for i in range(len(sure)):
        there = share[i] > 0
        label = None if len(sure) == 1 else f"moment {i + 1}"
        axes.plot(sure[i, there], right[i, there], "o-", color=COLOURS[i % len(COLOURS)], markersize=4, label=label)
    axes.plot([0, 1], [0, 1], ":", color=INK, linewidth=0.8)
    if len(sure) > 1:
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
    # The bars stand side by side, so that the legend has room above alone.
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))
