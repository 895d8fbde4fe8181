import dataclasses
import functools
import itertools
import json
import math
import os
import subprocess
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import MLP, Dense, Layer, LayerNorm, Network, Residual
from neft._expression import is_expression, parsed
from neft._framework_functions import EXPRESSIONS as KNOWN
from neft._framework_functions import GELU_BY_TANH
from neft.width import advise, critical, equal_shares, initializer_code, statistics
from neft.width._initializers import activation_line

NAMES = ["tanh", "relu"]
NAMES += [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("gelu", "silu", "sin", "elu", "hard_tanh", "sigmoid", "softplus")
]
X = np.array([0.7, -1.1, 0.4])


def shares_in_theory(net, x):
    """Θ of the output from one layer alone: the NTK is linear in the rates, so all others are set to zero."""
    found = []
    for l in range(net.depth):
        lambda_b, lambda_W = (
            tuple(value if i == l else 0.0 for i, value in enumerate(values)) for values in (net.lambda_b, net.lambda_W)
        )
        only = net.replace(lambda_b=lambda_b, lambda_W=lambda_W)
        found.append(statistics(only, x).Theta[-1])
    return np.array(found)


def draws_of(net, count, seed):
    """Parameters of many networks, stacked."""
    rng = np.random.default_rng(seed)
    return tuple(
        Layer(
            rng.normal(size=(count, m, n)).astype(np.float32) * np.float32(math.sqrt(C_W / n)),
            rng.normal(size=(count, m)).astype(np.float32) * np.float32(math.sqrt(C_b)),
        )
        for n, m, C_W, C_b in zip(net.widths, net.widths[1:], net.C_W, net.C_b)
    )


def shares_in_draws(net, x, count, seed):
    """The same from autodiff: Σ λ (dz/dθ)² over the parameters of each layer of each draw, (draws, L)."""

    @jax.jit
    @jax.vmap
    def squares(params):
        gradient = jax.grad(lambda p: net.apply(p, x)[0])(params)
        return [[jnp.sum(g**2) for g in layer] for layer in gradient]

    squares = np.array(squares(draws_of(net, count, seed)), float)
    return np.einsum("lpd,lp->dl", squares, np.array(net.rates()))


