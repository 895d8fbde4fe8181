"""Convolutions, pools and Flatten as functions of images: shapes, values by plain loops, and what is refused."""

import itertools
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neft
from neft import Attention, AvgPool, Conv, Dense, Flatten, GlobalAvgPool, LayerNorm, Network, Residual
from neft.cli._specification import read, text_of
from neft.network._encoding import correlation, waves
from neft.network.engine import perceptron


def net_of_all():
    return Network(
        (6, 5, 2),
        [
            Conv(3, (3, 2), strides=(2, 1), C_b=0.1),
            Residual(LayerNorm(), "relu", Conv(4, (3, 3), padding="CIRCULAR"), skip=Conv(4, (1, 1), lambda_W=0.5)),
            "relu",
            AvgPool((2, 2), strides=1),
            Conv(2, (2, 2), padding="VALID"),
            Flatten(),
            Dense(2),
        ],
    )


def test_a_convolution_is_a_sum_over_its_window():
    block = Conv(3, (3, 2), strides=(2, 1), C_b=1.0)
    x = np.random.default_rng(0).normal(size=(2, 6, 5, 2)).astype(np.float32)
    W, b = block.init(jax.random.key(0), 2, dtype=jnp.float32)
    found = np.asarray(block.apply((W, b), jnp.asarray(x)))
    # SAME, as in frameworks: as many rows are added below as above, or one more.
    padded = np.zeros((2, 7, 6, 2))
    padded[:, :6, :5] = x
    for i, j, c in itertools.product(range(3), range(5), range(3)):
        window = padded[:, 2 * i : 2 * i + 3, j : j + 2]
        wanted = (window * np.asarray(W)[None, ..., c]).sum((1, 2, 3)) + b[c]
        np.testing.assert_allclose(found[:, i, j, c], wanted, rtol=1e-4, atol=1e-5)


def test_inputs_are_images_or_the_same_as_vectors():
    net = net_of_all()
    assert (net.inputs, net.input_shape, net.positions, net.outputs) == (60, (6, 5, 2), (6, 5), 2)
    params, x = (
        jax.jit(net.init)(jax.random.key(1)),
        np.random.default_rng(0).normal(size=(3, 6, 5, 2)).astype(np.float32),
    )
    apply = jax.jit(net.apply)
    found = apply(params, x)
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(apply(params, x.reshape(3, 60)), found)
    np.testing.assert_allclose(apply(params, x[1]), found[1], rtol=1e-5)
    shapes = [z.shape for z in jax.eval_shape(net.preactivations, params, x)]
    assert shapes == [(3, 3, 5, 3), (3, 3, 5, 4), (3, 1, 3, 2), (3, 2)]


def test_rates_and_variances_take_the_window_into_the_fan_in():
    block = Conv(3, (3, 2), C_W=2.0, lambda_W=0.5, C_b=0.1)
    assert pytest.approx(0.5 / 24) == block.rates(4).W and block.rates(4).b == 1.0
    assert pytest.approx(2.0 / 24) == block.variances(4).W and block.variances(4).b == 0.1
    W = block.replace(channels=4000).init(jax.random.key(0), 4, dtype=jnp.float32).W
    assert W.shape == (3, 2, 4, 4000) and float(W.var()) == pytest.approx(2.0 / 24, rel=0.02)


def test_networks_on_positions_are_made_again_from_records_and_files(tmp_path):
    net = net_of_all()
    assert repr(Network.from_dict(net.to_dict())) == repr(net)
    file = tmp_path / "net.toml"
    file.write_text(text_of(net), encoding="utf-8")
    assert repr(read(file)) == repr(net)
    assert len(jax.tree.leaves(net)) == 21  # hyperparameters: four of each convolution and dense block, the norm's ε
    assert net.resized(lambda n: 2 * n).widths == (60, 6, 8, 4, 2)
    assert "3×2 convolution to 3, strides 2×1 (C_b = 0.1)" in net.in_words()[0]


