# %% [markdown]
# # How deep may a network of this width be?
#
# Finite-width effects grow with depth over width. We take three activations at their critical points, let the
# expansion say at which depth it ends, and check it by a simulation.

# %%
import jax
import numpy as np

import neft

WIDTH = 64
advice = {name: neft.width.advise(name, depth=8, width=WIDTH) for name in ("tanh", "gelu", "relu")}
for name, found in advice.items():
    print(f"{name:5} C_b {found.C_b:.4f}  C_W {found.C_W:.4f}  strength {found.strength:.3f}  ends at {found.cutoff}")

# %% [markdown]
# The strength is the largest relative correction. Twice the width halves it, which is what an expansion in 1/width
# means:

# %%
wider = neft.width.advise("gelu", depth=8, width=2 * WIDTH)
ratio = advice["gelu"].strength / wider.strength
print(f"strength at width {WIDTH} over that at {2 * WIDTH}: {ratio:.3f}")
assert 1.8 < ratio < 2.2

# %% [markdown]
# For ReLU the coupling grows in proportion to depth: V/K² = 5 (l - 1) at equal widths.

# %%
net = neft.MLP(widths=(8, *(WIDTH,) * 6, 1), activation="relu", C_W=2.0)
stats = neft.width.statistics(net, np.ones(8))
print((stats.V / stats.K**2).round(6))
assert np.allclose(stats.V / stats.K**2, 5 * np.arange(7))

# %% [markdown]
# Does a simulation agree? Two layers are exact at any width, so one width is enough and the only error is that of the
# draws.

# %%
small = neft.MLP(widths=(8, 16, 2), activation="gelu", C_b=advice["gelu"].C_b, C_W=advice["gelu"].C_W)
seen = neft.width.check(small, np.ones(8), draws=2048, key=jax.random.key(0))
print(seen.agrees, {name: round(float(np.abs(z).max()), 2) for name, z in seen.z.items() if np.abs(z).max() > 0})
assert seen.agrees
