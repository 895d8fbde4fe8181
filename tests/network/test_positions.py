"""Convolutions, pools and Flatten as functions of images: shapes, values by plain loops, and what is refused."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, LayerNorm, Network, Residual
from neft.cli._specification import read, text_of
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


REFUSED = [
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
