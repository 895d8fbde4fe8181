# %% [markdown]
# # Wide networks evolve as linear models
#
# Two figures of Lee et al. 2019, those that need no CIFAR. First: how far training moves parameters and the NTK, as the width grows. The
# wider a network, the less each moves, relative to its size.
#
# Held to, by the assertions of this page: the powers 1/2, 1 and 1/2 of 1/width by which the weights of three layers move. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

data = neft.data.load("fashion-mnist", "train", preprocess="pool(49)+global", full=False).balanced(1)
x, y = data.x.astype(np.float32), (np.eye(10)[data.y] - 0.1).astype(np.float32)
WIDTHS, DRAWS, STEPS = (64, 128, 256, 512), 4, 100


def norm(tree):
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def moved(net, rate, key):
    """Relative changes of the hidden weights and of the NTK, over STEPS of gradient descent."""
    start = net.init(key, dtype=jnp.float32)
    rates = net.rates()

    def step(params, _):
        gradient = jax.grad(lambda p: jnp.sum((net.apply(p, x) - y) ** 2) / 2)(params)
        return jax.tree.map(lambda p, l, g: p - rate * l * g, params, rates, gradient), None

    end = jax.lax.scan(step, start, None, length=STEPS)[0]
    before, after = (neft.tangent.mlp_ntk(net, params, x) for params in (start, end))
    change = [norm(b.W - a.W) / norm(a.W) for a, b in zip(start, end)]
    return jnp.array([*change, norm(after - before) / norm(before)])


rows = []
for n in WIDTHS:
    net = neft.MLP((49, n, n, 10), "erf", C_b=0.05, C_W=1.5)
    rate = 0.5 * neft.training.max_learning_rate(net, x)
    keys = jax.random.split(jax.random.key(n), DRAWS)
    rows.append(
        np.asarray(jax.jit(lambda keys, net=net, rate=rate: jax.lax.map(lambda k: moved(net, rate, k), keys))(keys))
    )
changes = np.array(rows, float)
mean, error = changes.mean(1), changes.std(1, ddof=1) / np.sqrt(DRAWS)
figure = Figure(figsize=(5.6, 3.5), layout="constrained")
axes = figure.add_subplot(xlabel="width n", ylabel="relative change in training", xscale="log", yscale="log")
names = ("first weights", "second weights", "last weights", "NTK")
powers = []
for i, name in enumerate(names):
    colour = ("#0072B2", "#D55E00", "#009E73", "#333333")[i]
    axes.errorbar(WIDTHS, mean[:, i], 2 * error[:, i], marker="os^D"[i], color=colour, label=name)
    powers.append(-np.polyfit(np.log(WIDTHS), np.log(mean[:, i]), 1)[0])
axes.plot(WIDTHS, mean[0, 3] * 64 / np.array(WIDTHS), color="0.5", linestyle=":", label="1/n")
axes.plot(WIDTHS, mean[0, 0] * (64 / np.array(WIDTHS)) ** 0.5, color="0.5", linestyle="--", linewidth=0.8, label="1/√n")
axes.set_xticks(WIDTHS, [str(n) for n in WIDTHS])
axes.minorticks_off()
axes.legend(fontsize=7)
# Relative changes of the weights of each layer and of the NTK against the width, on logarithmic axes, all falling
figure

# %% [markdown]
# Weights of the first and the last layer should move like 1/√n, and those between, of which there are n², like 1/n. Of
# the NTK their theorem says 1/√n at most; it falls faster, as in their experiments.

# %%
print("fitted powers of 1/n:", ", ".join(f"{name} {power:.2f}" for name, power in zip(names, powers)))
assert np.abs(np.array(powers[:3]) - [0.5, 1, 0.5]).max() < 0.15 and 0.55 < powers[3] < 1.2

# %% [markdown]
# Second: mean and variance of trained networks over time follow the analytic dynamics of the linear model.

# %%
line, targets = np.array([[-1.0], [0.2], [1.0]], np.float32), np.array([-0.5, 0.8, 0.4], np.float32)
at, steps, n = np.array([[0.6]], np.float32), [0, 1, 2, 4, 8, 16, 32, 64, 128], 256
net = neft.MLP((1, n, n, 1), "erf", C_b=0.05, C_W=1.5)
rate = 0.5 * neft.training.max_learning_rate(net, line)
theory = neft.training.predict(net, line, targets, at, steps=steps, learning_rate=rate)


def outputs(key):
    """The output at the test input after each step of gradient descent."""

    def step(params, _):
        gradient = jax.grad(lambda p: jnp.sum((net.apply(p, line)[:, 0] - targets) ** 2) / 2)(params)
        later = jax.tree.map(lambda p, l, g: p - rate * l * g, params, net.rates(), gradient)
        return later, net.apply(params, at)[0, 0]

    return jax.lax.scan(step, net.init(key, dtype=jnp.float32), None, length=steps[-1] + 1)[1]


DRAWN = 100
every = jax.jit(lambda keys: jax.lax.map(outputs, keys))(jax.random.split(jax.random.key(9), DRAWN))
seen = np.asarray(every, float)[:, steps]
mean, std = theory.mean[:, 0, 0], np.sqrt(theory.cov[:, 0, 0])
figure = Figure(figsize=(5.6, 3.3), layout="constrained")
axes = figure.add_subplot(xlabel="steps of gradient descent", ylabel="output at a test input", xscale="symlog")
axes.fill_between(
    steps, mean - 2 * std, mean + 2 * std, color="#0072B2", alpha=0.2, label="linear model, two standard deviations"
)
axes.plot(steps, mean, color="#0072B2")
axes.errorbar(
    steps,
    seen.mean(0),
    2 * seen.std(0, ddof=1),
    fmt="o",
    markersize=4,
    color="#D55E00",
    label=f"{DRAWN} networks of width {n}",
)
axes.legend(fontsize=8)
# Mean and spread of an output in the course of training: trained networks of width 256 stand on the curves of the linear model
figure

# %%
off = (seen.mean(0) - mean) / (seen.std(0, ddof=1) / np.sqrt(DRAWN))
ratio = np.abs(seen.std(0, ddof=1) / std - 1).max()
print(f"largest difference of the means: {np.abs(off).max():.1f} standard errors; of the spreads {100 * ratio:.0f} %")
assert np.abs(off).max() < 5 and ratio < 0.4
