import math

import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP
from neft.report import tables
from neft.scaling import transfer
from neft.width import statistics

N, L = 8, 4  # how many times as wide and as deep


def at(kind, optimizer, group, what, **more):
    found = transfer(kind, optimizer=optimizer, width=(32, 32 * N), **more)
    return getattr(found, what)[found.groups.index(group)]


@pytest.mark.parametrize(("kind", "alpha"), [("completep", 1.0), ("depth-mup", 0.5)])
def test_the_table_of_dey_and_others(kind, alpha):
    # Dey et al. 2025, table 1, last column: m_N = N, m_L = L. Their output multiplier is m_N^-1.
    found = transfer(kind, width=(32, 32 * N), depth=(3, 3 * L))
    of = {group: i for i, group in enumerate(found.groups)}
    assert found.branch == pytest.approx(L**-alpha)
    assert found.rate[of["input weights"]] == found.rate[of["output weights"]] == found.rate[of["last norm"]] == 1
    assert found.rate[of["hidden norms"]] == found.rate[of["hidden biases"]] == pytest.approx(L ** (alpha - 1))
    assert found.rate[of["hidden weights"]] == pytest.approx(L ** (alpha - 1) / N)
    assert found.variance[of["hidden weights"]] == 1 / N and found.decay[of["hidden weights"]] == N
    assert found.variance[of["input weights"]] == found.variance[of["output weights"]] == 1
    assert found.multiplier[of["output weights"]] == 1 / N
    assert found.epsilon[of["hidden weights"]] == pytest.approx(L**-alpha / N)


def test_the_table_of_tensor_programs_five():
    # Yang et al. 2022, table 8: rows variance, multiplier, rate of SGD, rate of Adam, as powers of the width.
    table = {
        "input weights": (0, 0, 1, 0),
        "input biases": (0, 0, 1, 0),
        "hidden weights": (-1, 0, 0, -1),
        "hidden biases": (0, 0, 1, 0),
        "output weights": (0, -1, 1, 0),
    }
    for group, (variance, multiplier, sgd, adam) in table.items():
        assert at("mup", "sgd", group, "variance") == at("mup", "adamw", group, "variance") == N**variance
        assert at("mup", "sgd", group, "multiplier") == at("mup", "adamw", group, "multiplier") == N**multiplier
        assert at("mup", "sgd", group, "rate") == N**sgd and at("mup", "adamw", group, "rate") == N**adam


def test_optimizers_are_those_of_the_package_mup():
    # microsoft/mup, mup/optim.py, width_mult = N: MuAdamW divides the rate of parameters with two infinite sides by it
    # and multiplies their decay; MuSGD multiplies the rate of those with one by it and divides their decay, and leaves
    # those with two (fan-in and fan-out grow alike) and none. MuReadout divides what goes in by it.
    infinite = {"hidden weights": 2, "output biases": 0}
    for group in transfer("mup").groups:
        sides = infinite.get(group, 1)
        adam, sgd = ((at("mup", o, group, "rate"), at("mup", o, group, "decay")) for o in ("adamw", "sgd"))
        assert adam == ((1 / N, N) if sides == 2 else (1, 1)), group
        assert sgd == ((N, 1 / N) if sides == 1 else (1, 1)), group
    assert at("mup", "sgd", "output weights", "multiplier") == 1 / N


@pytest.mark.parametrize(("s", "kind"), [(0.0, "ntk"), (1.0, "mup")])
def test_yaidas_family_ends_at_the_ntk_and_at_mup(s, kind):
    # The same networks and steps: multiplier times c, variance and rate divided by c².
    ends, family = (transfer(k, optimizer="sgd", width=(32, 32 * N), s=e) for k, e in ((kind, None), ("yaida", s)))
    c = ends.multiplier / family.multiplier
    np.testing.assert_allclose(ends.variance * c**2, family.variance)
    np.testing.assert_allclose(ends.rate * c**2, family.rate)
    np.testing.assert_allclose(ends.rate * ends.decay, family.rate * family.decay)


@pytest.mark.parametrize(("s", "kind"), [(0.0, "ntk"), (1.0, "mup")])
def test_yaidas_family_of_adam_ends_at_the_ntk_and_at_mup(s, kind):
    # The same networks and steps: multiplier times c, variance divided by c², rate by c, ε times c.
    ends, family = (transfer(k, width=(32, 32 * N), s=e) for k, e in ((kind, None), ("yaida", s)))
    c = ends.multiplier / family.multiplier
    np.testing.assert_allclose(ends.variance * c**2, family.variance)
    np.testing.assert_allclose(ends.rate * c, family.rate)
    np.testing.assert_allclose(ends.epsilon / c, family.epsilon)
    np.testing.assert_allclose(ends.rate * ends.decay, family.rate * family.decay)


