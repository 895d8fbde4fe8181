"""A phase diagram with a network on it."""

from typing import Any

from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from .._public import public
from ..width.results import PhaseDiagram
from ._phase import phase
from ._style import styled

_MARK: dict[str, Any] = {"marker": "D", "s": 70, "color": "white", "edgecolors": "black", "linewidths": 1.6}


@public
@styled
def placed(diagram: PhaseDiagram, *, C_b: float, C_W: float) -> Figure:
    """The picture of `phase`, without any pixels, and the network of these variances as a diamond."""
    figure = phase(diagram)
    axes, bar = figure.axes[:2]
    axes.set(xlabel="C_W, variance of a weight times its fan-in", ylabel="C_b, variance of a bias")
    bar.set_ylabel("depth scale ξ⊥ / layers")
    for mesh in (*axes.collections, *bar.collections):
        mesh.set_rasterized(False)
        if isinstance(mesh, QuadMesh):
            # Edges of their own colour close the seams that browsers leave between cells.
            mesh.set(edgecolor="face", linewidth=0.6, antialiased=True)
    axes.scatter([C_W], [C_b], zorder=7, clip_on=False, label="this network", **_MARK)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), borderaxespad=0.0, fontsize=8)
    return figure
