"""What residual networks are trained with: shares of the NTK by autodiff, rules by hand, programs and models."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import Dense, Layer, LayerNorm, Network, Residual, RMSNorm
from neft.report import tables
from neft.width import advise

N, IN, OUT, BLOCKS = 16, 5, 3, 2
NORM = LayerNorm(lambda_gain=1.0, lambda_bias=1.0, epsilon=1e-5)


def pre_norm(width, name="relu", blocks=BLOCKS):
    block = Residual(NORM, Dense(2 * width), name, Dense(width))
    return Network(IN, [Dense(width), *[block] * blocks, NORM, Dense(OUT)])


@pytest.fixture(scope="module")
def found():
    return advise(pre_norm(N), BLOCKS + 2, N, inputs=IN, outputs=OUT, q=2.0)


def layers_of(params):
    return [part for part in jax.tree.leaves(params, is_leaf=lambda p: isinstance(p, Layer)) if isinstance(part, Layer)]


@pytest.mark.slow
def test_shares_are_squared_gradients_of_drawn_networks():
    wide = advise(pre_norm(256), BLOCKS + 2, 256, inputs=IN, outputs=OUT, q=2.0)
    net, x = wide.network(), math.sqrt(2.0) * jnp.ones(IN)

    @jax.jit
    def squares(key):
        gradient = jax.grad(lambda p: net.apply(p, x)[0])(net.init(key))
        # A rate of 1/fan-in for each weight.
        return jnp.stack([jnp.sum(layer.W**2) / layer.W.shape[1] for layer in layers_of(gradient)])

    each = np.array(jax.lax.map(squares, jax.random.split(jax.random.key(2), 60)), float)
    first, up, down, last = each[:, 0], each[:, 1:5:2].sum(1), each[:, 2:5:2].sum(1), each[:, 5]
    for values, share in zip((first, up, down, last), wide.share):
        stderr = values.std() / math.sqrt(60)
        assert abs(values.mean() - share) < 5 * stderr and share > 10 * stderr
    assert wide.fan_in.tolist() == [IN, 256, 512, 256] and wide.count.tolist() == [1, 2, 2, 1]


def test_branches_add_what_their_norm_gives_them(found):
    more = 1 + 1e-5  # the norm makes K/(K + epsilon) of K, and relu a half of that: C_W²/2 = 1 + epsilon
    assert found.kind == "free" and abs(found.C_W - math.sqrt(2 * more)) < 1e-9 and found.C_b == 0
    np.testing.assert_allclose(found.K, [1, 2, 2 + more * 2 / (1 + more)], rtol=1e-12)


@pytest.mark.slow
def test_branches_of_tanh_add_it_too():
    tanh = advise(Residual(RMSNorm(), Dense(8), "tanh", Dense(8)), 4, 8)
    z, w = np.polynomial.hermite_e.hermegauss(200)
    assert tanh.C_W * (w @ np.tanh(math.sqrt(tanh.C_W) * z) ** 2) / w.sum() == pytest.approx(1, rel=1e-5)


@pytest.mark.slow
def test_the_network_keeps_its_last_norm_and_starts_at_one(found):
    net = found.network()
    assert [type(block).__name__ for block in net.blocks] == ["Dense", "Residual", "Residual", "LayerNorm", "Dense"]
    assert abs(net.blocks[0].C_W - 0.5) < 1e-9 and net.widths == (IN, N, N, N, OUT)
    own = advise(Residual(LayerNorm(lambda_bias=1.0), Dense(8), "relu", Dense(8)), 4, 8)
    assert [type(block).__name__ for block in own.network().blocks[-2:]] == ["Residual", "Dense"]
    with one_sentence("biases but no gains"):
        own.code("torch")
    post = Network(IN, [Dense(8), *[Residual(Dense(8), "relu", Dense(8)), RMSNorm()] * 3, Dense(2)])
    found = advise(post, 5, 8, inputs=IN, outputs=2)
    assert len(found.network().blocks) == 8
    with one_sentence("the network repeats RMSNorm", "residual blocks"):
        found.code("torch")


@pytest.mark.slow
def test_the_spreads_are_those_of_outputs_behind_the_last_norm(found):
    stats = neft.width.statistics(found.network(), np.full(IN, math.sqrt(2.0)))
    V, A, B, K, Theta = (float(getattr(stats, name)[-1]) for name in ("V", "A", "B", "K", "Theta"))
    assert found.spread_ntk == pytest.approx(math.sqrt((A + 2 * B) / N) / Theta, rel=1e-9)
    assert found.spread_output == pytest.approx(math.sqrt(max(V, 0.0) / N) / K, abs=1e-9) and found.spread_output < 1e-4
    assert "those of the last, behind LayerNorm(" in found.summary and "less than 0.01 %" in found.summary


def test_the_rules_are_as_they_are_stated(found):
    Theta = float((found.fan_in * found.share).sum())
    assert found.settings("sgd").rate_W == pytest.approx(np.full(6, 150 / Theta))
    assert found.settings("momentum").rate_b == pytest.approx(np.full(6, 15 / Theta))
    root = (found.fan_in * np.sqrt(found.count * found.share)).sum()
    assert found.settings("adam").rate_W == pytest.approx(np.full(6, 0.9 / root))
    assert found.settings("adamw").rate_norm == found.settings("adamw").rate_W[0]
    untrained = advise(Residual(RMSNorm(), Dense(8), "relu", Dense(8)), 4, 8)
    assert untrained.settings("sgd").rate_norm == 0
    with one_sentence("optimizer is 'lion'"):
        found.settings("lion")
    text = tables(found)[0].text()
    assert f"{found.settings('adam').rate_W[0]:.3g}" in text and found.summary in text
    assert "Gains and biases of norms" in tables(found.settings("adamw"))[0].text()


class Block(eqx.Module):
    down: eqx.nn.Linear  # before `up`, so that the order of fields is not that of the program
    up: eqx.nn.Linear
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(N)
        self.up, self.down = eqx.nn.Linear(N, 2 * N, key=one), eqx.nn.Linear(2 * N, N, key=two)

    def __call__(self, x):
        return x + self.down(jax.nn.relu(self.up(self.norm(x))))


class Model(eqx.Module):
    first: eqx.nn.Linear
    blocks: list[Block]
    norm: eqx.nn.LayerNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        one, two, *rest = jax.random.split(key, BLOCKS + 2)
        self.first, self.last = eqx.nn.Linear(IN, N, key=one), eqx.nn.Linear(N, OUT, key=two)
        self.blocks = [Block(k) for k in rest]
        norm = eqx.nn.LayerNorm(N)
        self.norm = eqx.tree_at(lambda of: of.weight, norm, 1.3 * norm.weight)

    def __call__(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


@pytest.mark.slow
def test_a_model_is_read_advised_and_changed():
    model = Model(jax.random.key(0))
    read = neft.read(model)
    found = advise(read.network, BLOCKS + 2, N, inputs=IN, outputs=OUT)
    new, optim = found.apply(model, optimizer="adamw", key=jax.random.key(1))
    again = neft.read(new)
    assert again.network.widths == read.network.widths
    variances = [(layer.C_W, layer.error_W) for layer in again.layers if layer.C_W is not None]
    wanted = [1.0, *[found.C_W] * (2 * BLOCKS), 1.0]
    for (value, error), expected in zip(variances, wanted, strict=True):
        assert abs(value - expected) < 5 * error
    np.testing.assert_array_equal(new.norm.weight, np.ones(N))
    like = eqx.filter(new, eqx.is_inexact_array)
    gradient = jax.tree.map(lambda leaf: jnp.full_like(leaf, 3.0), like)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        moves, _ = optim.update(gradient, optim.init(like), like)
    rate = found.settings("adamw").rate_W[0]
    np.testing.assert_allclose(moves.norm.weight, -rate, rtol=1e-4)
    np.testing.assert_allclose(
        moves.blocks[1].up.weight, -rate * (1 + 0.01 * np.asarray(new.blocks[1].up.weight)), rtol=1e-4
    )
    with one_sentence("model has layers of sizes"):
        advise(pre_norm(8), BLOCKS + 2, 8, inputs=IN, outputs=OUT).apply(model)
    with one_sentence("drawn in two ways"):
        square = Network(N, [Dense(N), *[Residual(NORM, Dense(N), "relu", Dense(N))] * 2, NORM, Dense(OUT)])
        advise(square, 4, N, inputs=N, outputs=OUT, q=3.0).apply(model)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_equinox_program_makes_the_advised_network(found, optimizer):
    names = {"__name__": "generated"}
    exec(compile(found.code("equinox", optimizer=optimizer), "generated.py", "exec"), names)
    model, optim = names["model"], names["optim"]
    read = neft.read(model)
    x = np.random.default_rng(0).normal(size=(4, IN)).astype(np.float32)
    assert in_kinds(read.network) == in_kinds(found.network())
    np.testing.assert_allclose(read.apply(x), jax.vmap(model)(x), rtol=1e-4, atol=1e-5)
    for layer, expected in zip([one for one in read.layers if one.C_W], [0.5, *[math.sqrt(2)] * 4, 1.0], strict=True):
        assert abs(layer.C_W - expected) < 5 * layer.error_W
    like = eqx.filter(model, eqx.is_inexact_array)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        moves, _ = optim.update(jax.tree.map(jnp.ones_like, like), optim.init(like), like)
        after = optax.apply_updates(like, moves)
    rate = found.settings(optimizer).rate_W[0]
    np.testing.assert_allclose(np.asarray(after.last.bias - like.last.bias), -rate, rtol=1e-3)


def in_kinds(net):
    return [
        type(part).__name__ for part in jax.tree.leaves(net.blocks, is_leaf=lambda p: isinstance(p, neft.network.Block))
    ]


@pytest.mark.parametrize("framework", ["flax", "torch"])
def test_programs_compile(found, framework):
    for optimizer in ("sgd", "momentum", "adam", "adamw"):
        code = found.code(framework, optimizer=optimizer)
        compile(code, "generated.py", "exec")
        assert "NotImplementedError" not in code and f"{found.settings(optimizer).rate_W[0]:.10g}" in code


@pytest.mark.slow
def test_a_residual_network_is_tried(found):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, IN))
    trial = found.trial(x, (x[:, 0] > 0).astype(int), optimizer="adamw", steps=40)
    assert trial.final[0] < 0.5 * trial.guess and trial.rates[0] == found.settings("adamw").rate_W[0]
