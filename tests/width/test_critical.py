import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from scipy import special
from scipy.integrate import quad

import neft
from neft import width
from neft._moments import pure_moments
from neft.gaussian import Powers
from neft.width import asymptotics, susceptibilities
from neft.width.results import Asymptotics, Criticality, CriticalPoint

critical = functools.cache(width.critical)

# K*, C_W, C_b and the side that attracts (docs/theory/width, eq. 69).
HALF_STABLE = {
    "silu": (14.3201736, 1.98800468, 0.55514317, "below"),
    "gelu": (3.5615528, 1.98305826, 0.17292239, "above"),
    "mish": (1.6701691, 2.0135241, 0.0945218, "below"),
}
DIGITS = {"silu": (7, 8, 8), "gelu": (7, 8, 8), "mish": (7, 7, 7)}


def _mish(z):
    return z * np.tanh(np.logaddexp(0, z))


# The function and its derivative, by hand.
BY_HAND = {
    "silu": (
        lambda z: z * special.expit(z),
        lambda z: special.expit(z) * (1 + z * special.expit(-z)),
    ),
    "gelu": (
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
    "mish": (
        _mish,
        lambda z: np.tanh(np.logaddexp(0, z)) + z * special.expit(z) / np.cosh(np.logaddexp(0, z)) ** 2,
    ),
}


def average(f, K):
    """⟨f⟩ by SciPy, which shares nothing with neft.gaussian."""
    spread = math.sqrt(K)

    def integrand(x):
        return f(spread * x) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    return sum(quad(integrand, *ends, epsabs=1e-14, epsrel=1e-13, limit=200)[0] for ends in ((-30, 0), (0, 30)))


@pytest.mark.parametrize("name", HALF_STABLE)
def test_half_stable_points_are_those_of_the_references(name):
    found = critical(name)
    K_star, C_W, C_b, side = HALF_STABLE[name]
    assert (found.universality, found.stability) == ("half-stable", side)
    for value, reference, digits in zip((found.K_star, found.C_W, found.C_b), (K_star, C_W, C_b), DIGITS[name]):
        assert round(value, digits) == reference


@pytest.mark.parametrize("name", HALF_STABLE)
def test_both_susceptibilities_are_one_at_a_fixed_point(name):
    found, (s, d) = critical(name), BY_HAND[name]
    K = found.K_star
    assert found.C_b + found.C_W * average(lambda z: s(z) ** 2, K) == pytest.approx(K, rel=1e-11)
    assert found.C_W * average(lambda z: d(z) ** 2, K) == pytest.approx(1, abs=1e-10)
    assert found.C_W * average(lambda z: s(z) ** 2 * (z * z - K), K) / (2 * K**2) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("name", HALF_STABLE)
def test_a_half_stable_point_attracts_from_its_side_only(name):
    found, (s, _) = critical(name), BY_HAND[name]
    closer = {}
    for side, sign in (("above", 1), ("below", -1)):
        K = start = found.K_star * (1 + 1e-3 * sign)
        for _ in range(3):
            K = found.C_b + found.C_W * average(lambda z: s(z) ** 2, K)
        closer[side] = abs(K - found.K_star) < abs(start - found.K_star)
    assert [side for side, value in closer.items() if value] == [found.stability]


@pytest.mark.parametrize(
    ("name", "C_W"), [("relu", 2), ("linear", 1), ("leaky_relu(0.1)", 2 / 1.01), ("leaky_relu(-1)", 1)]
)
def test_scale_invariant_activations_are_critical_at_every_K(name, C_W):
    found = critical(name)
    assert (found.universality, found.stability) == ("scale-invariant", "every K stays")
    assert (found.C_b, found.C_W, found.K_star, len(found.points)) == (0, pytest.approx(C_W, rel=1e-15), None, 1)
    chi = susceptibilities(name, [0.0, 1e-3, 1.0, 1e3], found.C_W)
    assert np.allclose([chi.parallel, chi.perpendicular], 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "C_W"), [("tanh", 1), ("sin", 1), ("erf", math.pi / 4), ("hard_tanh", 1)])
def test_odd_saturating_activations_are_critical_at_zero(name, C_W):
    found = critical(name)
    assert (found.universality, found.stability, found.K_star, found.C_b) == ("K*=0", "above", 0, 0)
    assert pytest.approx(C_W, rel=1e-14) == found.C_W
    assert len(found.points) == 1


