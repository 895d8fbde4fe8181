"""Several inputs: the one-input code on the diagonal, index symmetries, limits, and simulation."""

import itertools
import math

import jax
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, activation
from neft.width import AbsentTensor, _output, check, output_tensors, statistics

X = np.array([[1.0, -0.5, 0.8], [0.7, 0.4, 1.2], [1.1, 0.5, -0.3]])
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}
MEANS = ("K", "Theta", "K1", "Theta1")


def _slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


pytestmark = pytest.mark.xdist_group("width many inputs")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def tanh():
    return statistics(MLP((3, 8, 6, 9, 2), "tanh", **HYPER), X[:2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", *_slow(("relu", "gelu", "elu(1)", "hard_tanh", "sin"))])
def test_the_diagonal_is_that_of_one_input(name, tanh):
    net = MLP((3, 8, 6, 9, 2), name, **HYPER)
    several = tanh if name == "tanh" else statistics(net, X[:2])
    for i in range(2):
        single = statistics(net, X[i])
        for tensor, value in several.tensors.items():
            if value is None:
                assert single.tensors[tensor] is None
                continue
            mine = value[(slice(None), *(i,) * (value.ndim - 1))]
            expected = getattr(single, tensor)
            np.testing.assert_allclose(mine, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max(initial=1e-3))


def test_a_repeated_input_gives_the_values_of_one():
    net = MLP((3, 8, 6, 2), "relu", **HYPER)
    twice, single = statistics(net, X[[0, 0]]), statistics(net, X[0])
    for name, value in twice.tensors.items():
        if value is not None:
            expected = np.broadcast_to(getattr(single, name).reshape(-1, *(1,) * (value.ndim - 1)), value.shape)
            np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


SYMMETRIES = {
    "V": ["bacd", "cdab"],
    "A": ["bacd", "cdab"],
    "D": ["bacd", "abdc"],
    # F_1324 = F_2413, B_1324 = B_2413 = B_3142: an NTK is symmetric, and so are two of them together.
    "F": ["cdab"],
    "B": ["cdab", "badc"],
    "P": ["acbd"],
    "R": ["abdc"],
    "S": ["badc"],
    "T": ["cdab"],
    "U": ["cdab"],
}


def test_index_symmetries(tanh):
    for name, orders in SYMMETRIES.items():
        value = getattr(tanh, name)
        for order in orders:
            swapped = np.einsum(f"labcd->l{order}", value)
            np.testing.assert_allclose(value, swapped, rtol=1e-9, atol=1e-9 * np.abs(value).max(), err_msg=name)
    for name in MEANS:
        value = getattr(tanh, name)
        np.testing.assert_allclose(value, value.transpose(0, 2, 1), rtol=1e-12)


@pytest.mark.slow
def test_the_order_of_the_inputs_does_not_matter(tanh):
    swapped = statistics(MLP((3, 8, 6, 9, 2), "tanh", **HYPER), X[[1, 0]])
    for name, value in tanh.tensors.items():
        flipped = value[(slice(None), *(slice(None, None, -1),) * (value.ndim - 1))]
        np.testing.assert_allclose(getattr(swapped, name), flipped, rtol=1e-8, atol=1e-9 * np.abs(value).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hard_tanh", "relu", "elu(1)"])
def test_nearly_equal_inputs_approach_equal_ones(name):
    # Where σ has kinks the separate averages of derivatives diverge between such inputs, as their distance to the power
    # -3 in Theta1, and only sums stay. What they leave falls like the distance itself.
    net = MLP((3, 8, 6, 2), name, **HYPER)
    single = statistics(net, X[0], only=("D", "A", "Q", "P", "K1", "Theta1"))
    distances = np.array([4e-3, 1e-3, 1e-4, 1e-6])
    near = [statistics(net, X[0] + np.array([[0, 0, 0], [0, d, 0]]), only=tuple(single.tensors)) for d in distances]
    for tensor, value in single.tensors.items():
        # P counts coincident samples, so it jumps where they separate; on each sample by itself it does not.
        alone = tensor in "PQ" and name != "elu(1)"
        for entry in [(0,) * 4] if alone else itertools.product((0, 1), repeat=near[0].tensors[tensor].ndim - 1):
            off = np.array([abs(found.tensors[tensor][(2, *entry)] - value[2]) for found in near])
            assert (off <= distances * max(1.0, abs(value[2]))).all(), (tensor, entry, off)
            # The nearer, the less far off: no error is left that grows.
            assert off[1] <= 0.3 * off[0] + 1e-9 and off[3] <= 0.05 * off[2] + 1e-9, (tensor, entry, off)


@pytest.mark.slow
def test_kinked_inputs_that_depth_aligns_keep_their_theta1():
    # With biases the angle between two inputs falls by a fifth per layer. Theta1 then dies away as smoothly.
    found = statistics(MLP((3, *[8] * 30, 2), "relu", **HYPER), X[:2], only=("K", "Theta1"))
    rho = found.K[:, 0, 1] / np.sqrt(found.K[:, 0, 0] * found.K[:, 1, 1])
    assert math.sqrt(1 - rho[-1] ** 2) < 1e-3
    late = found.Theta1[15:, 0, 1]
    ratios = late[1:] / late[:-1]
    assert (np.abs(np.diff(ratios, 3)) < 2e-5).all() and (ratios > 0.8).all() and (ratios < 0.9).all()


@pytest.mark.slow
def test_collinear_inputs_of_a_network_without_biases_scale():
    # relu(cz) = c relu(z): every tensor of inputs x, 2x is the one-input tensor times powers of 2.
    net = MLP((3, 8, 6, 2), "relu", C_W=2.0, lambda_b=0.0, lambda_W=0.7)
    pair, single = statistics(net, [X[0], 2 * X[0]]), statistics(net, X[0])
    for name in ("K", "Theta", "V", "A", "B", "D", "F", "K1", "Theta1"):
        value = getattr(pair, name)
        for entry in itertools.product((0, 1), repeat=value.ndim - 1):
            expected = 2.0 ** sum(entry) * getattr(single, name)
            np.testing.assert_allclose(value[(slice(None), *entry)], expected, rtol=1e-8, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_relu_is_the_limit_of_smooth_functions():
    # σ'' counts coincident samples: 1/3 where three meet, 1/2 where two do (docs/theory/width, section Kinks).
    # Softplus(βz)/β approaches relu like 1/β, so two values of β tell the limit.
    exact = statistics(MLP((3, 8, 6, 2), "relu", **HYPER), X[:2], only=("P", "Q", "Theta1"))
    found = []
    for beta in (20.0, 40.0):
        smooth = activation(lambda z, beta=beta: jax.nn.softplus(beta * z) / beta, name=f"softplus {beta:g}")
        found.append(statistics(MLP((3, 8, 6, 2), smooth, **HYPER), X[:2], only=("P", "Q", "Theta1"), rtol=1e-4))
    for name in ("P", "Q", "Theta1"):
        coarse, fine = (getattr(f, name) for f in found)
        limit = 2 * fine - coarse
        np.testing.assert_allclose(limit, getattr(exact, name), atol=0.03 * np.abs(getattr(exact, name)).max())
        assert np.abs(fine - getattr(exact, name)).max() < np.abs(coarse - getattr(exact, name)).max()


def _agrees_and_is_resolved(found, layers):
    assert found.agrees, found
    for name, theory in found.theory.items():
        for l in layers:
            # K1 vanishes at layer 2, and then nothing is large.
            large = np.abs(theory[l]) > 0.5 * np.abs(theory[l]).max()
            assert (found.resolved(name)[l][large] > 10).all(), (name, l + 1)


@pytest.mark.parametrize(
    ("name", "inputs"), [pytest.param(name, 3, marks=pytest.mark.slow) for name in ("tanh", "gelu", "relu")]
)
def test_two_layers_agree_with_simulation(name, inputs):
    found = check(MLP((3, 5, 2), name, **HYPER), X[:inputs], draws=10_000, key=jax.random.key(4), dtype=np.float32)
    _agrees_and_is_resolved(found, (1,))


@pytest.mark.slow
def test_only_computes_what_is_asked_and_agrees(tanh):
    some = statistics(MLP((3, 8, 6, 9, 2), "tanh", **HYPER), X[:2], only=("F", "K1"))
    assert list(some.tensors) == ["F", "K1"]
    np.testing.assert_allclose(some.F, tanh.F, rtol=1e-6)
    np.testing.assert_allclose(some.K1, tanh.K1, rtol=1e-6)
    with pytest.raises(AbsentTensor, match="V was not computed"):
        _ = some.V


def test_what_does_not_exist_says_so():
    found = statistics(MLP((3, 8, 2), "relu"), X[:2], only=("R", "K"))
    assert found.K.shape == (2, 2, 2)
    with pytest.raises(AbsentTensor, match="R does not exist for relu"):
        _ = found.R


def test_what_does_not_exist_is_refused_before_work_over_several_inputs(monkeypatch):
    asked = []
    monkeypatch.setattr(
        _output, "statistics", lambda net, x, **how: asked.append(np.ndim(x)) or statistics(net, x, **how)
    )
    with pytest.raises(AbsentTensor, match="T does not exist for relu"):
        output_tensors(MLP((3, 8, 8, 2), "relu"), X, ["K", "T", "A"])
    assert asked == [1]


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (np.ones((2, 4)), {}, "x has shape (2, 4)"),
        (np.ones((0, 3)), {}, "x has shape (0, 3)"),
        (np.ones((1, 2, 3)), {}, "x has shape (1, 2, 3)"),
        ([[1.0, np.nan, 0.0]], {}, "x"),
        (X, {"only": ("W",)}, "only holds 'W'"),
        (X, {"only": ()}, "only is empty"),
        (X, {"rtol": 0.0}, "rtol"),
    ],
)
def test_bad_arguments_get_one_sentence(x, options, words):
    with one_sentence(words):
        statistics(MLP((3, 8, 2), "tanh"), x, **options)


def test_an_input_without_signal_is_refused():
    with pytest.raises(ValueError, match="signal dies"):
        statistics(MLP((3, 8, 8, 2), "tanh"), [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_a_result_carries_what_it_was_asked_for():
    x = np.array([1.0, 0.5])
    asked = statistics(MLP((2, 4, 1), "tanh"), x, only=("V", "K"), rtol=1e-5).made
    assert asked.specification["only"] == ["K", "V"] and asked.tolerances == {"rtol": 1e-5}
    assert "only" not in statistics(MLP((2, 4, 1), "tanh"), x).made.specification


def test_more_inputs_than_anybody_waits_for_are_refused_with_their_cost():
    x = np.random.default_rng(0).normal(size=(33, 3))
    with one_sentence("33 different inputs", "hours", "at most 32"):
        statistics(MLP((3, 8, 2), "relu"), x)


@pytest.mark.slow
def test_kernels_and_repeated_inputs_may_be_more():
    x = np.random.default_rng(0).normal(size=(33, 3))
    assert statistics(MLP((3, 8, 2), "relu"), x, only=("K", "Theta")).Theta.shape == (2, 33, 33)
    assert statistics(MLP((3, 8, 2), "relu"), np.repeat(x[:1], 33, axis=0), only=("V",)).V.shape == (2, 33, 33, 33, 33)
