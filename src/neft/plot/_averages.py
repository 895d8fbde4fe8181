"""Gaussian averages of several activations."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._public import public
from ..describe.results import AveragesCard
from ._style import look, panel, styled


@styled
def square_averages(card: AveragesCard) -> Figure:
    """⟨σ²⟩ against the variance K, on logarithmic axes."""
    figure, axes = panel("Mean square", "K", "⟨σ²⟩")
    axes.set(xscale="log", yscale="log")
    _curves(axes, card.K, card.square, card.activations)
    return figure


@public
@styled
def pair_averages(card: AveragesCard) -> Figure:
    """⟨σ(z₁)σ(z₂)⟩ at unit variance against the correlation ρ of z₁ and z₂."""
    figure, axes = panel("Two correlated variables, K = 1", "ρ", "⟨σ(z₁)σ(z₂)⟩")
    _curves(axes, card.rho, card.pair, card.activations)
    return figure


def _curves(axes: Axes, x: np.ndarray, ys: np.ndarray, labels: Sequence[str]) -> None:
    for i, (y, label) in enumerate(zip(ys, labels, strict=True)):
        axes.plot(x, y, label=label, **look(i, i))
    axes.margins(x=0)
    axes.legend()