@pytest.mark.parametrize(("name", "C_W"), [("silu", 4), ("gelu", 4), ("mish", 1 / 0.36)])
def test_the_second_point_is_a_zero_that_repels(name, C_W):
    second = critical(name).points[1]
    assert (second.K_star, second.C_b, second.stability, second.universality) == (0, 0, "neither", "K*=0")
    assert pytest.approx(C_W, rel=1e-14) == second.C_W


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "quadratic"])
def test_some_activations_are_never_critical(name):
    found = critical(name)
    assert (found.universality, found.points) == ("none", ())
    assert found.C_b is None and found.C_W is None and found.K_star is None and found.stability is None
    assert "K* = 0 is no" in found.why and "nowhere equal" in found.why


@pytest.mark.parametrize(("name", "C_W"), [("elu", 1), ("elu(0.5)", 1.6)])
def test_a_kink_at_zero_leaves_a_point_at_zero(name, C_W):
    found = critical(name)
    assert (found.universality, found.stability, found.K_star) == ("K*=0", "above", 0)
    assert pytest.approx(C_W) == found.C_W and "K^(3/2)" in found.why
    assert len(found.points) == 1


def test_an_activation_that_jumps_is_never_critical():
    found = critical(neft.activation(jnp.sign, kinks=[0.0]))
    assert found.universality == "none" and "jumps" in found.why


@pytest.mark.slow
def test_scaling_the_argument_scales_K():
    silu, swish = critical("silu"), critical(lambda z: jax.nn.silu(2 * z) / 2)
    assert swish.K_star == pytest.approx(silu.K_star / 4, rel=1e-11)
    assert (swish.C_W, swish.C_b) == (pytest.approx(silu.C_W), pytest.approx(silu.C_b / 4))
    tanh = critical(lambda z: jnp.tanh(2 * z) / 2)
    assert (tanh.universality, tanh.C_W, tanh.K_star) == ("K*=0", 1, 0)


@pytest.mark.slow
def test_scaling_the_activation_scales_C_W():
    gelu, larger = critical("gelu"), critical(lambda z: 3 * z * jax.scipy.stats.norm.cdf(z))
    assert pytest.approx(gelu.C_W / 9) == larger.C_W
    assert (larger.K_star, larger.C_b) == (pytest.approx(gelu.K_star), pytest.approx(gelu.C_b))


@pytest.mark.slow
def test_a_shifted_silu_has_two_points():
    # Under N(-1, 2) e^{z/2} turns the logistic function into an even one, so that K* = 2 exactly.
    found = critical(lambda z: jax.nn.silu(z - 1))
    assert [point.universality for point in found.points] == ["half-stable", "half-stable"]
    assert found.K_star == pytest.approx(2, rel=1e-12)
    assert found.points[1].K_star == pytest.approx(17.6764628, rel=1e-8)


@pytest.mark.slow
def test_a_point_that_needs_a_negative_C_b_is_none():
    found = critical(lambda z: (z + 0.3) * jax.scipy.stats.norm.cdf(z + 0.3))
    assert found.universality == "none" and "C_b = -0.2625 < 0" in found.why


@pytest.mark.slow
def test_a_zero_that_attracts_comes_before_a_half_stable_point():
    found = critical(lambda z: jnp.tanh(z) + 0.3 * z**2)
    assert [point.universality for point in found.points] == ["K*=0", "half-stable"]
    assert (found.K_star, found.stability) == (0, "above")


@pytest.mark.parametrize(
    ("function", "universality", "word"),
    [
        (lambda z: 0 * z, "none", "0 everywhere"),
        (lambda z: 1 + z, "none", "linear"),
        (jnp.exp, "none", "nowhere equal for K from 1e-06 to 1e+02"),
        (lambda z: z + z**5, "K*=0", "repels: K' = K to order K²"),
    ],
)
def test_odd_cases_are_told_in_words(function, universality, word):
    found = critical(function)
    assert found.universality == universality and word in found.why


def test_susceptibilities_of_a_closed_form():
    # ⟨sin²⟩ = (1 - e^{-2K})/2 and ⟨cos²⟩ = (1 + e^{-2K})/2.
    K = np.array([0.0, 1e-6, 0.3, 5.0])
    chi = susceptibilities("sin", K[:, None], [1.0, 2.5])
    assert chi.parallel == pytest.approx(np.outer(np.exp(-2 * K), [1, 2.5]), rel=1e-11)
    assert chi.perpendicular == pytest.approx(np.outer((1 + np.exp(-2 * K)) / 2, [1, 2.5]), rel=1e-12)


