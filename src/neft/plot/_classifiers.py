"""How well classifiers answer against their width, theory beside trained networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from .. import _check
from .._public import public
from ._style import COLOURS, INK, styled

_SHOWN = {
    "accuracy": "share of right answers",
    "overconfidence": "confidence - right answers",
    "nll": "-ln p of the right class",
}


@public
@styled
def classifiers(kept: Mapping[str, Any]) -> Figure:
    """Right answers, calibration and -ln p of classifiers against the width of their hidden layers.

    Above are the values, below n times what width n changes, which is flat where order 1/n is all there is. Lines are
    infinite width plus what theory says of order 1/n, with two standard errors as a band, and points with two standard
    errors are trained networks. A calibrated classifier is as sure as it is right.

    Args:
        kept: what `tools/classify_widths.py` keeps of a training: "observed", the names of the columns; "infinite",
            means and standard errors at infinite width; "theory" with "times n", means and standard errors of n times
            the change at width n for n → ∞; and "simulation" with "changes", means and standard errors of the change
            by width.

    >>> row = [[0.8, 0.1, 0.5], [0.01, 0.01, 0.01]]
    >>> names = ["accuracy", "overconfidence", "nll"]
    >>> found = {"infinite": row, "theory": {"times n": row}, "simulation": {"changes": {"64": row}}}
    >>> len(classifiers({"observed": names} | found).axes)
    6
    """
    names, infinite, part, widths, changes = _checked(kept)
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    panels: Any = figure.subplots(2, len(_SHOWN), sharex=True)
    n = np.geomspace(widths[0] / 1.2, widths[-1] * 1.2, 100)
    marks = {"marker": "o", "markersize": 4, "capsize": 2, "linestyle": "none", "color": COLOURS[1]}
    for (upper, lower), (name, label) in zip(panels.T, _SHOWN.items()):
        which = names.index(name)
        wide, theory, (change, noise) = infinite[0, which], part[:, which], changes[:, :, which].T
        # Above the values themselves, below n times their change, which order 1/n leaves flat.
        upper.axhline(wide, color=INK, linewidth=0.9, linestyle=":", label="infinite width")
        for axes, start, power in ((upper, wide, -1.0), (lower, 0.0, 0.0)):
            middle, low, high = (start + (theory[0] + k * theory[1]) * n**power for k in (0, -2, 2))
            axes.plot(n, middle, color=COLOURS[0], label="theory, order 1/n")
            axes.fill_between(n, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
        upper.errorbar(widths, wide + change, 2 * noise, label="trained networks", **marks)
        lower.errorbar(widths, widths * change, 2 * widths * noise, **marks)
        _bounded(upper, [*(wide + change), wide])
        _bounded(lower, [*(widths * (change + 2 * noise)), *(widths * (change - 2 * noise)), theory[0], 0.0])
        upper.set_title(label)
        lower.set(xlabel="width n of the hidden layer", xscale="log")
        lower.set_xticks(widths)
        lower.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
        lower.xaxis.set_minor_formatter(NullFormatter())
    panels[1, 0].set_ylabel("n times the change")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _bounded(axes: Axes, seen: list[float]) -> None:
    # By what was measured: theory leaves the picture where it is wrong.
    room = 0.1 * float(np.ptp(seen))
    axes.set_ylim(min(seen) - room, max(seen) + room)


def _checked(kept: Mapping[str, Any]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    try:
        names = list(kept["observed"])
        size = (2, len(names))
        infinite, part = (np.asarray(one, float) for one in (kept["infinite"], kept["theory"]["times n"]))
        changes = {int(n): np.asarray(values, float) for n, values in kept["simulation"]["changes"].items()}
        missing = [name for name in _SHOWN if name not in names]
        if missing or not changes or any(one.shape != size for one in (infinite, part, *changes.values())):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(
            f"kept is {_check.brief(kept)}, but must hold what tools/classify_widths.py keeps: observed, infinite, "
            "theory and simulation."
        ) from None
    widths = np.array(sorted(changes))
    return names, infinite, part, widths, np.stack([changes[int(n)] for n in widths])
