"""K and Θ of residual and normalized networks against networks that are drawn, extrapolated in 1/width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import Dense, LayerNorm, Network, Residual, RMSNorm
from neft.width import kernel

X = np.array([[0.9, -0.4, 1.2], [0.3, 1.1, -0.8]])
WIDTHS = np.array([32, 64, 128])
DRAWS = 400_000


def one_matrix(n, *, skip=0.7):
    return [Dense(n, C_b=0.1, C_W=1.2), Residual("tanh", Dense(n, C_W=0.8, C_b=0.1, lambda_W=0.6), skip=skip)]


def two_matrices(n, *, skip=1.0, norm=True, gain=3.0):
    before = (RMSNorm(lambda_gain=gain),) if norm else ()
    branch = Residual(*before, Dense(2 * n, C_b=0.3), "relu", Dense(n, C_W=0.8, lambda_b=0.4), skip=skip)
    return [Dense(n, C_W=4.0, lambda_W=0.5), branch, "gelu", Dense(n)]


def after(n, *, gain=0.5, centre=True):
    norm = LayerNorm(lambda_gain=gain, lambda_bias=0.4) if centre else RMSNorm(lambda_gain=gain)
    return [Dense(n, C_W=1.4), Residual("relu", Dense(n, C_b=0.2)), LayerNorm(lambda_gain=gain), "gelu", norm, Dense(n)]


def wider(n, *, skip=None):
    return [Dense(n, C_W=1.4, C_b=0.2), Residual("relu", Dense(2 * n), skip=skip or Dense(2 * n, C_W=0.5)), Dense(n)]


# With each network, what it is without one of its pieces: the simulation must tell them apart.
NETWORKS = {
    "one matrix": (one_matrix, [{"skip": 0.4}]),
    "two matrices, norm before": (two_matrices, [{"skip": 0.5}, {"norm": False}, {"gain": None}]),
    "norms after": (after, [{"gain": None}, {"centre": False}]),
    "a skip of weights": (wider, [{"skip": Dense(64, C_W=0.1)}]),
}


def simulated(make):
    """K and Θ of the outputs, averaged over them, at infinite width, with standard errors: (2, 2, 2) each."""
    means, errors = zip(*(drawn(Network(3, make(int(n))), DRAWS // int(n)) for n in WIDTHS))
    weights = np.linalg.inv(np.vander(1 / WIDTHS, increasing=True))[0]
    estimate = sum(weight * mean for weight, mean in zip(weights, means))
    return estimate, np.sqrt(sum((weight * error) ** 2 for weight, error in zip(weights, errors)))


def drawn(net, draws):
    x, rates = jnp.asarray(X, jnp.float32), jax.tree.leaves(net.rates())

    def one(key):
        begin, signs = jax.random.split(key)
        params = net.init(begin, dtype=jnp.float32)
        # A vector of signs makes a trace over outputs of one gradient.
        v = jax.random.rademacher(signs, (net.outputs,), jnp.float32)
        z = net.apply(params, x)
        gradients = [jax.grad(lambda p, one=one: net.apply(p, one) @ v)(params) for one in x]
        gradients = [jax.tree.leaves(tree) for tree in gradients]
        ntk = [[sum(r * jnp.vdot(a, b) for r, a, b in zip(rates, one, two)) for two in gradients] for one in gradients]
        return jnp.stack([z @ z.T, jnp.array(ntk)]) / net.outputs

    keys = jax.random.split(jax.random.key(net.outputs), draws)
    values = np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=128))(keys), float)
    return values.mean(0), values.std(0) / np.sqrt(draws)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_agree_with_drawn_networks_and_every_piece_counts(name):
    make, without = NETWORKS[name]
    estimate, error = simulated(make)
    predicted = np.stack(kernel(Network(3, make(32)), X))
    assert (np.abs(estimate - predicted) < 5 * error).all(), (estimate - predicted) / error
    for change in without:
        other = np.stack(kernel(Network(3, make(32, **change)), X))
        assert (np.abs(other - predicted) / error).max() > 10, change