@pytest.mark.parametrize("name", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_equal_shares_are_equal_in_the_theorys_decomposition(name):
    net = MLP((3, 7, 11, 5, 2), name, C_b=(0.1, 0.2, 0.0, 0.3), C_W=(1.5, 1.2, 0.8, 1.9))
    np.testing.assert_allclose(shares_in_theory(equal_shares(net, X), X), 1 / 4, rtol=1e-12)
    before = shares_in_theory(net, X)
    assert before.max() > 1.5 * before.min()


@pytest.mark.slow
def test_biases_and_weights_have_one_half_of_each_share():
    net = equal_shares(MLP((3, 7, 5, 6, 2), "tanh", C_b=0.1, C_W=1.4), X)
    without = MLP(net.widths, net.activation, C_b=net.C_b, C_W=net.C_W, lambda_b=net.lambda_b, lambda_W=0.0)
    assert statistics(without, X).Theta[-1] == pytest.approx(0.5, rel=1e-12)


def test_equal_shares_are_equal_in_an_ensemble():
    x = X.astype(np.float32)
    net = MLP((3, 128, 128, 128, 1), "tanh", C_b=0.05, C_W=1.6)
    found = shares_in_draws(equal_shares(net, X), x, 200, seed=1)
    mean, stderr = found.mean(0), found.std(0) / math.sqrt(200)
    assert (np.abs(mean - 1 / 4) < 5 * stderr).all() and (mean > 10 * stderr).all()
    uneven = shares_in_draws(net, x, 64, seed=2)
    assert np.ptp(uneven.mean(0)) > 10 * uneven.std(0).max() / 8


def at_equal_shares(found):
    """The advised network at the rates for which the spread of the NTK is said."""
    return found.network().replace(lambda_b=tuple(found.share_b.tolist()), lambda_W=tuple(found.share_W.tolist()))


def test_the_advised_network_has_the_rates_of_gradient_descent():
    found = advise("gelu", depth=4, width=40, inputs=6, outputs=3)
    rates = found.network().rates()
    np.testing.assert_allclose([rate.W for rate in rates], found.settings("sgd").rate_W)
    np.testing.assert_allclose([rate.b for rate in rates], found.settings("sgd").rate_b)
    bare = advise(MLP((6, 40, 40, 3), "relu", lambda_b=0.0), 3, 40, inputs=6, outputs=3).network()
    assert set(bare.lambda_b) == {0} and min(bare.lambda_W) > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_advised_network_has_the_numbers_of_its_statistics(name):
    found = advise(name, depth=4, width=40, inputs=6, outputs=3, q=1.7)
    net = at_equal_shares(found)
    assert net.widths == (6, 40, 40, 40, 3)
    stats = statistics(net, math.sqrt(1.7) * np.ones(6))
    np.testing.assert_allclose(found.K, stats.K, rtol=1e-11)
    assert stats.Theta[-1] == pytest.approx(1, rel=1e-11)
    assert found.spread_output == pytest.approx(math.sqrt(stats.V[-1] / 40) / stats.K[-1], rel=1e-10)
    assert found.spread_ntk == pytest.approx(math.sqrt((stats.A[-1] + 2 * stats.B[-1]) / 40), rel=1e-10)
    assert found.excess_kurtosis == pytest.approx(3 * found.spread_output**2)
    shifts = abs(stats.K1[-1]) / 40 / stats.K[-1], abs(stats.Theta1[-1]) / 40
    assert found.strength == pytest.approx(max(found.spread_output**2, found.spread_ntk**2, *shifts), rel=1e-10)


def test_the_spread_of_the_ntk_is_said_for_equal_shares():
    found = advise("tanh", depth=6, width=32, q=0.6)
    net = equal_shares(found.network(), math.sqrt(0.6) * np.ones(32))
    np.testing.assert_allclose(found.share_b, net.lambda_b, rtol=1e-11)
    np.testing.assert_allclose(found.share_W, net.lambda_W, rtol=1e-11)


def test_the_spreads_are_those_of_an_ensemble():
    # Drawn by hand: G is the variance of the output given the hidden layers, H its NTK by the chain rule.
    n, draws = 80, 400
    found = advise("tanh", depth=3, width=n, inputs=3)
    rng, (b, W) = np.random.default_rng(3), (found.share_b, found.share_W)
    G, H = np.empty(draws), np.empty(draws)
    for i in range(draws):
        s = np.tanh(rng.normal(size=n) * math.sqrt(found.C_W))  # the first layer is exactly Gaussian
        d = 1 - s**2
        W2 = rng.normal(size=(n, n)) * math.sqrt(found.C_W / n)
        w3 = rng.normal(size=n) * math.sqrt(found.C_W_last / n)
        inner = W2 * d
        NTK = (b[0] + W[0]) * inner @ inner.T + (b[1] + W[1] * (s @ s) / n) * np.eye(n)
        s = np.tanh(W2 @ s)
        v = w3 * (1 - s**2)
        G[i], H[i] = found.C_W_last * s @ s / n, b[2] + W[2] * (s @ s) / n + v @ NTK @ v
    for values, spread in ((G / found.K[-1], found.spread_output), (H, found.spread_ntk)):
        square = (values - values.mean()) ** 2
        stderr = square.std() / math.sqrt(draws)
        assert square.mean() > 10 * stderr and abs(square.mean() - spread**2) < 5 * stderr


def test_signals_that_would_fade_stay_at_a_fixed_point():
    found = advise("tanh", depth=20, width=64)
    assert pytest.approx(1.1) == found.C_W and found.C_b == 0 and found.kind == "critical"
    square = float(neft.gaussian.moment("tanh", neft.gaussian.Powers(s=2), found.K_star))
    assert found.C_W * square == pytest.approx(found.K_star) and found.K_star == pytest.approx(1 / 20, rel=0.1)
    assert found.C_W_last == pytest.approx(found.C_W / math.sqrt(found.K_star))
    net = at_equal_shares(found)
    assert pytest.approx((*[1.1] * 19, found.C_W_last)) == net.C_W
    seen = neft.width.statistics(net, np.ones(64), only=("K", "Theta"))
    np.testing.assert_allclose(found.K, seen.K, rtol=1e-10)
    assert seen.Theta[-1] == pytest.approx(1)
    deep = advise("tanh", depth=200, width=64)
    chi = float(neft.width.susceptibilities("tanh", deep.K_star, deep.C_W).perpendicular)
    assert chi - 1 == pytest.approx(4 / 3 / 200**2, rel=0.05)  # ⟨σ'²⟩ = 1 - 2K + 7K², ⟨σ²⟩ = K - 2K² + 17/3 K³
    for same in (advise("tanh", 2, 64), advise("tanh", 20, 64, C_b=0.0, C_W=1.0)):
        assert same.C_W == same.C_W_last == 1.0
    relu = advise("relu", 20, 64)
    assert relu.C_W == relu.C_W_last == 2.0


def test_the_cut_off_is_where_a_deeper_network_has_it():
    found = advise("relu", depth=3, width=30)
    assert found.cutoff == 7 and found.comfortable == 1  # V/nK² = 5(l-1)/n is the largest
    deep = advise("relu", depth=7, width=30)
    assert deep.strength == pytest.approx(1) and deep.cutoff == 7
    assert deep.verdict == "strained"
    wide = advise("relu", depth=7, width=deep.width_needed)
    assert wide.verdict == "fine" and advise("relu", 7, deep.width_needed - 2).verdict == "strained"


KEPT = json.loads((Path(__file__).parents[2] / "docs" / "advice.json").read_text())


@functools.cache
def of_the_contest(kind, name, depth, width):
    if kind == "mlp":
        return advise(name, depth, width, inputs=784, outputs=10)
    assert kind == "residual"
    norm, blocks = LayerNorm(lambda_gain=1.0, lambda_bias=1.0, epsilon=1e-5), (depth - 2) // 2  # of two matrices each
    block = Residual(norm, Dense(width), name, Dense(width))
    net = Network(784, [Dense(width), *[block] * blocks, norm, Dense(10)])
    return advise(net, blocks + 2, width, inputs=784, outputs=10)


@pytest.mark.slow
def test_residual_networks_of_the_contest_have_as_many_matrices_as_are_counted():
    found = of_the_contest("residual", "relu", 6, 8)
    assert len(found.settings("adamw").rate_W) == 6 and found.settings("adamw").rate_norm > 0
    assert len(of_the_contest("mlp", "relu", 6, 8).settings("adamw").rate_W) == 6


def of_contest(row):
    return pytest.param(row, marks=[] if row.startswith("mlp/") else [pytest.mark.slow])


@pytest.mark.parametrize("row", [of_contest(row) for row in sorted(KEPT)])
def test_the_advice_won_the_contest_at_the_rates_of_today(row):
    kind, name, depth, width, optimizer = row.split("/")
    found, kept = of_the_contest(kind, name, int(depth), int(width)), KEPT[row]
    assert kept["as given"]["rate"] == pytest.approx(found.settings(optimizer).rate_W[0], rel=1e-4)
    losses = {who: np.array(one["losses"]) for who, one in kept.items()}
    given = losses.pop("as given")
    assert given.mean() < 1.1 * losses.pop("advised").mean()
    for other in losses.values():
        stderr = math.sqrt((given.var(ddof=1) + other.var(ddof=1)) / len(given))
        assert given.mean() < other.mean() + 2 * stderr
    assert (given.mean() < HALF) == trains(found, optimizer)


def test_the_rate_of_gradient_descent_does_not_grow_where_inputs_are_small():
    # At 1/q times it, pixels from 0 to 1 diverged (docs/advice).
    raw, unit, large = (advise("gelu", 4, 64, inputs=784, outputs=10, q=q) for q in (0.2, 1.0, 4.0))
    square = neft.gaussian.moment("gelu", neft.gaussian.Powers(s=2), unit.C_b + unit.C_W)
    assert raw.signal == pytest.approx(unit.signal) == pytest.approx(float(square))
    for one in (raw, unit, large):
        assert one.settings("sgd").rate_W[0] == pytest.approx(2.5 / (one.signal * 7**1.5))
        assert one.settings("momentum").rate_W[0] == pytest.approx(one.settings("sgd").rate_W[0] / 10)
    assert large.signal > 3 * unit.signal and raw.settings("adamw").rate_W[0] > 1.5 * unit.settings("adamw").rate_W[0]
    assert advise("gelu", 1, 64, q=0.2).signal == 1


def test_a_network_that_advice_would_not_be_on_is_refused():
    mixed = Network(784, [Dense(64), "relu", Dense(64), "tanh", Dense(10)])
    with one_sentence("a network with relu and tanh"):
        advise(mixed, 3, 64)
    bare = neft.MLP((784, 64, 64, 64, 10), "gelu", C_b=0.0, lambda_b=0.0)
    square = float(neft.gaussian.expect(lambda z: jax.nn.gelu(z, approximate=False) ** 2, 1.0))
    with one_sentence("without biases, but gelu is advised with some", f"{1 / square:.4g} keeps a variance of 1"):
        advise(bare, 4, 64)
    assert advise(bare, 4, 64, C_b=0.0, C_W=2.0).C_b == 0
    found = advise(neft.MLP((784, 64, 64, 10), "relu", lambda_b=0.0), 3, 64)
    assert math.isclose(found.C_W, 2)


HALF = math.log(10) / 2


def trains(found, optimizer):
    return found.verdict != "too deep" and not (optimizer == "sgd" and "gradient descent" in found.verdict)


TRAINED = json.loads((Path(__file__).parents[2] / "docs" / "headway.json").read_text())


@pytest.mark.parametrize("row", sorted(TRAINED))
def test_networks_are_too_deep_where_they_do_not_train(row):
    name, depth, width, optimizer = row.split("/")
    found = of_the_contest("mlp", name, int(depth), int(width))
    assert found.headway == pytest.approx(TRAINED[row]["headway"], rel=1e-3, abs=1e-4)
    losses = np.array(TRAINED[row]["losses"])
    if abs(losses.mean() - HALF) > 2 * losses.std(ddof=1) / math.sqrt(len(losses)):
        assert (losses.mean() < HALF) == trains(found, optimizer)


@pytest.mark.slow
def test_the_headway_is_that_of_the_kernel_of_two_inputs():
    for name, depth, rel in (("gelu", 30, 1e-6), ("relu", 30, 0.01), ("tanh", 12, 1e-6)):
        found = advise(name, depth, 50, inputs=2)
        net = found.network()
        x = math.sqrt(2) * np.array([[1.0, 0.0], [0.3, math.sqrt(0.91)]])
        K = neft.width.kernel(net, x).K
        square = [float(neft.gaussian.moment(name, neft.gaussian.Powers(s=2), k)) for k in found.K[:-1]]
        rate = found.settings("sgd").rate_W[0]
        assert found.headway == pytest.approx(rate * 50 * sum(square) * (1 - K[0, 1] / K[0, 0]), rel=rel)


@pytest.mark.slow
def test_the_cut_off_of_very_wide_networks_is_extrapolated():
    found = advise("relu", depth=3, width=100_000)
    assert found.cutoff == pytest.approx(20_001, rel=2e-3)


@pytest.mark.slow
def test_critical_points_are_those_of_critical():
    point = critical("gelu")
    first, second = advise("gelu", 4, 64), advise("gelu", 4, 64, point=1)
    assert (first.C_b, first.C_W, first.K_star, first.kind) == (point.C_b, point.C_W, point.K_star, "critical")
    assert first.C_b + first.C_W * first.q_star == pytest.approx(first.K_star)
    assert (second.C_b, second.C_W) == (0.0, pytest.approx(4.0))
    assert [p.C_W for p in first.others] == [second.C_W]
    assert "the best of its 2 critical points" in first.summary
    assert "point 1 of its 2 critical points" in second.summary


@pytest.mark.slow
def test_without_a_critical_point_the_edge_of_chaos_is_advised():
    found = advise("sigmoid", depth=4, width=64)
    assert found.kind == "edge of chaos" and "no critical point" in found.summary
    chi = neft.width.susceptibilities("sigmoid", found.K_star, found.C_W)
    assert float(chi.perpendicular) == pytest.approx(1) and float(chi.parallel) < 1
    square = neft.gaussian.moment("sigmoid", neft.gaussian.Powers(s=2), found.K_star)
    assert found.C_b + found.C_W * float(square) == pytest.approx(found.K_star)


@pytest.mark.slow
def test_without_any_a_steady_signal_is_advised_and_its_memory_told():
    found = advise("softplus", depth=4, width=64)
    assert found.kind == "steady" and found.K[-1] == pytest.approx(1, rel=0.05)
    chi = float(neft.width.susceptibilities("softplus", found.K[2], found.C_W).perpendicular)
    assert found.xi == pytest.approx(-1 / math.log(chi)) and "e-fold" in found.summary
    # As trained in docs/advice: with gradient descent 8 layers learn and 12 do not, with Adam 20 do.
    deep = advise("softplus", 12, 64)
    assert found.verdict == "fine" and advise("softplus", 8, 64).verdict == "strained"
    assert deep.verdict == "too deep for gradient descent" and "take Adam, other variances" in deep.summary


def test_own_variances_are_taken():
    found = advise("tanh", depth=4, width=64, C_b=0.1, C_W=2.0)
    assert (found.C_b, found.C_W, found.kind, found.K_star) == (0.1, 2.0, "given", None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "depth", "width"), [("tanh", 8, 64), ("gelu", 1, 64), ("relu", 3, 1)])
