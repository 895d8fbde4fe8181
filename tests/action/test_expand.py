import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import action
from neft.action import _expand, _model

from . import exact

SMOOTH = {"silu": "silu", "tanh": "tanh", "gelu": "gelu", "softplus": "softplus", "exp": jnp.exp}


CASES = [(name, balanced) for name in SMOOTH for balanced in (True, False)]
QUICK = {("silu", False)}


def slow_but(quick, cases):
    return [case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("name", "balanced"), slow_but(QUICK, CASES))
def test_every_term_up_to_order_four_agrees_with_fifty_digits(name, balanced):
    params, data = exact.problem(balanced)
    found = action.expand(params, data, 4, activation=SMOOTH[name])
    wanted = exact.terms(params, data, exact.SIGMA[name], 4)
    assert all(abs(value) < 1e-25 for key, value in wanted.items() if key not in found.terms)
    for key, term in found.terms.items():
        assert term.value == pytest.approx(float(wanted[key]), rel=1e-11, abs=1e-14), key
    assert sum(key in found.terms for key in ("UWc", "UUWW", "UWWW", "Ubc")) == 4
    assert ("UU" in found.terms) == (name in ("softplus", "exp"))


@pytest.mark.parametrize("name", ["softplus", pytest.param("tanh", marks=pytest.mark.slow)])
def test_closed_forms_agree_with_series_in_four_variables(name):
    params, data = exact.problem(False, seed=3)
    theta, checked = _model.parameters(params), _model.samples(data)
    act = neft.activation(name)
    with jax.enable_x64(True):
        closed, one = _expand.monomials(theta, checked, act, 4, closed=True)
        graded, two = _expand.monomials(theta, checked, act, 4, closed=False)
    assert one == pytest.approx(two, rel=1e-14)
    for degrees, value in closed.items():
        assert graded.get(degrees, 0.0) == pytest.approx(value, rel=1e-11, abs=1e-15), degrees


@pytest.mark.parametrize(("name",), slow_but({("silu",)}, [(name,) for name in SMOOTH]))
def test_order_twelve_along_the_ray_agrees_with_fifty_digits(name):
    params, data = exact.problem(False, seed=1)
    wanted = [float(c) for c in exact.along(params, data, exact.SIGMA[name], 12)]
    found = action.expand(params, data, 12, activation=SMOOTH[name], terms=False).S
    assert np.abs(found - wanted).max() < 1e-12 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["softplus", pytest.param("silu", marks=pytest.mark.slow)])
def test_terms_beyond_order_four_sum_to_the_series_and_scale_by_their_degrees(name):
    params, data = exact.problem(False, seed=2)
    found = action.expand(params, data, 6, activation=name)
    along = action.expand(params, data, 6, activation=name, terms=False)
    np.testing.assert_allclose(found.S, along.S, rtol=1e-11, atol=1e-14)
    factors = {"U": 1.3, "W": 0.7, "b": -0.4, "c": 2.1}
    scaled = action.expand({k: factors[k] * v for k, v in params.items()}, data, 6, activation=name)
    for key, term in found.terms.items():
        factor = np.prod([factors[letter] for letter in key])
        assert scaled.terms[key].value == pytest.approx(factor * term.value, rel=1e-9, abs=1e-13), key


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.1)"])
def test_homogeneous_activations_are_graded_by_u_c_and_the_first_layer(name):
    params, data = exact.problem(False, seed=4)
    found = action.expand(params, data, 5, activation=name)
    wanted = exact.along(params, data, exact.SIGMA[name], 5, direction=1)
    np.testing.assert_allclose(found.S, [float(c) for c in wanted], rtol=1e-9, atol=1e-12)
    assert found.one_sided and "one-sided" in str(found)
    doubled = {**params, "W": 2 * params["W"], "b": 2 * params["b"], "c": 3 * params["c"], "U": 5 * params["U"]}
    scaled = action.expand(doubled, data, 5, activation=name)
    for key, term in found.terms.items():
        factor = 5.0 ** key.count("U") * 2.0 ** key.count("(Wb)") * 3.0 ** key.count("c")
        assert scaled.terms[key].value == pytest.approx(factor * term.value, rel=1e-11), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.1)"])
