import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import action
from neft.action import _exclusion, _singularities
from neft.action._model import Parameters, Samples

from . import exact


def two_classes(activation, x, u):
    """One hidden unit and two classes: Z = 1 + e^{t u σ(tx)} up to a factor."""
    params = {"U": [[u], [0.0]], "c": [0.0, 0.0], "W": [[1.0]], "b": [0.0]}
    return action.radius(params, ([[x], [-x]], [0, 1]), activation=activation)


def test_the_zero_of_a_quadratic_exponent_is_where_it_must_be():
    found = two_classes("linear", 2.0, 0.5)
    assert found.binds == "zero of a partition function" and found.verified
    assert found.radius == pytest.approx(math.sqrt(math.pi), rel=1e-8)
    assert found.pole == math.inf


def test_small_output_weights_leave_the_zero_just_inside_the_pole_of_silu():
    found = two_classes("silu", 3.0, 0.01)
    assert found.pole == pytest.approx(math.pi / 3)
    # e^{t u σ(tx)} = -1 next to the pole: 1/(1 + e^{-tx}) is about iπ/(t u tx), which is large.
    assert 0.98 * found.pole < found.zero_distance < found.pole and found.verified
    t, x = complex(*found.zero), (3, -3)[found.sample]
    assert abs(1 + np.exp(t * 0.01 * x * t / (1 + np.exp(-x * t)))) < 1e-6


@pytest.mark.parametrize(
    "name, exact_sum",
    [
        ("silu", lambda x: x / 2 * (1 + np.tan(x / 2))),
        ("tanh", np.tan),
        ("sin", np.sinh),
        ("quadratic", lambda x: x * x),
    ],
)
def test_the_majorant_is_the_sum_of_moduli(name, exact_sum):
    act = neft.activation(name)
    x = np.array([0.0, 0.1, 0.5, 0.9]) * min(act.singularity, 4.0)
    found = _exclusion._rest(act, x, 0)
    assert (found >= exact_sum(x) * (1 - 1e-12)).all()
    np.testing.assert_allclose(found, exact_sum(x), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("name", ["linear", "relu"])
def test_the_bound_reaches_the_nearest_zero_of_one_unit_and_two_classes(name):
    # f = ±t²d/2, and e^{f} + e^{-f} = 0 at |t|² = π/|d|.
    theta = Parameters(np.array([[0.7], [-0.7]]), np.ones((1, 1)), np.zeros(1), np.zeros(2))
    data = Samples(np.array([[2.0]]), np.array([0]), 2)
    nearest = math.sqrt(math.pi / 2.8)
    act = neft.activation(name)
    assert _exclusion.free_of_zeros(theta, data, act, 0.999 * nearest).all()
    assert not _exclusion.free_of_zeros(theta, data, act, 1.001 * nearest).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, sigma",
    [("silu", lambda x: x / (1 + np.exp(-x))), ("tanh", np.tanh)],
)
def test_samples_excluded_by_the_bound_have_no_zero_and_the_others_are_searched(name, sigma):
    params, (z, m) = exact.problem(False, seed=6)
    params["U"], z = 0.3 * params["U"], z * np.linspace(0.2, 2.0, len(z))[:, None]
    found = action.radius(params, (z, m), activation=name, candidates=1)
    theta = Parameters(*(params[letter] for letter in "UWbc"))
    turns = np.exp(2j * np.pi * np.arange(20_001) / 20_000)

    def zeros(i, size):
        t = size * turns[:, None]
        f = t * (sigma(t * (z[i] @ theta.W.T + theta.b)) @ theta.U.T + theta.c)
        Z = np.exp(f).sum(axis=1)
        return round(float(np.angle(Z[1:] / Z[:-1]).sum()) / (2 * np.pi))

    assert found.verified and found.samples == len(m) and found.excluded > 0
    for size in (0.999, 0.5):
        free = _exclusion.free_of_zeros(theta, Samples(z, m, 3), neft.activation(name), size * found.radius)
        assert [zeros(i, size * found.radius) for i in np.flatnonzero(free)] == [0] * free.sum()
    assert [zeros(i, 0.999 * found.radius) for i in range(len(m))] == [0] * len(m)
    assert zeros(found.sample, 1.002 * found.radius) != 0


def jumpy(z):
    """Nearly tanh; its nearest poles have residues of 1e-9, which no look at values or first coefficients shows."""
    return jnp.tanh(z) + 1e-9 * z / (1 + z * z)


