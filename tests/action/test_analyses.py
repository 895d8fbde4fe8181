import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from scipy import stats

import neft
from neft import action
from neft.action._alignment import describe_elements

from . import exact


@pytest.mark.parametrize("M", [2, 3, 10])
def test_the_quadratic_form_in_c_is_positive_semi_definite_with_one_null_vector(M):
    form = action.quadratic_form(M)
    assert form.definiteness == "positive semi-definite" and len(form.null) == 1
    assert abs(form.determinant) < 1e-15
    np.testing.assert_allclose(np.abs(form.null[0]), 1 / math.sqrt(M))
    np.testing.assert_allclose(form.eigenvalues[1:], 1 / M)


def test_the_null_vector_is_an_exact_symmetry_of_the_loss():
    params, data = exact.problem(False)
    moved = {**params, "c": params["c"] + 3.7}
    assert action.expand(moved, data, 1).loss == pytest.approx(action.expand(params, data, 1).loss, rel=1e-13)


@pytest.mark.parametrize(
    "name, order",
    [
        ("silu", 2),
        ("silu", 3),
        ("silu", 4),
        ("silu", 5),
        ("silu", 6),
        pytest.param("tanh", 8, marks=pytest.mark.slow),
        ("softplus", 3),
    ],
)
def test_every_truncation_runs_to_minus_infinity_along_the_direction_given(name, order):
    _, data = exact.problem(True)
    found = action.boundedness(data, order, activation=name)
    assert found.bounded is False and found.leading < 0 and found.leading_order == order
    far = {key: 1000 * value for key, value in found.direction.items()}
    with jax.enable_x64(True):
        S = action.ray(lambda q: loss_by_hand(q, *data, neft.activation(name)), far, order)
    assert S.sum() < -1e3 and S[order] < 0
    # The true loss does not run away.
    assert action.expand(far, data, 0, activation=name).loss >= 0


def loss_by_hand(q, z, m, sigma):
    f = sigma(z @ q["W"].T + q["b"][None, :]) @ q["U"].T + q["c"][None, :]
    return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()


def test_two_classes_have_no_bound_at_the_sixth_order_although_that_of_c_alone_is_positive():
    # ln cosh x = x²/2 - x⁴/12 + x⁶/45 - …
    z, m = np.random.default_rng(3).normal(size=(8, 2)), np.arange(8) % 2
    found = action.boundedness((z, m), 6)
    assert found.bounded is False and found.leading_order == 6 and np.abs(found.direction["U"]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, z", [("silu", [[1.0], [1.0], [2.0], [2.0]]), ("quadratic", [[1.0], [0.0], [3.0], [2.0]])]
)
def test_without_class_differences_or_slope_the_second_order_is_bounded(name, z):
    found = action.boundedness((np.array(z), [0, 1, 0, 1]), 2, tries=1, activation=name)
    assert found.bounded is True and "positive semi-definite" in found.certificate


@pytest.mark.slow
def test_the_second_order_flow_grows_with_the_singular_value_of_J():
    params, data = exact.problem(True)
    small = {name: 0.01 * value for name, value in params.items()}
    flow = action.truncated_flow(small, data, 2, time=400.0, limit=1e4)
    rate = 0.5 * np.linalg.svd(action.moments(data, 1).J[1])[1][0]
    late = flow.time > 0.6 * flow.time[-1]
    slope = np.polyfit(flow.time[late], np.log(flow.norm[late]), 1)[0]
    assert slope == pytest.approx(rate, rel=0.02)
    assert flow.truncated[-1] < flow.truncated[0]


def test_a_flow_saved_under_its_older_name_still_loads(tmp_path):
    params, data = exact.problem(False)
    flow = action.truncated_flow(params, data, 2, time=1e-3)
    flow.save(tmp_path / "flow.json")
    text = (tmp_path / "flow.json").read_text()
    assert text.count('"TruncatedFlow"') == 1
    (tmp_path / "flow.json").write_text(text.replace('"TruncatedFlow"', '"Flow"'))
    assert neft.load(tmp_path / "flow.json") == flow


@pytest.mark.slow
def test_the_third_order_flow_escapes_sooner():
    params, data = exact.problem(True)
    second, third = (action.truncated_flow(params, data, n, time=1e4, limit=100.0).escaped for n in (2, 3))
    assert third is not None and second is not None and third < second