@pytest.mark.parametrize("balanced", [True, False])
def test_every_graded_term_of_a_homogeneous_activation_agrees_with_fifty_digits(name, balanced):
    params, data = exact.problem(balanced, seed=4)
    found = action.expand(params, data, 4, activation=name).terms
    wanted = exact.graded(params, data, exact.SIGMA[name], 4)
    assert all(abs(value) < 1e-12 for key, value in wanted.items() if key not in found)
    for key, term in found.items():
        assert term.value == pytest.approx(float(wanted[key]), rel=1e-8, abs=1e-12), key
    assert {"c", "U(Wb)", "cc", "U(Wb)c", "ccc", "UU(Wb)(Wb)", "U(Wb)cc", "cccc"} == found.keys()


def test_relu_to_order_four_is_what_theory_says():
    params, (z, m) = exact.problem(True)
    rho = np.maximum(z @ params["W"].T + params["b"], 0) @ params["U"].T
    c = params["c"]
    Pi = np.eye(3) / 3 - 1 / 9
    terms = action.expand(params, (z, m), 4, activation="relu").terms
    assert terms["U(Wb)"].value == pytest.approx((rho.mean(axis=1) - rho[np.arange(6), m]).mean())
    assert terms["U(Wb)c"].value == pytest.approx(c @ Pi @ rho.mean(axis=0))
    assert terms["UU(Wb)(Wb)"].value == pytest.approx(np.einsum("na,ab,nb->n", rho, Pi, rho).mean() / 2)
    d = np.eye(3)
    T = np.einsum("ab,bc->abc", d, d) / 3 - (d[:, :, None] + d[:, None, :] + d[None]) / 9 + 2 / 27
    assert terms["U(Wb)cc"].value == pytest.approx(np.einsum("abd,a,b,d->", T, rho.mean(axis=0), c, c) / 2)
    assert terms["ccc"].value == pytest.approx(np.einsum("abd,a,b,d->", T, c, c, c) / 6)
    fourth = ((c - c.mean()) ** 4).mean() - 3 * c.var() ** 2
    assert terms["cccc"].value == pytest.approx(fourth / 24)


@pytest.mark.slow
def test_an_own_relu_is_recognised():
    params, data = exact.problem(False)
    own = action.expand(params, data, 4, activation=neft.activation(jax.nn.relu, name="mine"))
    assert own.one_sided
    np.testing.assert_allclose(own.S, action.expand(params, data, 4, activation="relu").S, rtol=1e-13)


def test_the_second_order_is_the_one_of_the_corrected_seeds():
    params, data = exact.problem(False)
    J = action.moments(data, 1).J
    terms = action.expand(params, data, 2).terms
    assert terms["UW"].value == pytest.approx(0.5 * np.sum(J[1] * (params["U"] @ params["W"])))
    assert terms["Ub"].value == pytest.approx(0.5 * J[0] @ params["U"] @ params["b"])
    assert terms["cc"].value == pytest.approx(0.5 * params["c"].var())


@pytest.mark.slow
def test_single_precision_costs_its_rounding_only():
    rng = np.random.default_rng(0)
    params = {k: rng.normal(size=s).astype(np.float32) for k, s in zip("UcWb", [(4, 30), (4,), (30, 20), (30,)])}
    z, m = rng.normal(size=(200, 20)).astype(np.float32), np.arange(200) % 4
    single, double = (action.expand(params, (z, m), 4, dtype=kind) for kind in (np.float32, np.float64))
    for key, term in double.terms.items():
        assert single.terms[key].value == pytest.approx(term.value, rel=2e-4, abs=1e-5 * abs(double.S[term.order])), key


