# %% [markdown]
# # Chapter 4: couplings flow with depth
#
# Roberts, Yaida, Hanin 2022, §4 follow the distribution of a layer's preactivations from layer to layer. At order 1/width it
# is Gaussian but for a four-point vertex V, which every layer adds to. An observer sees it as the excess kurtosis of a
# neuron, 3V/(nK²), which a Gaussian does not have.
#
# Held to, by the assertions of this page: that V is 0 in layer 1 and grows from layer to layer. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import numpy as np
from matplotlib.figure import Figure

import neft

WIDTHS, DEPTH, DRAWS = (32, 64), 5, 1000
x = np.ones(4)
figure = Figure(figsize=(5.4, 3.4), layout="constrained")
axes = figure.add_subplot(xlabel="layer", ylabel="excess kurtosis of a neuron")
apart = {}
for n, colour in zip(WIDTHS, ("#D55E00", "#0072B2")):
    net = neft.MLP((4, *[n] * (DEPTH - 1), 1), "gelu", C_b=0.17293, C_W=1.98305)
    theory = neft.width.statistics(net, x)
    estimates = neft.ensemble.estimate(net, x, draws=DRAWS, key=jax.random.key(n), only=("V",), dtype=np.float32)
    seen = estimates.tensors["V"]
    scale, layer = 3 / (n * theory.K**2), np.arange(1, DEPTH + 1)
    axes.plot(layer, scale * theory.V, color=colour, label=f"theory, width {n}")
    axes.errorbar(layer, scale * seen.mean, 2 * scale * seen.stderr, fmt="o", color=colour, label="networks, drawn")
    apart[n] = (seen.mean - theory.V)[-1] / theory.V[-1], seen.stderr[-1] / theory.V[-1]
axes.axhline(0, color="0.5", linewidth=0.7)
axes.legend(fontsize=8)
# Excess kurtosis against the layer: it grows with depth and falls with width, and drawn networks follow theory
figure

# %% [markdown]
# What is left between points and line is of next order: it falls with the width.

# %%
for n, (part, error) in apart.items():
    print(f"width {n:3}: simulation differs from leading order by {100 * part:+.0f} ± {100 * error:.0f} %")
assert abs(apart[64][0]) < 5 * apart[64][1] + 1.5 * DEPTH / 64
assert theory.V[0] == 0 and np.all(np.diff(theory.V) > 0)
