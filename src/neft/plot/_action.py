"""Pictures of the action expansion."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import _check
from .._public import public
from ..action.results import Analysis, Convergence, Elements, Expansion, Fit, Sizes, Stopping, Stops
from ._style import COLOURS, INK, look, panel, styled

_SHOWN = 4
_SUMS = (look(1, 1), look(2, 2), look(3, 3), look(1, 3))


@styled
def expansion(found: Expansion) -> Figure:
    """The largest terms of every order, as shares of that order."""
    figure, axes = panel(f"Terms at θ, {found.activation}", "share of its order", "", size=(4.6, 3.4))
    _terms(axes, found)
    return figure


@styled
def convergence(found: Convergence) -> Figure:
    """The loss along tθ, partial sums of its series, and the radius of convergence."""
    figure, axes = panel("The loss along tθ and its series", "t", "loss")
    _along(axes, found)
    return figure


@public
@styled
def line(found: Convergence) -> Figure:
    """The loss along a line from one set of parameters to another, t from 0 to 1, and partial sums of its series."""
    figure, axes = panel("The loss along the line and its series", "t", "loss")
    _along(axes, found)
    return figure


@public
@styled
def losses(
    training: Float[np.ndarray, " epochs"], evaluation: Float[np.ndarray, " epochs"], *, best: int | None = None
) -> Figure:
    """The training and the evaluation loss by epoch, with the epoch that was kept."""
    training = _check.array("training", training, ndim=1)
    evaluation = _check.array("evaluation", evaluation, shape=training.shape)
    if best is not None:
        best = _check.integer("best", best, at_least=0, at_most=len(training) - 1)
    figure, axes = panel("Early stopping", "epoch", "loss")
    _training(axes, training, evaluation, best)
    return figure


@styled
def elements(found: Elements) -> Figure:
    """The distribution of the elements, each in units of its spread, beside a Gaussian."""
    figure, axes = panel("Elements", "element / spread", "density")
    _elements(axes, found)
    return figure


@styled
def training(found: Fit) -> Figure:
    """The training and the evaluation loss by epoch with the epoch that was kept, and the scales of the letters."""
    figure, left, right = _two_panels()
    left.set(title="Early stopping", xlabel="epoch", ylabel="loss")
    _training(left, found.training_loss, found.evaluation_loss, found.best)
    right.set(title="Scales of the parameters", xlabel="epoch", ylabel="root mean square")
    for i, (name, values) in enumerate(found.scales.items()):
        right.plot(values, label=name, **look(i, i))
    right.axvline(found.best, color=INK, linewidth=0.8, linestyle=":")
    right.set_ylim(bottom=0)
    _whole_steps(right)
    return figure


@styled
def sizes(found: Sizes) -> Figure:
    """The optimized loss against the hidden size with its power law, and the share of UWW, for each input size."""
    figure, left, right = _two_panels()
    left.set(
        title="Optimized loss", xlabel="hidden units H", ylabel="evaluation loss at θ*", xscale="log", yscale="log"
    )
    right.set(title="Domination", xlabel="hidden units H", ylabel="share of UWW in S$_3$", xscale="log", ylim=(0, 1.03))
    for i, (E, loss, share) in enumerate(zip(found.features, found.loss, found.share_UWW, strict=True)):
        label = f"E = {E}, exponent {found.exponent[i]:.2f}"
        left.plot(found.hidden, loss, marker="o", markersize=3.5, label=label, **look(i, i))
        right.plot(found.hidden, share, marker="o", markersize=3.5, label=f"E = {E}", **look(i, i))
    for axes in (left, right):
        axes.set_xticks(found.hidden, [str(h) for h in found.hidden])
        axes.minorticks_off()
        axes.legend(fontsize=8)
    least, most = float(found.loss.min()), float(found.loss.max())
    ticks = [v for v in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0) if 0.8 * least < v < 1.2 * most]
    left.set_yticks(ticks, [f"{v:g}" for v in ticks])
    return figure


@styled
def stopping(found: Stopping) -> Figure:
    """The losses by step and where each rule stops, and the two products of gradients whose signs the rules follow."""
    figure, left, right = _two_panels()
    left.set(title="Early stopping", xlabel="step", ylabel="loss")
    _training(left, found.training, found.evaluation, found.minimum)
    right.set(title="Products of gradients", xlabel="step", ylabel="over the largest")
    rules = (
        (found.alignment, found.stop_by_alignment, "∇S$_T$·∇S$_E$"),
        (-found.drift, found.stop_by_drift, "−∇S$_E$·Δθ"),
    )
    for i, (values, stop, label) in enumerate(rules, start=2):
        known = np.isfinite(values)
        when = "no change of sign" if stop is None else f"turns negative at {stop}"
        scale = max(float(np.abs(values[known]).max()), 1e-300)
        right.plot(np.flatnonzero(known), values[known] / scale, label=f"{label}: {when}", **look(i, i))
        if stop is not None:
            right.plot([stop], [values[stop] / scale], "o", color=COLOURS[i % len(COLOURS)], markersize=5)
    right.axhline(0, color=INK, linewidth=0.8)
    # Near the change of sign both are small beside what they were at the start.
    right.set_yscale("symlog", linthresh=0.01)
    _whole_steps(right, fontsize=7)
    return figure


@styled
def stops(found: Stops) -> Figure:
    """The evaluation loss by step for each size of the data with its stops, and the stops against the size."""
    figure, left, right = _two_panels()
    _descents(left, found)
    _against_size(right, found)
    return figure


@styled
def analysis(found: Analysis) -> Figure:
    """Terms by order, convergence along the ray, elements, the training and the stops by gradients where there are."""
    rows = 2 if found.stops is None else 3
    figure = Figure(figsize=(9.0, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, 2)
    panels[0, 0].set(title="Terms by order", xlabel="share of its order")
    _terms(panels[0, 0], found.expansion)
    panels[0, 1].set(title="The loss along tθ and its series", xlabel="t", ylabel="loss")
    _along(panels[0, 1], found.convergence)
    panels[1, 0].set(title="Elements", xlabel="element / spread", ylabel="density")
    _elements(panels[1, 0], found.elements)
    if found.history:
        panels[1, 1].set(title="Early stopping: the training of θ*", xlabel="epoch", ylabel="loss")
        _training(panels[1, 1], found.history["training"], found.history["evaluation"], found.best)
    else:
        panels[1, 1].set_axis_off()
    if found.stops is not None:
        _descents(panels[2, 0], found.stops)
        _against_size(panels[2, 1], found.stops)
    return figure


def _two_panels() -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(7.6, 3.0), layout="constrained")
    return (figure, *figure.subplots(1, 2))


def _whole_steps(axes: Axes, *, fontsize: int = 8) -> None:
    """Steps or epochs along x, and what the lines are."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=fontsize)


