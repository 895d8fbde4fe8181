"""A network at initialization."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..describe.results import BlocksCard, NetworkCard, OutputDraws
from ._style import COLOURS, look, panel, styled


@styled
def layers(card: NetworkCard) -> Figure:
    """The variance K of a preactivation, layer by layer."""
    figure, axes = panel(f"{card.activation}, infinite width", "layer", "K")
    layer = np.arange(1, len(card.K) + 1)
    axes.plot(layer, card.K, marker="o", markersize=4, color=COLOURS[0])
    axes.set_ylim(0, 1.15 * card.K.max() or 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


@styled
def after_blocks(card: BlocksCard) -> Figure:
    """K and Θ after each block that holds weights, at infinite width."""
    if card.K is None or card.Theta is None:
        raise ValueError(f"a BlocksCard without kernels has no picture: {card.absent}")
    figure, axes = panel("Infinite width", "block", "K and Θ")
    block = np.arange(1, len(card.K) + 1)
    for i, (label, values) in enumerate((("K", card.K), ("Θ", card.Theta))):
        axes.plot(block, values, label=label, marker="os"[i], markersize=4, **look(i, i))
    axes.set_ylim(0, 1.15 * max(card.K.max(), card.Theta.max()) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return figure


@styled
def outputs(draws: OutputDraws) -> Figure:
    """The histogram of the outputs of many draws, with the density of the Gaussian of variance K."""
    figure, axes = panel(f"Outputs of {len(draws.outputs)} draws", "output", "density")
    z, spread = draws.outputs.ravel(), np.sqrt(draws.K)
    bins = int(np.clip(np.sqrt(z.size), 8, 60))
    axes.hist(z, bins=bins, density=True, color=COLOURS[0], alpha=0.45, label="drawn networks")
    if spread > 0:
        grid = np.linspace(-4 * spread, 4 * spread, 201)
        density = np.exp(-(grid**2) / (2 * draws.K)) / (spread * np.sqrt(2 * np.pi))
        axes.plot(grid, density, color=COLOURS[1], label=f"Gaussian, K = {draws.K:.4g}")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.legend(loc="upper left", fontsize=8)
    return figure
