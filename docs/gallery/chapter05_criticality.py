# %% [markdown]
# # Chapter 5: critical initialization and universality
#
# Roberts, Yaida, Hanin 2022, §5 ask for which variances of weights and biases a signal survives many layers. For tanh it is C_W = 1
# without biases: below, the signal dies out exponentially, above, it settles to a value that forgets the input; at
# criticality it falls like 1/(2l), a power.
#
# Held to, by the assertions of this page: K, which goes to 1/(2l) for tanh, and V/(K² l), which goes to 2/3 for sin; the limits 5 of relu and 2/3 of tanh are printed. The print was not at hand, so that its figures were not laid beside these. The critical point of gelu as public programs quote it from the book, C_b = 0.17292239 and C_W = 1.98305826, is neft's to these digits (`tests/width/test_critical.py`).

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

DEPTH, n = 24, 64
layer = np.arange(1, DEPTH + 1)
figure = Figure(figsize=(7.4, 3.3), layout="constrained")
left = figure.add_subplot(1, 2, 1, xlabel="layer", ylabel="variance K of a preactivation", xscale="log", yscale="log")


@jax.jit
def squares(net, keys):
    """The mean square of each layer of drawn networks."""

    def one(key):
        zs = net.preactivations(net.init(key, dtype=jnp.float32), jnp.ones(n, jnp.float32))
        return jnp.stack([jnp.mean(z**2) for z in zs])

    return jax.lax.map(one, keys)


for C_W, colour in ((0.9, "#0072B2"), (1.0, "#D55E00"), (1.1, "#009E73")):
    net = neft.MLP((n, *[n] * DEPTH), "tanh", C_W=C_W)
    K = net.infinite_width(np.ones((1, n)), slopes=False)[0][:, 0, 0]
    drawn = np.asarray(squares(net, jax.random.split(jax.random.key(0), 100)), float)
    mean, error = drawn.mean(0), drawn.std(0, ddof=1) / 10
    left.plot(layer, K, color=colour, label=f"C_W = {C_W}")
    left.errorbar(layer[::4], mean[::4], 2 * error[::4], fmt="o", markersize=3, color=colour)
    if C_W == 1:
        critical = K
        print(
            f"at layer {DEPTH} K is {K[-1]:.4f}, 1/(2l) is {1 / (2 * DEPTH):.4f}; drawn {mean[-1]:.4f} ± {error[-1]:.4f}"
        )
left.plot(layer, 1 / (2 * layer), color="0.4", linestyle=":", label="1/(2l)")
left.legend(fontsize=8)

right = figure.add_subplot(1, 2, 2, xlabel="layer l", ylabel="V / (K² l)", ylim=(0, 6))
limits = {"relu": (2.0, 5.0), "tanh": (1.0, 2 / 3), "sin": (1.0, 2 / 3)}
for (name, (C_W, limit)), colour in zip(limits.items(), ("#0072B2", "#D55E00", "#009E73")):
    stats = neft.width.statistics(neft.MLP((n, *[n] * DEPTH), name, C_W=C_W), np.ones(n))
    right.plot(layer, stats.V / stats.K**2 / layer, color=colour, label=name)
    if name == "tanh":
        print(f"with the correction of order 1/width K is {(stats.K + stats.K1 / n)[-1]:.4f} at layer {DEPTH}")
    right.axhline(limit, color=colour, linewidth=0.7, linestyle=":")
    print(f"{name}: V/(K² l) is {(stats.V / stats.K**2 / layer)[-1]:.3f} at layer {DEPTH} and goes to {limit:.3f}")
right.legend(fontsize=8)
# Left: the variance through 24 layers below, at and above criticality, drawn networks on the lines. Right: V over K² l goes to 5 and 2/3
figure

# %% [markdown]
# Drawn networks of width 64 lie a little below the line at criticality: that is the correction of order 1/width.
#
# The right panel is universality: activations fall into classes. Scale-invariant ones such as ReLU share one limit of V/(K² l),
# and those with σ(0) = 0, σ'(0) ≠ 0 and negative σ''' such as tanh and sin share another, 2/3, whatever they look like.

# %%
assert abs(critical[-1] * 2 * DEPTH - 1) < 0.1
assert abs((stats.V / stats.K**2 / layer)[-1] - 2 / 3) < 0.1
assert K[-1] > 0.05
