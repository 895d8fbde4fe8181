"""Tensors at order 1/width of networks made of blocks."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import MLP, Dense, Network, Residual, RMSNorm
from neft.ensemble import _general
from neft.network import Block, Linear
from neft.width import AbsentTensor, interpret, statistics

X = np.array([1.0, -0.5, 0.8])
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6), (0.1, 1.1, 0.2, 0.9))
]


def stream(act, skip, factor=1):
    """A stream of width 8 with two blocks of inner width 16, and a readout."""
    block = Residual(Dense(16 * factor, **HYPER[1]), act, Dense(8 * factor, **HYPER[2]), skip=skip)
    return Network(3, [Dense(8 * factor, **HYPER[0]), block, block, act, Dense(2, **HYPER[3])])


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", [pytest.param("tanh", marks=pytest.mark.slow), pytest.param("relu", marks=pytest.mark.slow), jnp.tanh]
)
def test_without_a_skip_a_block_is_two_plain_layers(act):
    found = statistics(stream(act, 0.0), X)
    layers = [Dense(8, **HYPER[0])]
    for _ in range(2):
        layers += [Dense(16, **HYPER[1]), act, Dense(8, **HYPER[2])]
    plain = statistics(Network(3, [*layers, act, Dense(2, **HYPER[3])]), X)
    for name, value in plain.tensors.items():
        if value is None:
            assert found.tensors[name] is None and name in "RSTU"
            continue
        # Layers 1, 3, 5, 6; those of a stream are in units of its width, not of the inner one.
        units = np.array([1.0, 1.0, 1.0, 1.0]) if name in ("K", "Theta") else np.array([1.0, 0.5, 0.5, 1.0])
        np.testing.assert_allclose(found.tensors[name], units * value[[0, 2, 4, 5]], rtol=1e-11, atol=1e-12)


@pytest.mark.slow
def test_a_block_whose_branch_is_still_scales_what_was_there():
    # z' = γz + b: every H has γ², every dH γ³, every ddH γ⁴, so each tensor of two neurons has γ⁴.
    moving = Residual(Dense(16, **HYPER[1]), "tanh", Dense(8, **HYPER[2]), skip=0.8)
    still = Residual(Dense(16, **HYPER[1]), "tanh", Dense(8, C_b=0.3, C_W=0.0, lambda_b=0.7, lambda_W=0.0), skip=0.6)
    found = statistics(Network(3, [Dense(8, **HYPER[0]), moving, still]), X)
    plus = {"K": 0.3, "Theta": 0.7}
    for name, value in found.tensors.items():
        power = 2 if name in ("K", "Theta", "K1", "Theta1") else 4
        assert value[2] == pytest.approx(0.6**power * value[1] + plus.get(name, 0.0), rel=1e-12), name
        assert abs(value[1]) > 1e-3 or name == "D"


@pytest.mark.slow
def test_the_vertex_of_a_linear_stream_is_that_of_wicks_theorem():
    # Given z the branch is W²W¹z: its variance C₁C₂|z|²/n fluctuates by 2/n_a, and |z|²/n by 2/n.
    n, inner, skip, c, K = 8, 16, 0.8, 1.3 * 0.9, 1.2 * float(X @ X) / 3
    block = Residual(Dense(inner, C_W=1.3), "linear", Dense(n, C_W=0.9), skip=skip)
    found = statistics(Network(3, [Dense(n, C_W=1.2), block, Dense(1)]), X)
    wanted = K**2 * (4 * skip**2 * c + 2 * c**2 * (1 + n / inner))
    assert found.V[1] == pytest.approx(wanted, rel=1e-12)
    said = interpret(found)
    assert said.coupling[1] == pytest.approx(wanted / (n * (K * (skip**2 + c)) ** 2), rel=1e-12)
    # The block is repeated to find where the expansion ends: there, and not a layer before.
    assert said.cutoff_from == "layers flowed deeper" and said.cutoff is not None
    deeper = [Dense(n, C_W=1.2), *[block] * math.ceil(said.cutoff), Dense(1)]
    strength = interpret(statistics(Network(3, deeper), X)).strength
    at = math.ceil(said.cutoff)
    assert strength[at - 2] < said.limit <= strength[at - 1]


def test_dense_blocks_with_one_activation_are_the_multilayer_perceptron():
    net = Network(3, [Dense(8, **HYPER[0]), "tanh", Dense(6, **HYPER[1]), "tanh", Dense(2, **HYPER[2])])
    from neft.width._through_blocks import through_blocks

    plain = MLP((3, 8, 6, 2), "tanh", **{name: [h[name] for h in HYPER[:3]] for name in HYPER[0]})
    wanted = statistics(plain, X)
    with jax.enable_x64(True):
        names, layers, _ = through_blocks(net, X)
    assert set(names) == set(wanted.tensors)
    for name in names:
        np.testing.assert_allclose(
            [getattr(layer, name) for layer in layers], wanted.tensors[name], rtol=1e-12, atol=1e-14
        )


class Scaled(Block):
    """√(C/fan-in) ω s with ω of variance 1, all trained at rate 1."""

    width: int = eqx.field(static=True)
    C: Any

    def init(self, key, fan_in, *, dtype):
        return jax.random.normal(key, (self.width, fan_in), dtype)

    def apply(self, params, x):
        return x @ params.T * jnp.sqrt(jnp.asarray(self.C / x.shape[-1], x.dtype))

    def rates(self, fan_in):
        return 1.0

    def kernel(self, stage, average):
        return Dense(1, C_W=self.C, lambda_b=0.0, lambda_W=self.C).kernel(stage, average)

    def tensors(self):
        return Linear(self.C, self.C)


def test_a_linear_block_of_ones_own_has_all_tensors():
    C_W = (1.2, 0.9, 1.4)
    found = statistics(Network(3, [Scaled(8, C_W[0]), "relu", Scaled(6, C_W[1]), "relu", Scaled(2, C_W[2])]), X)
    wanted = statistics(MLP((3, 8, 6, 2), "relu", C_W=C_W, lambda_b=0.0, lambda_W=C_W), X)
    assert found.V[2] > 0.1
    for name, value in wanted.tensors.items():
        if value is not None:
            np.testing.assert_allclose(found.tensors[name], value, rtol=1e-11, err_msg=name)


def test_what_has_no_recursion_names_the_block():
    for blocks, words in (
        ([Dense(4), Residual("tanh", Dense(4), skip=Dense(4)), Dense(1)], "because its skip is Dense"),
        (
            [Dense(4), Residual(RMSNorm(), "tanh", Dense(4), "tanh", Dense(4)), Dense(1)],
            "RMSNorm.* is not followed by one",
        ),
        ([Dense(4), "tanh", RMSNorm(), Dense(1)], "RMSNorm after activations has no recursion"),
    ):
        found = statistics(Network(3, blocks), X)
        with pytest.raises(AbsentTensor, match=words):
            _ = found.V
        with pytest.raises(AbsentTensor, match=words):
            interpret(found)


def one_matrix(act, skip, factor=1):
    """A stream of width 8 with two blocks of one matrix, and a readout."""
    blocks = [Residual(act, Dense(8 * factor, **HYPER[2]), skip=skip), Residual(act, Dense(8 * factor, **HYPER[2]))]
    return Network(3, [Dense(8 * factor, **HYPER[0]), *blocks, act, Dense(2, **HYPER[3])])


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "act"), [(stream, "relu"), (one_matrix, "gelu")])
def test_streams_agree_with_drawn_networks(stream, act):
    # Drawn anew at every run, beside what tools/draw_streams.py and others drew once.
    factors = (1, 2, 4)
    drawn = [
        _general.general(stream(act, 0.8, f), X[None], 24_000 // f, jax.random.key(f), np.dtype(np.float32))
        for f in factors
    ]
    weights = np.linalg.inv(np.vander(1 / np.array(factors, float), increasing=True))[0]
    theory = statistics(stream(act, 0.8), X)
    sharp = []
    for name in ("K", "Theta", "V", "A", "B", "D", "F"):
        value = sum(w * one[name][0].reshape(4) for w, one in zip(weights, drawn))
        error = np.sqrt(sum((w * one[name][1].reshape(4)) ** 2 for w, one in zip(weights, drawn)))
        assert (np.abs(value - theory.tensors[name])[1:] < 5 * error[1:]).all(), name
        sharp.append((np.abs(theory.tensors[name]) / error)[1:].max() > 10)
    # V and D are too noisy for a verdict of their own.
    assert sum(sharp) >= 5
