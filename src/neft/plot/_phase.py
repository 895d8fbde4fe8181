"""Criticality: the two susceptibilities of an activation, and its phase diagram."""

from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ..width.results import Criticality, CriticalPoint, PhaseDiagram
from ._style import INK, look, panel, styled

_DEEPEST = 1e3  # layers; a larger ξ is drawn as this one
_SHALLOWEST = 0.3
_TEXT: dict[str, Any] = {
    "color": "black",
    "path_effects": [patheffects.withStroke(linewidth=2.5, foreground="white")],
}
_POINT: dict[str, Any] = {"marker": "*", "s": 130, "color": "#D55E00", "edgecolors": "black", "linewidths": 0.8}


@styled
def critical(found: Criticality, *, size: tuple[float, float] = (4.4, 3.0)) -> Figure:
    """The C_W that makes χ_⊥ = 1 and the one that makes χ_∥ = 1, against K: critical is where the curves meet.

    Of a block χ_⊥ and χ_∥ themselves at its best point: critical is where both are 1.
    """
    if not found.K.size:
        raise ValueError(f"{found.activation!r} has no susceptibilities, so there is no picture of them.")
    if found.dense is not None:
        return _of_block(found, size)
    figure, axes = panel(f"Criticality of {found.activation}", "K", "$C_W$", size=size)
    axes.set(xscale="log", ylim=_window(found))
    for i, (chi, label) in enumerate(((found.perpendicular, r"$\chi_\perp = 1$"), (found.parallel, r"$\chi_\| = 1$"))):
        axes.plot(found.K, _inverse(chi), label=label, **look(2 * i, i))
    for point in found.points:
        if point.K_star is not None:
            # On a logarithmic axis 0 is infinitely far: its point is drawn on the left edge.
            at = max(point.K_star, float(found.K[0])), point.C_W
            axes.scatter(*([value] for value in at), zorder=5, clip_on=False, **_POINT)
            _name(axes, point, at, right=True)
    axes.margins(x=0)
    axes.legend()
    return figure


def _of_block(found: Criticality, size: tuple[float, float]) -> Figure:
    best = found.points[0] if found.points else None
    at = f"$C_b = {best.C_b if best else 0:.4g}$, $C_W = {best.C_W if best else 1:.4g}$"
    figure, axes = panel(f"{found.activation}\n{at}", "K", "susceptibility", size=size)
    axes.set(xscale="log")
    axes.axhline(1, color=INK, linewidth=0.8)
    for i, (chi, label) in enumerate(((found.perpendicular, r"$\chi_\perp$"), (found.parallel, r"$\chi_\|$"))):
        axes.plot(found.K, chi, label=label, **look(2 * i, i))
    both = np.concatenate([found.perpendicular, found.parallel])
    middle = both[np.isfinite(both)]
    # Norms make χ_⊥ as large as 1/K at small K: what matters is near 1.
    low, high = (float(end) for end in (middle.min(), middle.max())) if middle.size else (0.0, 2.0)
    axes.set_ylim(max(low, -1.0) - 0.1, min(high, 3.0) + 0.1)
    if best is not None and best.K_star is not None:
        place = max(best.K_star, float(found.K[0])), 1.0
        axes.scatter(*([value] for value in place), zorder=5, clip_on=False, **_POINT)
        _name(axes, best, place, right=True)
    axes.margins(x=0)
    axes.legend()
    return figure


def _inverse(chi: np.ndarray) -> np.ndarray:
    # No C_W makes the susceptibility 1 where it is negative or 0.
    return np.where(chi > 0, 1 / np.where(chi > 0, chi, 1.0), np.nan)


def _window(found: Criticality) -> tuple[float, float]:
    # The curves can run through many decades: what matters is near the points, or near the lowest C_W.
    values = np.concatenate([_inverse(found.perpendicular), _inverse(found.parallel)])
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low = float(values.min())
    high = max([point.C_W for point in found.points], default=2 * low)
    return 0.7 * low, max(1.3 * low, min(1.1 * float(values.max()), 2 * high))


