# %% [markdown]
# # Chapter 6: Bayesian learning
#
# Roberts, Yaida, Hanin 2022, §6 condition the prior over functions on data. At infinite width the prior is a Gaussian process with
# kernel K, and so is the posterior. Training can draw from it: gradient flow on the last layer alone, at rates in proportion
# to the variances, takes a random network to a sample of the posterior of its own hidden layers. Its end has a closed form:
# z + k(x, A) k(A, A)⁻¹ (y - z(A)) with the kernel k of these hidden layers.
#
# Held to, by the assertions of this page: that the posterior mean goes through the data, and that networks whose last layer was trained have its mean and spread. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

x, y = np.array([[-1.5], [-0.4], [0.6], [1.4]]), np.array([-0.6, 0.7, 0.2, 0.9])
at = np.linspace(-2.25, 2.15, 23)[:, None]
C_b, C_W, n, DRAWS = 0.3, 1.5, 256, 200
net = neft.MLP((1, n, n, 1), "tanh", C_b=C_b, C_W=C_W)
posterior = neft.training.nngp(net, x, y, at)


@jax.jit
def passed(keys):
    """Last hidden layer and output of drawn networks."""
    both = jnp.asarray(np.concatenate([x, at]), jnp.float32)
    return jax.lax.map(lambda key: net.preactivations(net.init(key, dtype=jnp.float32), both)[1:], keys)


hidden, output = (np.asarray(z, float) for z in passed(jax.random.split(jax.random.key(1), DRAWS)))
z, kernels = output[..., 0], C_b + C_W / n * np.tanh(hidden) @ np.tanh(hidden).swapaxes(1, 2)
weights = np.linalg.solve(kernels[:, :4, :4], (y - z[:, :4])[..., None])
trained = z[:, 4:] + (kernels[:, 4:, :4] @ weights)[..., 0]

mean, std = posterior.mean[:, 0], np.sqrt(np.diag(posterior.cov))
figure = Figure(figsize=(5.6, 3.4), layout="constrained")
axes = figure.add_subplot(xlabel="input", ylabel="output")
band = {"color": "#0072B2", "alpha": 0.2, "label": "posterior, two standard deviations"}
axes.fill_between(at[:, 0], mean - 2 * std, mean + 2 * std, **band)
axes.plot(at[:, 0], mean, color="#0072B2", label="posterior mean")
drawn = {"fmt": "o", "markersize": 3, "color": "#D55E00", "label": f"{DRAWS} networks of width {n}"}
axes.errorbar(at[:, 0], trained.mean(0), 2 * trained.std(0, ddof=1), **drawn)
axes.plot(x[:, 0], y, "k*", markersize=9, label="data")
axes.legend(fontsize=8)
# Posterior mean and band through four points, and networks whose last layer was trained, which fill the band
figure

# %%
off = (trained.mean(0) - mean) / (trained.std(0, ddof=1) / np.sqrt(DRAWS))
ratio = trained.std(0, ddof=1) / std
print(f"largest difference of the means: {np.abs(off).max():.1f} standard errors")
print(f"spreads differ by at most {100 * np.abs(ratio - 1).max():.0f} %")
assert np.abs(off).max() < 5 and np.abs(ratio - 1).max() < 0.35
assert np.allclose(neft.training.nngp(net, x, y).mean[:, 0], y)
