"""Criticality of repeated blocks, against their maps written by hand."""

import functools
import json
import math

import jax
import numpy as np
import pytest
from helpers import one_sentence
from scipy import special
from scipy.integrate import quad

import neft
from neft import MLP, Dense, LayerNorm, Network, Residual, RMSNorm, width
from neft.network import Block, Nonlinearity
from neft.network.engine import repeated
from neft.width import asymptotics, kernel, phase, statistics, susceptibilities
from neft.width.results import BlockAdvice, Criticality

critical = functools.cache(width.critical)
advise = functools.cache(width.advise)

SIGMA = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "gelu": (
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
}


def average(f, K):
    """⟨f⟩ by SciPy, which shares nothing with neft.gaussian."""
    spread = math.sqrt(K)

    def integrand(x):
        return f(spread * x) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    return sum(quad(integrand, *ends, epsabs=1e-14, epsrel=1e-13, limit=200)[0] for ends in ((-30, 0), (0, 30)))


def square(name, K):
    return average(lambda z: SIGMA[name][0](z) ** 2, K)


def slope(name, K):
    return average(lambda z: SIGMA[name][1](z) ** 2, K)


def growth(name, K):
    return average(lambda z: SIGMA[name][0](z) ** 2 * (z * z - K), K) / (2 * K * K)


_X, _W = np.polynomial.hermite_e.hermegauss(120)
_W = _W / _W.sum()


def together(name, K1, K2, c):
    """⟨σ1σ2⟩ by Gauss and Hermite over two independent variables."""
    s = SIGMA[name][0]
    first = math.sqrt(K1) * _X[:, None]
    second = c / math.sqrt(K1) * _X[:, None] + math.sqrt(max(K2 - c * c / K1, 0.0)) * _X[None, :]
    return float(_W @ (s(first) * s(second)) @ _W)


# Steps of K1, K2 and c, written out.
SKIP, ONE, TWO = 0.7, (0.1, 1.3), (0.2, 1.5)


def one_matrix(name, K1, K2, c):
    C_b, C_W = ONE
    return SKIP**2 * c + C_b + C_W * together(name, K1, K2, c)


def two_matrices(name, K1, K2, c):
    C_b, C_W = TWO
    inside = (0.05 + 0.8 * value for value in (K1, K2, c))
    return SKIP**2 * c + C_b + C_W * together(name, *inside)


def before(name, K1, K2, c, epsilon=0.01):
    C_b, C_W = ONE
    sizes = K1 + epsilon, K2 + epsilon
    return SKIP**2 * c + C_b + C_W * together(name, K1 / sizes[0], K2 / sizes[1], c / math.sqrt(sizes[0] * sizes[1]))


def after(name, K1, K2, c, epsilon=0.01):
    C_b, C_W = ONE
    a, b, both = (C_b + C_W * together(name, *values) for values in ((K1, K1, K1), (K2, K2, K2), (K1, K2, c)))
    return both / math.sqrt((a + epsilon) * (b + epsilon))


def centred(name, K1, K2, c, epsilon=0.01):
    C_b, C_W = ONE
    m1, m2 = (float(_W @ SIGMA[name][0](math.sqrt(K) * _X)) for K in (K1, K2))
    a, b = (together(name, K, K, K) - m * m for K, m in ((K1, m1), (K2, m2)))
    return C_b + C_W * (together(name, K1, K2, c) - m1 * m2) / math.sqrt((a + epsilon) * (b + epsilon))


STEPS = {
    "one matrix": (one_matrix, Residual("gelu", Dense(4), skip=SKIP), ONE, None),
    "two matrices": (
        two_matrices,
        Residual(Dense(6, C_b=0.05, C_W=0.8), "gelu", Dense(4), skip=SKIP),
        TWO,
        1,
    ),
    "norm before": (before, Residual(RMSNorm(epsilon=0.01, lambda_gain=0.3), "gelu", Dense(4), skip=SKIP), ONE, None),
    "norm after": (after, ("gelu", Dense(4), RMSNorm(epsilon=0.01)), ONE, None),
    "norm of activations": (centred, ("gelu", LayerNorm(epsilon=0.01), Dense(4)), ONE, None),
}


