"""What depth does to corrections of order 1/width, against integrals, differential equations and drawn networks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import neft
from neft import Dense, LayerNorm, Network, Residual, RMSNorm, width
from neft.width import advise, asymptotics, depth_flow, statistics

KEPT = Path(neft.__file__).parent / "plot" / "depth.json"


@pytest.mark.slow
def test_a_plain_relu_network_grows_by_five_a_layer():
    found = depth_flow(("relu", Dense(8, C_W=2.0)), 12)
    np.testing.assert_allclose(found.V, 5 * np.arange(1, 13), rtol=1e-12)
    assert found.powers["V"] == pytest.approx(1.0) and found.limits is None
    assert "to the power 1.00" in found.summary


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: depth_flow(("relu", Dense(8)), 8, scaled=True), "has no branch beside a skip"),
        (lambda: depth_flow(Residual("relu", Dense(8)), 2, scaled=True), "depth is 2, but must be at least 4"),
        (lambda: depth_flow(Residual(RMSNorm(lambda_gain=1.0), "relu", Dense(8)), 8), "whose tensors are not known"),
        (lambda: depth_flow((Dense(3), "tanh")), "must begin and end at preactivations"),
        (lambda: neft.plot.depth({}), "flows is empty"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        [Residual(Dense(3), "relu", Dense(6)), LayerNorm(epsilon=0.1)],
        [Residual(Dense(9), "gelu", Dense(6), skip=0.6), Residual("gelu", Dense(6), skip=-0.6)],
    ],
)
def test_the_loop_of_steps_is_the_network(block):
    found = depth_flow(block, 3, q=1.3)
    step = tuple(block) if isinstance(block, list) else (block,)
    stats, size = statistics(Network(1, [Dense(6), *step * 3, Dense(1)]), [math.sqrt(1.3)]), sum(b.weighs for b in step)
    for name, unit in {"V": stats.K**2, "A": stats.Theta**2, "B": stats.Theta**2, "Theta1": stats.Theta}.items():
        np.testing.assert_allclose(getattr(found, name), (getattr(stats, name) / unit)[size:-1:size], rtol=1e-11)


@pytest.mark.slow
def test_relu_branches_of_one_over_root_depth_tend_to_integrals():
    # docs/theory/depth, eqs. 8-10.
    c = 2.0
    found = depth_flow(Residual("relu", Dense(8, C_W=c, lambda_W=c, lambda_b=0.0)), 256, scaled=True)
    assert found.limits is not None and found.errors is not None

    def fourth(rho):  # ⟨σ²σ²⟩ - ¼: Cho, Saul 2009, order 2
        t = math.acos(rho)
        return (3 * math.sin(t) * rho + (math.pi - t) * (1 + 2 * rho * rho)) / (2 * math.pi) - 0.25

    V = 4 * (1 - math.exp(-c / 2)) + 2 * quad(lambda x: (c - x) * fourth(math.exp(-x / 4)), 0, c)[0]
    assert abs(found.limits["V"] - V) < found.errors["V"] < 1e-3

    def Theta(t):
        return math.exp(c * t / 2) * (2 + c * t / 2)

    def beta(T, g):
        return quad(lambda t: c * Theta(t) ** 2 * math.exp(c * (T - t) / 2) * g(math.exp(-c * (T - t) / 4)), 0, T)[0]

    both = quad(lambda t: 2 * c * math.exp(c * (1 - t)) * beta(t, lambda r: 0.25 + math.asin(r) / (2 * math.pi)), 0, 1)
    B = (both[0] + 2 * beta(1.0, lambda r: 0.5)) / Theta(1) ** 2
    assert abs(found.limits["B"] - B) < found.errors["B"] < 1e-3
    # What is left falls like 1/L.
    assert (found.limits["V"] - found.V[-1]) / (found.limits["V"] - found.V[-2]) == pytest.approx(0.5, abs=0.01)


def _mean(f, K):
    x = np.linspace(-12, 12, 4801)
    return float((np.exp(-x * x / 2) * f(math.sqrt(K) * x)).sum() * 0.005 / math.sqrt(2 * math.pi))


def _slope(f, K, h=1e-4):
    return (_mean(f, K * (1 + h)) - _mean(f, K * (1 - h))) / (2 * h * K)


@pytest.mark.slow
def test_two_matrices_of_one_over_root_depth_obey_a_differential_equation():
    # docs/theory/depth, eqs. 4-6, solved by other means, with averages by other means.
    C1, l1, b1, kappa, rate, bias = 1.5, 0.6, 0.3, 1.2, 0.8, 0.4
    block = Residual(
        Dense(16, C_b=0.2, C_W=C1, lambda_W=l1, lambda_b=b1),
        "tanh",
        Dense(8, C_W=kappa, lambda_W=rate, lambda_b=bias),
    )

    def square(z):
        return np.tanh(z) ** 2

    def steep(z):
        return np.cosh(z) ** -4

    def change(_, y):
        K, Theta, V, D, A, B, K1 = y
        Ka, Ta = 0.2 + C1 * K, b1 + l1 * K + C1 * Theta
        a, p, m = _mean(steep, Ka), _slope(square, Ka), _slope(steep, Ka)
        second = (_slope(square, Ka * 1.001) - _slope(square, Ka * 0.999)) / (0.002 * Ka)
        U, M, N = V + 2 * K * K, C1 * kappa * p, C1 * kappa * a
        P = C1 * (rate * p + kappa * Ta * m) + kappa * l1 * a
        dK, dTheta = kappa * _mean(square, Ka), bias + rate * _mean(square, Ka) + kappa * Ta * a
        dK1 = kappa * (C1 * K1 * p + C1**2 / 2 * U * second)
        return [dK, dTheta, 2 * M * U, (M + N) * D + P * U, 2 * N * A + 2 * P * D, 2 * N * (B + Theta**2), dK1]

    K, Theta, V, _, A, B, K1 = solve_ivp(change, (0, 1), [1.0, 2.0, 0, 0, 0, 0, 0], rtol=1e-8).y[:, -1]
    found = depth_flow(block, 512, scaled=True).limits
    assert found is not None
    expected = {"V": V / K**2, "A": A / Theta**2, "B": B / Theta**2, "K1": K1 / K}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=3e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("skip", [0.8, -0.6])
def test_one_matrix_streams_grow_as_their_asymptotics_say(skip):
    # docs/theory/depth, eq. 2.
    found = asymptotics(Residual("relu", Dense(8), skip=skip))
    assert pytest.approx(2 * (1 - skip**2)) == found.C_W
    flow = depth_flow(Residual("relu", Dense(8, C_W=found.C_W), skip=skip), 128)
    assert flow.V[-1] - flow.V[-2] == pytest.approx(found.V_slope, rel=1e-9)


@pytest.mark.slow
def test_skips_of_one_have_asymptotics_too():
    growing = asymptotics(Residual(RMSNorm(epsilon=0.0), Dense(8), "relu", Dense(8)))
    assert (growing.universality, growing.growth, growing.p) == ("growing", pytest.approx(0.5), pytest.approx(-1.0))
    small = asymptotics(Residual(Dense(8, C_W=2.0), "relu", Dense(8)))
    assert small.universality == "small branches" and small.limits is not None
    assert small.limits["V"] == pytest.approx(4.0, rel=1e-6)
    assert width.results.Asymptotics.from_dict(small.to_dict()) == small


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
def test_behind_norms_kernels_settle_and_the_ntk_spreads_like_the_depth(before):
    # C_b = C_W(⟨σ'²⟩ - ⟨σ²⟩): both norms, before the branch and after the sum, have χ_⊥ = 1 there.
    def block(C_b):
        both = Dense(8, C_b=C_b), "tanh", Dense(8, C_b=C_b)
        return Residual(RMSNorm(epsilon=0.0), *both, skip=0.8) if before else (Residual(*both), RMSNorm(epsilon=0.0))

    found, (point,) = asymptotics(block(0.0)), width.critical(block(0.0)).points
    assert found.universality == "normalized" and point.C_W == found.C_W == 1
    assert f"C_b = {point.C_b:.6g}" in found.law and f"χ_∥ = {0.64 if before else 0:.6g}:" in found.law
    flow = depth_flow(block(point.C_b), 300)
    assert [flow.powers[name] for name in "VAB"] == pytest.approx([0, 1, 1], abs=0.02)
    assert flow.V[-1] == pytest.approx(flow.V[-2], rel=1e-9) and abs(flow.V[-1]) > 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Hermite expansion")  # of 1e-6, where 1e-2 is looked at
def test_the_branch_scale_of_advice_makes_the_network_fine():
    found = advise(Residual("tanh", Dense(8), skip=0.8), 22, 48)
    assert found.strength > 0.1 and found.branch_scale is not None and found.cutoff > 22
    share = found.branch_scale**2
    last = Dense(48, C_W=found.C_W * share, lambda_b=share, lambda_W=share)
    net = Network(1, [Dense(48), *[Residual("tanh", last)] * 20, Dense(1)])
    stats = statistics(net, [1.0])
    sizes = [stats.V[-1] / stats.K[-1] ** 2, (stats.A[-1] + 2 * stats.B[-1]) / stats.Theta[-1] ** 2]
    assert 0.0985 < max(sizes) / 48 < 0.1
    fine = advise(Residual(Dense(8), "relu", Dense(8)), 6, 512)
    assert fine.verdict == "fine" and fine.branch_scale is None


def _block(kept, depth):
    share = depth if kept["per_depth"] else 1
    last = Dense(8, C_W=kept["C_W"] / share, lambda_b=kept["rate"] / share, lambda_W=kept["rate"] / share)
    branch = [RMSNorm(epsilon=0.0)] * kept["norm"] + [Dense(8)] * (kept["matrices"] == 2) + ["tanh", last]
    if not kept["skip"]:
        return tuple(branch)
    block = Residual(*branch, skip=kept["skip"])
    return (RMSNorm(epsilon=0.0), block) if kept.get("whole") else block


@pytest.mark.slow
def test_drawn_networks_have_the_ratios_of_theory():
    # tools/draw_depth.py, which knows no recursion.
    resolved = dict.fromkeys("VAB", 0.0)
    for name, kept in json.loads(KEPT.read_text()).items():
        for place, depth in enumerate(kept["depths"]):
            flow = depth_flow(_block(kept, depth), depth)
            for ratio in "VAB":
                (value, error), theory = kept[ratio][place], getattr(flow, ratio)[-1]
                assert abs(value - theory) < 5 * error, (name, depth, ratio)
                resolved[ratio] = max(resolved[ratio], value / error)
    assert min(resolved.values()) > 10