@pytest.mark.slow
def test_order_sixty_is_finite_in_single_precision():
    rng = np.random.default_rng(0)
    params = {k: rng.normal(size=s).astype(np.float32) for k, s in zip("UcWb", [(4, 30), (4,), (30, 20), (30,)])}
    z, m = rng.normal(size=(200, 20)).astype(np.float32), np.arange(200) % 4
    high, low = (action.expand(params, (z, m), 60, terms=False, dtype=kind).S for kind in (np.float64, np.float32))
    assert np.abs(high).max() > 1e38 and np.abs(low[2:] / high[2:] - 1).max() < 1e-2


@pytest.mark.slow
def test_blocks_do_not_change_the_result(monkeypatch):
    params, data = exact.problem(False, n=6)
    whole = [action.expand(params, data, order) for order in (4, 6)]
    monkeypatch.setattr(_expand, "block_size", lambda *_: 2)
    for before in whole:
        after = action.expand(params, data, before.order)
        np.testing.assert_allclose(after.S, before.S, rtol=1e-13)
        assert after.loss == pytest.approx(before.loss, rel=1e-13)


@pytest.mark.slow
def test_parameters_of_a_network_are_taken():
    net = neft.MLP(widths=(2, 3, 3), activation="silu")
    layers = net.init(jax.random.key(0))
    _, data = exact.problem(True)
    (W, b), (U, c) = layers
    by_layers, by_name = action.expand(layers, data, 3), action.expand({"U": U, "c": c, "W": W, "b": b}, data, 3)
    np.testing.assert_array_equal(by_layers.S, by_name.S)


def test_expansions_are_saved_and_loaded(tmp_path):
    params, data = exact.problem(True)
    found = action.expand(params, data, 3)
    for suffix in ("json", "npz"):
        found.save(tmp_path / f"e.{suffix}")
        assert neft.load(tmp_path / f"e.{suffix}") == found


def test_shares_of_an_order_sum_to_one():
    found = action.expand(*exact.problem(True), 4)
    for order in (2, 3, 4):
        assert sum(term.share for term in found.of_order(order).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"order": -1}, ("order", "-1")),
        ({"activation": "elu"}, ("elu", "kink")),
        ({"dtype": "int32"}, ("dtype", "int32")),
    ],
)
def test_bad_options_are_refused_in_one_sentence(change, words):
    with one_sentence(*words):
        action.expand(*exact.problem(True), **{"order": 2, **change})


def test_bad_data_and_parameters_are_refused_in_one_sentence():
    params, (z, m) = exact.problem(True)
    with one_sentence("class 2", "no sample"):
        action.expand(params, (z[:4], m[:4] % 2))
    with one_sentence("label 3"):
        action.expand(params, (z, m + 1))
    with one_sentence("label -1"):
        action.expand(params, (z, m - 1))
    with one_sentence("W has shape (4, 2)"):
        action.expand({**params, "W": np.ones((4, 2))}, (z, m))
    with one_sentence("z has 3 features"):
        action.expand(params, (np.ones((6, 3)), m))
    with one_sentence("z holds nan"):
        action.expand(params, (z * np.nan, m))
    with one_sentence("b holds inf"):
        action.expand({**params, "b": params["b"] + np.inf}, (z, m))
    with one_sentence("lacks c"):
        action.expand({k: v for k, v in params.items() if k != "c"}, (z, m))
    with one_sentence("two layers"):
        action.expand([1, 2, 3], (z, m))
    with one_sentence("data is a int"):
        action.expand(params, 3)
    with one_sentence("m has shape"):
        action.expand(params, (z, m[:3]))