@pytest.mark.parametrize("s", [0.0, 0.3, 1.0])
def test_yaidas_family_is_the_one_that_dinan_yaida_and_zhang_state(s):
    # Dinan, Yaida, Zhang 2023, eqs. 1.99-1.107 (SGD) and 1.108-1.116 (AdamW) at s = 0; by footnote 26 all but those of
    # the head are multiplied by n^s and n^(s/2). Variances are eqs. 1.25-1.33, the head's 1.34.
    for group, variance, sgd, adam in (
        ("input weights", 0, s, (s - 1) / 2),
        ("input biases", 0, s, (s - 1) / 2),
        ("hidden weights", -1, s - 1, (s - 3) / 2),
        ("hidden biases", 0, s, (s - 1) / 2),
        ("output weights", -1 - s, -1, -1),
        ("output biases", 0, 0, 0),
    ):
        for optimizer, rate in (("sgd", sgd), ("adamw", adam)):
            assert at("yaida", optimizer, group, "multiplier", s=s) == 1
            assert at("yaida", optimizer, group, "variance", s=s) == pytest.approx(N**variance), group
            assert at("yaida", optimizer, group, "rate", s=s) == pytest.approx(N**rate), (group, optimizer)
            # Footnote 22: rate times weight decay stays.
            assert at("yaida", optimizer, group, "decay", s=s) == pytest.approx(N**-rate), (group, optimizer)
    assert "Dinan, Yaida, Zhang 2023" in transfer("yaida", s=s).source


@pytest.mark.parametrize(("new", "old"), [("adam", "adamw"), ("momentum", "sgd")])
def test_adam_and_momentum_are_named_too(new, old):
    one, two = (transfer("mup", optimizer=name) for name in (new, old))
    for what in ("multiplier", "variance", "rate", "epsilon"):
        np.testing.assert_array_equal(getattr(one, what), getattr(two, what))
    np.testing.assert_array_equal(one.decay, np.ones(8) if new == "adam" else two.decay)
    assert ("ε" in tables(one)[0].columns) == (new == "adam")
    assert "weight decay" not in tables(one)[0].columns and "weight decay" in tables(transfer("mup"))[0].columns


@pytest.mark.parametrize("s", [0.0, 0.5, 1.0])
def test_features_are_learned_at_the_order_that_yaida_states(s):
    # Yaida 2022: the NTK stays, and what changes it is of order depth/width^(1-s). S is that of ddNTK II times n.
    sizes = []
    for n in (64, 4096):
        found = transfer("yaida", optimizer="sgd", width=(1, n), s=s)
        rate = dict(zip(found.groups, found.rate))
        variance = dict(zip(found.groups, found.variance))
        C_W = (1.0, variance["hidden weights"] * n, variance["output weights"] * n)
        lambda_W = tuple(rate[f"{g} weights"] * m for g, m in (("input", 3), ("hidden", n), ("output", n)))
        lambda_b = tuple(rate[f"{g} biases"] for g in ("input", "hidden", "output"))
        net = MLP((3, n, n, 1), "tanh", C_W=C_W, lambda_W=lambda_W, lambda_b=lambda_b)
        stats = statistics(net, np.array([1.0, -1.0, 0.5]))
        sizes.append((stats.Theta[-1], stats.S[-1] / n / stats.Theta[-1] ** 2))
    (ntk, small), (other, large) = sizes
    assert 0.3 < ntk / other < 3
    assert math.log(large / small) / math.log(64) == pytest.approx(-(1 - s), abs=0.03)


def changed(kind, group, n, s=None, *, layer=False):
    """By how much a linear network of three layers changes by one step of signs of one group: output or last layer."""
    rng = np.random.default_rng(n)
    found = transfer(kind, width=(1, n), s=s)
    of = {name: (found.multiplier[i], found.variance[i], found.rate[i]) for i, name in enumerate(found.groups)}
    (m1, v1, r1), (m2, v2, r2), (m3, v3, r3) = (of[f"{name} weights"] for name in ("input", "hidden", "output"))
    x = np.array([1.0, -0.5, 0.7, 0.2])
    W1, W2, w3 = (rng.normal(size=shape) * v**0.5 for shape, v in (((n, 4), v1), ((n, n), v2), (n, v3)))
    h1, back = m1 * W1 @ x, m3 * w3
    h2, first = m2 * W2 @ h1, m2 * W2.T @ back
    if group == "input weights":
        return first @ (m1 * r1 * np.sign(np.outer(first, x)) @ x)
    if group == "hidden weights":
        moved = m2 * r2 * np.sign(np.outer(back, h1)) @ h1
        return np.sqrt(np.mean(moved**2)) if layer else back @ moved
    return m3 * r3 * np.sign(h2) @ h2