def test_susceptibilities_at_zero_are_limits():
    for name in ("softplus", "elu(0.5)", "silu"):
        zero, small = susceptibilities(name, 0.0, 1.0), susceptibilities(name, 1e-10, 1.0)
        assert zero.parallel == pytest.approx(small.parallel, rel=1e-4)
        assert zero.perpendicular == pytest.approx(small.perpendicular, rel=1e-4)
    assert susceptibilities(lambda z: 1 + jnp.maximum(z, 0), 0.0, 1.0).parallel == math.inf


def _recursion(name, depth):
    """K, χ_⊥ and V of every layer at criticality, from K = 1/2 and equal widths."""
    act, C_W = neft.activation(name), asymptotics(name).C_W

    def step(state, _):
        K, V = state
        powers = [Powers(s=2), Powers(s=4), Powers(s1=2), Powers(s=1, s1=1, z=1)]
        ss, ssss, a, zsd = pure_moments(act, powers, K)
        new = C_W * ss, C_W**2 * (ssss - ss**2) + C_W**2 * V * (zsd / K) ** 2
        return new, (*new, C_W * a)

    with jax.enable_x64(True):
        start = jnp.asarray(0.5), jnp.asarray(0.0)
        return [np.asarray(x) for x in jax.lax.scan(step, start, None, length=depth)[1]]


@pytest.mark.parametrize(
    "name", ["tanh", pytest.param("sin", marks=pytest.mark.slow), pytest.param("elu", marks=pytest.mark.slow)]
)
def test_the_flow_at_criticality_follows_the_asymptotics(name):
    found = asymptotics(name)
    K, V, chi = _recursion(name, 2000)
    power = 0.5 if found.a_half else 1.0
    rate = -found.a_half / 2 if found.a_half else -found.a_1
    # Differences from depth 1000 to 2000 leave out where the flow began.
    assert (K[-1] ** -power - K[999] ** -power) / 1000 == pytest.approx(rate, rel=3e-3)
    assert 1000 / (1 / (1 - chi[-1]) - 1 / (1 - chi[999])) == pytest.approx(found.p, rel=5e-3)
    assert (V[-1] / K[-1] ** 2 - V[999] / K[999] ** 2) / 1000 == pytest.approx(found.V_slope, rel=1e-2)


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.1)"])
def test_the_vertex_of_a_scale_invariant_activation_grows_linearly(name):
    K, V, chi = _recursion(name, 20)
    assert np.allclose(K, 0.5) and np.allclose(chi, 1)
    assert pytest.approx(asymptotics(name).V_slope * np.arange(1, 21)) == V / K**2


def test_asymptotics_are_those_of_the_taylor_series():
    silu = asymptotics("silu")
    assert (silu.a_1, silu.b_1, silu.p, silu.V_slope) == (0.75, 1.0, None, None)
    own = asymptotics(lambda z: jnp.tanh(2 * z) / 2)
    assert (own.a_1, own.b_1, own.p, own.V_slope) == pytest.approx((-8, -8, 1, 2 / 3))
    assert asymptotics("hard_tanh").p is None


def test_bad_input_is_refused():
    with one_sentence("'tahn'", "tanh"):
        critical("tahn")
    with one_sentence("K holds -1"):
        susceptibilities("tanh", -1.0, 1.0)
    with one_sentence("C_W has shape (2,)", "(3,)"):
        susceptibilities("tanh", [1.0, 2.0, 3.0], [1.0, 2.0])
    with one_sentence("does not exist"):
        susceptibilities(neft.activation(jnp.sign, kinks=[0.0]), 1.0, 1.0)
    with one_sentence("sigmoid", "σ(0) = 0.5"):
        asymptotics("sigmoid")
    with one_sentence("diverges at 0"):
        asymptotics(lambda z: z + jnp.sign(z) * jnp.abs(z) ** 1.5)


@pytest.mark.parametrize("name", ["gelu", "relu", "sigmoid"])
def test_results_survive_a_file(name, tmp_path):
    found = critical(name)
    found.save(tmp_path / "a.json")
    again = neft.load(tmp_path / "a.json")
    assert isinstance(again, Criticality) and again == found
    assert all(isinstance(point, CriticalPoint) for point in again.points)
    assert "perpendicular" not in repr(found)


def test_asymptotics_survive_a_file(tmp_path):
    asymptotics("relu").save(tmp_path / "a.json")
    again = neft.load(tmp_path / "a.json")
    assert isinstance(again, Asymptotics) and again.p is None