def difference(f, at, step):
    """f' by four values, to step⁴."""
    return (8 * (f(at + step) - f(at - step)) - f(at + 2 * step) + f(at - 2 * step)) / (12 * step)


@pytest.mark.parametrize("kind", STEPS)
def test_susceptibilities_are_derivatives_of_the_step(kind):
    by_hand, block, (C_b, C_W), dense = STEPS[kind]
    K = 0.8
    found = susceptibilities(block, K, C_W, C_b=C_b, dense=dense)
    parallel = difference(lambda K: by_hand("gelu", K, K, K), K, 1e-3)
    assert float(found.parallel) == pytest.approx(parallel, rel=1e-8, abs=1e-9)
    # Only up to c = K: one-sided, to the fourth order in the step.
    h = 1e-3
    values = [by_hand("gelu", K, K, K - i * h) for i in range(5)]
    perpendicular = np.dot([25 / 12, -4, 3, -4 / 3, 1 / 4], values) / h
    assert float(found.perpendicular) == pytest.approx(perpendicular, rel=1e-7)


def test_susceptibilities_broadcast_and_at_zero_are_the_limit():
    block = Residual("tanh", Dense(4), skip=0.5)
    found = susceptibilities(block, [[0.0], [2.0]], [1.0, 3.0])
    assert found.parallel.shape == found.perpendicular.shape == (2, 2)
    np.testing.assert_allclose(found.perpendicular[0], 0.25 + np.array([1.0, 3.0]), rtol=1e-13)
    assert found.perpendicular[1, 1] == pytest.approx(0.25 + 3 * slope("tanh", 2.0), rel=1e-11)
    assert found.parallel[1, 1] == pytest.approx(0.25 + 3 * growth("tanh", 2.0), rel=1e-11)


def test_a_step_with_one_activation_is_that_of_the_activation():
    plain, block = critical("gelu"), critical(("gelu", Dense(64)))
    assert block.points == plain.points and plain.dense is None
    assert block.dense == "the dense block Dense(64)"
    np.testing.assert_allclose(block.perpendicular, block.C_W * plain.perpendicular, rtol=1e-14)
    assert critical(MLP((3, 8, 8, 1), "gelu", C_W=(1, 2, 3))).points == plain.points


@pytest.mark.slow
def test_a_skip_scales_the_plain_points():
    plain, found = critical("gelu").points, critical(Residual("gelu", Dense(64), skip=0.7)).points
    assert [(p.universality, p.stability) for p in found] == [(p.universality, p.stability) for p in plain]
    for one, other in zip(found, plain):
        np.testing.assert_allclose([one.C_b, one.C_W], [0.51 * other.C_b, 0.51 * other.C_W], rtol=1e-10)
        assert one.K_star == pytest.approx(other.K_star, rel=1e-9)


@pytest.mark.slow
def test_a_common_point_of_two_matrices_is_a_fixed_point_with_both_susceptibilities_one():
    found = critical(Residual(Dense(8), "gelu", Dense(4), skip=0.7))
    assert (found.universality, found.stability) == ("half-stable", "above")
    assert found.dense == "all 2 dense blocks, Dense(8), Dense(4)"
    K, C_b, C_W = found.K_star, found.C_b, found.C_W
    inside = C_b + C_W * K
    assert 0.49 * K + C_b + C_W * square("gelu", inside) == pytest.approx(K, rel=1e-10)
    assert 0.49 + C_W**2 * slope("gelu", inside) == pytest.approx(1, abs=1e-10)
    assert 0.49 + C_W**2 * growth("gelu", inside) == pytest.approx(1, abs=1e-10)
    # K goes back from above and away from below.
    step = [0.49 * k + C_b + C_W * square("gelu", C_b + C_W * k) - k for k in (0.9 * K, 1.1 * K)]
    assert step[0] < 0 and step[1] < 0


