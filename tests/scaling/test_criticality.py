"""Partial Jacobian norms against Jacobians written out, and against theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, Dense, Network, Residual, RMSNorm
from neft.scaling import criticality
from neft.width import susceptibilities

X = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)


@pytest.mark.slow
def test_norms_are_those_of_the_jacobians():
    net = MLP((6, 5, 4, 3), "tanh", C_W=1.5)
    params = net.init(jax.random.key(0))
    found = criticality(net.apply, params, X, probes=4000)

    def later(start, z):
        for layer in params[start + 1 :]:
            z = layer.W @ jnp.tanh(z) + layer.b
        return z

    wanted = []
    for l in range(3):
        z = net.preactivations(params, X)[l]
        J = jax.vmap(jax.jacobian(lambda z, l=l: later(l, z)))(z)
        wanted.append(float(jnp.mean(jnp.sum(J**2, (1, 2)))) / 3)
    assert found.widths == (5, 4, 3) and found.names == ("0.W", "1.W", "2.W")
    assert (np.abs(found.norms - wanted) < 5 * found.errors + 1e-12).all() and (found.errors < 0.03 * found.norms).all()
    np.testing.assert_allclose(found.steps, found.norms[:-1] / found.norms[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("C_W", "verdict"), [(1.0, "gradients shrink"), (2.0, "critical"), (4.0, "gradients grow")])
def test_the_depth_scale_is_that_of_theory(C_W, verdict):
    net = MLP((6, *[400] * 12, 400), "relu", C_W=C_W)
    found = criticality(net.apply, net.init(jax.random.key(1)), X)
    chi = susceptibilities("relu", C_W=C_W, C_b=0.0, K=1.0).perpendicular
    assert found.verdict == verdict and found.change == pytest.approx(11 * np.log(chi), abs=0.5)
    if chi != 1:
        assert found.depth_scale == pytest.approx(1 / abs(np.log(chi)), rel=0.1)


@pytest.mark.slow
def test_a_residual_network_is_critical_over_a_power_of_its_depth():
    block = Residual(RMSNorm(), "relu", Dense(200), skip=1.0)
    net = Network(6, [Dense(200), *[block] * 10, Dense(2)])
    found = criticality(net.apply, net.init(jax.random.key(0)), X)
    assert found.verdict == "critical" and len(found.names) == 12


def test_a_model_whose_leaves_hold_functions_is_taken_as_it_is():
    model = eqx.nn.MLP(6, 4, 5, 2, activation=jnp.tanh, key=jax.random.key(2))
    with jax.numpy_rank_promotion("allow"):
        found = criticality(lambda model, x: jax.vmap(model)(x), model, X, probes=4000)
    assert found.widths == (5, 5, 4) and [name.split(".")[-1] for name in found.names] == ["weight"] * 3
    W = [np.asarray(layer.weight) for layer in model.layers]
    b = [np.asarray(layer.bias)[:, None] for layer in model.layers]
    z = [W[0] @ X.T + b[0]]
    z.append(W[1] @ np.tanh(z[0]) + b[1])
    slopes = [1 - np.tanh(one) ** 2 for one in z]
    last = W[2][None] * slopes[1].T[:, None, :]
    first = last @ W[1][None] * slopes[0].T[:, None, :]
    wanted = np.array([np.mean(np.sum(J**2, (1, 2))) / 4 for J in (first, last)])
    assert (np.abs(found.norms[:2] - wanted) < 5 * found.errors[:2]).all() and (found.errors < 0.03 * found.norms).all()


def test_bad_arguments_get_a_sentence():
    net = MLP((6, 4, 2), "tanh")
    with one_sentence("three layers"):
        criticality(net.apply, net.init(jax.random.key(0)), X)
    with one_sentence("apply(params, x) failed"):
        criticality(lambda params, x: x @ params, np.ones((3, 3)), X)
    with one_sentence("probes is 1"):
        criticality(net.apply, [], X, probes=1)
