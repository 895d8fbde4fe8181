"""Every tensor of every layer against simulation: |z| < 5, and what is not zero is more than ten standard errors."""

import itertools
import json

import jax
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, plot
from neft.report import tables
from neft.width import check

X = np.array([1.0, -0.5, 0.8])
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}


def _slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def _agrees_and_is_resolved(found, layers):
    assert found.agrees, found
    for name, theory in found.theory.items():
        for l in layers:
            small = abs(theory[l]) < 1e-12 * np.abs(theory).max(initial=1.0)
            assert small or found.resolved(name)[l] > 10, (name, l + 1, theory[l], found.stderr[name][l])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", *_slow(("hard_tanh", "tanh", "silu", "sin", "elu(1)", "relu"))])
def test_two_layers_are_exact_at_any_width(name):
    found = check(MLP((3, 5, 2), name, **HYPER), X, draws=20_000, key=jax.random.key(1), dtype=np.float32)
    assert found.factors == (1.0,)
    _agrees_and_is_resolved(found, (1,))


@pytest.mark.slow
def test_the_transport_terms_agree_with_simulation():
    # The third layer is the first that has them, and the first with corrections to the means.
    found = check(
        MLP((3, 8, 10, 2), "sin", **HYPER), X, draws=16_000, factors=(1, 2, 4), key=jax.random.key(2), dtype=np.float32
    )
    _agrees_and_is_resolved(found, (1, 2))


@pytest.mark.slow
def test_hyperparameters_may_differ_from_layer_to_layer():
    net = MLP((3, 7, 4), "gelu", C_b=(0.1, 0.4), C_W=(1.5, 0.8), lambda_b=(0.2, 0.9), lambda_W=(1.1, 0.3))
    assert check(net, X, draws=10_000, factors=(1,), key=jax.random.key(3)).agrees


@pytest.mark.slow
def test_a_wrong_theory_is_found_out(monkeypatch):
    from neft.width import _comparison

    right = _comparison.statistics

    def wrong(net, x, only=None):
        stats = right(net, x, only=only)
        stats.tensors["B"] = 1.05 * stats.B
        return stats

    monkeypatch.setattr(_comparison, "statistics", wrong)
    net = MLP((3, 7, 4), "gelu", C_b=(0.1, 0.4), C_W=(1.5, 0.8), lambda_b=(0.2, 0.9), lambda_W=(1.1, 0.3))
    found = check(net, X, draws=10_000, factors=(1,), key=jax.random.key(3))
    assert not found.agrees and abs(found.z["B"][1]) == found.worst > 5 and "DOES NOT AGREE" in str(found)


def test_wide_networks_are_checked_by_narrow_ones_of_the_same_ratios():
    from neft.width._comparison import _factors, _scaled

    for widths, narrow in (
        ((784, 500, 300, 10), (784, 10, 6, 10)),
        ((3, 8, 6, 9, 2), (3, 8, 6, 9, 2)),
        ((3, 64, 64, 1), (3, 6, 6, 1)),
        ((3, 4, 2, 1), (3, 4, 2, 1)),
        ((3, 1024, 2), (3, 6, 2)),
        ((3, 2), (3, 2)),
    ):
        net = MLP(widths)
        factors = _factors(net)
        assert _scaled(net, factors[0]).widths == narrow
        assert len(factors) == (4 if net.depth > 2 else 1)


def test_one_layer_agrees_and_comparisons_survive_a_file(tmp_path):
    found = check(MLP((3, 2), "tanh", **HYPER), X, draws=4)
    assert found.agrees and found.worst == 0
    found.save(tmp_path / "found.json")
    assert neft.load(tmp_path / "found.json") == found


