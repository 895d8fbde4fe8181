"""Theory beside drawn networks: one tensor through the layers, and the distributions of outputs and of the NTK."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import _check
from .._public import public
from ..ensemble import Estimates
from ..width import Density, Statistics
from ._style import COLOURS, look, panel, styled

_LETTERS = {"Theta": "Θ", "K1": "K₁", "Theta1": "Θ₁"}


@public
@styled
def tensor(stats: Statistics, found: Estimates, name: str, *, size: tuple[float, float] = (2.9, 2.1)) -> Figure:
    """One tensor of one input, layer by layer: leading order as a line, the estimate with two standard errors."""
    _check.one_of("name", name, tuple(stats.tensors))
    size = tuple(_check.array("size", size, shape=(2,), at_least=0.1).tolist())
    figure, axes = panel("", "layer", _LETTERS.get(name, name), size=size)
    layer = np.arange(1, len(stats.widths))
    marks = {"markersize": 4, "capsize": 2.5, "linewidth": 1.1, "color": COLOURS[1]}
    axes.plot(layer, getattr(stats, name), label="theory", **look(0))
    estimate = found.tensors.get(name)
    if estimate is not None:
        axes.errorbar(layer, estimate.mean, 2 * estimate.stderr, fmt="o", label="simulation", **marks)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.margins(x=0.08)
    axes.legend(fontsize=7, handlelength=1.6)
    return figure


@public
@styled
def output_distribution(density: Density, outputs: Float[np.ndarray, "draws outputs"]) -> Figure:
    """Drawn outputs with two standard errors over the density of infinite width and that of order 1/width."""
    _refuse_empty("outputs", outputs)
    figure, axes = panel(f"Outputs of {len(outputs)} networks", "output z", "density of z")
    _counted(axes, outputs, (float(density.z.min()), float(density.z.max())))
    axes.plot(density.z, density.gaussian, label="infinite width", **look(1, 1))
    axes.plot(density.z, density.density, label="order 1/width", **look(0))
    axes.margins(x=0)
    axes.set_ylim(0, 1.35 * float(max(density.gaussian.max(), density.density.max())))
    axes.legend(fontsize=8, loc="upper left")
    return figure


@public
@styled
def ntk_distribution(
    values: Float[np.ndarray, "draws outputs"], *, mean: float, spread: float, infinite: float
) -> Figure:
    """Drawn diagonal elements of the NTK with two standard errors, over a Gaussian of predicted mean and spread."""
    _refuse_empty("values", values)
    figure, axes = panel(f"NTK of {len(values)} networks", "diagonal element H", "density of H")
    reach = max(4 * spread, 1.2 * float(np.abs(values - mean).max()))
    if not np.isfinite([mean - 2 * reach, mean + 2 * reach]).all():
        raise ValueError(f"mean is {mean:g} and spread is {spread:g}, which no axis can show.")
    _counted(axes, values, (mean - reach, mean + reach))
    grid = np.linspace(mean - reach, mean + reach, 301)
    if spread > 0:
        curve = np.exp(-(((grid - mean) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))
        axes.plot(grid, curve, label="predicted mean and spread", **look(0))
    axes.axvline(infinite, label="infinite width", **look(1, 1))
    axes.margins(x=0)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
    axes.legend(fontsize=8, loc="upper left")
    return figure


def _refuse_empty(argument: str, values: np.ndarray) -> None:
    if len(values) < 2 or not values.size:
        raise ValueError(f"{argument} has shape {values.shape}, but must hold at least two draws, each with an output.")


def _counted(axes: Axes, values: np.ndarray, span: tuple[float, float]) -> None:
    # Outputs of one network share its hidden layers, so errors are those of draws, not of single values.
    edges = np.linspace(*span, 25)
    shares = np.stack([np.histogram(row, edges)[0] for row in values]) / (values.shape[1] * np.diff(edges))
    error = 2 * shares.std(axis=0, ddof=1) / np.sqrt(len(values))
    middle = (edges[1:] + edges[:-1]) / 2
    seen = shares.any(axis=0)
    marks = {"markersize": 3.5, "capsize": 2, "linewidth": 1.0, "color": COLOURS[2]}
    axes.errorbar(middle[seen], shares.mean(0)[seen], error[seen], fmt="o", label="drawn networks", **marks)
