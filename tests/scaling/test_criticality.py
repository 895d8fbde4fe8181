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


def chain(params, x):
    for W in params:
        x = x @ W
    return x


def chain_of(depth, n, scale, key=0):
    return [scale * np.random.default_rng(key).normal(size=(n, n)).astype(np.float32) for _ in range(depth)]


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_norms_beyond_the_range_of_float32_are_those_of_the_jacobians(scale):
    # J of the first layer is about 1e-80 or 1e+70: squares leave float32 and so do, at the small scale, gradients.
    depth, n = 26, 4
    params = chain_of(depth, n, scale)
    found = criticality(chain, params, X[:, :n], probes=2000)
    wanted, J = np.empty(depth), np.eye(n)
    for l in reversed(range(depth)):
        wanted[l] = (J**2).sum() / n
        J = params[l].astype(float) @ J
    assert (np.abs(found.norms - wanted) < 5 * found.errors + 1e-12 * wanted).all()
    assert (found.errors < 0.05 * found.norms).all()
    slope = np.polyfit(np.arange(depth - 1), np.log(wanted[:-1]), 1)[0]
    assert found.depth_scale == pytest.approx(1 / abs(slope), rel=0.01)
    assert found.verdict == ("gradients shrink" if scale < 1 else "gradients grow")


def test_layers_whose_gradients_float32_cannot_hold_are_left_out():
    # About 1e-140 in all: gradients are below 1e-67, which no scale of float32 brings back.
    params = chain_of(40, 4, 0.0002)
    found = criticality(chain, params, X[:, :4])
    there = found.norms[:-1] > 0
    assert found.verdict == "gradients shrink" and "Left out are layers" in found.summary and "0, 1, 2" in found.summary
    assert not there[0] and there[25:].all() and (np.diff(there.astype(int)) >= 0).all()
    half = criticality(chain, params[25:], X[:, :4])
    assert half.depth_scale == pytest.approx(found.depth_scale, rel=0.1) and "Left out" not in half.summary


def test_a_model_whose_last_layer_starts_at_zero_gets_a_sentence():
    params = chain_of(5, 4, 0.5)
    with one_sentence("no gradient of 4 reaches the layers before it", "are 0"):
        criticality(chain, [*params[:-1], 0 * params[-1]], X[:, :4])


def test_branches_that_start_at_zero_are_left_out_of_the_fit():
    def residual(params, x):
        x = x @ params["in"]
        for up, down in zip(params["up"], params["down"]):
            x = x + jax.nn.relu(x @ up) @ down
        return x @ params["out"]

    rng = np.random.default_rng(3)
    square = [rng.normal(size=(6, 6)).astype(np.float32) / 6**0.5 for _ in range(5)]
    params = {"in": square[0], "up": square[1:4], "down": [np.zeros((6, 6), np.float32)] * 3, "out": square[4]}
    found = criticality(residual, params, X)
    assert found.verdict == "critical" and found.change == pytest.approx(0, abs=1e-5)
    assert "Left out are layers whose gradients are 0 or too small for their type: up.0, up.1, up.2." in found.summary


@pytest.mark.slow
@pytest.mark.parametrize("depth", [140, 200])
def test_the_depth_scale_of_a_deep_network_does_not_depend_on_its_depth(depth):
    net = MLP((8, *[32] * depth, 4), "relu", C_W=1.0)
    x = jax.random.normal(jax.random.key(1), (8, 8))
    found = criticality(net.apply, net.init(jax.random.key(0)), x, probes=2)
    # 1.44 at infinite width. Logarithms of networks of width 32 fall faster than those of the mean, by 5/(2n).
    assert found.depth_scale == pytest.approx(1 / (np.log(2) + 5 / 64), rel=0.1) and "Left out" not in found.summary


def test_bad_arguments_get_a_sentence():
    net = MLP((6, 4, 2), "tanh")
    with one_sentence("three layers"):
        criticality(net.apply, net.init(jax.random.key(0)), X)
    with one_sentence("apply(params, x) failed"):
        criticality(lambda params, x: x @ params, np.ones((3, 3)), X)
    with one_sentence("probes is 1"):
        criticality(net.apply, [], X, probes=1)
