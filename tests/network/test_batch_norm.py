"""Batch normalization against plain NumPy, with moments of the batch and given ones; what it refuses, and files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import BatchNorm, Dense, Network, Residual
from neft.network import Block, Moments

RNG = np.random.default_rng(4)
X = RNG.normal(size=(9, 3)) * [2.0, 1.0, 0.3] + 1
KEY = jax.random.key(0)
NORM = BatchNorm(lambda_gain=0.5, lambda_bias=0.25)
NET = Network(
    3,
    [
        Dense(5, C_b=0.1),
        NORM,
        "relu",
        Residual(BatchNorm(epsilon=1e-3), "tanh", Dense(4), skip=Dense(4)),
        NORM,
        Dense(2),
    ],
)


PARAMS = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape), jax.eval_shape(NET.init, KEY))
APPLIED = jax.jit(lambda net, params, x: net.apply(params, x))
MOMENTS = jax.jit(lambda net, params, x: net.moments(params, x))


def normalized(x, mean, variance, gain=1.0, bias=0.0, epsilon=1e-5):
    return (x - mean) / np.sqrt(variance + epsilon) * gain + bias


def by_hand(params, x, moments=None):
    """The outputs and the moments used, in NumPy."""
    (W1, b1), (g1, h1), ((branch,), (W3, b3)), (g2, h2), (W4, b4) = params
    W2, b2 = branch
    used = []

    def norm(z, **affine):
        mean = sum(z) / len(z)
        own = (mean, sum((z - mean) ** 2) / len(z))
        used.append(own if moments is None else moments[len(used)])
        return normalized(z, *used[-1], **affine)

    z = np.maximum(norm(x @ W1.T + b1, gain=g1, bias=h1), 0)
    z = np.tanh(norm(z, epsilon=1e-3)) @ W2.T + b2 + z @ W3.T + b3
    return norm(z, gain=g2, bias=h2) @ W4.T + b4, used


def test_outputs_and_moments_are_those_of_numpy():
    with jax.enable_x64(True):
        outputs, moments = by_hand(PARAMS, X)
        np.testing.assert_allclose(APPLIED(NET, PARAMS, X), outputs, rtol=1e-12, atol=1e-14)
        found = MOMENTS(NET, PARAMS, X)
        assert len(found) == 3 and isinstance(found[0], Moments)
        for one, two in zip(found, moments):
            np.testing.assert_allclose(one.mean, two[0], rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(one.variance, two[1], rtol=1e-12, atol=1e-14)
        # All leading axes are the batch.
        np.testing.assert_allclose(
            APPLIED(NET, PARAMS, X.reshape(3, 3, 3)), outputs.reshape(3, 3, 2), rtol=1e-12, atol=1e-14
        )


def test_given_moments_make_it_a_function_of_one_input():
    with jax.enable_x64(True):
        assert NET.couples
        # Running moments: a mean over batches in which the newer weigh more.
        batches = X[:3], X[3:6], X[6:]
        running = MOMENTS(NET, PARAMS, batches[0])
        for x in batches[1:]:
            new = MOMENTS(NET, PARAMS, x)
            running = jax.tree.map(lambda old, new: 0.9 * np.asarray(old) + 0.1 * np.asarray(new), running, new)
        own = [by_hand(PARAMS, x)[1] for x in batches]
        shares = (0.81, 0.09, 0.1)
        expected = [[sum(s * m[l][i] for s, m in zip(shares, own)) for i in range(2)] for l in range(3)]
        fixed = NET.with_moments(running)
        assert not fixed.couples and fixed.widths == NET.widths
        np.testing.assert_allclose(APPLIED(fixed, PARAMS, X), by_hand(PARAMS, X, expected)[0], rtol=1e-11, atol=1e-13)
        one = jax.jit(jax.vmap(lambda x: fixed.apply(PARAMS, x)))(X)
        np.testing.assert_allclose(one, APPLIED(fixed, PARAMS, X), rtol=1e-12, atol=1e-14)
        assert np.abs(np.asarray(APPLIED(fixed, PARAMS, X)) - APPLIED(NET, PARAMS, X)).max() > 0.1
        with_own = NET.with_moments(MOMENTS(NET, PARAMS, X))
        np.testing.assert_allclose(APPLIED(with_own, PARAMS, X), APPLIED(NET, PARAMS, X), rtol=1e-12, atol=1e-14)


def test_compilation_and_derivatives_go_through_moments_and_hyperparameters():
    with jax.enable_x64(True):
        fixed = NET.with_moments(MOMENTS(NET, PARAMS, X[:5]))
        APPLIED(fixed, PARAMS, X[0])
        before = APPLIED._cache_size()
        APPLIED(NET.with_moments(MOMENTS(NET, PARAMS, X[4:])), PARAMS, X[0])
        assert APPLIED._cache_size() == before

        def output(epsilon, mean):
            norm = BatchNorm(epsilon=epsilon, moments=(mean, jnp.full(3, 0.7)))
            return Network(3, [norm, Dense(1)]).apply(((np.ones((1, 3)), np.zeros(1)),), X[0])[0]

        slope = jax.jit(jax.grad(output, (0, 1)))(0.3, jnp.ones(3))
        np.testing.assert_allclose(slope[0], -0.5 * (X[0] - 1).sum(), rtol=1e-12)  # (0.7 + 0.3)^{-3/2} is 1
        np.testing.assert_allclose(slope[1], -np.ones(3), rtol=1e-12)

        def cost(x):
            return (NET.apply(PARAMS, x) ** 2).sum()

        slope, step = jax.jit(jax.grad(cost))(X), np.zeros_like(X)
        step[2, 1] = 1e-6
        numeric = sum(sign * (by_hand(PARAMS, X + sign * step)[0] ** 2).sum() for sign in (1, -1)) / 2e-6
        # An entry moves the outputs of all others in the batch.
        assert float(slope[2, 1]) == pytest.approx(numeric, rel=1e-6)


def test_an_entry_that_does_not_vary_becomes_its_bias():
    x = np.array([[1.0, 2.0], [1.0, 4.0]], np.float32)
    norm = BatchNorm(lambda_bias=1.0, epsilon=0.0)
    params = norm.init(KEY, 2, dtype=jnp.float32)
    assert params.gain is None and norm.rates(2).bias == 1.0
    np.testing.assert_array_equal(jax.jit(norm.apply)(params, x), [[0.0, -1.0], [0.0, 1.0]])
    slope = jax.jit(jax.grad(lambda x: (norm.apply(params, x) ** 2).sum()))(x)
    assert np.isfinite(slope).all()


class Pair(Block):
    """A block of a user's own that is made of blocks."""

    norm: BatchNorm
    dense: Dense

    def init(self, key, fan_in, *, dtype):
        return self.dense.init(key, fan_in, dtype=dtype)

    def apply(self, params, x):
        return self.visited(params, x, lambda block, params, x: block.apply(params, x))

    def visited(self, params, x, visit):
        return visit(self.dense, params, visit(self.norm, (), x))

    def rates(self, fan_in):
        return self.dense.rates(fan_in)

    def kernel(self, stage, average):
        return self.dense.kernel(self.norm.kernel(stage, average), average)