def test_the_summary_is_two_sentences_with_the_numbers(name, depth, width):
    found = advise(name, depth=depth, width=width)
    first, second = found.summary.split(". ")
    assert second.endswith(".") and f"{found.C_W:.6g}" in first
    assert f"Depth {depth} at width {width} is {found.verdict}" in second


def test_one_layer_is_exactly_gaussian():
    found = advise("tanh", depth=1, width=64)
    assert found.strength == found.spread_ntk == found.excess_kurtosis == 0
    assert found.verdict == "fine" and found.width_needed == 1
    np.testing.assert_allclose([*found.share_b, *found.share_W], 0.5)


def test_a_large_correction_is_said_in_whole_numbers():
    assert "largest relative correction is 31" in advise("relu", depth=128, width=2).summary


def test_width_one_is_too_deep():
    found = advise("tanh", depth=3, width=1)
    assert found.verdict == "too deep for gradient descent" and found.strength > 1 and np.isfinite(found.share_W).all()


def test_an_advice_goes_to_a_file_and_back(tmp_path):
    found = advise("tanh", depth=3, width=16)
    for name in ("a.json", "a.npz"):
        found.save(tmp_path / name)
        assert neft.load(tmp_path / name) == found
    assert neft.load(tmp_path / "a.json").code("torch") == found.code("torch")