@pytest.mark.slow
def test_alignment_not_counting_makes_a_term_large():
    rng = np.random.default_rng(0)
    z, m = rng.normal(size=(300, 20)), np.arange(300) % 3
    z[np.arange(300), m] += 2.0
    J = action.moments((z, m), 1).J[1]
    # U and W along the data: UW = -J, up to its size.
    u, s, v = np.linalg.svd(J, full_matrices=False)
    params = {"U": -u * 3, "W": v * 3, "b": 0.1 * np.ones(3), "c": 0.1 * rng.normal(size=3)}
    found = action.domination(params, (z, m), 2, draws=20)
    assert found.value["UW"] == pytest.approx(-4.5 * s.sum(), rel=1e-9)
    assert found.alignment["UW"] > 3 and found.count["UW"] == 3 * 3 * 20
    assert 0 < found.random["UW"] < abs(found.value["UW"]) / 3


def test_sub_terms_are_the_products_of_the_sums_written_out():
    M, H, E = 3, 4, 2
    # S_2 and S_3 as the action notes write them; UUWW is Π_αδ E[zz]_γε (Σ_β U_αβ W_βγ)(Σ_ζ U_δζ W_ζε).
    written = {"cc": (M, M), "UW": (M, H, E), "UWb": (M, H, E), "UWW": (M, H, E, E), "UWc": (M, H, E, M)}
    written |= {"Ubc": (M, H, M), "UUWW": (M, H, E, M, H, E)}
    for name, indices in written.items():
        assert action.results.Domination.sub_terms(name, M, H, E) == sum(1 for _ in np.ndindex(indices)), name


def test_element_statistics_are_those_of_scipy():
    x = np.random.default_rng(0).gamma(2.0, size=(40, 50)) - 1.0
    found = describe_elements(x)
    assert found.skew == pytest.approx(stats.skew(x.ravel()))
    assert found.kurtosis == pytest.approx(stats.kurtosis(x.ravel()))
    assert found.negative == pytest.approx((x < 0).mean())
    assert found.negative_mass == pytest.approx(-x[x < 0].sum() / np.abs(x).sum())
    whitened = (x.ravel() - x.mean()) / x.std()
    assert found.distance == pytest.approx(stats.kstest(whitened, "norm").statistic)
    assert not found.gaussian and found.histogram.sum() == x.size


def test_products_of_elements_sum_to_the_terms():
    params, data = exact.problem(True)
    found = action.elements(params, data).of
    terms = action.expand(params, data, 3).terms
    assert 0.5 * found["J2·UW"].mean * found["J2·UW"].size == pytest.approx(terms["UW"].value)
    assert 0.25 * found["J3·UWW"].mean * found["J3·UWW"].size == pytest.approx(terms["UWW"].value)


def test_a_power_law_is_found_again():
    H = [2, 4, 8, 16, 32]
    floor, exponent, error = action.power_law(H, [0.31 + 1.3 * h**-0.7 for h in H])
    assert (floor, exponent) == pytest.approx((0.31, 0.7), abs=1e-4) and error < 1e-6


@pytest.mark.parametrize(
    ("size", "loss", "words"),
    [
        ([1, 1, 1], [1, 1, 1], "three different sizes"),
        ([2, 4], [1.0, 0.5], "three different sizes"),
        ([2, 4, 4], [1.0, 0.5, 0.5], "three different sizes"),
        ([0, 2, 4], [1.0, 0.5, 0.3], "above 0"),
        ([2, 4, 8], [0.5, 0.5, 0.5], "no exponent"),
        ([2, 4, 8], [0.5, np.nan, 0.3], "loss"),
        ([2, 4, 8], [0.5, 0.4], "loss"),
    ],
)
def test_a_power_law_that_the_points_do_not_tell_is_refused(size, loss, words):
    with one_sentence(words):
        action.power_law(size, loss)


@pytest.mark.slow
def test_the_gradient_of_the_truncated_action_is_that_of_its_closed_form():
    params, data = exact.problem(True)
    flow = action.truncated_flow(params, data, 3, time=1e-3)
    change = (flow.truncated[-1] - flow.truncated[0]) / flow.time[-1]

    def truncated(p):
        loss = action.loss_of(data)
        return action.taylor(lambda q: loss(q), 3)(None, p)[1:].sum()

    with jax.enable_x64(True):
        gradient = jax.grad(truncated)({k: jnp.asarray(v) for k, v in params.items()})
        assert change == pytest.approx(-sum(float((g**2).sum()) for g in gradient.values()), rel=1e-2)


def test_bad_input_is_refused_in_one_sentence():
    _, data = exact.problem(True)
    with one_sentence("classes"):
        action.quadratic_form(1)
    with one_sentence("order"):
        action.boundedness(data, 1)
    with one_sentence("relu"):
        action.boundedness(data, 2, activation="relu")
    with one_sentence("three sizes"):
        action.sizes([(data, data)], [2, 4])
