"""What statistics mean: the relative size of each correction, and the nearly-Gaussian density of an output."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..width.results import Density, Interpretation
from ._style import INK, look, panel, styled

_SHOWN = {
    "V": "$V/nK^2$",
    "A": r"$A/n\Theta^2$",
    "B": r"$B/n\Theta^2$",
    "D": r"$D/nK\Theta$",
    "F": r"$F/nK\Theta$",
    "K1": "$|K_1|/nK$",
    "Theta1": r"$|\Theta_1|/n\Theta$",
}


@styled
def interpretation(found: Interpretation) -> Figure:
    """Left the size of each correction, layer by layer; right the density of an output."""
    figure = Figure(figsize=(8.6, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    _sizes(left, found)
    _density(right, found.density)
    return figure


@styled
def density(found: Density, *, size: tuple[float, float] = (4.4, 3.0)) -> Figure:
    """The density of a neuron over the Gaussian of infinite width; grey where the expansion is not trusted."""
    figure, axes = panel("", "", "", size=size)
    _density(axes, found)
    return figure


def _sizes(axes: Axes, found: Interpretation) -> None:
    widths = found.widths
    short = "-".join(map(str, widths)) if len(widths) <= 6 else f"{widths[0]}-{widths[1]}-…-{widths[-1]}"
    axes.set(title=f"{found.activation}, {short}", xlabel="layer", ylabel="relative size", yscale="log")
    layer = np.arange(1, len(found.strength) + 1)
    shown = 0
    for i, (name, label) in enumerate(_SHOWN.items()):
        values = found.sizes[name]
        if values is None or not (seen := np.abs(values) > 1e-15).any():
            continue
        marks = {"marker": "osD^v<>"[i], "markersize": 3.5, "linewidth": 1.3, "markevery": max(1, len(layer) // 12)}
        axes.plot(layer[seen], np.abs(values[seen]), label=label, **look(i, i // 4), **marks)
        shown += 1
    if not shown:
        axes.set_yscale("linear")
        axes.text(0.5, 0.5, "every correction is 0", transform=axes.transAxes, ha="center", color=INK)
        return
    axes.axhline(found.limit, color=INK, linewidth=0.8)
    if found.cutoff is not None and found.cutoff <= len(layer):
        axes.axvline(found.cutoff, color=INK, linewidth=0.8, linestyle=":")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.03), borderaxespad=0.2)


def _density(axes: Axes, found: Density) -> None:
    axes.set(title=f"A neuron of layer {found.layer} over networks", xlabel="z", ylabel="density")
    axes.plot(found.z, found.gaussian, label="infinite width", **look(1, 1))
    axes.plot(found.z, found.density, label="order 1/width", **look(0))
    limits = float(found.z.min()), float(found.z.max())
    label = "not trusted"
    for low, high in ((limits[0], -found.reach), (found.reach, limits[1])):
        if low < high:
            axes.axvspan(max(low, limits[0]), min(high, limits[1]), color=INK, alpha=0.12, linewidth=0, label=label)
            label = "_"
    if not found.positive:
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.margins(x=0)
    axes.legend(fontsize=8)