@pytest.mark.slow
def test_a_users_own_activation_is_advised_too():
    own = neft.activation(lambda z: z / jnp.sqrt(1 + z * z), name="softsign-like")
    found = advise(own, depth=4, width=32)
    assert abs(found.C_W - 1.5) < 1e-6 and found.network(own).activation == own
    assert "put your own activation here" in found.code("jax")
    with one_sentence("user's own function", "must be given"):
        found.network()


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("depth is 1000000", "at most 10000"):
        advise("relu", 10**6, 10)
    for arguments, words in (
        ({"depth": 0}, ("depth is 0", "at least 1")),
        ({"width": 0}, ("width is 0", "at least 1")),
        ({"outputs": 0}, ("outputs is 0",)),
        ({"inputs": 0}, ("inputs is 0",)),
        ({"q": 0.0}, ("q is 0", "greater than 0")),
        ({"C_W": 1.0}, ("C_b is missing",)),
        ({"C_b": 0.1, "C_W": 0.0}, ("C_W is 0", "greater than 0")),
        ({"point": 1}, ("point is 1", "less than 1")),
        ({"activation": "tahn"}, ("did you mean 'tanh'",)),
        ({"activation": "quadratic"}, ("no critical point", "C_b and C_W must be given")),
        ({"activation": neft.activation(jnp.sign, name="sign", kinks=[(0.0, 0, 2.0)])}, ("jumps", "no NTK")),
    ):
        with one_sentence(*words):
            advise(**({"activation": "tanh", "depth": 3, "width": 8} | arguments))


