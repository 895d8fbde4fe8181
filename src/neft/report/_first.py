"""The first screen: the verdict, three numbers, the picture of what finite width does, and what to change."""

import functools
from html import escape

import jax
import numpy as np

from .. import plot, width
from .._percent import percent
from ..width.results import Density
from ._drawn import Drawn, affordable, drawn
from ._figure import figure
from ._html import code, paragraph, three
from ._subject import Subject

_DRAWS = 4000
_BINS, _FINE = 24, 20


def first_screen(verdict: str, more: str, numbers: tuple[tuple[str, str], ...], picture: str, change: str) -> str:
    """The pieces in their places: words beside the picture where there is room, and around it on a phone."""
    left = (
        f'<p class="verdict">{escape(verdict)}</p>{paragraph(more) if more else ""}{three(*numbers) if numbers else ""}'
    )
    return f'<div class="first"><div>{left}</div><div>{picture}</div><div>{change}</div></div>'


def advised(sentence: str, command: str) -> str:
    """What to change, and the command that says more."""
    return f"<h3>What to change</h3>{paragraph(sentence)}{code(command) if command else ''}"


def verdict(of: Subject) -> str:
    """What finite width does to the network, in a sentence."""
    strength, n = float(of.meaning.strength[-1]), of.width
    if of.net.depth == 1:
        return "Finite width does nothing: one layer is exactly Gaussian at any width."
    if strength < 0.1:
        return f"Finite width changes little: width {n} is close to infinite width at this depth."
    if strength < 1:
        return f"Finite width matters: at width {n} outputs are not Gaussian, and networks drawn alike differ."
    return f"Too deep for width {n}: effects of finite width are as large as what they correct."


def sizes(of: Subject) -> tuple[tuple[str, str], ...]:
    """Excess kurtosis and spreads of an output, which are 0 at infinite width, each with what it is."""
    meaning = of.meaning
    found = [
        (f"{3 * float(meaning.coupling[-1]):.2g}", "excess kurtosis of an output: a Gaussian has 0, heavy tails more"),
        (percent(float(meaning.spread_kernel[-1])), "spread of an output's variance from draw to draw"),
    ]
    if meaning.spread_ntk is not None:
        found.append((percent(float(meaning.spread_ntk[-1])), "spread of the NTK, how fast an output learns"))
    return tuple(found)


@functools.lru_cache(maxsize=1)
def draws_of(of: Subject, quick: bool) -> Drawn:
    """Outputs and NTK of as many draws of the network as there is time for, at the typical example."""
    return drawn(of.net, of.x, affordable(of.net, _DRAWS, quick), jax.random.fold_in(of.key, 1))


def outputs(of: Subject, quick: bool) -> str:
    """The picture: outputs of drawn networks, the Gaussian of infinite width, and the density of order 1/width."""
    found = draws_of(of, quick).outputs
    # Where blocks have no tensors of order 1/width, theory is that of infinite width.
    finite = of.stats.tensors.get("V") is not None and of.stats.tensors.get("K1") is not None
    density = width.density(of.stats) if finite else float(of.stats.K[-1])
    return figure(
        plot.output_distribution(density, found),
        name="outputs",
        alt=f"Density of the outputs of {len(found)} drawn networks with error bars, the Gaussian of infinite width"
        + (" and the density of order 1/width" if finite else ""),
        caption=_seen(of, density, found) if isinstance(density, Density) else _beside_gaussian(density, found),
    )


def _beside_gaussian(variance: float, found: np.ndarray) -> str:
    return (
        f"Points are an output at a typical example, over {len(found)} random draws of all weights; their variance is "
        f"{float((found**2).mean()):.3g}, that of infinite width {variance:.3g}."
    )


def _seen(of: Subject, density: Density, found: np.ndarray) -> str:
    gaussian, finite, chance = misplaced(of, density, found)
    told = (
        f"Points are an output at a typical example, over {len(found)} random draws of all weights. The Gaussian of "
        "infinite "
        f"width puts {100 * gaussian:.1f} % of them in the wrong place, theory at order 1/width {100 * finite:.1f} %; "
        f"{100 * chance:.1f} % is chance."
    )
    if finite > 2 * chance:
        told += " The rest is of next order in 1/width."
    if gaussian < 2 * chance and finite < 2 * chance:
        told += " These draws do not tell the two apart."
    return told


def misplaced(of: Subject, density: Density, found: np.ndarray) -> tuple[float, float, float]:
    """Which share of the outputs each curve puts into a wrong bin: infinite width's, order 1/width's, and by chance."""
    edges = np.linspace(density.z.min(), density.z.max(), _BINS + 1)
    size = edges[1] - edges[0]
    shares = np.stack([np.histogram(row, edges)[0] for row in found]) / found.shape[1]
    error = shares.std(axis=0, ddof=1) / np.sqrt(len(found))
    # Averages over the bins, by their middles' middles.
    places = (edges[:-1, None] + size * (np.arange(_FINE) + 0.5)[None, :] / _FINE).ravel()
    curves = width.density(of.stats, places)
    apart = [
        float(np.abs(shares.mean(0) - size * curve.reshape(_BINS, _FINE).mean(1)).sum()) / 2
        for curve in (curves.gaussian, curves.density)
    ]
    # The mean of |z| of a standard normal variable is √(2/π).
    return apart[0], apart[1], float(error.sum()) * np.sqrt(2 / np.pi) / 2