@pytest.mark.parametrize("group", ["input weights", "hidden weights", "output weights"])
@pytest.mark.parametrize(("kind", "power"), [("mup", 0.0), ("ntk", 0.0), ("standard", None)])
def test_a_step_of_adam_changes_outputs_alike_at_all_widths(kind, power, group):
    widths = np.array([64, 256, 1024])
    slope = np.polyfit(np.log(widths), [math.log(abs(changed(kind, group, n))) for n in widths], 1)[0]
    if power is None:
        assert slope > 0.4  # one rate at all widths: every layer's steps grow
    else:
        assert slope == pytest.approx(power, abs=0.1)


@pytest.mark.parametrize("s", [0.0, 0.5, 1.0])
def test_a_step_of_adam_in_yaidas_family_moves_outputs_alike_and_features_as_s_says(s):
    widths = np.array([64, 256, 1024])

    def power(group, **more):
        sizes = [math.log(abs(changed("yaida", group, n, s, **more))) for n in widths]
        return np.polyfit(np.log(widths), sizes, 1)[0]

    for group in ("input weights", "hidden weights", "output weights"):
        assert power(group) == pytest.approx(0, abs=0.1), group
    # Squares of what features change by are of order 1/width^(1-s).
    assert power("hidden weights", layer=True) == pytest.approx(-(1 - s) / 2, abs=0.1)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", ["depth-mup", "completep"])
def test_all_blocks_together_move_a_stream_alike_at_all_depths(kind, optimizer):
    n, sizes, rng = 64, [], np.random.default_rng(0)
    for depth in (8, 128):
        found = transfer(kind, optimizer=optimizer, depth=(1, depth), width=(n, n))
        b, rate = found.branch, found.rate[found.groups.index("hidden weights")]
        total = 0.0
        for _ in range(10):
            W, streams, back = rng.normal(size=(depth, n, n)) / n**0.5, [np.ones(n)], np.ones(n)
            for one in W:
                streams.append(streams[-1] + b * one @ streams[-1])
            for one, x in zip(W[::-1], streams[-2::-1]):
                g = b * np.outer(back, x)
                total += b * back @ ((rate * (np.sign(g) if optimizer == "adamw" else g)) @ x)
                back = back + b * one.T @ back
        sizes.append(total)
    assert math.log(sizes[1] / sizes[0]) / math.log(16) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
@pytest.mark.parametrize(("kind", "alpha"), [("completep", 1.0), ("depth-mup", 0.5)])
def test_rate_times_decay_goes_with_depth_as_that_of_adamw(kind, alpha, optimizer):
    one, adamw = (transfer(kind, optimizer=name, width=(64, 64), depth=(4, 4 * L)) for name in (optimizer, "adamw"))
    np.testing.assert_allclose(one.rate * one.decay, adamw.rate * adamw.decay)
    # Of the branches' weights it stands beside gradients that are as small as the branch.
    inside = np.array([group.startswith("hidden") for group in one.groups])
    np.testing.assert_allclose(one.decay, np.where(inside, L**-alpha, 1.0))
    assert "of our own" in one.source and "of our own" not in adamw.source


def test_a_transfer_is_shown_saved_and_explained(tmp_path):
    found = transfer("completep", width=(64, 512), depth=(4, 16))
    text = tables(found)[0].text()
    assert "completep, adamw: width 64 to 512, depth 4 to 16" in text and "multiplied by 0.25" in text
    assert "ε" not in tables(transfer("mup", optimizer="sgd"))[0].columns
    found.save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json") == found


def test_bad_input_gets_one_clear_sentence():
    for kind, more, words in (
        ("mp", {}, ("kind is 'mp'", "did you mean 'mup'")),
        ("mup", {"optimizer": "sg"}, ("optimizer is 'sg'",)),
        ("mup", {"width": (0, 4)}, ("each of width is 0", "at least 1")),
        ("mup", {"width": (1, 2, 3)}, ("width is", "from and to")),
        ("mup", {"depth": (2, 4)}, ("says nothing of depth",)),
        ("mup", {"s": 0.5}, ("goes with kind 'yaida'",)),
        ("yaida", {}, ("s is None",)),
        ("yaida", {"optimizer": "sgd", "s": 2.0}, ("s is 2", "at most 1")),
    ):
        with one_sentence(*words):
            transfer(kind, **more)
