"""Tensors at order 1/width of networks with norms."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import Dense, LayerNorm, Network, Residual, RMSNorm
from neft.report import tables
from neft.width import AbsentTensor, check, interpret, statistics
from neft.width._through_blocks import through_blocks

X = np.array([1.0, -0.5, 0.8])
DRAWN = json.loads((Path(__file__).parent / "drawn.json").read_text())
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}


def branch(*norm, n=8, skip=0.8, act="gelu"):
    return Residual(*norm, Dense(16, **HYPER), act, Dense(n, **HYPER), skip=skip)


def agrees(name):
    """How far a drawn network is from theory, and how large each tensor is, both in standard errors, by name."""
    entry = DRAWN[name]
    theory = statistics(Network.from_dict(entry["network"]), np.array(entry["x"]))
    found = {}
    for tensor, rows in entry["tensors"].items():
        value, error = np.array(rows).T
        wanted = getattr(theory, tensor)[1:]
        found[tensor] = np.abs(value - wanted) / error, np.abs(wanted) / error
    return found


@pytest.mark.parametrize(
    "name",
    [name if "relu" in name else pytest.param(name, marks=pytest.mark.slow) for name in DRAWN if "norm" in name],
)
def test_every_tensor_is_that_of_drawn_networks(name):
    for tensor, (z, _) in agrees(name).items():
        assert (z < 5).all(), (tensor, z)


@pytest.mark.slow
def test_every_tensor_is_seen_in_drawn_networks():
    sizes = {}
    for name in DRAWN:
        if "norm" in name:
            for tensor, (_, size) in agrees(name).items():
                sizes[tensor] = max(sizes.get(tensor, 0.0), size.max())
    assert set(sizes) == {"V", "D", "A", "F", "B", "K1", "Theta1"}
    assert min(sizes.values()) > 10, sizes


@pytest.mark.slow
def test_kernels_along_the_tensors_are_those_of_infinite_width():
    norm = LayerNorm(epsilon=0.3, lambda_gain=0.5, lambda_bias=0.4)
    blocks = [branch(norm), RMSNorm(epsilon=0.2), branch(), LayerNorm(epsilon=0.1, lambda_bias=0.2), "gelu"]
    net = Network(3, [Dense(8, **HYPER), *blocks, Dense(8, **HYPER), norm, Dense(2, **HYPER)])
    with jax.enable_x64(True):
        _, layers, _ = through_blocks(net, X)
        K, Theta = net.infinite_width(X[None])
    np.testing.assert_allclose([layer.K for layer in layers], K[:, 0, 0], rtol=1e-12)
    np.testing.assert_allclose([layer.Theta for layer in layers], Theta[:, 0, 0], rtol=1e-12)


def test_a_vector_of_fixed_length_has_a_readout_of_fixed_variance():
    found = statistics(Network(3, [Dense(8, **HYPER), branch(), RMSNorm(epsilon=0.0), Dense(2, **HYPER)]), X)
    assert abs(found.V[-1]) < 1e-14 and abs(found.D[-1]) < 1e-14 and found.K1[-1] == 0
    assert found.A[-1] > 1


@pytest.mark.slow
def test_the_activations_of_a_vector_of_fixed_length_have_the_moments_of_a_sphere():
    # A neuron after RMSNorm of a first layer is a coordinate of a sphere of radius √n in n dimensions, and has the
    # density (1 - z²/n)^((n-3)/2). After LayerNorm it is the same in n - 1 dimensions.
    def mean(n):
        z = np.linspace(-1, 1, 200_001)[1:-1] * np.sqrt(n)
        weight = np.exp((n - 3) / 2 * np.log1p(-z * z / n))
        return (weight * np.tanh(z) ** 2).sum() / weight.sum()

    for norm, shift in ((RMSNorm(epsilon=0.0), 0), (LayerNorm(epsilon=0.0), 1)):
        found = statistics(Network(3, [Dense(8), norm, "tanh", Dense(1, C_W=1.0)]), X)
        assert found.K[-1] == pytest.approx(mean(4e6), abs=1e-6)
        rate = [n * (mean(n - shift) - found.K[-1]) for n in (2000.0, 4000.0)]
        assert found.K1[-1] == pytest.approx(2 * rate[1] - rate[0], rel=1e-3), norm


@pytest.mark.slow
def test_a_norm_of_a_centred_vector_takes_away_nothing_more():
    ones = [Dense(8, **HYPER), branch(), LayerNorm(epsilon=0.0)]
    once = statistics(Network(3, [*ones, "relu", Dense(2, **HYPER)]), X)
    twice = statistics(Network(3, [*ones, LayerNorm(epsilon=0.0), "relu", Dense(2, **HYPER)]), X)
    for name in ("V", "A", "B", "D", "F", "K1", "Theta1"):
        np.testing.assert_allclose(getattr(once, name), getattr(twice, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([Dense(8), RMSNorm(lambda_gain=1.0), "tanh"], r"RMSNorm\(lambda_gain=1, epsilon=1e-06\) has a trained gain"),
        ([Dense(8), LayerNorm(lambda_gain=1.0), branch()], "has a trained gain, and no dense block follows"),
        ([Dense(8), "tanh", LayerNorm()], "LayerNorm after activations"),
        ([RMSNorm(), Dense(8)], "RMSNorm after the input"),
    ],
)
def test_what_norms_do_not_know_is_named(blocks, words):
    with pytest.raises(AbsentTensor, match=words):
        _ = statistics(Network(3, [*blocks, Dense(2)]), X).V


@pytest.mark.slow
def test_differentials_through_norms_are_named():
    found = statistics(Network(3, [Dense(8), branch(RMSNorm()), Dense(2)]), X)
    for name in "PQRSTU":
        with pytest.raises(AbsentTensor, match=rf"{name} is not known.*no recursion through the norm of Residual"):
            getattr(found, name)
    # Where the table of what they mean shows nothing, it says why.
    sizes, *_ = tables(interpret(found))
    assert sizes.rows[5][0] == "P/nΘ²" and sizes.rows[5][1] == "–"
    assert sizes.notes[0].startswith("– is not known: it has no recursion through the norm of Residual")
    with pytest.raises(AbsentTensor, match=r"no recursion through LayerNorm\(epsilon=1e-06\)"):
        _ = statistics(Network(3, [Dense(8), LayerNorm(), "tanh", Dense(2)]), X).P
    with pytest.raises(AbsentTensor, match="ends in a norm"):
        _ = statistics(Network(3, [Dense(8), "tanh", Dense(2), RMSNorm()]), X).V


@pytest.mark.slow
def test_a_function_of_ones_own_has_the_same_tensors():
    def net(act):
        return Network(3, [Dense(8, **HYPER), branch(LayerNorm(), act=act), LayerNorm(), act, Dense(2, **HYPER)])

    named, own = statistics(net("tanh"), X), statistics(net(jnp.tanh), X)
    for name in ("V", "A", "B", "D", "F", "K1", "Theta1"):
        np.testing.assert_allclose(getattr(own, name), getattr(named, name), rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_check_takes_networks_with_norms():
    net = Network(3, [Dense(12), branch(RMSNorm(), n=12), LayerNorm(), "relu", Dense(2)])
    found = check(net, X, draws=400)
    assert found.agrees and set(found.z) == {"K", "Theta", "V", "A", "B", "D", "F"}
    assert min(found.simulated[0][1:-1]) >= 6
