"""Pictures of the width expansion."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..width.results import Comparison, Statistics
from ._style import COLOURS, panel, styled

_MARKERS = "osD^v<>ph*X"


@styled
def flow(stats: Statistics) -> Figure:
    """The size of each finite-width correction relative to infinite width, layer by layer; correlations of several."""
    if stats.K.ndim > 1:
        return _correlations(stats)
    figure, axes = panel(f"{stats.activation}, widths {_short(stats.widths)}", "layer", "relative size")
    n = np.array(stats.widths[:-1], float)
    K, Theta = stats.K, stats.tensors["Theta"]
    curves = {"V / nK²": (stats.V, K**2)}
    if Theta is not None:
        curves |= {
            "A / nΘ²": (stats.A, Theta**2),
            "B / nΘ²": (stats.B, Theta**2),
            "D / nKΘ": (stats.D, K * Theta),
            "F / nKΘ": (stats.F, K * Theta),
        }
    layer = np.arange(1, len(n) + 1)
    for i, (label, (value, scale)) in enumerate(curves.items()):
        # More curves than colours: the second round is dashed.
        look = {"marker": _MARKERS[i], "markersize": 3, "color": COLOURS[i % len(COLOURS)]}
        look["linestyle"] = "-" if i < len(COLOURS) else "--"
        axes.plot(layer, value / (n * scale), label=label, **look)
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return figure


def _correlations(stats: Statistics) -> Figure:
    figure, axes = panel(f"{stats.activation}, widths {_short(stats.widths)}", "layer", "correlation of two inputs")
    layer = np.arange(1, len(stats.K) + 1)
    n = np.array(stats.widths[:-1], float)[:, None, None]
    curves = {"infinite width": stats.K}
    if stats.tensors.get("K1") is not None:
        curves["with K1/n"] = stats.K + stats.K1 / n
    pairs, lowest = [(a, b) for b in range(stats.K.shape[1]) for a in range(b)][:6], 0.0
    for style, (label, K) in zip(("-", "--"), curves.items()):
        for i, (a, b) in enumerate(pairs):
            rho = K[:, a, b] / np.sqrt(K[:, a, a] * K[:, b, b])
            look = {"marker": _MARKERS[i], "markersize": 3, "color": COLOURS[i % len(COLOURS)], "linestyle": style}
            axes.plot(layer, rho, label=f"inputs {a + 1} and {b + 1}, {label}", **look)
            lowest = min(lowest, float(rho.min()))
    axes.set_ylim(lowest - 0.05, 1.05)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return figure


@styled
def scores(found: Comparison) -> Figure:
    """The z-score of every tensor, one mark per layer, with the band that five standard errors leave.

    At the network's own width, in place of z-scores, differences with their errors and what the theory leaves out.
    """
    simulated = ", ".join(map(_short, found.simulated))
    title = f"{found.activation}, theory of {_short(found.widths)}\nsimulated: {simulated}"
    if found.next_order is not None:
        return _differences(found, found.next_order, title)
    figure, axes = panel(title, "tensor", "z-score")
    names = list(found.z)
    depth = len(found.widths) - 1
    for l in range(1, depth):
        place = 0.6 * ((l - 0.5) / (depth - 1) - 0.5)
        entries = [np.ravel(found.z[name][l]) for name in names]
        at = np.concatenate([np.full(len(values), i + place) for i, values in enumerate(entries)])
        z = np.concatenate(entries)
        look = {"marker": _MARKERS[l % len(_MARKERS)], "markersize": 4, "color": COLOURS[(l - 1) % len(COLOURS)]}
        axes.plot(at, z, linestyle="none", label=f"layer {l + 1}", **look)
    axes.axhspan(-5, 5, color="0.5", alpha=0.12, linewidth=0)
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.set_xticks(range(len(names)), _letters(names))
    limit = max(6.0, 1.1 * min(found.worst, 50.0))
    axes.set_ylim(-limit, limit)
    axes.legend(fontsize=8, ncols=min(4, max(1, depth - 1)), loc="upper left")
    return figure


def _differences(found: Comparison, next_order: dict[str, np.ndarray], title: str) -> Figure:
    figure, axes = panel(f"{title} (not extrapolated)", "tensor", "(simulation - theory) / theory")
    names, depth = list(found.z), len(found.widths) - 1
    for l in range(1, depth):
        place = 0.6 * ((l - 0.5) / (depth - 1) - 0.5)
        shown = []
        for i, name in enumerate(names):
            # Of several inputs, the largest entry.
            entry = np.unravel_index(np.argmax(np.abs(found.theory[name][l])), found.theory[name][l].shape)
            tables = (found.theory, found.simulation, found.stderr, next_order)
            theory, mean, error, beyond = (float(table[name][l][entry]) for table in tables)
            if theory:
                size = abs(theory)
                shown.append((i + place, (mean - theory) / size, error / size, beyond / size))
        if not shown:
            continue
        at, y, error, beyond = np.array(shown).T
        colour = COLOURS[(l - 1) % len(COLOURS)]
        axes.bar(at, 2 * beyond, width=0.5 / depth, bottom=-beyond, color=colour, alpha=0.2, linewidth=0)
        look = {"marker": _MARKERS[l % len(_MARKERS)], "markersize": 4, "color": colour, "capsize": 2}
        axes.errorbar(at, y, yerr=error, linestyle="none", label=f"layer {l + 1}", **look)
    axes.axhline(0, color="0.5", linewidth=0.6)
    axes.set_xticks(range(len(names)), _letters(names))
    axes.legend(fontsize=8, ncols=min(4, max(1, depth - 1)), loc="upper left", title="shaded: about the next order")
    return figure


def _letters(names: list[str]) -> list[str]:
    return ["Θ" if n == "Theta" else "Θ1" if n == "Theta1" else n for n in names]


def _short(widths: tuple[int, ...]) -> str:
    return "-".join(map(str, widths)) if len(widths) <= 6 else f"{widths[0]}-{widths[1]}-…-{widths[-1]}"
