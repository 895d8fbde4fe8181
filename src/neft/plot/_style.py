"""One look for all pictures, readable on white and on black, and without colour."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

P = ParamSpec("P")

INK = "#333333"
"""Lines and letters that are not data. The page replaces it by the colour of its text."""

# Okabe and Ito's colours with a contrast of at least 3 both to white and to black, and a violet that has it too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F62C8")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
"""Lines differ in dash as well as in colour, for those who do not see the colour."""

RC: dict[Any, Any] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
}


@contextlib.contextmanager
def settings(more: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """The settings above, `more`, and no others, for as long as the block lasts.

    The user's own settings and style sheets must not change what a result looks like.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**RC, **(more or {})})
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """The drawing function, run with the settings above."""

    @functools.wraps(draw)
    def run(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with settings():
            return draw(*args, **kwargs)

    return run


def panel(title: str, x: str, y: str, *, size: tuple[float, float] = (4.4, 3.0)) -> tuple[Figure, Axes]:
    """A figure of one panel with its labels."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=x, ylabel=y)
    return figure, axes


def panels(*labels: tuple[str, str]) -> tuple[Figure, list[Axes]]:
    """A figure of panels side by side, each with the labels of its axes."""
    figure = Figure(figsize=(3.6 * len(labels), 3.0), layout="constrained")
    axes = [figure.add_subplot(1, len(labels), i + 1, xlabel=x, ylabel=y) for i, (x, y) in enumerate(labels)]
    return figure, axes


def look(colour: int, dash: int = 0) -> dict[str, Any]:
    """Colour and dash of a line, by their numbers."""
    return {"color": COLOURS[colour % len(COLOURS)], "linestyle": DASHES[dash % len(DASHES)]}
