"""Theory beside drawn networks: one tensor through the layers, and the distributions of outputs and of the NTK."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import _check
from .._public import public
from ..ensemble.results import Estimates
from ..width.results import Density, Statistics
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
def through_blocks(
    theory: Float[np.ndarray, "curves blocks"],
    mean: Float[np.ndarray, "curves places"],
    stderr: Float[np.ndarray, "curves places"],
    at: Int[np.ndarray, " places"],
    *,
    label: str,
    names: Sequence[str] = ("",),
    size: tuple[float, float] = (2.9, 2.1),
) -> Figure:
    """One or several numbers block by block: theory as lines, simulation with two standard errors at the blocks `at`.

    `names` tells several curves apart, and `label` says what they are. Without places there is theory alone.
    """
    theory = _check.array("theory", theory, ndim=2)
    at = _check.array("at", at, ndim=1, at_least=1, dtype=np.int64)
    mean = _check.array("mean", mean, shape=(len(theory), len(at)))
    stderr = _check.array("stderr", stderr, shape=mean.shape, at_least=0.0)
    if len(names) != len(theory):
        raise ValueError(f"names is {_check.brief(names)}, but must have one entry for each of {len(theory)} curves.")
    size = tuple(_check.array("size", size, shape=(2,), at_least=0.1).tolist())
    figure, axes = panel("", "block", _LETTERS.get(label, label), size=size)
    for i, (name, line, y, error) in enumerate(zip(names, theory, mean, stderr)):
        first, second = (f"{name}, theory", f"{name}, drawn") if name else ("theory", "simulation")
        marks = {"markersize": 4, "capsize": 2.5, "linewidth": 1.1, "color": COLOURS[2 * i + 1]}
        axes.plot(np.arange(1, len(line) + 1), line, label=first, **look(2 * i, i))
        if len(at):
            axes.errorbar(at, y, 2 * error, fmt="os^v"[i % 4], label=second, **marks)
    every = np.concatenate([theory.ravel(), *(np.ravel(mean + k * stderr) for k in (-2, 2))])
    low, high = float(every.min()), float(every.max())
    # What is constant to rounding is drawn as that, and the legend has room above.
    room = max(high - low, 0.05 * max(abs(low), abs(high)), 1e-12)
    axes.set_ylim(low - 0.15 * room, high + (0.2 + 0.5 * len(theory)) * room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.margins(x=0.08)
    axes.legend(fontsize=7, handlelength=1.6, loc="upper left")
    return figure


@public
@styled
def output_distribution(density: Density | float, outputs: Float[np.ndarray, "draws outputs"]) -> Figure:
    """Drawn outputs with two standard errors over the density of infinite width and that of order 1/width.

    Where only the variance K of infinite width is known, it stands for the density.
    """
    _refuse_empty("outputs", outputs)
    figure, axes = panel(f"Outputs of {len(outputs)} networks", "output z", "density of z")
    if isinstance(density, Density):
        z, gaussian, both = density.z, density.gaussian, [density.gaussian, density.density]
    else:
        K = _check.real("density", density, above=0.0)
        if K > 1e300:
            raise ValueError(f"density is {K:g}, but must be at most 1e300 as a variance.")
        z = 5 * np.sqrt(K) * np.linspace(-1, 1, 401)
        gaussian = np.exp(-(z**2) / (2 * K)) / np.sqrt(2 * np.pi * K)
        both = [gaussian]
    _counted(axes, outputs, (float(z.min()), float(z.max())), 36)
    axes.plot(z, gaussian, label="infinite width", **look(1, 1))
    if len(both) > 1:
        axes.plot(z, both[1], label="order 1/width", **look(0))
    # Beyond there is nothing to see.
    seen = min(float(z.max()), 3.8 * float(np.sqrt(np.trapezoid(z**2 * gaussian, z))))
    axes.set_xlim(-seen, seen)
    axes.set_ylim(0, 1.35 * float(np.max(both)))
    axes.legend(fontsize=8, loc="upper left")
    return figure


@public
@styled
def ntk_distribution(
    values: Float[np.ndarray, "draws outputs"], *, mean: float, spread: float | None = None, infinite: float
) -> Figure:
    """Drawn diagonal elements of the NTK with two standard errors, over a log-normal of predicted mean and spread.

    Such an element is positive and a product over layers, of which order 1/width knows mean and spread. Without a
    spread, or with a mean that is not positive, there is no such curve.
    """
    _refuse_empty("values", values)
    figure, axes = panel(f"NTK of {len(values)} networks", "diagonal element H", "density of H")
    if spread is None:
        low, high = np.quantile(values, (0.002, 0.998))
        span = (float(low - 0.1 * (high - low)), float(high + 0.1 * (high - low)))
    else:
        # Nearly all of them: the tail is long, and single draws in it would take the room of the others.
        low, high = np.quantile(values, (0.001, 0.999))
        span = (float(max(0.0, min(mean - 5 * spread, low))), float(max(mean + 5 * spread, high)))
    if span[1] <= span[0]:
        # What does not differ from draw to draw still has a place on the axis.
        span = (span[0] - 1e-6 * max(1.0, abs(span[0])), span[1] + 1e-6 * max(1.0, abs(span[1])))
    if not np.isfinite([2 * span[0] - span[1], 2 * span[1] - span[0]]).all():
        raise ValueError(f"mean is {mean:g} and spread is {spread}, which no axis can show.")
    _counted(axes, values, span)
    if spread and spread > 1e-6 * mean > 0:
        grid = np.linspace(span[0], span[1], 302)[1:]
        square = np.log1p((spread / mean) ** 2)
        curve = np.exp(-((np.log(grid / mean) + square / 2) ** 2) / (2 * square)) / (grid * np.sqrt(2 * np.pi * square))
        axes.plot(grid, curve, label="predicted mean and spread", **look(0))
    axes.axvline(infinite, label="infinite width", **look(1, 1))
    axes.margins(x=0)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
    axes.legend(fontsize=8, loc="upper right")
    return figure


def _refuse_empty(argument: str, values: np.ndarray) -> None:
    if len(values) < 2 or not values.size:
        raise ValueError(f"{argument} has shape {values.shape}, but must hold at least two draws, each with an output.")


def _counted(axes: Axes, values: np.ndarray, span: tuple[float, float], bins: int = 24) -> None:
    # Outputs of one network share its hidden layers, so errors are those of draws, not of single values.
    edges = np.linspace(*span, bins + 1)
    shares = np.stack([np.histogram(row, edges)[0] for row in values]) / (values.shape[1] * np.diff(edges))
    error = 2 * shares.std(axis=0, ddof=1) / np.sqrt(len(values))
    middle = (edges[1:] + edges[:-1]) / 2
    seen = shares.any(axis=0)
    marks = {"markersize": 3.5, "capsize": 2, "linewidth": 1.0, "color": COLOURS[2]}
    axes.errorbar(middle[seen], shares.mean(0)[seen], error[seen], fmt="o", label="drawn networks", **marks)