def test_blocks_inside_a_block_of_ones_own_are_visited():
    net = Network(3, [Dense(4), Pair(BatchNorm(), Dense(5)), "relu", Dense(2)])
    assert net.couples and net.widths == (3, 4, 5, 2)
    params = jax.eval_shape(net.init, KEY)
    moments = jax.eval_shape(net.moments, params, X.astype(np.float32))
    assert [part.mean.shape for part in moments] == [(4,)]
    seen = jax.eval_shape(lambda params: neft.fisher.capture(net, jnp.asarray(X, jnp.float32), params), params)
    assert [x.shape for x in seen.inputs] == [(9, 3), (9, 4), (9, 5)]
    with one_sentence("block Pair(", "no kernel at infinite width"):
        net.check_kernel()


def test_rates_records_and_widths():
    rates, params = NET.rates(), jax.jit(NET.init)(KEY)
    assert jax.tree.structure(rates) == jax.tree.structure(params)
    assert (rates[1].gain, rates[1].bias) == (0.5, 0.25) and params[1].gain.tolist() == [1.0] * 5
    assert NET.depth == 3 and NET.parameter_count() == 15 + 5 + 10 + 24 + 24 + 8 + 10
    record = NET.to_dict()
    assert record["blocks"][1] == {"type": "BatchNorm", "lambda_gain": 0.5, "lambda_bias": 0.25, "epsilon": 1e-5}
    assert Network.from_dict(record) == NET
    fixed = NET.with_moments([(np.zeros(n), np.arange(n) / 7) for n in (5, 5, 4)])
    again = Network.from_dict(fixed.to_dict())
    for one, two in zip(jax.tree.leaves(again), jax.tree.leaves(fixed), strict=True):
        np.testing.assert_array_equal(one, two)
    assert repr(fixed.blocks[1]) == "BatchNorm(lambda_gain=0.5, lambda_bias=0.25, epsilon=1e-05, moments=…)"
    assert NET.resized(lambda n: 2 * n).widths == (3, 10, 8, 2) and fixed.resized(lambda n: 2 * n).couples