def _descents(axes: Axes, found: Stops) -> None:
    axes.set(title="Descents on parts of the data", xlabel="step", ylabel="evaluation loss S$_E$")
    lowest, highest = np.inf, -np.inf
    for i, (size, run) in enumerate(zip(found.sizes, found.runs, strict=True)):
        axes.plot(run.evaluation, label=f"{size:,} samples", **look(i, i))
        lowest, highest = min(lowest, run.evaluation.min()), max(highest, run.evaluation[0])
        for stop, marker in ((run.minimum, "o"), (run.stop_by_alignment, "x")):
            if stop is not None:
                axes.plot([stop], [run.evaluation[stop]], marker, color=COLOURS[i % len(COLOURS)], markersize=6)
    axes.plot([], [], "o", color=INK, markersize=5, label="least S$_E$")
    axes.plot([], [], "x", color=INK, markersize=5, label="∇S$_T$·∇S$_E$ = 0")
    # A descent that comes apart must not hide the others.
    axes.set_ylim(lowest - 0.05 * (highest - lowest), highest + 0.1 * (highest - lowest))
    _whole_steps(axes, fontsize=7)


def _against_size(axes: Axes, found: Stops) -> None:
    axes.set(title="The stop against the size of the data", xlabel="training samples", ylabel="step")
    rules = (("minimum", "least S$_E$", "o"), ("stop_by_alignment", "∇S$_T$·∇S$_E$ = 0", "x"))
    rules = (*rules, ("stop_by_drift", "∇S$_E$·Δθ = 0", "+"))
    steps = max(len(run.training) for run in found.runs) - 1
    for i, (field, label, marker) in enumerate(rules):
        known = [(n, getattr(run, field)) for n, run in zip(found.sizes, found.runs, strict=True)]
        known = [(n, step) for n, step in known if step is not None]
        axes.plot([n for n, _ in known], [s for _, s in known], marker=marker, markersize=7, label=label, **look(i, i))
    missing = [n for n, run in zip(found.sizes, found.runs, strict=True) if run.minimum is None]
    if missing:
        axes.plot(missing, [steps] * len(missing), "^", color=INK, markersize=6, label=f"later than {steps}")
    axes.set(xscale="log", ylim=(0, 1.25 * steps if missing else None))
    axes.set_xticks(found.sizes, [f"{n:,}" for n in found.sizes])
    axes.minorticks_off()
    axes.legend(fontsize=7)


