"""Pictures of sweeps: figures 1-4 of Sun, Nielsen 2017, and the headline number of any other kind of work."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import _check
from .._public import public
from ..sweep.results import Experiments, Headlines
from ._style import look, panel, styled


@styled
def learning_curves(found: Experiments, architecture: str) -> Figure:
    """Training cost and validation accuracy of all seeds (thin) with their mean, against epochs and CPU seconds.

    As in figures 1-4 of Sun, Nielsen 2017, each optimizer is at its best learning rate by validation accuracy.
    """
    shown = [one for one in found.best if one.architecture == architecture]
    if not shown:
        raise ValueError(
            f"architecture is {_check.brief(architecture)}, but must be one of {', '.join(found.architectures)}."
        )
    figure = Figure(figsize=(8.4, 6.0), layout="constrained")
    grid = figure.subplots(2, 2, sharey="col")
    figure.suptitle(f"{found.data}, hidden layers {architecture}", fontsize=10)
    for row, clock in zip(grid, ("epoch", "CPU seconds of one seed's steps")):
        for axes, name in zip(row, ("training cost", "validation accuracy / %")):
            axes.set(xlabel=clock, ylabel=name)
    for i, one in enumerate(shown):
        style = _style(i)
        label = f"{one.optimizer}, rate {one.learning_rate:g}"
        # A logarithmic axis has no place for 0 seconds.
        started = np.flatnonzero(one.cpu_seconds > 0)
        for row, time, kept in zip(grid, (one.epochs, one.cpu_seconds), (slice(None), started)):
            if len(time) != len(one.epochs):
                continue
            for axes, curves in zip(row, (one.train_cost, 100 * one.validation_accuracy)):
                axes.plot(time[kept], curves[:, kept].T, color=style["color"], linewidth=0.5, alpha=0.3)
                axes.plot(time[kept], curves[:, kept].mean(0), label=label, **style)
    for axes in grid[1]:
        axes.set_xscale("log")  # methods differ in time by factors
    for column, curves in zip(grid.T, ([o.train_cost for o in shown], [100 * o.validation_accuracy for o in shown])):
        _window(column[0], curves)
    grid[0, 0].legend(fontsize=8, handlelength=3)
    return figure


def _window(axes, curves: list[np.ndarray]) -> None:
    # The start, before any step, would flatten all that follows.
    later = np.concatenate([c[:, 1:].ravel() if c.shape[1] > 1 else c.ravel() for c in curves])
    low, high = np.quantile(later, [0.02, 0.98])
    margin = 0.1 * (high - low) or 0.05
    axes.set_ylim(low - margin, high + margin)


@styled
def experiments(found: Experiments) -> Figure:
    """Validation accuracy at the end against the learning rate, a panel for each architecture."""
    if not found.best:
        raise ValueError(f"the sweep {found.folder!r} has nothing to draw: no configuration is done yet.")
    rows = -(-len(found.architectures) // 2)
    figure = Figure(figsize=(8.4, 0.6 + 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False, sharex=True, sharey=True)
    optimizers = tuple(dict.fromkeys(one.optimizer for one in found.best))
    for axes, architecture in zip(panels.ravel(), found.architectures):
        axes.set(title=architecture, xlabel="learning rate", ylabel="validation accuracy / %", xscale="log")
        for one in found.best:
            if one.architecture == architecture:
                rates, accuracy = np.array(sorted(zip(one.rates, one.by_rate))).T
                style = _style(optimizers.index(one.optimizer))
                axes.plot(rates, 100 * accuracy, marker="o", markersize=3, label=one.optimizer, **style)
        axes.legend(fontsize=7, handlelength=4)
    for axes in panels.ravel()[len(found.architectures) :]:
        axes.remove()
    return figure


def _style(i: int) -> dict[str, Any]:
    # Four colours, and dashes that tell the fifth from the first.
    return look(i, i + i // 4)


@styled
def headlines(found: Headlines) -> Figure:
    """The headline number against the first varied keyword that is a number, one line for each choice of the others."""
    numeric = [i for i in range(len(found.varied)) if all(_number(row[i]) is not None for row in found.rows)]
    if not found.rows or not numeric:
        raise ValueError(f"the sweep {found.folder!r} has nothing to draw: no finished number against a number.")
    # The axis is the keyword with most values.
    axis = max(numeric, key=lambda i: len({row[i] for row in found.rows}))
    figure, axes = panel(found.kind, found.varied[axis], found.headline.replace("_", " "))
    lines: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row, value in zip(found.rows, found.numbers):
        rest = tuple(f"{n} {v}" for i, (n, v) in enumerate(zip(found.varied, row)) if i != axis)
        lines.setdefault(rest, []).append((float(row[axis]), float(value)))
    for i, (rest, points) in enumerate(lines.items()):
        x, y = zip(*sorted(points))
        axes.plot(x, y, marker="o", markersize=3, label=", ".join(rest), **look(i, i // 4))
    if any(lines):
        axes.legend(fontsize=7)
    return figure


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@public
def pictures(found: Experiments | Headlines) -> dict[str, Figure]:
    """All pictures of a sweep by file name: one for each architecture and one of the rates, or that of the headline."""
    if isinstance(found, Headlines):
        return {found.kind: headlines(found)}
    rates = experiments(found)
    curves = {_slug(name): learning_curves(found, name) for name in found.architectures}
    return {**curves, "learning-rates": rates}


def _slug(architecture: str) -> str:
    return "curves-" + architecture.replace(", ", "-").replace(" ", "-")
