"""Models that were read: variances of their weights and biases."""

import numpy as np
from matplotlib.figure import Figure

from ..models.results import Reading
from ._style import INK, look, styled


@styled
def reading(found: Reading) -> Figure:
    """Measured C_W and C_b of every layer with weights, with their errors.

    >>> import equinox as eqx, jax, neft
    >>> reading(neft.read(eqx.nn.Linear(3, 2, key=jax.random.key(0)))).axes[0].get_ylabel()
    'variance'
    """
    layers = [row for row in found.layers if row.C_W is not None]
    figure = Figure(figsize=(9.2, 3.2), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(layers))
    kinds = (("C_W", "error_W", "$C_W$, weights times fan-in"), ("C_b", "error_b", "$C_b$, biases"))
    for i, (value, error, label) in enumerate(kinds):
        values, errors = (np.array([getattr(layer, name) for layer in layers], float) for name in (value, error))
        style = {name: setting for name, setting in look(2 * i, i).items() if name != "linestyle"}
        axes.errorbar(place, values, errors, label=label, marker="os"[i], markersize=4, capsize=2, ls="none", **style)
    axes.set(title=f"A model of {found.framework}", xlabel="layer", ylabel="variance")
    axes.set_ylim(bottom=0)
    axes.axhline(1, color=INK, linewidth=0.6, linestyle=":")
    if len(layers) <= 24:
        names = [layer.name or str(i) for i, layer in enumerate(layers)]
        axes.set_xticks(place, names, rotation=30 if max(map(len, names)) > 4 else 0, ha="right", fontsize=8)
    axes.legend()
    return figure
