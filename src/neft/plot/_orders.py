"""How far predictions of trained networks are off, against the width, order by order."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ._style import look, panel, styled


@styled
def orders(
    widths: Sequence[int], errors: Float[np.ndarray, "orders widths"], stderr: Float[np.ndarray, "orders widths"]
) -> Figure:
    """The error of each order of the hierarchy with two standard errors, on logarithmic axes."""
    figure, axes = panel("Trained minus predicted", "width n", "rms error of an output")
    axes.set(xscale="log", yscale="log")
    for i, (values, error) in enumerate(zip(errors, stderr)):
        # On a logarithmic axis a bar must not reach down to 0.
        bars = np.stack([np.minimum(2 * error, 0.9 * values), 2 * error])
        style = {"marker": "osD"[i % 3], "markersize": 4.5, "capsize": 3, "linewidth": 1.4, **look(i, i)}
        axes.errorbar(widths, values, bars, label=f"order {i + 1}", **style)
    axes.set_xticks(widths, [str(n) for n in widths])
    axes.minorticks_off()
    axes.margins(x=0.1)
    axes.legend(fontsize=8)
    return figure
