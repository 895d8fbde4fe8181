"""Estimates for any network against those for dense chains, which share nothing with them but the draws' law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import MLP, Dense, LayerNorm, Network, Residual, RMSNorm
from neft.ensemble import _general, estimate
from neft.ensemble._tangents import tangents
from neft.width import check

X = np.array([[1.0, -0.5, 0.8], [0.7, 0.4, 1.2]])


def test_the_kernel_of_a_draw_is_that_of_its_jacobian():
    inside = Residual("relu", Dense(4), skip=-0.6)
    norm = LayerNorm(lambda_gain=0.7, lambda_bias=0.3)
    branch = (norm, Dense(4, lambda_W=0.5), inside, "tanh", Dense(5, lambda_b=0.4))
    blocks = [Dense(4, lambda_W=0.8), Residual(*branch, skip=Dense(5)), RMSNorm(), Dense(3, lambda_b=0.2)]
    net = Network(3, blocks)
    with jax.enable_x64(True):
        params = net.init(jax.random.key(0), dtype=np.float64)
        found = jax.jit(lambda p: tangents(net, p, jnp.asarray(X)))(params)
        rates = jax.tree.leaves(net.rates())

        @jax.jit
        def all_at_once(p):
            return net.preactivations(p, jnp.asarray(X)), jax.jacrev(lambda p: net.preactivations(p, X))(p)

        for z, (y, H), jacobian in zip(all_at_once(params)[0], found, all_at_once(params)[1], strict=True):
            leaves = [np.asarray(leaf).reshape(y.size, -1) for leaf in jax.tree.leaves(jacobian)]
            wanted = sum(rate * leaf @ leaf.T for rate, leaf in zip(rates, leaves, strict=True))
            np.testing.assert_allclose(y, z, rtol=1e-12)
            np.testing.assert_allclose(np.asarray(H).reshape(y.size, y.size), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_a_residual_network_has_estimates_of_its_kernels():
    net = Network(3, [Dense(4), Residual("tanh", Dense(4), skip=0.8), Dense(1)])
    found = estimate(net, X[0], draws=64, key=jax.random.key(0), only=("K", "V", "Theta"))
    assert list(found.tensors) == ["K", "V", "Theta"] and found.V.mean.shape == (3,) and found.draws == 64
    assert found.widths == (3, 4, 4, 1) and (found.K.stderr > 0).all()
    again = estimate(net, X[0], draws=64, key=jax.random.key(0), only=("K",))
    np.testing.assert_array_equal(again.K.mean, found.K.mean)


@pytest.mark.slow
def test_both_ways_agree_on_a_dense_chain():
    net = MLP((3, 8, 10, 2), "tanh", C_b=0.2, C_W=1.3, lambda_b=0.3, lambda_W=0.7)
    plain = estimate(net, X, draws=20_000, key=jax.random.key(1), only=_general.NAMES, dtype="float32")
    found = _general.general(net, X, 20_000, jax.random.key(0), np.dtype("float32"))
    for name, (mean, error) in found.items():
        other = plain.tensors[name]
        both = np.sqrt(error[1:] ** 2 + other.stderr[1:] ** 2)
        assert (np.abs(mean[1:] - other.mean[1:]) < 5 * both).all(), name
        assert (np.abs(mean[1:]) / error[1:]).max() > 10, name


@pytest.mark.slow
def test_a_residual_network_is_checked_at_several_widths():
    branch = (RMSNorm(), Dense(16, C_b=0.1), "relu", Dense(8, C_W=0.8))
    net = Network(3, [Dense(8, C_W=1.2), Residual(*branch, skip=0.9), "tanh", Dense(1)])
    found = check(net, X[0], draws=1000, dtype=np.float32)
    assert found.agrees and list(found.z) == ["K", "Theta", "V", "A", "B", "D", "F"]
    assert found.simulated[-1] == (3, 40, 40, 1)
    assert (found.theory["Theta"] > 10 * found.stderr["Theta"]).all()
    assert (found.theory["B"][1:] > 10 * found.stderr["B"][1:]).all()


@pytest.mark.slow
def test_a_residual_network_is_checked_at_two_inputs():
    net = Network(3, [Dense(8, C_W=1.2), Residual("tanh", Dense(8, C_b=0.1, C_W=0.8), skip=0.9), "tanh", Dense(1)])
    found = check(net, X, draws=12_000, dtype=np.float32)
    assert found.agrees and found.theory["V"].shape == (3, 2, 2, 2, 2)
    for name in ("Theta", "A", "B", "F"):
        assert found.resolved(name)[1:].max() > 10, name
