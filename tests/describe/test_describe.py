import math

import jax
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import describe


@pytest.fixture(scope="module")
def sampled():
    return describe.network(neft.MLP(widths=(4, 64, 64, 2), C_b=0.1, C_W=1.5), draws=600, key=jax.random.key(3))


def test_an_activation_is_tabulated_with_its_derivatives():
    card = describe.activation("quadratic", points=5)
    z = np.array([-5.0, -2.5, 0.0, 2.5, 5.0])
    np.testing.assert_allclose(card.values, [z**2, 2 * z, np.full(5, 2.0), np.zeros(5)])


def test_the_facts_of_an_activation_are_its_own():
    card, act = describe.activation("leaky_relu(0.1)", order=3), neft.activation("leaky_relu(0.1)")
    assert card.kinks == tuple(tuple(kink) for kink in act.kinks)
    assert (card.parity, card.scale_invariant, card.one_sided) == (act.parity, act.scale_invariant, act.one_sided)
    np.testing.assert_array_equal(card.taylor, act.taylor(3))


def test_a_function_without_a_series_still_has_a_card():
    with jax.numpy_dtype_promotion("standard"):  # a user's own function may promote
        card = describe.activation(lambda z: z * (z > 0))
    assert card.taylor is None or len(card.taylor) == 11
    assert card.values.shape == (4, 401)


def test_the_layers_of_a_network_follow_the_specification():
    card = describe.network(neft.MLP(widths=(3, 8, 2), C_b=(0.5, 0.25), C_W=2.0, lambda_b=3.0, lambda_W=6.0))
    assert card.parameters.tolist() == [32, 18]
    np.testing.assert_allclose(card.var_b, [0.5, 0.25])
    np.testing.assert_allclose(card.var_W, [2 / 3, 2 / 8])
    np.testing.assert_allclose(card.rate_b, [3, 3])
    np.testing.assert_allclose(card.rate_W, [2, 6 / 8])


def test_a_network_without_kernels_has_a_card_that_tells_why(tmp_path):
    net = neft.Network(3, [neft.Dense(8), neft.BatchNorm(lambda_gain=1.0, lambda_bias=1.0), "relu", neft.Dense(2)])
    card = describe.network(net)
    assert (card.K, card.Theta, card.widths, card.parameters.tolist()) == (None, None, (3, 8, 2), [32, 34])
    assert card.absent.startswith("block BatchNorm(") and card.absent.endswith(".")
    card.save(tmp_path / "card.json")
    assert neft.load(tmp_path / "card.json") == card
    other = describe.network(neft.Network(3, [neft.Dense(8), neft.RMSNorm(), "relu", neft.Dense(2)]))
    assert other.absent is None and other.K.tolist() == pytest.approx([1.0, 0.5 / (1 + 1e-6)])


def test_the_variance_of_a_relu_network_is_halved_by_each_layer():
    card = describe.network(neft.MLP(widths=(3, 8, 8, 2), activation="relu"))
    np.testing.assert_allclose(card.K, [1, 1 / 2, 1 / 4], rtol=1e-12)


@pytest.mark.slow
def test_drawn_outputs_have_the_predicted_variance(sampled):
    drawn = sampled.draws
    assert drawn.outputs.shape == (600, 2)
    assert sampled.K[-1] == drawn.K
    # The correction of order 1/width is a few hundredths here, below the standard error.
    assert abs(drawn.z_score) < 4
    assert drawn.z_score == pytest.approx((drawn.variance - drawn.K) / drawn.stderr)


@pytest.mark.slow
def test_drawn_outputs_of_blocks_have_the_predicted_variance():
    # Leaving out the skip, the branch or the last weights' 1.5 changes K by 14 standard errors or more.
    branch = neft.RMSNorm(), "relu", neft.Dense(64, C_W=2.0)
    net = neft.Network(4, [neft.Dense(64), neft.Residual(*branch, skip=0.8), neft.Dense(2, C_W=1.5)])
    card = describe.network(net, draws=600, key=jax.random.key(3))
    drawn = card.draws
    assert drawn.outputs.shape == (600, 2)
    assert drawn.K == card.K[-1] == pytest.approx(1.5 * (0.64 + 1))
    assert abs(drawn.z_score) < 4
    assert drawn.stderr < 0.04 * drawn.K


def test_what_overflows_is_refused():
    for words, options in (("K overflows at layer 1", {"C_W": 1e200}), ("overflow float32", {"C_W": 1e27})):
        with one_sentence(words, "C_W"):
            describe.network(neft.MLP(widths=(2, 4, 4, 1), activation="relu", **options), draws=4)


def test_draws_are_different_networks(sampled):
    assert len(np.unique(sampled.draws.outputs[:, 0])) == 600


def test_without_weights_nothing_is_drawn_and_nothing_is_off():
    drawn = describe.network(neft.MLP(widths=(2, 3, 1), C_W=0.0), draws=2).draws
    assert (drawn.variance, drawn.stderr, drawn.z_score) == (0, 0, 0)


def test_one_draw_is_refused():
    with pytest.raises(ValueError, match="one draw shows no spread"):
        describe.network(neft.MLP(widths=(2, 1)), draws=1)


@pytest.fixture(scope="module")
def averaged():
    return describe.averages(["relu", "tanh"], points=5)


@pytest.mark.slow
def test_averages_have_their_closed_forms(averaged):
    np.testing.assert_allclose(averaged.square[0], averaged.K / 2, rtol=1e-12)
    rho = averaged.rho
    arc_cosine = (np.sqrt(1 - rho**2) + rho * (math.pi - np.arccos(rho))) / (2 * math.pi)
    np.testing.assert_allclose(averaged.pair[0], arc_cosine, atol=1e-9)


@pytest.mark.slow
def test_gauss_hermite_loses_tanh_at_large_variance(averaged):
    error = np.abs(averaged.hermite[1] / averaged.square[1] - 1)
    assert error[0] < 1e-12 and error[-1] > 1e-2


def test_a_data_card_counts_its_classes():
    card = describe.data(neft.data.load(([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [1, 0, 1])))
    assert card.per_class.tolist() == [1, 2]
    assert (card.shape, card.count, card.features) == (None, 3, 2)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_cards_survive_a_file(sampled, averaged, tmp_path, suffix):
    cards = (
        sampled,
        averaged,
        describe.activation("hard_tanh"),
        describe.network(neft.MLP(widths=(2, 1))),
        describe.data(neft.data.load("fashion-mnist", "test", full=False)),
        describe.available(),
    )
    for card in cards:
        card.save(tmp_path / f"card.{suffix}")
        assert neft.load(tmp_path / f"card.{suffix}") == card
