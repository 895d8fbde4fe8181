import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, load, plot
from neft.width import interpret, statistics

X = np.array([1.0, -0.5, 0.8])
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}


def relu(n, depth):
    return MLP((3, *(n,) * (depth - 1), 1), "relu", C_W=2.0)


@pytest.mark.slow
def test_relative_sizes_do_not_depend_on_units():
    # σ(cz)/c with inputs and biases divided by c is the same network in other units; so is λ → 3λ, up to the rates.
    def of(c):
        own = neft.activation(lambda z: jnp.tanh(c * z) / c, name=f"tanh in units of {c}")
        rates = {"lambda_b": 0.9 / c**2, "lambda_W": 2.1}
        net = MLP((3, 9, 7, 8, 2), own, C_b=0.2 / c**2, C_W=1.3, **rates)
        return interpret(statistics(net, X / c))

    one, two = of(1.0), of(2.0)
    for name, sizes in one.sizes.items():
        np.testing.assert_allclose(two.sizes[name], sizes, rtol=1e-8, atol=1e-13, err_msg=name)
    slow = interpret(statistics(MLP((3, 9, 7, 8, 2), "tanh", **HYPER), X))
    for name, sizes in slow.sizes.items():
        np.testing.assert_allclose(one.sizes[name], sizes, rtol=1e-8, atol=1e-13, err_msg=name)


def test_the_coupling_divides_by_the_width_before_the_layer():
    stats = statistics(MLP((3, 9, 7, 8, 2), "tanh", **HYPER), X)
    found = interpret(stats)
    np.testing.assert_allclose(found.coupling, stats.V / (np.array([3, 9, 7, 8]) * stats.K**2), rtol=1e-14)
    np.testing.assert_allclose(found.spread_kernel**2, found.coupling)
    assert found.strength[-1] >= found.coupling[-1] > 0


def test_the_coupling_is_a_third_of_the_excess_kurtosis_that_networks_show():
    # Given the hidden layer an output is Gaussian of variance G, so its excess kurtosis is 3 Var G/(E G)².
    n, draws = 40, 4000
    found = interpret(statistics(MLP((3, n, 1), "tanh", C_b=0.2, C_W=1.3), X))
    z = np.random.default_rng(0).normal(size=(draws, n)) * math.sqrt(0.2 + 1.3 * float(X @ X) / 3)
    G = 0.2 + 1.3 * (np.tanh(z) ** 2).mean(1)
    relative = (G / G.mean() - 1) ** 2
    stderr = relative.std() / math.sqrt(draws)
    assert relative.mean() > 10 * stderr and abs(relative.mean() - found.coupling[-1]) < 5 * stderr


@pytest.mark.slow
def test_the_cut_off_of_scale_invariant_networks_is_the_closed_form():
    # V/nK² = 5(l-1)/n reaches 1 at l = 1 + n/5, whether it is in the network or deeper.
    for depth, source in (
        (8, "the network's own layers"),
        (7, "the network's own layers"),
        (4, "layers flowed deeper"),
    ):
        found = interpret(statistics(relu(30, depth), X))
        assert (found.cutoff, found.cutoff_from) == (7.0, source)
    far = interpret(statistics(relu(100_000, 4), X))
    assert far.cutoff == pytest.approx(20_001, rel=2e-3) and far.cutoff_from == "a power law"
    assert interpret(statistics(relu(30, 4), X), limit=0.5).cutoff == 4.0


@pytest.mark.slow
def test_the_cut_off_by_flow_is_that_of_a_deeper_network():
    net = {"activation": "tanh", "C_b": 0.0, "C_W": 1.0, "lambda_b": 0.2, "lambda_W": 1.0}
    found = interpret(statistics(MLP((3, *(12,) * 4, 1), **net), X))
    assert found.cutoff_from == "layers flowed deeper"
    deeper = interpret(statistics(MLP((3, *(12,) * 40, 1), **net), X))
    assert deeper.cutoff_from == "the network's own layers" and deeper.cutoff == found.cutoff
    assert deeper.strength[int(found.cutoff) - 1] >= 1 > deeper.strength[int(found.cutoff) - 2]


@pytest.mark.slow
def test_an_ordered_network_never_gets_there():
    found = interpret(statistics(MLP((3, 50, 50, 1), "tanh", C_b=0.3, C_W=0.5), X))
    assert found.cutoff is None and found.cutoff_from == "not reached" and "not seen" in found.summary


@pytest.mark.slow
def test_an_own_activation_is_extrapolated_from_its_layers_or_flowed_when_given():
    own = neft.activation(lambda z: jnp.sin(z) + 0.1 * z * z, name="own")
    stats = statistics(MLP((3, *(80,) * 9, 1), own, C_W=1.0), X)
    without, given = interpret(stats), interpret(stats, activation=own)
    assert without.cutoff_from == "a power law" and given.cutoff_from == "layers flowed deeper"
    assert without.cutoff == pytest.approx(given.cutoff, rel=0.5)


def test_what_does_not_exist_is_none():
    found = interpret(statistics(relu(9, 3), X))
    assert [name for name, sizes in found.sizes.items() if sizes is None] == list("RSTU")
    frozen = interpret(statistics(MLP((3, 9, 9, 1), "tanh", lambda_b=0.0, lambda_W=0.0), X))
    assert frozen.spread_ntk is None and frozen.sizes["A"] is None and np.isfinite(frozen.strength).all()


@pytest.mark.slow
def test_an_activation_that_jumps_has_a_coupling_and_a_shift_of_its_variance():
    step = neft.activation(jnp.sign, name="sign", kinks=[(0.0, 0, 2.0)])
    jumping = interpret(statistics(MLP((3, 9, 9, 1), step), X), activation=step)
    assert {name for name, sizes in jumping.sizes.items() if sizes is not None} == {"V", "K1"}


@pytest.mark.parametrize(
    "net",
    [
        MLP((3, 1), "tanh"),
        pytest.param(MLP((3, 1, 1, 1), "tanh", C_b=0.1), marks=pytest.mark.slow),
        pytest.param(MLP((3, 5, 5, 1), "tanh", C_b=0.3, C_W=0.0), marks=pytest.mark.slow),
        pytest.param(MLP((3, 5, 5, 1), "tanh", lambda_W=0.0), marks=pytest.mark.slow),
        MLP((3, 5, 5, 1), "relu", C_W=(1.0, 1.0, 0.0), C_b=0.1),
    ],
    ids=["one layer", "width one", "no weights", "weights at rest", "no weights in the last layer"],
)
def test_nothing_is_nan(net, tmp_path):
    found = interpret(statistics(net, X))
    numbers = [
        found.coupling,
        found.strength,
        found.density.density,
        *(v for v in found.sizes.values() if v is not None),
    ]
    assert all(np.isfinite(values).all() for values in numbers)
    found.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json") == found
    assert plot.svg(plot.draw(found), salt="a").startswith("<svg")


def test_a_signal_that_dies_or_explodes_is_told_with_its_layer():
    with one_sentence("K overflows at layer"):
        statistics(MLP((3, *(4,) * 1000, 1), "relu", C_W=4.0), X)
    with one_sentence("dies", "at layer"):
        statistics(MLP((3, *(4,) * 1000, 1), "relu", C_W=0.5), X)


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("limit is 0"):
        interpret(statistics(relu(9, 3), X), limit=0.0)
    with one_sentence("K is 0 at layer 2"):
        interpret(statistics(MLP((3, 4, 1), "tanh", C_W=(1.0, 0.0)), X))
