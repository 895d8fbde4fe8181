# %% [markdown]
# # Chapter 11: representations are learned at finite width
#
# Roberts, Yaida, Hanin 2022, §11: at infinite width training does not move the NTK. At finite width the dNTK moves it, by an amount that
# goes with depth over width: to first order this is what learning of representations is.
#
# Held to, by the assertions of this page: that the NTK moves by an amount that falls like 1/width and grows with depth. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

x, y = np.array([[1.0, 0.2], [-0.5, 0.9], [0.3, -1.1]], np.float32), np.array([1.0, -1.0, 0.5], np.float32)
WIDTHS, DEPTHS, STEPS, DRAWS = (32, 64, 128), (2, 4), 200, 32


def moved(net, rate, key):
    """By which part of itself training moves the NTK of one network."""

    def step(params, _):
        gradient = jax.grad(lambda p: jnp.sum((net.apply(p, x)[:, 0] - y) ** 2) / 2)(params)
        return jax.tree.map(lambda p, l, g: p - rate * l * g, params, net.rates(), gradient), None

    start = net.init(key, dtype=jnp.float32)
    end = jax.lax.scan(step, start, None, length=STEPS)[0]
    before, after = (neft.tangent.mlp_ntk(net, params, x)[:, :, 0, 0] for params in (start, end))
    return jnp.linalg.norm(after - before) / jnp.linalg.norm(before)


figure = Figure(figsize=(5.6, 3.4), layout="constrained")
labels = {"xlabel": "(depth - 1) / width", "ylabel": "relative change of the NTK"}
axes = figure.add_subplot(xscale="log", yscale="log", **labels)
found = {}
for L, mark, colour in zip(DEPTHS, "os", ("#0072B2", "#D55E00")):
    for n in WIDTHS:
        net = neft.MLP((2, *[n] * (L - 1), 1), "tanh", C_b=0.1, C_W=1.2)
        rate = 0.5 * neft.training.max_learning_rate(net, x)
        run = jax.jit(lambda keys, net=net, rate=rate: jax.lax.map(lambda key: moved(net, rate, key), keys))
        values = np.asarray(run(jax.random.split(jax.random.key(n), DRAWS)), float)
        found[L, n] = values.mean(), values.std(ddof=1) / np.sqrt(DRAWS)
    mean, error = np.array([found[L, n] for n in WIDTHS]).T
    ratio = (L - 1) / np.array(WIDTHS)
    axes.errorbar(ratio, mean, 2 * error, marker=mark, color=colour, label=f"{L} layers, {DRAWS} networks each")
line = np.array([1 / 128, 3 / 32])
axes.plot(line, found[4, 64][0] * line / (3 / 64), color="0.5", linestyle=":", label="in proportion")
axes.legend(fontsize=8)
# Relative change of the NTK in training against depth over width, on logarithmic axes: points of both depths rise in proportion to it
figure

# %%
for L in DEPTHS:
    print(f"{L} layers:", ", ".join(f"width {n}: {found[L, n][0]:.3f} ± {found[L, n][1]:.3f}" for n in WIDTHS))
falls = [found[L, 32][0] / found[L, 128][0] for L in DEPTHS]
print("from width 32 to 128 it falls by", " and ".join(f"{fall:.1f}" for fall in falls))
assert min(falls) > 2 and found[4, 64][0] > found[2, 64][0] + 3 * found[4, 64][1]