def test_hyperparameters_of_convolutions_are_differentiated():
    def size(C_W):
        net = Network((4, 1), [Conv(2, 3, C_W=C_W), "tanh", GlobalAvgPool(), Dense(1)])
        return (net.apply(net.init(jax.random.key(0)), jnp.ones((1, 4, 1))) ** 2).sum()

    assert float(jax.jit(jax.grad(size))(1.5)) != 0


@pytest.mark.parametrize("options", [{"encoding": "gaussian", "encode_values": True}, {"tied": False}], ids=repr)
def test_attention_is_a_weighted_sum_over_positions(options):
    weights = "linear" if "tied" in options else "softmax"
    block = Attention(2, 3, head_channels=4, weights=weights, C_b=1.0, C_K=2.0, C_e=0.5, length=2.0, **options)
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
    Q, K, V, O, b = jax.jit(lambda key: block.init(key, 6, dtype=jnp.float32))(jax.random.key(0))
    found = np.asarray(jax.jit(block.apply)((Q, K, V, O, b), x))
    s = x.astype(float)
    if "encoding" in options:
        # Six channels, three frequencies: normal quantiles of the multiples of the golden ratio.
        quantiles = (0.5 + np.arange(3) * (5**0.5 - 1) / 2) % 1
        angle = np.outer(np.arange(5), [NormalDist().inv_cdf(u) / 2.0 for u in quantiles])
        waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1) * np.array([1, -1, 1])[:, None]
        s = s + np.sqrt(0.5 * 2) * waves.reshape(5, 6)
    for n, p in itertools.product(range(2), range(5)):
        wanted = np.asarray(b, float)
        for h in range(2):
            query = np.asarray(K if Q is None else Q, float)[h] @ s[n, p]
            logits = np.array([query @ (np.asarray(K, float)[h] @ s[n, q]) for q in range(5)]) / (4 if Q is None else 2)
            a = np.exp(logits) / np.exp(logits).sum() if weights == "softmax" else logits
            wanted = wanted + np.asarray(O)[:, h] @ sum(a[q] * (np.asarray(V)[h] @ s[n, q]) for q in range(5))
        np.testing.assert_allclose(found[n, p], wanted, rtol=1e-4, atol=1e-4)


def test_encodings_have_the_correlations_of_infinitely_many_channels():
    for kind, shape in (("gaussian", (4, 3)), ("sinusoidal", (4, 3)), ("sinusoidal", (6,))):
        many = waves(kind, shape, 20_000, 1.5)
        np.testing.assert_allclose(many @ many.T / 20_000, correlation(kind, shape, 1.5), atol=3e-3)
        np.testing.assert_allclose(many.mean(1), 0, atol=2e-3)


def transformer():
    attention = Attention(2, 8, encoding="sinusoidal", C_e=0.5, weights="linear", tied=False, lambda_K=0.3)
    block = [Residual(LayerNorm(), Attention(4, 8, C_K=2.0)), Residual(LayerNorm(), Dense(16), "gelu", Dense(8))]
    return Network((5, 3), [Dense(8), *block, attention, "relu", GlobalAvgPool(), Dense(2)])


def test_attention_is_made_again_from_records_and_files(tmp_path):
    net = transformer()
    assert repr(Network.from_dict(net.to_dict())) == repr(net)
    file = tmp_path / "net.toml"
    file.write_text(text_of(net), encoding="utf-8")
    assert repr(read(file)) == repr(net)
    # Heads are infinite only where queries are apart from keys.
    wide = net.resized(lambda n: 2 * n)
    assert [wide.blocks[1].branch[1].heads, wide.blocks[3].heads, wide.blocks[3].head_channels] == [4, 4, 8]
    assert "softmax attention to 8 by 4 heads of 2 (C_K = 2)" in net.in_words()[1]
    assert "queries apart from keys, sinusoidal encodings in keys (C_e = 0.5) (λ_K = 0.3)" in net.in_words()[3]
    rates = net.rates()[3]
    assert (rates.Q, rates.V, rates.O, rates.b) == (0.3 / 8, 1 / 8, 1 / 8, 1.0) and net.rates()[1].branch[0].Q is None


