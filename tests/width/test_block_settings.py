"""What residual networks are trained with: shares of the NTK by autodiff, rules by hand, programs and models."""

import dataclasses
import functools
import itertools
import math
import os
import subprocess
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import Dense, Layer, LayerNorm, Network, Residual, RMSNorm
from neft.network.engine import weights_of
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
    mixed = Network(IN, [Dense(8), *[Residual(Dense(8), "relu", Dense(8)), "tanh", Dense(8)] * 3, Dense(2)])
    with one_sentence("after its sums has Nonlinearity", "no program"):
        advise(mixed, 5, 8, inputs=IN, outputs=2, C_b=0.0, C_W=1.0).code("torch")


@pytest.mark.slow
def test_the_spreads_are_those_of_outputs_behind_the_last_norm(found):
    stats = neft.width.statistics(found.network(), np.full(IN, math.sqrt(2.0)))
    V, A, B, K, Theta = (float(getattr(stats, name)[-1]) for name in ("V", "A", "B", "K", "Theta"))
    assert found.spread_ntk == pytest.approx(math.sqrt((A + 2 * B) / N) / Theta, rel=1e-9)
    assert found.spread_output == pytest.approx(math.sqrt(max(V, 0.0) / N) / K, abs=1e-9) and found.spread_output < 1e-4
    assert "those of the last, behind LayerNorm(" in found.summary and "less than 0.01 %" in found.summary


def test_the_rules_are_as_they_are_stated(found):
    # Inputs have a sum of squares of 2 IN, and count as if it were 784.
    Theta = float((found.fan_in * found.share).sum() + (784 / (2 * IN) - 1) * IN * found.share[0])
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
    assert f"one rate, {found.settings('sgd').rate_W[0]:.2g} with gradient descent" in found.summary
    rate = f"{found.settings('adamw').rate_norm:.4g}"
    assert ("gains and biases of norms", rate, "0", "1e-08") in tables(found.settings("adamw"))[0].rows


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


POST_NORM = LayerNorm(lambda_gain=1.0, lambda_bias=1.0, epsilon=1e-5)


def kinds_of_networks():
    """What programs are written for beside pre-norm blocks: norms after the sums, and dense blocks without biases."""
    post = [Residual(Dense(2 * N), "relu", Dense(N)), POST_NORM]
    bare = Residual(RMSNorm(lambda_gain=1.0), Dense(N, lambda_b=0.0), "tanh", Dense(N, lambda_b=0.0))
    return {
        "post-norm": Network(IN, [Dense(N), *post * 2, Dense(OUT)]),
        "without biases": Network(IN, [Dense(N, lambda_b=0.0), *[bare] * 2, Dense(OUT, lambda_b=0.0)]),
        "some biases": Network(IN, [Dense(N), *[bare] * 2, Dense(OUT)]),
        "perceptron without biases": neft.MLP((IN, N, N, N, OUT), "relu", lambda_b=0.0),
    }


KINDS = tuple(kinds_of_networks())
BIASES = {"post-norm": 6, "without biases": 0, "some biases": 2, "perceptron without biases": 0}


@functools.cache
def advised(kind):
    net = kinds_of_networks()[kind]
    return advise(net, 4, N, inputs=IN, outputs=OUT)


def changed(found, optimizer):
    """Settings whose groups are all different."""
    chosen = found.settings(optimizer)
    steps = np.arange(1.0, len(chosen.rate_W) + 1)
    more = {"rate_W": chosen.rate_W * steps, "rate_b": chosen.rate_b * steps**0.5, "rate_norm": 3 * chosen.rate_norm}
    if chosen.betas is not None:
        more |= {"epsilon_W": 1e-3 / steps, "epsilon_b": 1e-4 * steps, "epsilon_norm": 1e-5}
    if optimizer == "adamw":
        more |= {"decay_W": 0.1 * steps, "decay_b": 0.02 * steps, "decay_norm": 0.3}
    return dataclasses.replace(chosen, **more)


def groups_by_hand(chosen, net):
    """Rate, decay and ε of every array: of layers in turn weights and biases, then of norms."""
    each = zip(chosen.rate_W, chosen.decay_W, chosen.epsilon_W, chosen.rate_b, chosen.decay_b, chosen.epsilon_b)
    found = []
    for layer, (rate, decay, epsilon, *of_b) in zip(weights_of(net), each, strict=True):
        found += [(rate, decay, epsilon), *([tuple(of_b)] if layer.biases else [])]
    return found, (chosen.rate_norm, chosen.decay_norm, chosen.epsilon_norm)