PARAMS, (Z, M) = exact.problem(True)
BAD_DATA = {
    "empty class": ((Z, np.where(M == 1, 0, M)), "class 1 has no sample"),
    "a label too large": ((Z, np.where(M == 2, 10**12, M)), "100000000000"),
    "a negative label": ((Z, M - 1), "label -1"),
    "fractional labels": ((Z, M + 0.5), "whole numbers"),
    "NaN": ((np.where(np.arange(6)[:, None] == 4, np.nan, Z), M), "z holds nan at index (4, 0)"),
    "too few labels": ((Z, M[:-1]), "m has shape (5,)"),
    "one axis": ((Z[:, 0], M), "z has shape (6,)"),
    "no samples": ((Z[:0], M[:0]), "at least one sample"),
}
TAKES_DATA = {
    "expand": lambda data: action.expand(PARAMS, data),
    "moments": action.moments,
    "contracted": lambda data: action.contracted(PARAMS, data, 2),
    "radius": lambda data: action.radius(PARAMS, data),
    "convergence": lambda data: action.convergence(PARAMS, data),
    "elements": lambda data: action.elements(PARAMS, data),
    "domination": lambda data: action.domination(PARAMS, data),
    "analyse": lambda data: action.analyse(PARAMS, data),
    "boundedness": lambda data: action.boundedness(data, 3),
    "truncated_flow": lambda data: action.truncated_flow(PARAMS, data, 2),
    "fit": lambda data: action.fit(data, data),
    "loss_of": action.loss_of,
    "stops_by_size": lambda data: action.stops_by_size(data, data, [3]),
}


@pytest.mark.parametrize("name", TAKES_DATA)
def test_bad_data_are_refused_in_one_sentence_wherever_they_enter(name):
    for data, words in BAD_DATA.values():
        with one_sentence(words):
            TAKES_DATA[name](data)


@pytest.mark.parametrize(
    "call",
    [
        lambda: action.expand(PARAMS, (Z, M), -1),
        lambda: action.moments((Z, M), -1),
        lambda: action.contracted(PARAMS, (Z, M), -1),
        lambda: action.ray(jnp.sum, Z, -1),
        lambda: action.taylor(jnp.sum, -1),
        lambda: action.boundedness((Z, M), -1),
        lambda: action.truncated_flow(PARAMS, (Z, M), -1),
        lambda: action.convergence(PARAMS, (Z, M), order=-1),
        lambda: action.elements(PARAMS, (Z, M), order=-1),
        lambda: action.recover(jnp.sum, Z, order=-1),
        lambda: action.domination(PARAMS, (Z, M), -1),
        lambda: action.analyse(PARAMS, (Z, M), order=-1),
    ],
)
def test_a_negative_order_is_refused_in_one_sentence(call):
    with one_sentence("order is -1"):
        call()


def test_moments_are_the_sums_they_stand_for():
    _, (z, m) = exact.problem(False)
    found = action.moments((z, m), 3)
    p = np.bincount(m) / len(m)
    for n, J in enumerate(found.J):
        for alpha, index in itertools.product(range(3), itertools.product(range(2), repeat=n)):
            product = np.prod([z[:, i] for i in index], axis=0) * np.ones(len(z))
            wanted = product.mean() / 3 - p[alpha] * product[m == alpha].mean()
            assert J[(alpha, *index)] == pytest.approx(wanted, abs=1e-15)
    np.testing.assert_allclose(found.Z, z.mean(axis=0))


def test_contractions_need_no_tensor():
    params, data = exact.problem(False)
    found = action.contracted(params, data, 3)
    J = action.moments(data, 3).J
    U, W = params["U"], params["W"]
    np.testing.assert_allclose(found[2], np.einsum("acd,ab,bc,bd->a", J[2], U, W, W), rtol=1e-12)
    np.testing.assert_allclose(found[3], np.einsum("acde,ab,bc,bd,be->a", J[3], U, W, W, W), rtol=1e-12)
    terms = action.expand(params, data, 4, activation="tanh").terms
    numbers = neft.activation("tanh").taylor(3)
    main = numbers * found.sum(axis=1)
    assert [terms[key].value for key in ("UW", "UWW", "UWWW")] == pytest.approx(list(main[1:]), abs=1e-15)


def test_moments_too_large_are_refused():
    with one_sentence("order is 3", "GB"):
        action.moments((np.ones((4, 784)), [0, 1, 0, 1]), 3)
