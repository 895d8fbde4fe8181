"""Scaling: sizes against width, and partial Jacobian norms against depth."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..scaling.results import CoordinateCheck, PartialJacobians
from ._style import INK, look, styled


@styled
def coordinates(found: CoordinateCheck) -> Figure:
    """Left sizes of layers before training, right what the first step does to each by its own parameters."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    figure.suptitle(
        "All layers learn alike at all widths" if found.right else "Not all layers learn alike", fontsize=10
    )
    left, right = figure.subplots(1, 2)
    for axes, values, title in (
        (left, found.sizes[..., 0], "Size" if found.expected is None else "Size; dotted at infinite width"),
        (right, found.own[..., 1], "Own change, one step"),
    ):
        for i, name in enumerate(found.names):
            log = np.log(np.maximum(values[i], 1e-300))
            mean, error = np.exp(log.mean(1)), log.std(1, ddof=1) / np.sqrt(log.shape[1])
            axes.errorbar(found.widths, mean, mean * error, label=name, marker="o", markersize=4, **look(i, i))
            if found.expected is not None and axes is left:
                axes.plot(found.widths, found.expected[i], color=look(i, i)["color"], linewidth=0.9, linestyle=":")
        axes.set(title=title, xlabel="width", ylabel="root mean square", xscale="log", yscale="log")
        axes.set_xticks(found.widths, [str(n) for n in found.widths])
        axes.minorticks_off()
    right.legend(fontsize=8)
    return figure


@styled
def jacobians(found: PartialJacobians) -> Figure:
    """The norm of the Jacobian of the last layer with respect to each."""
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    axes = figure.subplots()
    layer = np.arange(1, len(found.norms) + 1)
    axes.errorbar(layer, found.norms, found.errors, marker="o", markersize=4, **look(0, 0))
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set(title=f"Partial Jacobian norms: {found.verdict}", xlabel="layer", ylabel="J to the last", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return figure
