"""Groups of an advised network in a parameterization: against published tables, and what steps of training do."""

import math

import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import Dense, LayerNorm, Network, Residual
from neft.report import tables
from neft.scaling import parameterize
from neft.width import advise

KINDS = ("standard", "ntk", "mup")
WIDE = 8  # how many times as wide


@pytest.fixture(scope="module")
def plain():
    return advise("gelu", depth=4, width=16, inputs=3, outputs=2)


@pytest.fixture(scope="module")
def residual():
    norm = LayerNorm(lambda_gain=1.0, lambda_bias=1.0)
    block = Residual(norm, Dense(32), "relu", Dense(16))
    return advise(Network(3, [Dense(16), *[block] * 2, norm, Dense(2)]), 4, 16, inputs=3, outputs=2)


def row(found, group):
    i = found.groups.index(group)
    return tuple(getattr(found, name)[i] for name in ("multiplier", "variance", "rate", "decay", "epsilon"))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", KINDS)
def test_at_its_own_size_a_network_is_as_advised(plain, kind, optimizer):
    found, chosen = parameterize(plain, kind, optimizer=optimizer), plain.settings(optimizer)
    names = [f"{place} {what}" for place in ("input", "hidden", "output") for what in ("weights", "biases")]
    assert list(found.groups) == names and (found.multiplier == 1).all() and found.branch == 1
    for l, place, n in ((0, "input", 3), (1, "hidden", 16), (-1, "output", 16)):
        assert row(found, f"{place} weights")[1:] == pytest.approx((plain.C_W / n, *chosen.weights[l]))
        assert row(found, f"{place} biases")[1:] == pytest.approx((plain.C_b, *chosen.biases[l]))


def test_at_another_width_it_is_the_published_table_of_mup(plain):
    # Yang et al. 2022, table 8, AdamW; decay makes up for the rate, and ε goes as 1/width (Dey et al. 2025, table 1).
    own, found = (parameterize(plain, "mup", optimizer="adamw", width=n) for n in (16, 16 * WIDE))
    wanted = {
        "input weights": (1, 1, 1, 1, 1 / WIDE),
        "input biases": (1, 1, 1, 1, 1 / WIDE),
        "hidden weights": (1, 1 / WIDE, 1 / WIDE, WIDE, 1 / WIDE),
        "hidden biases": (1, 1, 1, 1, 1 / WIDE),
        "output weights": (1 / WIDE, 1, 1, 1, 1 / WIDE),
        "output biases": (1, 1, 1, 1, 1),
    }
    for group, factors in wanted.items():
        assert row(found, group) == pytest.approx([a * b for a, b in zip(row(own, group), factors)]), group


def test_residual_networks_have_the_published_table_of_completep(residual):
    # Dey et al. 2025, table 1, α = 1: branches 1/L, hidden rates 1/width, ε of hidden groups 1/(width L).
    own, found = (
        parameterize(residual, "completep", optimizer="adamw", width=16 * w, depth=2 + 2 * d)
        for w, d in ((1, 1), (WIDE, 4))
    )
    assert own.groups[2:8] == (
        *("hidden weights 1", "hidden biases 1", "hidden weights 2", "hidden biases 2"),
        *("hidden norms", "last norm"),
    )
    assert (own.branch, found.branch) == (1, 1 / 4)
    assert row(own, "hidden weights 1")[1] == pytest.approx(residual.C_W / 16)
    assert row(own, "hidden weights 2")[1] == pytest.approx(residual.C_W / 32)
    for group in ("hidden weights 1", "hidden weights 2"):
        factors = (1, 1 / WIDE, 1 / WIDE, WIDE, 1 / WIDE / 4)
        assert row(found, group) == pytest.approx([a * b for a, b in zip(row(own, group), factors)]), group
    chosen = residual.settings("adamw")
    assert row(own, "last norm")[2:] == chosen.norms and math.isnan(row(own, "last norm")[1])
    assert row(found, "last norm")[4] == pytest.approx(chosen.epsilon_norm / WIDE)
    assert row(found, "hidden norms")[4] == pytest.approx(chosen.epsilon_norm / WIDE / 4)


