"""Several optimizers on one task."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .. import _check
from .._public import public
from ..fisher.results import Curves
from ._style import look, panel, styled

CLOCKS = {"epochs": "epoch", "cpu_seconds": "CPU time of the steps / s"}


@public
@styled
def rivals(found: Mapping[str, Sequence[Curves]], *, clock: str = "epochs") -> Figure:
    """The training cost of each optimizer, mean over its seeds with two standard errors, against one of `CLOCKS`."""
    label = CLOCKS[_check.one_of("clock", clock, tuple(CLOCKS))]
    if not found or not all(map(_is_list_of_curves, found.values())):
        raise ValueError(f"found is {_check.brief(found)}, but must hold a list of curves for each optimizer.")
    figure, axes = panel("", label, "training cost / nats")
    low, high = np.inf, -np.inf
    for i, (name, curves) in enumerate(found.items()):
        cost = np.stack([one.train_cost for one in curves])
        time = np.stack([getattr(one, clock) for one in curves]).mean(0)
        error = cost.std(axis=0, ddof=1) / np.sqrt(len(cost)) if len(cost) > 1 else np.zeros(len(time))
        style = {"marker": "osD^v"[i % 5], "markersize": 3.5, "capsize": 2.5, "linewidth": 1.3, **look(i, i + i // 4)}
        axes.errorbar(time, cost.mean(0), 2 * error, label=name, **style)
        # The start, before any step, would flatten all that follows.
        low, high = min(low, float(cost[:, 1:].min())), max(high, float(cost[:, 1:].max()))
    margin = 0.08 * (high - low) or 0.05
    axes.set_ylim(low - margin, high + 2 * margin)
    axes.legend(fontsize=8)
    return figure


def _is_list_of_curves(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(one, Curves) for one in value)
