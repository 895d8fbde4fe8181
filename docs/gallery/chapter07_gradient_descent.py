# %% [markdown]
# # Chapter 7: a step of gradient descent
#
# Roberts, Yaida, Hanin 2022, §7 write what one step does to the outputs: to first order in the rate η it is the NTK H times the error,
# z - ηHε. What goes beyond it is the dNTK's, of order η², and it is a finite-width effect: the wider the network, the longer
# the straight line is good.
#
# Held to, by the assertions of this page: that what the first order in η leaves out is a quarter at half the rate, and falls with the width. The print was not at hand, so that its figures were not laid beside these.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import neft

x, y = np.array([[1.0, 0.3], [-0.2, 0.8]]), np.array([1.0, -1.0])
eta = np.linspace(0.0, 0.2, 17)
figure = Figure(figsize=(5.6, 3.4), layout="constrained")
axes = figure.add_subplot(xlabel="rate η of one step", ylabel="change of the outputs beyond -ηHε, rms")
bent = {}
for n, colour in ((32, "#D55E00"), (128, "#0072B2"), (512, "#009E73")):
    net = neft.MLP((2, n, n, 1), "tanh", C_b=0.1, C_W=1.2)
    rates = net.rates()

    def steps(key, net=net, rates=rates):
        params = net.init(key, dtype=jnp.float32)
        at = jnp.asarray(x, jnp.float32)
        error = net.apply(params, at)[:, 0] - jnp.asarray(y, jnp.float32)
        gradient = jax.grad(lambda p: jnp.sum((net.apply(p, at)[:, 0] - jnp.asarray(y, jnp.float32)) ** 2) / 2)(params)
        H = neft.tangent.mlp_ntk(net, params, at)[:, :, 0, 0]
        move = jax.tree.map(lambda rate, g: rate * g, rates, gradient)

        def z(e):
            return net.apply(jax.tree.map(lambda p, m: p - e * m, params, move), at)[:, 0]

        return jax.vmap(lambda e: z(e) - z(0.0) + e * (H @ error))(jnp.asarray(eta, jnp.float32))

    beyond = np.asarray(jax.jit(lambda keys: jax.lax.map(steps, keys))(jax.random.split(jax.random.key(3), 64)), float)
    bent[n] = np.sqrt((beyond**2).mean((0, 2)))
    axes.plot(eta, bent[n], marker="o", markersize=3, color=colour, label=f"width {n}, 64 networks")
axes.legend(fontsize=8)
# What one step does beyond the NTK grows like the square of the rate and is smaller in wider networks
figure

# %%
half, full = bent[512][8], bent[512][16]
print(f"twice the rate gives {full / half:.2f} times the curvature's effect at width 512")
print(f"four times the width makes it {bent[128][8] / bent[512][8]:.1f} times smaller: about like 1/n")
assert 3.5 < full / half < 4.5 and 2.5 < bent[128][8] / bent[512][8] < 6 and bent[32][8] > bent[128][8]