def test_what_is_known_of_vectors_only_names_attention():
    net = Network((5, 3), [Attention(2, 8), "relu", GlobalAvgPool(), Dense(2)])
    tensors = neft.width.statistics, lambda net, x: neft.width.output_tensors(net, x, ["V"])
    for ask in (*tensors, lambda net, x: neft.width.check(net, x[0])):
        # The same error as for tensors of vectors that do not exist.
        with pytest.raises(neft.width.AbsentTensor, match=r"positions for Attention, but .* known for vectors only"):
            ask(net, np.ones((1, 15)))
    for ask in (neft.width.critical, neft.width.phase, neft.width.asymptotics, neft.width.depth_flow):
        with pytest.raises(ValueError, match=r"positions for Attention, but .* known for vectors only"):
            ask(net)
    with pytest.raises(ValueError, match=r"block 'Residual\(relu, Conv.* stands on positions, but .* for vectors only"):
        neft.width.critical(Residual("relu", Conv(8, (3, 3))))


REFUSED = [
    ((4, 3), [Attention(2, 8, encoding="gaussian"), GlobalAvgPool(), Dense(2)], "encodings meet the input"),
    (12, [Dense(8), Attention(2, 8), Dense(2)], "there are no positions"),
    ((4, 3), [Dense(8), Residual(Attention(2, 8), "relu"), GlobalAvgPool(), Dense(2)], "must end in a dense block"),
    ((4, 4, 1), [Conv(8, 3), Flatten(), Dense(2)], "it has 1 dimensions, but positions there have 2"),
    (16, [Conv(8, (3, 3)), Flatten(), Dense(2)], "positions there have 0"),
    (16, [Flatten(), Dense(2)], "there are no positions"),
    ((4, 4, 1), [Conv(8, (3, 3))], "Flatten() or GlobalAvgPool() must come before the end"),
    ((4, 4, 1), [Conv(8, (3, 3)), Flatten(), "relu", Dense(2)], "relu follows a norm of activations, a pool"),
    ((4, 4, 1), [Conv(8, (5, 5), padding="VALID"), Flatten(), Dense(2)], "a window of 5 positions"),
    ((4, 4, 1), [Conv(8, (3, 3)), "relu", Flatten(), LayerNorm(), Dense(2)], "mean over entries is not carried"),
    ((4, 4, 1), [Conv(8, (3, 3)), Residual("relu", Conv(8, (3, 3), strides=2)), Flatten()], "has positions (2, 2)"),
    ((4, 4, 1, 1), [Dense(2)], "must be a number, (T, C) or (H, W, C)"),
]


@pytest.mark.parametrize(("inputs", "blocks", "words"), REFUSED)
def test_what_has_no_place_is_refused(inputs, blocks, words):
    with pytest.raises(ValueError) as error:
        Network(inputs, blocks)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Conv(8, (3, 3), strides=(1,)), "strides is (1,), but must have 2 numbers"),
        (lambda: Conv(8, "ab"), "shape is 'ab'"),
        (lambda: Attention(3, 8), "heads is 3, but must divide channels, 8"),
        (lambda: Attention(2, 8, tied=False), "no kernel in closed form"),
        (lambda: Attention(2, 8, tied=1), "tied is 1, but must be True or False"),
        (lambda: Attention(2, 8, weights="relu"), "weights is 'relu'"),
        (lambda: Attention(2, 8, encoding="learned"), "encoding is 'learned'"),
        (lambda: Attention(2, 8, length=0.0), "length is 0"),
        (lambda: Attention(2, 8, C_K=-1.0), "C_K is -1"),
        (lambda: Conv(0, 3), "channels is 0"),
        (lambda: Conv(8, (3, 3), padding="same"), "padding is 'same'"),
        (lambda: AvgPool((2, 2, 2)), "shape is (2, 2, 2)"),
        (lambda: Residual("relu", Conv(8, 3), skip=Flatten()), "skip is Flatten()"),
        (lambda: perceptron(net_of_all(), "tensors"), "tensors are known only for dense blocks"),
    ],
)
def test_bad_arguments_get_one_sentence(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert words in str(error.value) and str(error.value).count("\n") == 0