def first_step(chosen, p, g, rate, decay, epsilon):
    """A first step by hand: of Adam the averages are the gradient and its square."""
    if chosen.betas is None:
        return p - rate * g
    return p - rate * decay * p - rate * g / (np.abs(g) + epsilon)


def check_first_step(chosen, net, dense, norms):
    """Of dense arrays in the order of layers, and of those of norms: before, gradient, after."""
    each, last = groups_by_hand(chosen, net)
    assert len(each) == len(dense)
    for (p, g, got), group in [*zip(dense, each), *((part, last) for part in norms)]:
        np.testing.assert_allclose(got, first_step(chosen, p, g, *group), rtol=1e-4, atol=2e-6)
        assert np.abs(got - p).max() > 2e-4  # a hundred times what rounding is allowed


def stepped_with_equinox(model, optim):
    """Before, gradient and after of dense arrays and of those of norms."""
    kinds = (eqx.nn.Linear, eqx.nn.LayerNorm, eqx.nn.RMSNorm)
    rng, like = np.random.default_rng(2), eqx.filter(model, eqx.is_inexact_array)
    slopes = jax.tree.map(lambda leaf: jnp.asarray(0.05 * rng.normal(size=leaf.shape), leaf.dtype), like)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        moves, _ = optim.update(slopes, optim.init(like), like)
        after = optax.apply_updates(like, moves)

    def parts(tree):
        found = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kinds))
        for dense in (True, False):
            each = [part for part in found if isinstance(part, kinds) and isinstance(part, eqx.nn.Linear) == dense]
            yield [np.asarray(leaf) for part in each for leaf in (part.weight, part.bias) if leaf is not None]

    return [list(zip(*three)) for three in zip(parts(like), parts(slopes), parts(after))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        *((kind, "adamw") for kind in KINDS),
        ("post-norm", "momentum"),
        ("some biases", "adam"),
        ("perceptron without biases", "sgd"),
    ],
)
def test_programs_of_equinox_have_the_network_and_the_groups(kind, optimizer):
    found = advised(kind)
    net, x = found.network(), np.random.default_rng(0).normal(size=(4, IN)).astype(np.float32)
    for chosen in (found.settings(optimizer), changed(found, optimizer)):
        code, names = found.code("equinox", optimizer=chosen), {"__name__": "generated"}
        exec(compile(code, "generated.py", "exec"), names)
        model, read = names["model"], neft.read(names["model"])
        assert in_kinds(read.network) == in_kinds(net) and max(map(len, code.splitlines())) <= 120
        np.testing.assert_allclose(read.apply(x), jax.vmap(model)(x), rtol=1e-4, atol=1e-5)
        dense, norms = stepped_with_equinox(model, names["optim"])
        check_first_step(chosen, net, dense, norms)
        assert sum(one[0].ndim == 1 for one in dense) == BIASES[kind]
    several = optimizer == "adamw" and kind != "perceptron without biases"
    assert ("multi_transform" in found.code("equinox", optimizer=optimizer)) == several
    assert "multi_transform" in code


