# %% [markdown]
# # Chapter 8: the NTK flows with depth
#
# Roberts, Yaida, Hanin 2022, §8 give the NTK its own recursion: its mean Θ, and at order 1/width its fluctuations A and B from draw to
# draw. A diagonal element varies by (A + 2B)/n.
#
# Held to, by the assertions of this page: that A and B are 0 in layer 1, and the recursions of Θ, A and B by drawn networks. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import numpy as np
from matplotlib.figure import Figure

import neft

n, DEPTH = 32, 5
net = neft.MLP((4, *[n] * (DEPTH - 1), 1), "gelu", C_b=0.17293, C_W=1.98305)
x = np.ones(4)
theory = neft.width.statistics(net, x)
seen = neft.ensemble.estimate(
    net, x, draws=1000, key=jax.random.key(0), only=("Theta", "A", "B"), dtype=np.float32
).tensors
layer = np.arange(1, DEPTH + 1)
figure = Figure(figsize=(7.4, 3.2), layout="constrained")
axes = figure.add_subplot(1, 2, 1, xlabel="layer", ylabel="mean Θ of the NTK")
axes.plot(layer, theory.Theta, color="#0072B2", label="theory")
axes.errorbar(layer, seen["Theta"].mean, 2 * seen["Theta"].stderr, fmt="o", color="#D55E00", label="1000 networks")
axes.legend(fontsize=8)
axes = figure.add_subplot(1, 2, 2, xlabel="layer", ylabel="fluctuations over Θ²")
for name, colour in (("A", "#0072B2"), ("B", "#009E73")):
    scale = 1 / (n * theory.Theta**2)
    axes.plot(layer, scale * getattr(theory, name), color=colour, label=f"{name} / nΘ², theory")
    axes.errorbar(layer, scale * seen[name].mean, 2 * scale * seen[name].stderr, fmt="o", color=colour)
axes.legend(fontsize=8)
# Left: the mean NTK through five layers. Right: its fluctuations A and B; drawn networks with error bars lie near both lines
figure

# %%
for name in ("Theta", "A", "B"):
    line, point = getattr(theory, name)[-1], seen[name]
    print(f"{name:5} theory {line:8.3f}, simulated {point.mean[-1]:8.3f} ± {point.stderr[-1]:.3f} at the output")
    assert abs(point.mean[-1] - line) < 5 * point.stderr[-1] + 2 * DEPTH / n * line
assert theory.A[0] == theory.B[0] == 0
