# %% [markdown]
# # Chapter 10: kernel learning
#
# Roberts, Yaida, Hanin 2022, §10: at infinite width gradient descent is kernel regression with the NTK, from a random start. Its mean and
# spread over initializations are known, and networks of finite width are near.
#
# Held to, by the assertions of this page: the mean and spread of kernel regression with the NTK, by trained networks. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

x, y = np.array([[-1.5], [-0.4], [0.6], [1.4]], np.float32), np.array([-0.6, 0.7, 0.2, 0.9], np.float32)
at, n, STEPS, DRAWS = np.linspace(-2.25, 2.15, 23, dtype=np.float32)[:, None], 64, 400, 200
net = neft.MLP((1, n, n, 1), "tanh", C_b=0.3, C_W=1.5)
rate = 0.5 * neft.training.max_learning_rate(net, x)
infinite = neft.training.predict(net, x, y, at, steps=STEPS, learning_rate=rate)


def trained(key):
    """Outputs of one network after training."""

    def step(params, _):
        gradient = jax.grad(lambda p: jnp.sum((net.apply(p, x)[:, 0] - y) ** 2) / 2)(params)
        return jax.tree.map(lambda p, l, g: p - rate * l * g, params, net.rates(), gradient), None

    params = jax.lax.scan(step, net.init(key, dtype=jnp.float32), None, length=STEPS)[0]
    return net.apply(params, at)[:, 0]


seen = np.asarray(jax.jit(lambda keys: jax.lax.map(trained, keys))(jax.random.split(jax.random.key(2), DRAWS)), float)
mean, std = infinite.mean[:, 0], np.sqrt(np.diag(infinite.cov))
figure = Figure(figsize=(5.6, 3.4), layout="constrained")
axes = figure.add_subplot(xlabel="input", ylabel="output after training")
band = {"color": "#0072B2", "alpha": 0.2, "label": "infinite width, two standard deviations"}
axes.fill_between(at[:, 0], mean - 2 * std, mean + 2 * std, **band)
axes.plot(at[:, 0], mean, color="#0072B2")
drawn = {"fmt": "o", "markersize": 3, "color": "#D55E00", "label": f"{DRAWS} networks of width {n}"}
axes.errorbar(at[:, 0], seen.mean(0), 2 * seen.std(0, ddof=1), **drawn)
axes.plot(x[:, 0], y, "k*", markersize=9, label="data")
axes.legend(fontsize=8)
# Predicted mean and band through four points, and trained networks of width 64, whose mean is a little off between the points
figure

# %% [markdown]
# Where the means differ by more than chance it is an effect of order 1/width, and so is what the spreads differ by.

# %%
off = (seen.mean(0) - mean) / (seen.std(0, ddof=1) / np.sqrt(DRAWS))
ratio = seen.std(0, ddof=1) / std
print(f"means differ by at most {np.abs(seen.mean(0) - mean).max():.2f}, {np.abs(off).max():.1f} standard errors")
print(f"spreads are {ratio.min():.2f} to {ratio.max():.2f} of those at infinite width")
assert np.abs(seen.mean(0) - mean).max() < 0.15 and 0.6 < ratio.min() < ratio.max() < 1.4