def changes(found, n, optimizer, seed):
    """Root mean squares by which each layer changes by a first step of its own weights, and of its own biases."""
    rng, x, y = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(4, 3)), 100.0
    of = {group: row(found, group) for group in found.groups}
    sizes = {"input": (3, n), "hidden": (n, n), "output": (n, 2)}
    W = {p: rng.normal(size=s) * of[f"{p} weights"][1] ** 0.5 for p, s in sizes.items()}
    b = {p: rng.normal(size=s[1]) * of[f"{p} biases"][1] ** 0.5 for p, s in sizes.items()}
    signals, signal = {}, x
    for place in sizes:
        signals[place] = signal
        signal = np.tanh(of[f"{place} weights"][0] * signal @ W[place] + b[place])
    z = of["output weights"][0] * signals["output"] @ W["output"] + b["output"]
    # Targets so far away that the outputs before training, smaller in wide networks in μP, do not matter.
    back, found = (z - y) / len(x), {}
    for place in reversed(sizes):
        if place != "output":
            after = {"input": "hidden", "hidden": "output"}[place]
            back = of[f"{after} weights"][0] * back @ W[after].T * (1 - signals[after] ** 2)
        multiplier, signal = of[f"{place} weights"][0], signals[place]
        slopes = {"weights": multiplier * signal.T @ back, "biases": back.sum(0)}
        for what, slope in slopes.items():
            step = of[f"{place} {what}"][2] * (np.sign(slope) if optimizer == "adam" else slope)
            moved = multiplier * signal @ step if what == "weights" else step
            found[f"{place} {what}"] = np.sqrt(np.mean(moved**2))
    return found


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_every_group_moves_its_layer_at_any_width_in_mup_only(optimizer):
    # The defining property: a step changes each preactivation by as much at all widths in μP.
    advice, ratios = advise("tanh", depth=3, width=16, inputs=3, outputs=2, C_b=0.1, C_W=1.5), {}
    for kind in ("mup", "ntk"):
        at = {n: parameterize(advice, kind, optimizer=optimizer, width=n) for n in (16, 256)}
        means = {n: [list(changes(one, n, optimizer, seed).values()) for seed in range(16)] for n, one in at.items()}
        groups = changes(at[16], 16, optimizer, 0)
        ratios[kind] = dict(zip(groups, np.mean(means[256], 0) / np.mean(means[16], 0)))
    assert all(1 / 2 < ratio < 2 for ratio in ratios["mup"].values()), ratios
    for group, ratio in ratios["ntk"].items():
        # Hidden layers move by width^(-1/2).
        assert (1 / 2 < ratio < 2) if group.startswith("output") else (1 / 8 < ratio < 1 / 2), (group, ratio)


def test_only_groups_that_there_are_have_a_line(plain):
    bare = advise(neft.MLP((3, 8, 8, 2), "relu", lambda_b=0.0), 3, 8, inputs=3, outputs=2)
    assert parameterize(bare, "ntk").groups == ("input weights", "hidden weights", "output weights")
    assert parameterize(advise("relu", 2, 8), "mup").groups[2] == "output weights"
    own = advise(neft.activation(lambda z: z / (1 + z * z) ** 0.5, name="own"), 3, 8, C_b=0.0, C_W=1.0)
    assert len(parameterize(own, "mup").groups) == 6


def test_it_is_shown_and_saved(plain, residual, tmp_path):
    found = parameterize(plain, "mup", optimizer="adamw", width=128)
    table = tables(found)[0]
    assert table.columns[1:] == ("multiplier", "variance", "rate", "weight decay", "ε")
    hidden = dict(zip(table.columns, table.rows[2]))
    assert hidden["rate"] == f"{found.rate[2]:.4g} · 128/n" and hidden["weight decay"].endswith(" · n/128")
    assert "ε" not in tables(parameterize(plain, "mup"))[0].columns
    assert "(128/n)^0.5" in tables(parameterize(plain, "ntk", width=128))[0].text()
    deep = tables(parameterize(residual, "depth-mup", optimizer="adam", depth=10))[0].text()
    assert "branches are multiplied by 0.5 · (8/L)^0.5" in deep and "Gains of norms start at 1" in deep
    found.save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json") == found


def test_powers_between_the_ntk_and_mup(plain):
    # Yaida 2022: rates of hidden weights go with the width as n^(s-1), those before them as n^s.
    powers = parameterize(plain, "yaida", s=0.5).powers_width
    np.testing.assert_allclose(powers["rate"], [0.5, 0.5, -0.5, 0.5, -1, 0], atol=1e-12)


def test_bad_input_gets_one_clear_sentence(plain):
    for kind, more, words in (
        ("mp", {}, ("kind is 'mp'", "did you mean 'mup'")),
        ("mup", {"optimizer": "lion"}, ("optimizer is 'lion'",)),
        ("mup", {"width": 0}, ("width is 0", "at least 1")),
        ("mup", {"depth": 8}, ("depth is 8", "says nothing of depth")),
        ("completep", {}, ("scales residual branches", "has none")),
        ("mup", {"s": 0.5}, ("goes with kind 'yaida'",)),
    ):
        with one_sentence(*words):
            parameterize(plain, kind, **more)
    with one_sentence("depth is 1", "at least 2"):
        parameterize(advise("relu", 1, 8), "mup")
    with one_sentence("depth is 1", "at least 2"):
        parameterize(advise("relu", 2, 8), "mup", depth=1)


def test_the_depth_of_the_advice_may_be_given():
    found = advise("relu", 2, 16)
    assert parameterize(found, "mup", depth=2).depth == (2, 2)
    np.testing.assert_array_equal(parameterize(found, "mup", depth=2).rate, parameterize(found, "mup").rate)