@pytest.mark.slow
@pytest.mark.parametrize("own", [jnp.tanh, jumpy])
def test_of_an_own_activation_nothing_is_certified(own):
    params, (z, m) = exact.problem(False, seed=6)
    act = neft.activation(own, name="mine")
    theta = Parameters(*(params[letter] for letter in "UWbc"))
    assert not _exclusion.free_of_zeros(theta, Samples(z, m, 3), act, 1e-3).any()
    found = action.radius(params, (z, m), activation=act, candidates=1)
    assert not found.verified and found.excluded == 0
    if own is jnp.tanh:
        # What is searched is the same as for the named one.
        assert found.radius == pytest.approx(action.radius(params, (z, m), activation="tanh").radius, rel=0.01)


def test_zeros_are_counted_and_a_phase_that_turns_too_fast_is_not():
    assert _singularities._winding(lambda t: (t - 0.5) * (t - 0.2j) * (t + 0.2j), 1.0) == 3
    assert _singularities._winding(lambda t: t**2 + 4, 1.0) == 0
    assert _singularities._winding(lambda t: t**2000 - 0.5, 1.0) is None
    assert _singularities._winding(lambda t: t * np.nan, 1.0) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silu", "tanh", "gelu"])
def test_the_radius_agrees_with_the_growth_of_the_series(name):
    params, data = exact.problem(False, seed=6)
    found = action.radius(params, data, activation=name)
    S = action.expand(params, data, 100, activation=name, terms=False).S
    assert found.verified
    assert action.series_radius(S) == pytest.approx(found.radius, rel=0.03)


@pytest.mark.slow
def test_relu_has_no_pole():
    found = action.radius(*exact.problem(False), activation="relu")
    assert found.pole == math.inf and math.isfinite(found.radius) and found.verified


@pytest.mark.slow
def test_constant_logits_converge_everywhere():
    params = {"U": np.zeros((2, 1)), "c": np.zeros(2), "W": np.ones((1, 1)), "b": np.zeros(1)}
    found = action.radius(params, ([[1.0], [2.0]], [0, 1]), activation="gelu")
    assert found.radius == math.inf and found.binds == "nothing"


def test_partial_sums_say_whether_they_converge():
    assert _singularities.verdict(1.0, 2.0) == "inside" and _singularities.verdict(1.0, 0.5) == "outside"


def test_pade_sums_a_logarithm_beyond_its_radius():
    k = np.arange(1, 31)
    value, error = action.pade([0.0, *(-((-1.0) ** k) / k)], 8.0)
    assert abs(value - math.log(9)) < 1e-6 and error < 1e-4


@pytest.mark.slow
def test_pade_owns_up_to_what_it_cannot_sum():
    params, data = exact.problem(True, seed=6)
    S = action.expand({name: 3 * value for name, value in params.items()}, data, 24, terms=False)
    for t in (0.1, 0.3, 1.0):
        scaled = {name: 3 * t * value for name, value in params.items()}
        value, error = action.pade(S.S, t)
        truth = action.expand(scaled, data, 0, terms=False).loss
        assert abs(value - truth) < 2 * error + 1e-9, t
    # S_1 = 0, so that the first two approximants agree by accident.
    assert action.pade(S.S, 1.0)[0] != pytest.approx(math.log(3), rel=1e-6)


@pytest.mark.slow
def test_steps_recover_a_loss_from_series_beyond_the_radius():
    params, (z, m) = exact.problem(False)
    params = {name: 3 * value for name, value in params.items()}

    def loss(q):
        f = jax.nn.silu(z @ q["W"].T + q["b"][None, :]) @ q["U"].T + q["c"][None, :]
        return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()

    found = action.recover(loss, params, order=12, fraction=0.4)
    truth = action.expand(params, (z, m), 1).loss
    assert not found.inside and abs(found.partial - truth) > 1
    assert found.truth == pytest.approx(truth, rel=1e-12)
    assert abs(found.value - truth) < 1e-4 and abs(found.value - truth) <= 10 * found.error
    assert found.centres[0] == 0 and found.radii[0] < 1
    # Nothing but the increments of series is summed.
    assert found.value == pytest.approx(math.log(3) + found.increments.sum(), rel=1e-12)


@pytest.mark.slow
def test_results_are_saved_and_loaded(tmp_path):
    found = action.radius(*exact.problem(True), activation="silu")
    found.save(tmp_path / "r.json")
    assert neft.load(tmp_path / "r.json") == found


def test_bad_input_is_refused_in_one_sentence():
    with one_sentence("candidates"):
        action.radius(*exact.problem(True), candidates=0)
    with one_sentence("order"):
        action.recover(lambda q: q.sum(), np.ones(2), order=1)
    with one_sentence("elu"):
        action.radius(*exact.problem(True), activation="elu")