def _terms(axes: Axes, found: Expansion) -> None:
    labels, shares, colours, signs = [], [], [], []
    for order in range(1, found.order + 1):
        for name, term in list(found.of_order(order).items())[:_SHOWN]:
            # An order that vanishes but for rounding has shares that mean nothing.
            if term.share > 0 and abs(term.value) > 1e-12:
                labels.append(f"{name}  (S$_{{{order}}}$)")
                shares.append(term.share)
                colours.append(COLOURS[order % len(COLOURS)])
                signs.append("+" if term.value > 0 else "−")
    at = np.arange(len(labels))[::-1]
    axes.barh(at, shares, color=colours, height=0.7)
    for y, share, sign in zip(at, shares, signs):
        axes.text(share + 0.01, y, f"{sign} {_percent(share)}", va="center", fontsize=7)
    axes.set_yticks(at, labels, fontsize=7)
    axes.set(xlim=(0, 1.2), xticks=np.linspace(0, 1, 6))
    axes.grid(axis="y", visible=False)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "< 0.1%"


def _along(axes: Axes, found: Convergence) -> None:
    low, high = float(found.loss.min()), float(found.loss.max())
    room = max(high - low, 1e-3)
    # Lines end where they leave the middle, so that the legend above is free.
    bottom, top = low - 0.6 * room, high + 0.3 * room
    orders = [n for n in (2, 4, 8, len(found.partial) - 1) if n < len(found.partial)]
    axes.plot(found.t, found.loss, label="loss", linewidth=2.4, **look(0))
    for i, n in enumerate(dict.fromkeys(orders)):
        sums = np.where(found.partial[n] < top, np.maximum(found.partial[n], bottom - 4 * room), np.nan)
        axes.plot(found.t, sums, label=f"to order {n}", linewidth=1.1, **_SUMS[i % len(_SUMS)])
    good = found.pade_error < 0.03 * room
    axes.plot(found.t[good], found.pade[good], ".", color=INK, markersize=5, label="Padé")
    if found.radius < found.t[-1]:
        at = [found.radius] * 2
        axes.plot(at, [bottom, top], color=INK, linewidth=1.0, linestyle=":", label=f"radius {found.radius:.3g}")
    axes.set_ylim(bottom, high + 1.1 * room)
    axes.legend(fontsize=7, ncols=2, loc="upper right")


def _elements(axes: Axes, found: Elements) -> None:
    for i, (name, of) in enumerate(found.of.items()):
        if of.spread == 0:
            continue
        middle = (of.edges[1:] + of.edges[:-1]) / 2 / of.spread
        density = of.histogram / of.size / np.diff(of.edges / of.spread)
        axes.plot(middle, np.where(density > 0, density, np.nan), label=name, linewidth=1.3, **look(i, i % 3))
    x = np.linspace(-6, 6, 201)
    axes.plot(x, np.exp(-x * x / 2) / np.sqrt(2 * np.pi), color=INK, linewidth=0.9, linestyle=":", label="Gaussian")
    axes.set(yscale="log", xlim=(-8, 8), ylim=(1e-5, 10))
    axes.legend(fontsize=7, ncols=2)


def _training(axes: Axes, first: np.ndarray, second: np.ndarray, best: int | None) -> None:
    axes.plot(first, label="training", **look(0))
    axes.plot(second, label="evaluation", **look(1, 1))
    if best is not None:
        axes.plot(
            [best], [second[best]], "o", color=COLOURS[1], markersize=5, label=f"least evaluation loss, at {best}"
        )
    _whole_steps(axes)