def test_signals_that_die_or_explode_say_at_which_layer():
    with one_sentence("K overflows at layer 851"):
        advise("relu", depth=1000, width=8, C_b=0.0, C_W=3.0)
    with one_sentence("K is", "layer 334", "dies"):
        advise("relu", depth=1000, width=8, C_b=0.0, C_W=1.0)
    with one_sentence("x is 0"):
        equal_shares(MLP((3, 4, 2), "tanh"), np.zeros(3))
    with one_sentence("layer 2 has χ_⊥ = 0"):
        equal_shares(MLP((3, 4, 2), "tanh", C_W=0.0, C_b=1.0), np.ones(3))
    with one_sentence("e^-", "no floating-point rate"):
        equal_shares(MLP((3, *(4,) * 400), "tanh", C_W=0.1, C_b=1.0), np.ones(3))


def made_by(code):
    """The names that a program makes. Tests may run programs; the package never does."""
    names = {"__name__": "generated"}
    exec(compile(code, "generated.py", "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("name", [NAMES[0], *NAMES[2:]])
def test_the_equinox_program_makes_the_advised_network(name):
    found = advise(name, depth=3, width=300, inputs=50, outputs=40)
    net, names = found.network(), made_by(found.code("jax"))
    model, optim = names["model"], names["optim"]
    params = tuple(Layer(layer.weight, layer.bias) for layer in model.layers)
    x = jax.random.normal(jax.random.key(5), (50,))
    np.testing.assert_allclose(model(x), net.apply(params, x), rtol=2e-4, atol=1e-5)
    for l, layer in enumerate(params):
        assert float(jnp.std(layer.W)) == pytest.approx(math.sqrt(net.C_W[l] / net.widths[l]), rel=0.1)
        assert float(jnp.std(layer.b)) == pytest.approx(math.sqrt(net.C_b[l]), rel=0.5, abs=1e-9)
    # Gaussians that are not cut off: a truncated or uniform law has neither such outliers nor this kurtosis.
    u = np.ravel(params[1].W) / math.sqrt(net.C_W[1] / 300)
    assert np.abs(u).max() > 3.9
    assert (u**4).mean() / (u**2).mean() ** 2 == pytest.approx(3, abs=5 * math.sqrt(24 / u.size))
    gradient = eqx.filter_grad(lambda m: m(x).sum())(model)
    steps, _ = optim.update(gradient, optim.init(eqx.filter(model, eqx.is_array)))
    moved = optax.apply_updates(eqx.filter(model, eqx.is_array), steps)
    expected = jax.grad(lambda p: net.apply(p, x).sum())(params)
    chosen = found.settings("sgd")
    for l, (rates, slope) in enumerate(zip(zip(chosen.rate_W, chosen.rate_b), expected)):
        change = moved.layers[l].weight - params[l].W, moved.layers[l].bias - params[l].b
        for got, rate, g in zip(change, rates, slope):
            np.testing.assert_allclose(got, -rate * g, rtol=1e-3, atol=2e-3 * float(jnp.abs(rate * g).max()))


LONG = "+".join(f"0.{i}125*z*tanh(sqrt({i})*z)" for i in range(1, 9))
EXPRESSIONS = ["sin(2.5)", *KNOWN, "max(0.1,z)-min(z,2)*erf(z)", "log1p(exp(-abs(z)))", "silu(z)-gelu(2*z)", LONG]


@pytest.mark.parametrize("name", [*neft.activation_names(), "leaky_relu(0.2)", *EXPRESSIONS])
def test_programs_have_the_activation_itself(name):
    names = {"jax": jax, "jnp": jnp}
    # What else is known of an expression takes seconds to find out.
    full, sigma = parsed(name) if is_expression(name) else (neft.activation(name).name, neft.activation(name))
    exec(f"def activation(z):\n    {activation_line(full, 'jax')}", names)
    z = jnp.linspace(-5, 5, 101)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        np.testing.assert_allclose(names["activation"](z), sigma(z), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_an_expression_is_advised_and_in_every_program(tmp_path):
    found = advise(GELU_BY_TANH, depth=3, width=32, inputs=4)
    gelu = advise("gelu", depth=3, width=32, inputs=4)
    # GELU by a tanh is within 5e-4 of GELU.
    assert (found.C_b, found.C_W) == pytest.approx((gelu.C_b, gelu.C_W), rel=0.01)
    assert found.C_W != gelu.C_W and 'gelu(z, approximate="tanh")' in found.code("torch")
    found.save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json").network().activation == neft.activation(GELU_BY_TANH)
    model = made_by(found.code("jax"))["model"]
    x = jax.random.normal(jax.random.key(5), (4,))
    params = tuple(Layer(layer.weight, layer.bias) for layer in model.layers)
    np.testing.assert_allclose(model(x), found.network().apply(params, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("framework", ["jax", "flax", "torch"])
@pytest.mark.parametrize("name", [*neft.activation_names(), LONG])
def test_every_program_compiles(framework, name):
    code = initializer_code(MLP((3, *(7,) * 8, 2), name, C_b=0.1, lambda_W=tuple(np.linspace(0.1, 1, 9))), framework)
    compile(code, "generated.py", "exec")
    assert "NotImplementedError" not in code and max(map(len, code.splitlines())) <= 120


def moved_by_hand(chosen, p, gradients):
    """Two steps of an optimizer as its authors wrote it (Kingma and Ba's Adam, decoupled decay), in NumPy."""
    weight = np.ndim(p) > 1
    rate, decay, epsilon = (chosen.weights if weight else chosen.biases)[0]
    m = v = 0.0
    for t, g in enumerate(gradients, 1):
        if chosen.betas is None:
            m = chosen.momentum * m + g
            p = p - rate * m
            continue
        one, two = chosen.betas
        m, v = one * m + (1 - one) * g, two * v + (1 - two) * g**2
        p = p - rate * decay * p - rate * (m / (1 - one**t)) / (np.sqrt(v / (1 - two**t)) + epsilon)
    return p


def check_steps(chosen, before, gradients, after):
    """Of lists of arrays: parameters, two gradients of each, and parameters after two steps."""
    for p, both, got in zip(before, gradients, after):
        # In float32 parameters of size 1 are rounded to 1e-7, twice, and Adam's 1 - 0.999 is known to 6e-5.
        atol = 4e-7 + 6e-5 * chosen.rate_W[0]
        np.testing.assert_allclose(got, moved_by_hand(chosen, p, both), rtol=0, atol=atol)
        assert np.abs(got - p).max() > 0.1 * chosen.rate_W[0]


def with_optax(optim, params):
    """Parameters, two gradients of each, and parameters after two steps, as lists."""
    leaves, structure = jax.tree.flatten(params)
    rng = np.random.default_rng(1)
    gradients = [[rng.normal(size=leaf.shape).astype(np.float32) for _ in range(2)] for leaf in leaves]
    # optax counts on promotion, which tests forbid.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state, after = optim.init(params), params
        for step in range(2):
            g = jax.tree.unflatten(structure, [jnp.asarray(both[step]) for both in gradients])
            updates, state = optim.update(g, state, after)
            after = optax.apply_updates(after, updates)
    return [np.asarray(leaf) for leaf in leaves], gradients, [np.asarray(leaf) for leaf in jax.tree.leaves(after)]


@pytest.mark.parametrize(
    "optimizer", [*(pytest.param(n, marks=pytest.mark.slow) for n in ("momentum", "adam")), "adamw"]
)
def test_programs_and_models_have_the_optimizer_of_the_settings(optimizer):
    found = advise("tanh", depth=3, width=5, inputs=4, outputs=2)
    chosen = found.settings(optimizer)
    names = made_by(found.code("equinox", optimizer=optimizer))
    check_steps(chosen, *with_optax(names["optim"], eqx.filter(names["model"], eqx.is_array)))
    model = eqx.nn.MLP(4, 2, 5, 2, key=jax.random.key(3))
    new, optim = found.apply(model, optimizer=optimizer)
    check_steps(chosen, *with_optax(optim, eqx.filter(new, eqx.is_inexact_array)))


def test_biases_at_a_rate_of_zero_stay_as_they_are():
    found = advise("tanh", depth=3, width=5, inputs=4, outputs=2)
    chosen = dataclasses.replace(found.settings("adamw"), rate_b=np.zeros(3))
    model, optim = found.apply(eqx.nn.MLP(4, 2, 5, 2, key=jax.random.key(3)), optimizer=chosen)
    before, _, after = with_optax(optim, eqx.filter(model, eqx.is_inexact_array))
    assert [one.ndim for one in before] == [2, 1] * 3
    for one, two in zip(before, after):
        assert np.array_equal(one, two) == (one.ndim == 1)
    text = found.code("torch", optimizer=chosen)
    assert '"biases": (0, 0, 1e-08),' in text


@pytest.mark.slow
def test_weights_are_drawn_anew_with_the_advised_variances():
    found = advise("gelu", depth=3, width=200, inputs=300, outputs=100)
    new, _ = found.apply(eqx.nn.MLP(300, 100, 200, 2, key=jax.random.key(3)), key=jax.random.key(4))
    for layer, fan_in in zip(new.layers, (300, 200, 200)):
        assert float(jnp.std(layer.weight)) == pytest.approx(math.sqrt(found.C_W / fan_in), rel=0.02)
        assert float(jnp.std(layer.bias)) == pytest.approx(math.sqrt(found.C_b), rel=0.25)
    with one_sentence("model has layers of sizes", "but the advice is for"):
        found.apply(eqx.nn.MLP(300, 100, 50, 2, key=jax.random.key(3)))
    with one_sentence("model has 2 arrays", "that belong to no dense layer,"):
        found.apply(eqx.nn.Sequential([eqx.nn.Linear(300, 200, key=jax.random.key(0)), eqx.nn.LayerNorm(200)]))
    with one_sentence("model is", "must be an equinox.Module"):
        found.apply("a model")
    with one_sentence("params are for flax.linen"):
        found.apply(new, params={})


def test_rates_do_not_change_when_a_number_moves_from_an_activation_to_the_weights():
    # 3σ with C_W/9 is the same network, whose weights are a third and so must move by a third.
    act = neft.activation(lambda z: 3 * jnp.tanh(z), name="three")
    one = advise("tanh", depth=4, width=16, C_b=0.0, C_W=1.0)
    two = advise(act, depth=4, width=16, inputs=16, C_b=0.0, C_W=1 / 9, q=9.0)
    assert two.settings("sgd").rate_W[1] == pytest.approx(one.settings("sgd").rate_W[1] / 9)
    assert two.settings("adam").rate_W[1] == pytest.approx(one.settings("adam").rate_W[1] / 3)


def test_settings_are_those_of_the_rules():
    found = advise("relu", depth=10, width=64, inputs=784, outputs=10)  # ⟨σ²⟩ = 1 in every hidden layer
    assert found.settings("sgd").rate_b == pytest.approx(2.5 / 13**1.5)
    assert found.settings("momentum").rate_W == pytest.approx(0.25 / 13**1.5)
    assert found.settings("adamw").rate_W == pytest.approx(1.2 / (784 + 9 * 64))
    one = advise("tanh", depth=1, width=8, inputs=5, q=4.0)
    assert one.settings("sgd").rate_W == pytest.approx(2.5 / (4 * 8)) and one.settings("adam").rate_W == pytest.approx(
        0.12
    )
    with one_sentence("optimizer is 'rmsprop'", "sgd, momentum, adam, adamw"):
        found.settings("rmsprop")


@pytest.mark.slow
@pytest.mark.xdist_group("frameworks")
def test_the_programs_of_other_frameworks_run(tmp_path):
    python = os.environ.get("FRAMEWORKS_PYTHON")
    if not python:
        pytest.skip("FRAMEWORKS_PYTHON names no Python that has torch and flax (CONTRIBUTING says how one is made)")
    found = advise("gelu", depth=4, width=64, inputs=10, outputs=3)
    found.save(tmp_path / "advice.json")
    for framework in ("flax", "torch"):
        for optimizer in ("sgd", "momentum", "adam", "adamw"):
            (tmp_path / f"{framework}_{optimizer}.py").write_text(found.code(framework, optimizer=optimizer))
    here, source = Path(__file__).parent, str(Path(neft.__file__).parents[1])
    run = subprocess.run(
        [python, str(here / "programs_in_frameworks.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert run.returncode == 0, run.stderr
    meta, shared = json.loads((tmp_path / "refused.json").read_text())
    assert "device 'meta'" in meta and "share parameters" in shared
    for kind, optimizer in itertools.product(
        ("flax", "torch", "linen", "nnx", "module"), ("sgd", "momentum", "adam", "adamw")
    ):
        kept = np.load(tmp_path / f"{kind}_{optimizer}.npz")
        count = len([name for name in kept if name.startswith("before")])
        assert count == 8
        parts = [[kept[f"{what}{i}"] for i in range(count)] for what in ("before", "gradients", "after")]
        check_steps(found.settings(optimizer), *parts)
        sizes = [float(np.std(p)) for p in parts[0] if p.ndim > 1 and p.shape == (64, 64)]
        assert sizes == pytest.approx([math.sqrt(found.C_W / 64)] * 2, rel=0.1)
        own = tuple(Layer(W, b) for W, b in zip(parts[0][::2], parts[0][1::2]))
        np.testing.assert_allclose(kept["outputs"], found.network().apply(own, kept["x"]), rtol=1e-3, atol=1e-4)


def test_an_unknown_framework_is_refused():
    with one_sentence("framework is 'pytorch'", "did you mean 'torch'"):
        advise("tanh", 2, 8).code("pytorch")


def test_the_package_itself_runs_no_program():
    source = Path(neft.__file__).parent / "width" / "_initializers.py"
    assert "exec(" not in source.read_text()