@pytest.mark.slow
def test_a_network_of_given_moments_has_tangent_kernels():
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, PARAMS)
        fixed = NET.with_moments(MOMENTS(NET, PARAMS, X))
        found = neft.tangent.ntk(fixed, params, X[:2])
        # Each input by itself, so nothing of the other one enters.
        np.testing.assert_allclose(neft.tangent.ntk(fixed, params, X[:1])[0, 0], found[0, 0], rtol=1e-12)
        gradients = jax.jit(jax.jacrev(lambda p, x: fixed.apply(p, x)))(params, X[1])
        rates = jax.tree.leaves(fixed.rates())
        pairs = zip(rates, jax.tree.leaves(gradients), strict=True)
        expected = sum(rate * np.asarray(g).reshape(2, -1) @ np.asarray(g).reshape(2, -1).T for rate, g in pairs)
        np.testing.assert_allclose(found[1, 1], expected, rtol=1e-11)


FIXED = NET.with_moments([(np.zeros(n), np.ones(n)) for n in (5, 5, 4)])
COUPLED = ("block BatchNorm(", "couple", "no kernel at infinite width")


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (COUPLED, lambda: neft.width.kernel(NET, X)),
        (COUPLED, lambda: neft.width.pair_kernel(NET, jnp.ones(3), jnp.ones(3))),
        (COUPLED, lambda: neft.width.statistics(NET, X[0])),
        (COUPLED, lambda: neft.width.check(NET, X[0])),
        (COUPLED, lambda: neft.ensemble.estimate(NET, X, draws=4, key=KEY)),
        pytest.param(COUPLED, lambda: neft.training.predict(NET, X, np.ones((9, 2))), marks=pytest.mark.slow),
        pytest.param(COUPLED, lambda: neft.training.nngp(NET, X, np.ones((9, 2))), marks=pytest.mark.slow),
        (COUPLED, lambda: neft.training.ensemble(NET, X, np.ones((9, 2)), draws=2, key=KEY)),
        (("taken from one network", "no kernel"), lambda: neft.width.kernel(FIXED, X)),
        (("taken from one network", "no kernel"), lambda: neft.ensemble.estimate(FIXED, X, draws=4, key=KEY)),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.ntk(NET, PARAMS, X)),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.ntk(NET.apply, PARAMS, X)),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.mlp_ntk(NET, PARAMS, jnp.ones((9, 3)))),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.dntk(NET, PARAMS, X)),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.ddntk(NET, PARAMS, X)),
        (("moments of a batch", "with_moments"), lambda: neft.tangent.products(NET, PARAMS, X, [np.ones((9, 2))])),
        (("moments of a batch", "with_moments"), lambda: neft.training.evolve(NET, PARAMS, X, np.ones((9, 2)))),
        # A function that hides the network: one input at a time has no moments.
        (("at least two",), lambda: neft.tangent.ntk(lambda p, x: NET.apply(p, x), PARAMS, X)),
        (("number of inputs is 1", "at least two"), lambda: NET.apply(PARAMS, X[0])),
        (("number of inputs is 1", "at least two"), lambda: NET.apply(PARAMS, X[:1])),
        (("number of inputs is 1",), lambda: jax.vmap(lambda x: NET.apply(PARAMS, x))(X)),
        (("moments are those of 2 batch norms", "has 3"), lambda: NET.with_moments([(np.ones(5), np.ones(5))] * 2)),
        (("moments have shape (4,)", "5 entries"), lambda: NET.with_moments([(np.ones(4),) * 2] * 3).apply(PARAMS, X)),
        (("moments is 3", "pair"), lambda: BatchNorm(moments=3)),
        (("moments have shapes ((2,), (3,))",), lambda: BatchNorm(moments=(np.ones(2), np.ones(3)))),
        (("variance", "-1", "at least 0"), lambda: BatchNorm(moments=(np.ones(2), -np.ones(2)))),
        (("epsilon is -1",), lambda: BatchNorm(epsilon=-1.0)),
        (("lambda_gain is 'fast'",), lambda: BatchNorm(lambda_gain="fast")),
    ],
)
def test_what_it_refuses(words, call):
    with one_sentence(*words):
        call()
