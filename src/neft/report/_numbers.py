"""What a picture shows, as a table: the same curves and points, at a few places."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from ._tables import Table

_ROWS = 9


def numbers(drawing: Figure) -> tuple[Table, ...]:
    """One table for each panel that has curves or points with names; ± is one standard error."""
    return tuple(found for axes in drawing.axes if (found := _panel(axes)) is not None)


def _panel(axes: Axes) -> Table | None:
    points = {str(c.get_label()): _with_errors(c) for c in axes.containers if isinstance(c, ErrorbarContainer)}
    inside = {id(line) for c in axes.containers if isinstance(c, ErrorbarContainer) for line in _lines(c)}
    curves: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for line in axes.lines:
        name, x = str(line.get_label()), np.asarray(line.get_xdata(), float)
        if id(line) not in inside and not name.startswith("_") and len(x) > 1 and np.ptp(x) > 0:
            curves[name] = (x, np.asarray(line.get_ydata(), float))
    every = {name: x for name, (x, *_) in {**curves, **points}.items() if len(x)}
    if not every:
        return None
    # Where there are points, a curve is read at theirs.
    at = _few(np.concatenate([points[name][0] for name in points if len(points[name][0])] or list(every.values())))
    rows = []
    for x in at:
        cells = [_along(*curve, x) for curve in curves.values()]
        cells += [_at(*point, x) for point in points.values()]
        rows.append((_said(x), *cells))
    title = axes.get_title() or axes.get_ylabel() or "Numbers"
    names = [name.replace("$", "") for name in (*curves, *points)]
    label = axes.get_xlabel() or "at"
    return Table(title=" ".join(title.split()), columns=(label, *names), rows=tuple(rows))


def _lines(container: ErrorbarContainer) -> list[Any]:
    line, caps, _ = container.lines
    return [line, *caps]


def _with_errors(container: ErrorbarContainer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    line, _, bars = container.lines
    x, y = (np.asarray(values, float) for values in line.get_data())
    error = np.zeros(len(y))
    if bars:
        # Bars of all pictures are two standard errors long on each side.
        error = np.array([(segment[1][1] - y[i]) / 2 for i, segment in enumerate(bars[0].get_segments())])
    return x, y, error


def _few(x: np.ndarray) -> np.ndarray:
    x = np.unique(x[np.isfinite(x)])
    return x if len(x) <= _ROWS else x[np.unique(np.linspace(0, len(x) - 1, _ROWS).round().astype(int))]


def _along(x: np.ndarray, y: np.ndarray, at: float) -> str:
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    return _said(np.interp(at, x, y)) if x[0] <= at <= x[-1] else "-"


def _at(x: np.ndarray, y: np.ndarray, error: np.ndarray, at: float) -> str:
    places = np.flatnonzero(np.isclose(x, at))
    if not len(places):
        return "-"
    i = int(places[0])
    return f"{_said(y[i])} ± {error[i]:.1g}" if error[i] > 0 else _said(y[i])


def _said(value: Any) -> str:
    return "-" if not np.isfinite(value) else f"{float(value):.3g}"