@pytest.mark.slow
@pytest.mark.xdist_group("frameworks")
def test_programs_of_other_frameworks_have_the_network_and_the_groups(tmp_path):
    python = os.environ.get("FRAMEWORKS_PYTHON")
    if not python:
        pytest.skip("FRAMEWORKS_PYTHON names no Python that has torch and flax (CONTRIBUTING says how one is made)")
    wanted = {}
    for kind, framework, optimizer in itertools.product(KINDS, ("torch", "flax"), ("adamw", "momentum")):
        if optimizer == "momentum" and kind != "post-norm":
            continue
        found = advised(kind)
        for how, chosen in (("same", found.settings(optimizer)), ("changed", changed(found, optimizer))):
            name = f"{framework}_{kind}_{optimizer}_{how}"
            (tmp_path / f"{name}.py").write_text(found.code(framework, optimizer=chosen))
            wanted[name] = (chosen, found.network(), BIASES[kind])
    script, source = Path(__file__).parent / "blocks_in_frameworks.py", str(Path(neft.__file__).parents[1])
    run = subprocess.run(
        [python, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert run.returncode == 0, run.stderr
    for name, (chosen, net, biases) in wanted.items():
        kept = np.load(tmp_path / f"{name}.npz")
        parts = [[tuple(kept[f"{what}{i}"]) for i in range(int(kept[f"count_{what}"]))] for what in ("dense", "norm")]
        check_first_step(chosen, net, *parts)
        assert sum(one[0].ndim == 1 for one in parts[0]) == biases, name
        np.testing.assert_allclose(kept["read"], kept["outputs"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_models_get_the_groups_of_changed_settings():
    model, found = Model(jax.random.key(0)), advise(pre_norm(N), BLOCKS + 2, N, inputs=IN, outputs=OUT)
    chosen = found.settings("adamw")
    with one_sentence("advised to be trained in two ways", "take `code`"):
        found.apply(model, optimizer=changed(found, "adamw"))
    # Of one size are those of the same place in a block.
    rate, epsilon = chosen.rate_W * np.array([1, 2, 3, 2, 3, 4]), 1e-3 * np.array([1, 2, 3, 2, 3, 4])
    chosen = dataclasses.replace(chosen, rate_W=rate, epsilon_W=epsilon, rate_norm=5 * chosen.rate_norm)
    new, optim = found.apply(model, optimizer=chosen)
    dense, norms = stepped_with_equinox(new, optim)
    # Fields of a block are in another order than its layers.
    order = [0, 1, 4, 5, 2, 3, 8, 9, 6, 7, 10, 11]
    check_first_step(chosen, found.network(), [dense[i] for i in order], norms)
    with one_sentence("settings of 4 layers", "the advice is for 6"):
        found.apply(model, optimizer=advise("relu", 4, 8).settings("adamw"))
    bare = advised("without biases").settings("adamw")
    plain = advise("relu", 6, N, inputs=IN, outputs=OUT)
    with one_sentence("another network", "without trained norms"):
        plain.code(optimizer=dataclasses.replace(plain.settings("adamw"), rate_norm=bare.rate_norm))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_norms_and_biases_at_a_rate_of_zero_stay_as_they_are(found, optimizer):
    chosen = found.settings(optimizer)
    chosen = dataclasses.replace(chosen, rate_norm=0.0, rate_b=0 * chosen.rate_b, decay_W=0.0 * chosen.decay_W)
    model, optim = found.apply(Model(jax.random.key(0)), optimizer=chosen)
    names = made(found.code("equinox", optimizer=chosen))
    for dense, norms in (stepped_with_equinox(model, optim), stepped_with_equinox(names["model"], names["optim"])):
        assert len(dense) == 12 and len(norms) == 6
        for before, _, after in [*norms, *(one for one in dense if one[0].ndim == 1)]:
            np.testing.assert_array_equal(before, after)
        assert all(np.abs(after - before).max() > 0 for before, _, after in dense if before.ndim > 1)
    text = found.code("torch", optimizer=chosen)
    assert f'"biases and norms": {"0" if optimizer == "sgd" else "(0, 0, 1e-08)"},' in text


X = np.ones((4, IN), np.float32)


def made(code):
    names = {"__name__": "generated"}
    exec(compile(code, "generated.py", "exec"), names)
    return names


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_weight_decay_is_refused_where_the_optimizer_has_none(found, optimizer):
    chosen = found.settings(optimizer)
    for more in ({"decay_W": 0.1 * np.eye(6)[1]}, {"decay_b": np.full(6, 0.1)}, {"decay_norm": 0.1}):
        given = dataclasses.replace(chosen, **more)
        words = (f"{next(iter(more))} of optimizer holds 0.1", f"must be 0 with '{optimizer}'", "'adamw'")
        for take in (
            lambda given=given: found.code("torch", optimizer=given),
            lambda given=given: found.apply(None, optimizer=given),
            lambda given=given: found.trial(X, X[:, :OUT], optimizer=given),
        ):
            with one_sentence(*words):
                take()


@pytest.mark.slow
def test_biases_are_where_the_given_network_has_them():
    found, bare = advised("some biases"), advised("without biases")
    assert [bool(b) for b in found.settings("adamw").rate_b] == [True, *[False] * 4, True]
    assert not bare.settings("sgd").rate_b.any() and bare.settings("sgd").rate_W.all()
    model = eqx.nn.MLP(IN, OUT, N, 3, jax.nn.relu, key=jax.random.key(0))
    with one_sentence("model has biases in layers of 5 inputs", "a network without them"):
        advised("perceptron without biases").apply(model)
    plain = eqx.nn.MLP(IN, OUT, N, 3, jax.nn.gelu, use_bias=False, use_final_bias=False, key=jax.random.key(0))
    with one_sentence("model has no biases in layers of", "draws them with the variance"):
        advise("gelu", 4, N, inputs=IN, outputs=OUT).apply(plain)
    new, _ = advised("perceptron without biases").apply(plain)
    assert all(layer.bias is None for layer in new.layers)
    gelu = Residual("gelu", Dense(N, lambda_b=0.0), skip=0.5)
    with one_sentence("a network without biases", "is advised with some"):
        net = Network(IN, [Dense(N, lambda_b=0.0), *[gelu] * 3, Dense(OUT, lambda_b=0.0)])
        advise(net, 5, N, inputs=IN, outputs=OUT, C_b=0.1, C_W=1.0)


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