@styled
def phase(diagram: PhaseDiagram, *, size: tuple[float, float] = (4.8, 3.4)) -> Figure:
    """The depth scale ξ_⊥ in (C_W, C_b), with the names of the phases, the line χ_⊥ = 1 and the critical points."""
    if min(diagram.phase.shape) < 2:
        raise ValueError(
            f"a phase diagram of shape {diagram.phase.shape} has no picture: it needs two of each variance."
        )
    figure, axes = panel(f"Phases of {diagram.activation}", "$C_W$", "$C_b$", size=size)
    axes.grid(False)
    lost = diagram.phase >= diagram.phases.index("diverging")
    xi = np.clip(diagram.xi_perpendicular, _SHALLOWEST, _DEEPEST)
    norm = LogNorm(_SHALLOWEST, _DEEPEST)
    # Light where a signal goes deep: cividis keeps its order without colour, and for the colourblind.
    mesh = axes.pcolormesh(
        diagram.C_W, diagram.C_b, np.ma.array(xi, mask=lost), norm=norm, cmap="cividis", rasterized=True
    )
    bar = figure.colorbar(mesh, ax=axes, extend="max")
    bar.set_label(r"depth scale $\xi_\perp$ (layers)")
    bar.outline.set_visible(False)  # type: ignore[operator]
    _areas(axes, diagram, lost)
    _points(axes, diagram)
    return figure


def _areas(axes: Axes, diagram: PhaseDiagram, lost: np.ndarray) -> None:
    grid = diagram.C_W, diagram.C_b
    if lost.any():
        hatched = axes.contourf(*grid, lost.astype(float), levels=[0.5, 1.5], colors="none", hatches=["//"])
        hatched.set_edgecolor(INK)
        hatched.set_linewidth(0.0)
    if lost.any() and not lost.all():
        axes.contour(*grid, lost.astype(float), levels=[0.5], colors=INK, linewidths=0.8)
    if min(diagram.share("ordered"), diagram.share("chaotic")) > 0.01:
        chi = np.ma.array(diagram.perpendicular, mask=lost)
        line = axes.contour(*grid, chi, levels=[1.0], colors="white", linewidths=1.6)
        line.set_path_effects([patheffects.withStroke(linewidth=3.0, foreground="black")])
    for code, name in enumerate(diagram.phases):
        for rotation, extent in ((0, (0.08, 0.22)), (90, (0.25, 0.07))):
            place = _place(diagram.phase == code, extent)
            if place:
                at = diagram.C_W[place[1]], diagram.C_b[place[0]]
                axes.text(*at, name, rotation=rotation, ha="center", va="center", fontsize=10, **_TEXT)
                break


def _place(inside: np.ndarray, extent: tuple[float, float]) -> tuple[int, int] | None:
    """Row and column of where a text of this height and width (as parts of the axes) fits best, if it fits."""
    from scipy.ndimage import distance_transform_edt

    # Distances to the edge of the area, in units of the text.
    sampling = [1 / (count * size) for count, size in zip(inside.shape, extent)]
    distance = np.asarray(distance_transform_edt(np.pad(inside, 1), sampling=sampling))[1:-1, 1:-1]
    row, column = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return (int(row), int(column)) if distance[row, column] > 0.5 else None


def _points(axes: Axes, diagram: PhaseDiagram) -> None:
    # On the right a name would run into the bar.
    turn = float(diagram.C_W[0] + 3 * diagram.C_W[-1]) / 4
    for point in diagram.points:
        if _within(diagram.C_W, point.C_W) and _within(diagram.C_b, point.C_b):
            axes.scatter([point.C_W], [point.C_b], zorder=5, clip_on=False, **_POINT)
            _name(axes, point, (point.C_W, point.C_b), right=turn > point.C_W)


def _name(axes: Axes, point: CriticalPoint, at: tuple[float, float], *, right: bool) -> None:
    text = "every $K$" if point.K_star is None else f"$K^* = {point.K_star:.3g}$"
    side: dict[str, Any] = {"xytext": (6, 7)} if right else {"xytext": (-6, 7), "ha": "right"}
    axes.annotate(text, at, textcoords="offset points", fontsize=8, zorder=6, **side, **_TEXT)


def _within(axis: np.ndarray, value: float) -> bool:
    return bool(axis[0] <= value <= axis[-1])
