"""What depth does to corrections of order 1/width."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from .. import _check
from .._public import public
from ..width.results import DepthFlow
from ._style import look, panel, styled

_RATIOS = {"V": r"$V/K^2$", "A": r"$A/\Theta^2$", "B": r"$B/\Theta^2$"}
_MEANINGS = {"V": "variance of the kernel", "A": "variance of the NTK", "B": "NTK across neurons"}
_MARKERS = "osD^v"


@styled
def depth_flow(found: DepthFlow) -> Figure:
    """V/K², A/Θ² and B/Θ² of one block against the number of blocks."""
    branches = ", branches of 1/√L" if found.scaled else ""
    figure, axes = panel(f"{found.block}{branches}", "blocks", "times 1/width: relative correction")
    for i, (name, label) in enumerate(_RATIOS.items()):
        _line(axes, found, name, label, i)
    _logarithmic(axes)
    axes.legend(fontsize=8)
    return figure


@public
@styled
def depth(flows: Mapping[str, DepthFlow], drawn: Mapping[str, Any] | None = None) -> Figure:
    """V/K², A/Θ² and B/Θ² against the number of blocks: theory as lines, drawn networks as points with their errors.

    Args:
        flows: of `neft.width.depth_flow`, by the names that the legend has.
        drawn: by the same names, or some of them, "depths" and for each of "V", "A" and "B" a pair of value and
            standard error for each depth; two standard errors are shown.

    >>> from neft import Dense, Residual, width
    >>> block = Residual(Dense(8), "relu", Dense(8), skip=0.8)
    >>> len(depth({"residual": width.depth_flow(block, 8)}).axes)
    3
    """
    for name, flow in flows.items():
        if not isinstance(flow, DepthFlow):
            raise ValueError(f"flows holds {_check.brief(flow)} for {name!r}, but must hold results of depth_flow.")
    if not flows:
        raise ValueError("flows is empty, but must hold results of depth_flow.")
    points = {} if drawn is None else {name: _points(name, one) for name, one in drawn.items() if name in flows}
    figure = Figure(figsize=(9.6, 3.3), layout="constrained")
    panels: Any = figure.subplots(1, 3)
    for axes, (ratio, label) in zip(panels, _RATIOS.items()):
        axes.set(title=f"{label}, {_MEANINGS[ratio]}", xlabel="blocks")
        for i, (name, flow) in enumerate(flows.items()):
            _line(axes, flow, ratio, name, i)
            if name in points:
                at, values = points[name]
                value, error = values[ratio].T
                # A logarithm has no place for what is not resolved from 0.
                seen = value > 2 * error
                marks = {"marker": _MARKERS[i % len(_MARKERS)], "markersize": 4, "capsize": 2, "elinewidth": 1}
                colour = look(i)["color"]
                axes.errorbar(at[seen], value[seen], yerr=2 * error[seen], linestyle="none", color=colour, **marks)
        _logarithmic(axes)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _points(name: str, given: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    try:
        at = np.asarray(given["depths"], float)
        values = {ratio: np.asarray(given[ratio], float).reshape(len(at), 2) for ratio in _RATIOS}
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(
            f'drawn holds {_check.brief(given)} for {name!r}, but must hold "depths" and pairs of value and error for '
            "V, A and B at each."
        ) from None
    return at, values


def _line(axes: Axes, flow: DepthFlow, ratio: str, label: str, i: int) -> None:
    values = getattr(flow, ratio)
    seen = values > 0
    axes.plot(flow.depth[seen], values[seen], label=label, **look(i, i))


def _logarithmic(axes: Axes) -> None:
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
