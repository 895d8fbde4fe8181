"""An activation and its derivatives."""

import numpy as np
from matplotlib.figure import Figure

from ..describe.results import ActivationCard
from ._style import look, panel, styled

_NAMES = ("σ", "σ′", "σ″", "σ‴")


@styled
def activation(card: ActivationCard, *, size: tuple[float, float] = (4.4, 3.0)) -> Figure:
    """σ and its first three derivatives; a derivative that jumps is drawn broken there, and kinks are marked."""
    figure, axes = panel(card.name, "z", "", size=size)
    for n in range(4):
        axes.plot(card.z, _broken(card, n), label=_NAMES[n], zorder=4 - n, **look(n, n))
    for position, _, _ in card.kinks:
        axes.axvline(position, color="#888888", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_ylim(*_window(card))
    axes.margins(x=0)
    axes.legend(ncols=4, loc="upper left", fontsize=8, columnspacing=1.0, handlelength=1.6)
    return figure


def _broken(card: ActivationCard, n: int) -> np.ndarray:
    # No line may join the two sides of a jump, as if the derivative passed through the values between.
    values, step = card.values[n].copy(), card.z[1] - card.z[0]
    for position, order, _ in card.kinks:
        if order <= n:
            values[np.abs(card.z - position) < step / 2] = np.nan
    return values


def _window(card: ActivationCard) -> tuple[float, float]:
    # σ may grow without bound; what is worth seeing of it and of its derivatives is of order one.
    low, high = card.values.min(), card.values.max()
    low, high = max(float(low), -2.5), min(float(high), 3.0)
    margin = 0.08 * (high - low)
    return low - margin, high + 3 * margin
