# %% [markdown]
# # What training makes of an ensemble
#
# Networks that differ only by their random start, trained to the end on two points: infinite width, the correction of
# order 1/width, and trained networks.

# %%
import jax
import numpy as np

import neft

net = neft.MLP(widths=(1, 32, 1), activation="tanh", C_b=0.3, C_W=1.2)
x, y = np.array([[-1.0], [1.0]]), np.array([0.0, 1.0])
at = np.linspace(-2, 2, 5)[:, None]

infinite = neft.training.predict(net, x, y, at)
finite = neft.training.predict(net, x, y, at, order=1)
std = np.sqrt(np.einsum("iaia->ia", finite.cov))[:, 0]
print("x        ", at[:, 0])
print("infinite ", infinite.mean[:, 0].round(4))
print("order 1  ", finite.mean[:, 0].round(4), "±", std.round(3))

# %% [markdown]
# The training points are met exactly at every order. Between them networks differ.

# %%
assert np.allclose(finite.mean[[1, 3], 0], y, atol=1e-6)
assert std[[1, 3]].max() < 1e-4 < std[[0, 2, 4]].min()

# %% [markdown]
# Now train 128 of them by gradient flow.

# %%
trained = neft.training.ensemble(net, x, y, at, draws=128, key=jax.random.key(0))
outputs = trained.test[trained.good][:, :, 0]
mean, error = outputs.mean(axis=0), outputs.std(axis=0, ddof=1) / len(outputs) ** 0.5
print("trained  ", mean.round(3), "±", error.round(3), "(standard error)")
free = [0, 2, 4]
z = (mean - finite.mean[:, 0])[free] / error[free]
print("z-scores of order 1:", z.round(2))
assert np.abs(z).max() < 5

# %% [markdown]
# The spread over networks is predicted too.

# %%
print("spread: trained", outputs.std(axis=0, ddof=1)[free].round(3), "order 1", std[free].round(3))
assert np.allclose(outputs.std(axis=0, ddof=1)[free], std[free], rtol=0.25)