@pytest.mark.slow
def test_two_matrices_have_a_family_of_points():
    # docs/theory/blocks, eq. 34.
    relu = [critical(Residual(Dense(8, C_W=C), "relu", Dense(4), skip=0.6), dense=1).C_W for C in (0.5, 2.0)]
    relu.append(critical(Residual(Dense(8), "relu", Dense(4), skip=0.6)).C_W)
    assert relu == pytest.approx([2 * 0.64 / 0.5, 2 * 0.64 / 2.0, math.sqrt(1.28)], rel=1e-12)
    tanh = critical(Residual(Dense(8, C_W=0.7), "tanh", Dense(4, C_W=3.0), skip=0.6), dense=0)
    assert tanh.dense == "dense block 0 of 0 to 1, Dense(8)"
    assert (tanh.C_b, tanh.C_W, tanh.K_star) == (0.0, pytest.approx(0.64 / 3.0, rel=1e-12), 0.0)


def test_what_a_skip_of_one_has_instead_of_a_point_is_said():
    found = critical(Residual("tanh", Dense(4)))
    assert found.points == () and found.universality == "none" and "the limit C_W → 0 only" in found.why
    assert "1.21 > 1 by itself" in critical(Residual("tanh", Dense(4), skip=1.1)).why
    grows = critical(Residual(RMSNorm(), "tanh", Dense(4)))
    assert grows.points == () and "K grows by the same amount in every block" in grows.why
    assert grows.K.size and np.isfinite(grows.parallel).all()


@pytest.mark.parametrize(
    ("block", "K_star"),
    [
        (Residual(RMSNorm(epsilon=0.0), "tanh", Dense(4), skip=0.9), lambda b, ss: (b + ss) / (1 - 0.81)),
        pytest.param(("tanh", Dense(4), RMSNorm(epsilon=0.0)), lambda b, ss: 1.0, marks=pytest.mark.slow),
    ],
)
def test_norms_fix_one_susceptibility_and_leave_a_line_of_the_other(block, K_star):
    # docs/theory/blocks, eq. 35.
    found = critical(block)
    ss, a = square("tanh", 1.0), slope("tanh", 1.0)
    assert (found.universality, found.stability, found.C_W) == ("normalized", "both", 1.0)
    assert found.C_b == pytest.approx(a - ss, rel=1e-9)
    assert found.K_star == pytest.approx(K_star(a - ss, ss), rel=1e-9)
    chi = susceptibilities(block, found.K_star, 1.0, C_b=found.C_b)
    assert float(chi.perpendicular) == pytest.approx(1, abs=1e-9)
    assert float(chi.parallel) == pytest.approx(0.81 if isinstance(block, Residual) else 0.0, abs=1e-9)


def flowed(name, C_b, C_W, K, rho, blocks):
    """K and correlation after many blocks of one matrix, by hand."""
    for _ in range(blocks):
        c = SKIP**2 * rho * K + C_b + C_W * together(name, K, K, rho * K)
        K = SKIP**2 * K + C_b + C_W * together(name, K, K, K)
        rho = c / K
    return K, rho


def test_phases_are_where_the_correlation_flows():
    C_b, C_W = [0.0, 0.1], [0.3, 0.51, 1.4]
    found = phase(Residual("tanh", Dense(4), skip=SKIP), C_b, C_W)
    names = [[found.phases[code] for code in row] for row in found.phase]
    assert names == [["ordered", "critical", "chaotic"], ["ordered", "ordered", "chaotic"]]
    for i, j in ((1, 0), (1, 1), (1, 2), (0, 2)):
        K, rho = flowed("tanh", C_b[i], C_W[j], 1.0, 0.95, 150)
        assert found.K_star[i, j] == pytest.approx(K, rel=1e-8)
        assert (rho > 0.999) == (names[i][j] == "ordered")
    assert found.dense == "the dense block Dense(4)" and len(found.points) == 1


@pytest.mark.slow
def test_phases_of_a_skip_are_those_of_the_plain_network():
    plain = phase("gelu", np.array([0.0, 0.2, 0.7]) / 0.51, np.array([0.2, 0.9, 1.1, 2.0]) / 0.51)
    found = phase(Residual("gelu", Dense(4), skip=SKIP), [0.0, 0.2, 0.7], [0.2, 0.9, 1.1, 2.0])
    np.testing.assert_array_equal(found.phase, plain.phase)
    np.testing.assert_allclose(found.K_star, plain.K_star, rtol=1e-11)
    inside = np.isfinite(plain.K_star)
    for name in ("perpendicular", "parallel"):
        expected = 0.49 + 0.51 * getattr(plain, name)[inside]
        np.testing.assert_allclose(getattr(found, name)[inside], expected, rtol=1e-11)


