"""A short run as advised and as it is now."""

import numpy as np
from matplotlib.figure import Figure

from ..width.results import Trial
from ._style import INK, look, styled


@styled
def trial(found: Trial) -> Figure:
    """Losses of the batches against steps, and that of the best answer that is the same for all inputs.

    >>> import numpy as np
    >>> from neft.width import advise
    >>> x = np.linspace(-1, 1, 32).reshape(16, 2)
    >>> trial(advise("tanh", 2, 8, inputs=2).trial(x, x[:, :1], steps=3)).axes[0].get_xlabel()
    'step'
    """
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for i, (name, rate, losses, final) in enumerate(zip(found.names, found.rates, found.losses, found.final)):
        seen = np.isfinite(losses)
        end = f"{final:.3g} in the end" if np.isfinite(final) else "diverges"
        axes.plot(found.step[seen], losses[seen], label=f"{name}, rate {rate:.3g}: {end}", **look(i, i))
    axes.axhline(found.guess, color=INK, linewidth=0.8, label="the same answer for all inputs")
    axes.set(title=f"{found.optimizer}, batches of {found.batch}", xlabel="step", ylabel=found.loss)
    low, high = axes.get_ylim()
    # A run that diverges would leave nothing to see of the other.
    axes.set_ylim(min(low, 0.0), min(high, 2 * found.guess))
    axes.legend(fontsize=8)
    return figure
