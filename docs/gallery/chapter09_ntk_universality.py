# %% [markdown]
# # Chapter 9: the NTK at criticality
#
# Roberts, Yaida, Hanin 2022, §9: at criticality the NTK grows with depth like a power, and its spread from draw to draw by √(depth/width),
# with a coefficient of each universality class. So networks of equal depth over width learn alike.
#
# Held to, by the assertions of this page: that the spread of the NTK depends on depth over width. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import numpy as np
from matplotlib.figure import Figure

import neft

DEPTH, x = 12, np.ones(4)
figure = Figure(figsize=(5.6, 3.5), layout="constrained")
axes = figure.add_subplot(xlabel="(depth - 1) / width", ylabel="spread of the NTK, √((A + 2B)/n) / Θ")
points = {}
for name, C_b, C_W, colour in (("relu", 0.0, 2.0, "#0072B2"), ("tanh", 0.0, 1.0, "#D55E00")):
    for n in (32, 64):
        net = neft.MLP((4, *[n] * (DEPTH - 1), 1), name, C_b=C_b, C_W=C_W)
        stats = neft.width.statistics(net, x)
        layer = np.arange(1, DEPTH + 1)
        spread = np.sqrt((stats.A + 2 * stats.B) / n) / stats.Theta
        axes.plot((layer - 1) / n, spread, color=colour, linewidth=2.5 if n == 64 else 1, label=f"{name}, width {n}")
        points[name, n] = spread
    net = neft.MLP((4, *[64] * 5, 1), name, C_b=C_b, C_W=C_W)
    seen = neft.ensemble.estimate(
        net, x, draws=300, key=jax.random.key(5), only=("Theta", "A", "B"), dtype=np.float32
    ).tensors
    drawn = np.sqrt((seen["A"].mean + 2 * seen["B"].mean) / 64) / seen["Theta"].mean
    error = (seen["A"].stderr + 2 * seen["B"].stderr) / (2 * 64 * drawn * seen["Theta"].mean ** 2 + 1e-12)
    axes.errorbar(np.arange(1, 6) / 64, drawn[1:], 2 * error[1:], fmt="o", markersize=3, color="0.2")
    print(
        f"{name}: spread at depth 6, width 64: theory {points[name, 64][5]:.3f}, drawn {drawn[-1]:.3f} ± {error[-1]:.3f}"
    )
    assert abs(drawn[-1] - points[name, 64][5]) < 5 * error[-1] + 6 / 64 * drawn[-1]
axes.legend(fontsize=8)
# Spread of the NTK against depth over width: curves of two widths nearly coincide, those of two classes differ, and black points of drawn networks follow them
figure

# %%
half = points["relu", 32][5], points["relu", 64][10]
print(f"relu, depth 6 at width 32: {half[0]:.3f}; depth 11 at width 64: {half[1]:.3f}")
assert abs(half[0] / half[1] - 1) < 0.1