def test_a_norm_in_a_skip_of_one_grows_linearly_and_correlations_as_a_power():
    # docs/theory/blocks, eq. 36; tanh, whose ν is not 1.
    found = phase(Residual(RMSNorm(epsilon=0.0), "tanh", Dense(4)), [0.1], [1.5])
    assert found.phases[int(found.phase[0, 0])] == "diverging" and found.K_star[0, 0] == np.inf
    assert found.perpendicular[0, 0] == pytest.approx(1, abs=1e-9)
    ss, a = square("tanh", 1.0), slope("tanh", 1.0)
    k = 0.1 + 1.5 * ss
    K, log, marks = 1.0, 0.0, {}
    for l in range(1, 20_001):
        log += math.log((K + 1.5 * a) / (K + k))
        K += k
        marks[l] = log
    power = (marks[20_000] - marks[10_000]) / math.log(2)
    assert power == pytest.approx(1.5 * a / k - 1, abs=1e-4)
    chi = susceptibilities(Residual(RMSNorm(epsilon=0.0), "tanh", Dense(4)), 7.0, 1.5, C_b=0.1)
    assert float(chi.perpendicular) == pytest.approx(1 + 1.5 * a / 7.0, rel=1e-11)


@pytest.mark.slow
def test_asymptotics_of_blocks_are_those_of_their_flow():
    # docs/theory/blocks, eq. 37.
    block = Residual(Dense(128), "tanh", Dense(64), skip=0.7)
    found = asymptotics(block)
    C = math.sqrt(0.51)
    assert (found.C_W, found.a_1, found.p) == (pytest.approx(C), pytest.approx(-2 * 0.51 * C), pytest.approx(1.0))
    # K' written out to second order in tanh² = z² - (2/3)z⁴ + (17/45)z⁶.
    K = 1.0
    for _ in range(40_000):
        inside = C * K
        K = 0.49 * K + C * (inside - 2 * inside**2 + 17 / 3 * inside**3 if inside < 0.02 else square("tanh", inside))
    assert K * 40_000 * -found.a_1 == pytest.approx(1, abs=2e-3)
    # V/K² of eq. 18, with r = 64/128.
    assert found.V_slope == pytest.approx((2 * (1 - 0.7**4) + 0.5 * 0.51**2 * 2) / 3, rel=1e-12)
    assert asymptotics(Residual("tanh", Dense(8), skip=0.7)).V_slope == pytest.approx(2 / 3 * (1 - 0.7**4), rel=1e-9)
    with pytest.raises(ValueError, match="is not critical at K") as caught:
        asymptotics(Residual("tanh", Dense(8), skip=1.2))
    one_sentence(caught.value)


class Gated(Block):
    """W(σ(Vz) ⊙ Uz), a block of one's own."""

    gate: Dense
    value: Dense
    last: Dense

    def __init__(self):
        self.gate, self.value, self.last = Dense(5), Dense(5, C_W=1.5), Dense(4, C_W=0.8)

    def init(self, key, fan_in, *, dtype):
        keys = jax.random.split(key, 3)
        fans = (fan_in, fan_in, 5)
        return tuple(
            part.init(one, n, dtype=dtype) for part, one, n in zip((self.gate, self.value, self.last), keys, fans)
        )

    def apply(self, params, x):
        gate, value, last = params
        return self.last.apply(last, jax.numpy.tanh(self.gate.apply(gate, x)) * self.value.apply(value, x))

    def rates(self, fan_in):
        return tuple(part.rates(n) for part, n in zip((self.gate, self.value, self.last), (fan_in, fan_in, 5)))

    def kernel(self, stage, average):
        gate = Nonlinearity("tanh").kernel(self.gate.kernel(stage, average), average)
        return self.last.kernel(gate.times(self.value.kernel(stage, average)), average)


def test_a_block_of_ones_own_has_susceptibilities():
    K, C_b, C_W = 0.9, 0.2, 1.7
    found = susceptibilities(Residual(Gated(), skip=0.5), K, C_W, C_b=C_b, dense=0)
    inside = C_b + C_W * K
    ss, a, g = square("tanh", inside), slope("tanh", inside), growth("tanh", inside)
    assert float(found.parallel) == pytest.approx(0.25 + 0.8 * 1.5 * (ss + K * C_W * g), rel=1e-11)
    assert float(found.perpendicular) == pytest.approx(0.25 + 0.8 * 1.5 * (ss + K * C_W * a), rel=1e-11)


