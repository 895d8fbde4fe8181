"""Advice: how large signals are in each layer, and how deep networks of this width may be."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..width.results import Advice, BlockAdvice
from ._style import INK, look, styled


@styled
def advice(found: Advice) -> Figure:
    """Left the variance of a preactivation by layer; right the spread over networks against depth."""
    figure = Figure(figsize=(9.2, 3.2), layout="constrained")
    figure.suptitle(
        f"{found.activation}, depth {found.depth}, width {found.width}:  "
        f"$C_b = {found.C_b:.4g}$, $C_W = {found.C_W:.4g}$, {found.verdict}",
        fontsize=10,
        color=INK,
    )
    left, right = figure.subplots(1, 2)
    _variances(left, found)
    _spreads(right, found)
    return figure


@styled
def block_advice(found: BlockAdvice) -> Figure:
    """The variance through the blocks, the two susceptibilities of each, and the strength of corrections with depth."""
    verdict = "finite width not known" if found.verdict == "not known" else found.verdict
    known = len(found.curve_strength) > 1
    figure = Figure(figsize=(11.0 if known else 9.2, 3.2), layout="constrained")
    figure.suptitle(
        f"{found.activation}, depth {found.depth}, width {found.width}:  "
        f"$C_b = {found.C_b:.4g}$, $C_W = {found.C_W:.4g}$, {verdict}",
        fontsize=10,
        color=INK,
    )
    left, right, *rest = figure.subplots(1, 3 if known else 2)
    left.set(title="Variance of a preactivation", xlabel="blocks passed", ylabel="K")
    right.set(title="Susceptibilities", xlabel="block", ylabel="χ")
    marks = {"markersize": 4, "markevery": max(1, found.depth // 12)}
    left.plot(np.arange(len(found.K)), found.K, marker="o", **marks, **look(0, 0))
    left.set_ylim(0, 1.08 * float(found.K.max()))
    right.axhline(1, color=INK, linewidth=0.8)
    block = np.arange(1, len(found.parallel) + 1)
    for i, (chi, label) in enumerate(((found.perpendicular, r"$\chi_\perp$"), (found.parallel, r"$\chi_\|$"))):
        right.plot(block, chi, label=label, marker="os"[i], **marks, **look(2 * i, i))
    right.legend()
    for axes in rest:
        axes.set(title=f"Width {found.width}", xlabel="depth", ylabel="largest relative correction", yscale="log")
        axes.axhline(1, color=INK, linewidth=0.8, label="the expansion ends")
        axes.axhline(0.1, linewidth=0.8, color=INK, linestyle=":", label="fine below")
        axes.plot(np.arange(len(found.curve_strength)) + 3, found.curve_strength, **look(2, 0))
        axes.axvline(found.depth, **look(1, 2), linewidth=1.4, label=f"depth {found.depth}")
        axes.legend(fontsize=8)
    for axes in (left, right, *rest):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return figure


def _variances(axes: Axes, found: Advice) -> None:
    axes.set(title="Variance of a preactivation", xlabel="layer", ylabel="K", xlim=(0.5, found.depth + 0.5))
    marks = {"markersize": 4, "markevery": max(1, found.depth // 12)}
    axes.plot(np.arange(1, found.depth + 1), found.K, marker="o", **marks, **look(0, 0))
    if found.K.max() > 100 * found.K.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.08 * float(found.K.max()))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _spreads(axes: Axes, found: Advice) -> None:
    axes.set(title=f"Spread over networks of width {found.width}", xlabel="depth", ylabel="relative standard deviation")
    axes.set(xscale="log", yscale="log")
    depth = found.curve_depth
    axes.axhline(1, color=INK, linewidth=0.8, label="as large as the mean")
    for i, (values, label) in enumerate(((found.curve_output, "variance of the output"), (found.curve_ntk, "NTK"))):
        # A single layer has no spread, which a logarithm cannot show.
        seen = values > 0
        axes.plot(depth[seen], values[seen], label=label, **look(2 * i, i))
    axes.axvline(found.depth, **look(1, 2), linewidth=1.4, label=f"depth {found.depth}")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.1), max(high, 1.6))
    for axis, text in (
        (axes.yaxis, lambda value, _: f"{100 * value:g} %"),
        (axes.xaxis, lambda value, _: f"{value:g}"),
    ):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(text))
        axis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.03), borderaxespad=0.2)
