"""How far predictions of trained networks are off, against the width, order by order."""

import numpy as np
from matplotlib.figure import Figure

from ..training.results import Orders
from ._style import INK, look, panel, styled


@styled
def orders(found: Orders) -> Figure:
    """The error of each order of the hierarchy with two standard errors, on logarithmic axes."""
    figure, axes = panel("Trained minus predicted", "width n", "rms error of an output")
    axes.set(xscale="log", yscale="log")
    for i, (values, error) in enumerate(zip(found.rms, found.stderr)):
        # On a logarithmic axis a bar must not reach down to 0.
        bars = np.stack([np.minimum(2 * error, 0.9 * values), 2 * error])
        style = {"marker": "osD"[i % 3], "markersize": 4.5, "capsize": 3, "linewidth": 1.4, **look(i, i)}
        axes.errorbar(found.widths, values, bars, label=f"order {i + 1}", **style)
    if len(found.widths) > 1:
        # What theory says of large widths, amid the points of orders 1 and 3.
        n = np.array(found.widths, float)
        for values, power in ((found.rms[0], 1), (found.rms[2], 2)):
            height = np.exp(np.mean(np.log(values * n**power)))
            axes.plot(n, height * n**-power, color=INK, linewidth=0.7, linestyle=":", zorder=0)
        axes.plot([], [], color=INK, linewidth=0.7, linestyle=":", label="1/n and 1/n²")
    axes.set_xticks(found.widths, [str(n) for n in found.widths])
    axes.minorticks_off()
    axes.margins(x=0.1)
    axes.legend(fontsize=8)
    return figure
