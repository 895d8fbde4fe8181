"""The ledger of claims."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..claims import VERDICTS
from ..claims.results import Ledger
from ._style import COLOURS, panel, styled


@styled
def ledger(ledger: Ledger) -> Figure:
    """How many claims got each verdict."""
    figure, axes = panel(f"{len(ledger.outcomes)} claims, level {ledger.level}", "claims", "")
    names = (*VERDICTS, "failed")
    counts = [sum(outcome.verdict == name for outcome in ledger.outcomes) for name in names]
    bars = axes.barh(names, counts, color=COLOURS[0])
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * max(*counts, 1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
