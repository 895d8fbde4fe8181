"""Pictures of relative Fisher metrics and of training."""

import numpy as np
from matplotlib.figure import Figure

from ..fisher.results import Curves, Geometry
from ._style import look, panel, styled


@styled
def metric(found: Geometry) -> Figure:
    """The spectrum of a metric, largest eigenvalue first, and the information of its inputs, most informative first."""
    title = f"{found.kind}: rank {found.rank} of {found.parameters}, {found.samples} inputs"
    figure, axes = panel(title, "number", "value")
    positive = found.spectrum[found.spectrum > 0]
    information = np.sort(found.information)[::-1]
    axes.plot(np.arange(1, len(positive) + 1), positive, label="eigenvalue", **look(0))
    axes.plot(np.arange(1, len(information) + 1), information, label="information of an input", **look(1, 1))
    axes.set_yscale("log", nonpositive="mask")
    axes.set_xscale("log")
    axes.legend(fontsize=8)
    return figure


@styled
def curves(found: Curves) -> Figure:
    """Costs in one panel, accuracies in the one beside it."""
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    network = "-".join(map(str, found.widths)) + (", batch norm" if found.batch_norm else "")
    left.set(title=f"{found.optimizer}, rate {found.learning_rate:g}", xlabel="epoch", ylabel="cost")
    right.set(title=network, xlabel="epoch", ylabel="accuracy / %")
    for axes, name, scale in ((left, "cost", 1), (right, "accuracy", 100)):
        for i, part in enumerate(("train", "validation")):
            axes.plot(found.epochs, scale * getattr(found, f"{part}_{name}"), label=part, **look(i, i))
        axes.legend(fontsize=8)
    return figure