@pytest.mark.slow
def test_what_is_simulated_is_said_everywhere(tmp_path):
    found = check(MLP((3, 128, 2), "tanh", **HYPER), X, draws=4)
    assert found.simulated == ((3, 6, 2),)
    (table,) = tables(found)
    assert "Theory of 3 - 128 - 2" in table.title and "4 networks of hidden width 6" in table.title
    assert "Drawn: 3 - 6 - 2." in table.notes
    assert "(3, 6, 2)" in str(found)
    (axes,) = plot.draw(found).axes
    assert "theory of 3-128-2" in axes.get_title() and "simulated: 3-6-2" in axes.get_title()


@pytest.mark.slow
def test_a_network_at_its_own_width_has_no_verdict_but_the_size_of_the_next_order(tmp_path):
    net = MLP((3, 16, 16, 2), "tanh", **HYPER)
    found = check(net, X, draws=256, own_width=True)
    theory = neft.width.statistics(net, X)
    assert found.agrees is None and found.simulated == (net.widths,)
    assert found.next_order["K"][2] == pytest.approx(abs(theory.K1[2]) / 16)
    assert found.next_order["Theta"][2] == pytest.approx(abs(theory.Theta1[2]) / 16)
    strength = neft.width.interpret(theory).strength[2]
    assert found.next_order["V"].tolist() == pytest.approx([0, 0, strength * theory.V[2]])
    # The mean of K at this width is K + K1/n.
    assert abs(found.simulation["K"][2] - theory.K[2] - theory.K1[2] / 16) < 0.2 * abs(theory.K1[2]) / 16
    (table,) = tables(found)
    assert table.columns[-1] == "next order" and "no verdict" in table.notes[1] and "of these widths" in table.title
    assert "not extrapolated" in plot.draw(found).axes[0].get_title()
    found.save(tmp_path / "found.json")
    assert neft.load(tmp_path / "found.json") == found


def test_comparisons_of_older_files_load(tmp_path):
    found = check(MLP((3, 2), "tanh", **HYPER), X, draws=4)
    record = {"neft": 1, **found.to_dict()}
    del record["next_order"]
    (tmp_path / "old.json").write_text(json.dumps(record))
    assert neft.load(tmp_path / "old.json") == found


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("factors is (1, 2, 3)", "own_width"):
        check(MLP((3, 4, 4, 2), "tanh"), X, factors=(1, 2, 3), own_width=True)
    with one_sentence("factors is (1.0, 2.0)"):
        check(MLP((3, 4, 4, 2), "tanh"), X, factors=(1, 2))
    with one_sentence("each of factors", "whole hidden widths", "0.3"):
        check(MLP((3, 4, 2), "tanh"), X, factors=(0.3,))
    with one_sentence("draws is 1"):
        check(MLP((3, 4, 2), "tanh"), X, draws=1)


@pytest.mark.parametrize(("factors", "most"), [((1, 2, 4), 0.7), ((1, 2, 3, 5), 0.1)])
def test_what_the_fit_leaves_out_is_in_its_error(factors, most):
    # 1 + 0.2/f + … with more powers than are fitted, and draws by which they are seen, or are not.
    from neft.width._comparison import _extrapolate

    x, noise = 1 / np.array(factors, float), np.random.default_rng(0).normal(size=(len(factors), 500))
    for size, error in itertools.product((-0.03, 0.3), (1e-6, 1e-4, 1e-2)):
        for signs in ((1, 1, 1), (1, -1, 1), (1, -1, -1)):
            seen = 1 + 0.2 * x + size * sum(sign * x**k for k, sign in enumerate(signs, 2))
            drawn, errors = seen[:, None] + error * noise, np.full_like(noise, error)
            value, stderr = _extrapolate(drawn, errors, factors, exact=False)
            assert (np.abs(value - 1) < 5 * stderr).all()
            assert np.median(stderr) < most * abs(size) + 6 * error
    # Where there is nothing more to see, the error is about that of the draws.
    seen = (1 + 0.2 * x)[:, None] + 0.01 * noise
    value, stderr = _extrapolate(seen, np.full_like(noise, 0.01), factors, exact=False)
    assert 0.6 < np.std(value) / np.sqrt(np.mean(stderr**2)) < 1
