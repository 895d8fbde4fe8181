"""Pictures of training at finite width: one network, an ensemble, and how far kernels move."""

import numpy as np
from matplotlib.figure import Figure

from ..training.results import Evolution, FinitePrediction, Representation
from ._style import COLOURS, DASHES, INK, panel, styled

_MARKERS = "osD^v"


@styled
def representation(found: Representation) -> Figure:
    """How far kernels move against the width, and what each of their entries does, predicted and measured."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set(title=f"{found.activation}: |H* - H| / |H|", xlabel="width", xscale="log", yscale="log")
    right.set(title="entries of H* - H, average", xlabel="measured", ylabel="predicted, order 3")
    change, predicted = found.after - found.before, found.predicted - found.before
    for d, depth in enumerate(found.depths):
        colour, marker = COLOURS[d % len(COLOURS)], _MARKERS[d % len(_MARKERS)]
        label = f"{depth} layers"
        look = {"color": colour, "marker": marker, "markersize": 4, "linestyle": "none"}
        left.errorbar(found.widths, found.moved[d], 2 * found.stderr[d], label=f"{label}, trained", capsize=2, **look)
        left.plot(found.widths, found.moved_3[d], color=colour, linestyle=DASHES[0], linewidth=1.2)
        left.plot(found.widths, found.moved_2[d], color=colour, linestyle=DASHES[2], linewidth=1.2)
        right.plot(change[d].ravel(), predicted[d].ravel(), label=label, **look)
    left.plot([], [], color=INK, linestyle=DASHES[0], linewidth=1.2, label="order 3")
    left.plot([], [], color=INK, linestyle=DASHES[2], linewidth=1.2, label="order 2")
    left.set_xticks(found.widths, [str(n) for n in found.widths])
    left.minorticks_off()
    limits = [min(change.min(), predicted.min(), 0.0), max(change.max(), predicted.max())]
    right.plot(limits, limits, color=INK, linewidth=0.7)
    for axes in (left, right):
        axes.legend(fontsize=8)
    return figure


@styled
def evolution(found: Evolution) -> Figure:
    """The kernel over all inputs before training and what training changes in it, averages over the outputs."""
    H, star = (np.einsum("...abii->...ab", kernel) / found.H.shape[-1] for kernel in (found.H, found.H_star))
    star = star.reshape(-1, *H.shape)[-1]
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    moved = float(np.ravel(found.moved)[-1])
    titles = ("H before training", f"H* - H at order {found.truncation}: moved {moved:.2%}")
    for axes, values, title in zip(figure.subplots(1, 2), (H, star - H), titles):
        limit = np.abs(values).max() or 1.0
        image = axes.imshow(values, cmap="PuOr", vmin=-limit, vmax=limit)
        axes.set(title=title, xlabel="input", ylabel="input")
        axes.grid(False)
        figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


@styled
def contributions(found: FinitePrediction) -> Figure:
    """What the mean of the first output owes to each part of the correction, test input by test input."""
    figure, axes = panel(f"first output, width {found.width}", "test input", "correction of the mean")
    place = np.arange(1, found.mean.shape[-2] + 1)
    for i, (name, part) in enumerate(found.mean_parts.items()):
        last = part.reshape(-1, *found.mean.shape[-2:])[-1, :, 0]
        if np.any(last):
            axes.plot(place, last, label=name, color=COLOURS[i % len(COLOURS)], marker=_MARKERS[i], linestyle="none")
    total = (found.mean - found.infinite_mean).reshape(-1, *found.mean.shape[-2:])[-1, :, 0]
    axes.plot(place, total, label="all", color=INK, marker="_", markersize=14, linestyle="none")
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xticks(place if len(place) <= 12 else place[:: len(place) // 10])
    axes.legend(fontsize=8)
    return figure