def test_the_block_of_a_network_is_found():
    block = Residual("relu", Dense(8, C_W=3.0, lambda_W=2.0), skip=0.5)
    other = Residual("relu", Dense(8), skip=0.5)
    net = Network(3, [Dense(8), block, other, "relu", Dense(1)])
    assert repeated(net) == (block,)
    found = susceptibilities(net, 2.0, 1.5)
    np.testing.assert_allclose([found.parallel, found.perpendicular], 1.0, rtol=1e-13)
    pair = Network(3, [Dense(8), *[other, Residual("tanh", Dense(8), skip=0.2)] * 2, Dense(1)])
    assert len(repeated(pair)) == 2
    mixed = Network(3, [Dense(8), other, Residual("relu", Dense(8), skip=0.4), Dense(1)])
    with pytest.raises(ValueError, match="does not repeat one block") as caught:
        critical(mixed)
    one_sentence(caught.value)
    # With one of two solved for, the other must be the same in all.
    inner = [Residual(Dense(8, C_W=C), "relu", Dense(8), skip=0.5) for C in (1.0, 2.0)]
    with pytest.raises(ValueError, match="does not repeat one block"):
        critical(Network(3, [Dense(8), *inner, Dense(1)]), dense=1)
    assert repeated(Network(3, [Dense(8), *inner, Dense(1)])) == (inner[0],)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: width.critical((Dense(3), "tanh")), "must begin and end at preactivations"),
        (lambda: width.critical([]), "there are no blocks"),
        (lambda: width.critical(RMSNorm()), "hold no dense block"),
        (lambda: width.critical("tanh", dense=0), "names a dense block of a repeated block"),
        (lambda: width.critical(Residual("tanh", Dense(3)), dense=1), "dense is 1, but must be at most 0"),
        (lambda: width.critical(Network(3, [Dense(2)])), "has no block between its first and its last"),
        (lambda: susceptibilities(Residual("tanh", Dense(3)), [1.0, 2.0], 1.0, C_b=[0.0] * 3), "C_b has shape"),
        (lambda: phase(Residual(jax.numpy.sign, Dense(3))), "jump"),
        (lambda: width.advise(Residual("tanh", Dense(3)), 2, 8), "depth is 2, but must be at least 3"),
        (lambda: width.advise(Residual("tanh", Dense(3)), 4, 8, C_W=1.0), "C_b is missing"),
        pytest.param(
            lambda: width.advise(Residual("sigmoid", Dense(3), skip=0.5), 4, 3),
            "no critical point",
            marks=pytest.mark.slow,
        ),
        (lambda: width.advise(Residual("relu", Dense(3), skip=0.5), 4, 3, point=3), "point is 3"),
        (lambda: asymptotics(Residual(Dense(3), skip=0.5)), "asymptotics are known for one"),
        (lambda: width.flow(Residual("tanh", Dense(3)), 1.0, [], None), "activation is"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    one_sentence(caught.value)


@pytest.mark.slow
def test_advice_has_the_kernels_of_its_network_and_the_growth_of_differences():
    found = advise(Residual(RMSNorm(lambda_gain=1.0), "tanh", Dense(8)), 6, 16, inputs=3, q=2.0, C_b=0.2, C_W=1.5)
    assert isinstance(found, BlockAdvice) and found.kind == "given" and found.verdict == "not known"
    assert found.spread_output is found.spread_ntk is found.strength is found.width_needed is None
    assert "is not known: " in found.summary
    net = found.network()
    assert net.widths == (3, 16, 16, 16, 16, 16, 1)[:7] and found.activation.endswith("Dense(16), skip=1)")
    angle = 1e-3
    x = math.sqrt(6.0) * np.array([[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0]])
    K = statistics(net, x[0], only=("K",)).K
    np.testing.assert_allclose(found.K, K[:-1], rtol=1e-10)
    out = kernel(net, x)
    assert found.Theta == pytest.approx(out.Theta[0, 0], rel=1e-10)
    grown = (1 - out.K[0, 1] / out.K[0, 0]) / (1 - math.cos(angle))
    assert found.difference == pytest.approx(grown, rel=1e-5)


@pytest.mark.slow
def test_advice_chooses_small_branches_for_a_skip_of_one():
    found = advise(Residual("tanh", Dense(8)), 12, 8)
    assert found.kind == "small branches" and found.C_b == 0
    assert found.C_W * slope("tanh", 1.0) == pytest.approx(1 / 10, rel=1e-10)
    assert found.K[-1] < 2.5 and 0.5 < found.difference < 3
    assert advise(Residual(RMSNorm(), "tanh", Dense(8)), 6, 8).kind == "free"


@pytest.mark.slow
def test_advice_on_two_matrices_knows_their_finite_width(tmp_path):
    found = advise(Residual(Dense(12), "relu", Dense(8), skip=0.8), 4, 16, inputs=2)
    stats = statistics(found.network(), np.ones(2))
    assert found.network().blocks[1].branch[0].width == 24
    assert found.spread_output == pytest.approx(math.sqrt(stats.V[-1] / 16) / stats.K[-1], rel=1e-10)
    spread = math.sqrt((stats.A[-1] + 2 * stats.B[-1]) / 16) / stats.Theta[-1]
    assert found.spread_ntk == pytest.approx(spread, rel=1e-10)
    # relu: V/K² grows by the same number in every block, the last dense one adding 2 (docs/theory/blocks, eq. 18).
    each = 2 * (1 - 0.8**4) + 5 * (16 / 24) * 0.36**2
    assert found.spread_output**2 * 16 == pytest.approx(2 * each + 2, rel=1e-9)
    assert found.verdict == "strained" and found.width_needed > 16
    found.save(tmp_path / "advice.json")
    assert neft.load(tmp_path / "advice.json") == found


def test_files_from_before_blocks_still_load(tmp_path):
    record = json.loads(json.dumps(critical("tanh").to_dict()))
    del record["dense"]
    assert Criticality.from_dict(record) == critical("tanh")
    diagram = phase("tanh", [0.0, 0.1], [1.0, 2.0])
    record = diagram.to_dict()
    del record["dense"]
    assert width.results.PhaseDiagram.from_dict(record) == diagram
    record = asymptotics("tanh").to_dict()
    del record["dense"]
    assert width.results.Asymptotics.from_dict(record) == asymptotics("tanh")


@pytest.mark.slow
def test_wide_networks_neither_forget_nor_amplify_at_the_critical_point():
    # One block at K* of gelu: squared differences of two near inputs, and of K at two near K, through the same weights.
    found, n, draws = critical(Residual("gelu", Dense(64), skip=0.7)), 1024, 60
    s, rng, near = SIGMA["gelu"][0], np.random.default_rng(0), 1e-3
    K, chi = found.K_star, {"perpendicular": [], "parallel": [], "without the skip": []}
    for _ in range(draws):
        W = rng.normal(size=(n, n)) * math.sqrt(found.C_W / n)
        b = rng.normal(size=(n, 1)) * math.sqrt(found.C_b)
        one, other = rng.normal(size=(2, n, 1)) * math.sqrt(K)
        two = math.sqrt(1 - near**2) * one + near * other
        large, small = math.sqrt(1 + near) * one, math.sqrt(1 - near) * one
        branch = [b + W @ s(z) for z in (one, two, large, small)]
        out = [0.7 * z + part for z, part in zip((one, two, large, small), branch)]
        scale = ((one - two) ** 2).sum()
        chi["perpendicular"].append(((out[0] - out[1]) ** 2).sum() / scale)
        chi["without the skip"].append(((branch[0] - branch[1]) ** 2).sum() / scale)
        chi["parallel"].append(((out[2] ** 2).sum() - (out[3] ** 2).sum()) / (n * 2 * near * K))
    means = {name: (np.mean(values), np.std(values) / math.sqrt(draws)) for name, values in chi.items()}
    for name in ("perpendicular", "parallel"):
        mean, error = means[name]
        assert abs(mean - 1) < 5 * error and error < 0.03
    mean, error = means["without the skip"]
    assert 1 - mean > 10 * error
