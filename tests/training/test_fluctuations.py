"""Draws of outputs and kernels at finite width, and what training makes of them."""

import functools
import re

import jax
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, training
from neft.training import _fluctuations, _sample, predict_from_tensors
from neft.training._fluctuations import at_width, draw, law
from neft.training._function_space import draw_batches
from neft.training._loss import cross_entropy, square
from neft.training._lost import warn_lost
from neft.training._pairings import correlators
from neft.training._schedule import schedule
from neft.training._trained import trained
from neft.training.results import Trajectories

from .reference import composite

S, N, O = 3, 2, 2
WIDE = 1e6
"""So wide that only what is of order 1/n is left of averages over mirrored draws."""
KEY = jax.random.key(4)
Y = np.array([[0.5, -0.3], [0.2, 0.8]])


def positive(rng, size):
    root = rng.normal(size=(size, size))
    return root @ root.T / size + 0.5 * np.eye(size)


pytestmark = pytest.mark.xdist_group("training fluctuations")  # what is cached is computed once


@functools.cache
def tensors():
    """Tensors with the symmetries of a network's, and no others."""
    rng = np.random.default_rng(7)
    first, second = np.triu_indices(S)
    features = np.zeros((2, 8, S, S))
    features[:, :, first, second] = features[:, :, second, first] = 0.3 * rng.normal(size=(2, 8, len(first)))
    V, D, A = (np.einsum("rab,rcd->abcd", features[i], features[j]) for i, j in ((0, 0), (0, 1), (1, 1)))
    free = 0.3 * rng.normal(size=(6, S, S))
    free = np.concatenate([free, free.swapaxes(1, 2)])
    B = np.einsum("rab,rcd->acbd", free, free)
    F, P, Q, R, S_, T, U = (0.1 * rng.normal(size=(S,) * 4) for _ in range(7))
    exchange = lambda X: X + X.transpose(2, 3, 0, 1)  # noqa: E731
    return {
        **{"K": positive(rng, S), "Theta": positive(rng, S), "K1": positive(rng, S)},
        **{"Theta1": 0.2 * positive(rng, S), "V": V, "A": A, "B": B, "D": D, "F": exchange(F)},
        **{"P": P + P.swapaxes(1, 2), "Q": Q, "R": R + R.swapaxes(2, 3)},
        **{"S": S_ + S_.transpose(1, 0, 3, 2), "T": exchange(T), "U": exchange(U)},
    }


def mirrored(own, count, what):
    """n times the average over mirrored draws of what(draws), and its standard error."""
    values = WIDE * sum(what(draw(own, KEY, np.arange(count), sign=sign)) for sign in (1.0, -1.0)) / 2
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(count)


def assert_equal_within_errors(found, error, theory):
    noise = error + 1e-9 * np.abs(theory).max()
    assert np.abs((found - theory) / noise).max() < 5
    assert np.abs(theory / noise).max() > 10


@pytest.mark.parametrize(
    "train, groups",
    [*(pytest.param(n, None, marks=pytest.mark.slow) for n in (N, 1)), (1, [np.array([1]), np.array([2])])],
)
def test_draws_have_the_cumulants_of_the_tensors(train, groups):
    t, X = tensors(), correlators(tensors())
    own = law(t, WIDE, train, O, groups)
    # What training meets of the first test sample, or of all where they belong together.
    size, A = (S if groups is None else train + 1) * O, train * O
    K, Theta, K1, Theta1 = (np.kron(t[name], np.eye(O))[:size, :size] for name in ("K", "Theta", "K1", "Theta1"))
    fluctuation = lambda d: d.H[:, :size, :A] - Theta[:, :A]  # noqa: E731
    flat = lambda z: z.reshape(len(z), -1)[:, :size]  # noqa: E731
    # ⟨zz⟩, ⟨zzzz⟩, where K₁ joins V, ⟨zzΔH⟩, ⟨ΔHΔH⟩ and ⟨dH z⟩, all less what infinite width gives for the same draws.
    change = lambda d, power: power(flat(d.z)) - power(flat(d.infinite))  # noqa: E731
    two = lambda z: np.einsum("sa,sb->sab", z, z)  # noqa: E731
    assert_equal_within_errors(*mirrored(own, 40_000, lambda d: change(d, two)), K1)
    four = lambda z: np.einsum("sa,sb,sc,sd->sabcd", z[:, -2:], z[:, -2:], z[:, 1:4], z)  # noqa: E731
    V = composite(np.stack([t["V"], t["V"].transpose(0, 2, 1, 3), t["V"].transpose(0, 2, 3, 1)]))(O)
    V = V[:size, :size, :size, :size]
    for first, second in ((K, K1), (K1, K)):
        V = V + sum(np.einsum(f"{pairs}->abcd", first, second) for pairs in ("ab,cd", "ac,bd", "ad,bc"))
    assert_equal_within_errors(*mirrored(own, 3000, lambda d: change(d, four)), V[-2:, -2:, 1:4])
    third = mirrored(own, 3000, lambda d: np.einsum("sa,sb,scd->sabcd", flat(d.z), flat(d.z), fluctuation(d)))
    of_mean = np.einsum("ab,cd->abcd", K, Theta1[:, :A])
    assert_equal_within_errors(*third, composite(X.zzH)(O)[:size, :size, :size, :A] + of_mean)
    second = mirrored(own, 3000, lambda d: np.einsum("sab,scd->sabcd", fluctuation(d), fluctuation(d)))
    assert_equal_within_errors(*second, composite(X.HH)(O)[:size, :A, :size, :A])
    slope = mirrored(own, 3000, lambda d: np.einsum("sabc,sd->sabcd", d.dH[:, :size, :size], flat(d.z)))
    theory = composite(X.dHz)(O)[:size, :size, :A, :size]
    for rows in (np.s_[:, :A], np.s_[:A]):
        assert_equal_within_errors(slope[0][rows], slope[1][rows], theory[rows])


@pytest.mark.slow
def test_the_square_loss_is_that_of_the_prediction():
    plan = {"steps": 4, "learning_rate": 0.3}
    theory = predict_from_tensors({k: v for k, v in tensors().items() if k != "V"}, Y, int(WIDE), **plan)
    own, schedule_, count = law(tensors(), WIDE, N, O), schedule(**plan), 8192
    still = law({k: v if k in ("K", "Theta") else 0 * v for k, v in tensors().items()}, WIDE, N, O)
    means, squares = [], []
    for part in np.array_split(np.arange(count), 8):

        def after(own, part=part, **options):
            z, good = trained(own, draw(own, KEY, part, **options), Y, schedule_, square, None)
            assert good.all()
            return z[:, 0, N:] - theory.infinite_mean

        z = [after(still), after(own), after(own, sign=-1.0)]
        pairs = [np.einsum("sia,sjb->siajb", one, one) for one in z]
        means.append(WIDE * ((z[1] + z[2]) / 2 - z[0]))
        squares.append(WIDE * ((pairs[1] + pairs[2]) / 2 - pairs[0]))
    infinite = np.einsum("ij,ab->iajb", theory.infinite_cov, np.eye(O))
    for values, exact in ((means, theory.mean - theory.infinite_mean), (squares, theory.cov - infinite)):
        values = np.concatenate(values)
        error = values.std(0, ddof=1) / np.sqrt(count)
        assert np.abs((values.mean(0) - WIDE * exact) / error).max() < 5
        assert np.abs(WIDE * exact / error).max() > 10


@pytest.mark.slow
def test_the_cross_entropy_needs_differences_of_logits_alone():
    plan = schedule(None, 3, 0.2, 0.5, False, 1, N)
    own, index, y = law(tensors(), 400.0, N, O), np.arange(2), np.eye(2)
    batches = np.asarray(draw_batches(KEY, index, steps=3, count=N, batch=1))
    found = trained(own, draw(own, KEY, index), y, plan, cross_entropy, batches)
    # A loss that nobody knows to be the cross-entropy sees all logits.
    whole = trained(own, draw(own, KEY, index), y, plan, lambda z, y: cross_entropy(z, y), batches)
    assert found[1].all() and whole[1].all()
    np.testing.assert_allclose(found[0], whole[0], atol=1e-12)
    assert np.abs(found[0][:, 0] - draw(own, KEY, index).z).max() > 0.1


def test_steps_at_infinite_width_are_the_steps_themselves():
    rng = np.random.default_rng(3)
    K, Theta = positive(rng, 4), positive(rng, 4)
    labels, start, beta = np.array([0, 1, 1]), rng.normal(size=(4, 2)), 0.6
    options = {"steps": [5, 2], "learning_rate": 0.2, "momentum": beta, "outputs": 2, "start": start, "key": KEY}
    taken = np.asarray(draw_batches(KEY, np.arange(1), steps=5, count=3, batch=2))[0]
    assert all(len(set(each)) == 2 for each in taken.tolist())
    for nesterov, batch in ((False, None), (True, 2)):
        found = training.sample_from_kernels(K, Theta, labels, nesterov=nesterov, batch=batch, **options)
        z, velocity = start.copy(), np.zeros((3, 2))
        for t in range(5):
            gradient = np.exp(z[:3]) / np.exp(z[:3]).sum(1, keepdims=True) - np.eye(2)[labels]
            if batch:
                gradient *= 1.5 * np.isin(np.arange(3), taken[t])[:, None]
            velocity = beta * velocity + gradient
            z = z - 0.2 * Theta[:, :3] @ (gradient + beta * velocity if nesterov else velocity)
            if t == 1:
                np.testing.assert_allclose(found.train_outputs[0, 1], z[:3], atol=1e-12)
        np.testing.assert_allclose(found.outputs[0, 0], z[3:], atol=1e-12)


@pytest.mark.slow
def test_shuffled_epochs_take_every_input_once():
    taken = np.asarray(draw_batches(KEY, np.arange(3), steps=7, count=7, batch=2, shuffled=True))
    assert taken.shape == (3, 7, 2)
    for draw_ in taken:
        for epoch in (draw_[:3], draw_[3:6]):
            assert len(set(epoch.ravel().tolist())) == 6
    assert len({tuple(draw_[:3].ravel()) for draw_ in taken}) == 3
    options = {"steps": 3, "learning_rate": 0.1, "outputs": 2, "draws": 2}
    # One batch of all inputs is an epoch of its own.
    found = [
        training.sample_from_kernels(
            np.eye(4), np.eye(4), [0, 1, 1], batch=batch, shuffled=batch is not None, **options
        )
        for batch in (3, None)
    ]
    np.testing.assert_allclose(found[0].train_outputs, found[1].train_outputs, atol=1e-13)
    with one_sentence("shuffled is True", "batch"):
        training.sample_from_kernels(np.eye(4), np.eye(4), [0, 1, 1], shuffled=True, **options)


@pytest.fixture
def net(monkeypatch):
    """A network whose tensors nobody has to wait for."""
    known = {k: v[:N, :N] if v.ndim == 2 else v[:N, :N, :N, :N] for k, v in tensors().items()}
    monkeypatch.setattr(
        _sample, "output_tensors", lambda net, x, names, **options: {name: known[name] for name in names}
    )
    return MLP((2, 400, 2), "erf", C_b=0.1)


@pytest.mark.slow
def test_order_one_comes_with_the_same_draws_at_infinite_width(net, tmp_path):
    x, options = np.array([[1.0, 0.1], [0.2, 1.0]]), {"steps": [0, 3], "learning_rate": 0.1, "draws": 4, "key": KEY}
    options |= {"momentum": 0.5, "batch": 1}
    found = training.sample(net, x, [0, 1], order=1, **options)
    still = training.sample(net, x, [0, 1], **options)
    assert found.order == 1 and found.good.all() and found.negative == 0
    np.testing.assert_allclose(found.infinite_outputs, still.outputs, atol=1e-12)
    np.testing.assert_allclose(found.outputs[:, 0], found.start, atol=1e-12)
    assert np.abs(found.outputs - still.outputs).max() > 0
    found.save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found
    flow = training.sample(net, x, [0, 1], order=1, time=[0.0, 0.5], draws=2, key=KEY)
    np.testing.assert_allclose(flow.outputs[:, 0], flow.start, atol=1e-9)


def test_given_outputs_of_infinite_width_are_kept():
    own, index = law(tensors(), 50.0, N, O), np.arange(3)
    free = draw(own, KEY, index)
    given = draw(own, KEY, index, infinite=free.infinite)
    for one, other in zip(free, given):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_law_at_another_width_is_that_of_its_tensors():
    # A factor that is a power of 2 leaves eigenvectors as they are, signs included.
    groups = [np.array([1]), np.array([2])]
    made, scaled = law(tensors(), 48.0, 1, O, groups), at_width(law(tensors(), 3.0, 1, O, groups), 48.0)
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(scaled), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
def test_many_test_inputs_are_taken_one_by_one(monkeypatch):
    monkeypatch.setattr(_sample, "LEAST", 1)
    net = MLP((2, 10**6, 2), "tanh", C_b=0.1)
    x, at = np.array([[1.0, 0.1], [0.2, 1.0]]), np.array([[0.5, -0.4], [-1.0, 0.3], [0.7, 0.9]])
    options = {"steps": [0, 3], "learning_rate": 0.1, "draws": 3, "key": KEY, "order": 1}
    monkeypatch.setattr(_sample, "TOGETHER", 3)
    monkeypatch.setattr(_sample, "SIDE_BY_SIDE", 4)
    found = training.sample(net, x, [0, 1], at, **options)
    assert found.blocks == 3 and found.outputs.shape == (3, 2, 3, 2)
    # At this width draws are those of infinite width but for 1e-3, at each input; the fluctuations are its own.
    change = found.outputs - found.infinite_outputs
    assert 0 < np.abs(change[:, 0]).max() < 1e-2 and (np.abs(change).max((0, 1, 3)) > 1e-5).all()
    np.testing.assert_allclose(found.start, found.outputs[:, 0], atol=1e-12)


def test_draws_whose_kernels_stay_are_the_same_draws():
    own = law(tensors(), 64, N, O)
    moving, still = (draw(own, KEY, np.arange(3), moving=moving) for moving in (True, False))
    np.testing.assert_array_equal(moving.z, still.z)
    np.testing.assert_array_equal(moving.H, still.H)
    assert still.dH.size == 0 and np.abs(moving.dH).max() > 0


def test_narrow_networks_say_how_narrow_they_are():
    narrow = law(tensors() | {"K1": np.zeros((S, S))}, 0.5, N, O)
    found = draw(narrow, KEY, np.arange(50))
    assert not found.positive.all() and np.isfinite(found.z).all()
    with pytest.warns(training.ExpansionWarning, match="of 2 draws at width 0.5, 1 have an initial"):
        warn_lost(1, np.array([True, True]), narrow.n, None)
    with pytest.warns(training.ExpansionWarning, match=r"1 have a kernel .* take a width of 2, where it does"):
        warn_lost(1, np.array([True, False]), narrow.n, lambda n: n >= 2)
    with one_sentence("of 2 draws at width 0.5 none gets to the end", "take a width of 4, where 2 of them do"):
        warn_lost(1, np.array([False, False]), narrow.n, lambda n: 2 if n >= 4 else 1)
    with one_sentence("none gets to the end", "not even at 256 times that width"):
        warn_lost(0, np.array([False, False]), narrow.n, lambda n: 1)


@pytest.mark.slow
def test_the_width_that_is_advised_bears_the_training():
    x, y = np.array([[1.0, 0.2], [0.9, 0.4], [-0.3, 1.0]]), [0, 1, 1]
    options = {"steps": 200, "learning_rate": 0.3, "momentum": 0.9, "draws": 6, "key": KEY, "order": 1}
    with pytest.raises(ValueError, match="take a width of") as said:
        training.sample(MLP((2, 4, 2), "tanh", C_b=0.1), x, y, **options)
    n = int(re.findall(r"take a width of (\d+), where 6 of them do", str(said.value))[0])
    assert training.sample(MLP((2, n, 2), "tanh", C_b=0.1), x, y, **options).good.all()
    with pytest.warns(training.ExpansionWarning, match=f"take a width of {n}, where"):
        training.sample(MLP((2, n // 2, 2), "tanh", C_b=0.1), x, y, **options)


@pytest.mark.slow
def test_older_files_still_load():
    found = training.sample_from_kernels(np.eye(3), np.eye(3), [0, 1], time=1.0, outputs=2, draws=2)
    record = found.to_dict()
    for name in ("steps", "order", "infinite_outputs", "good", "negative"):
        del record[name]
    assert Trajectories.from_dict(record) == found


def test_bad_input_gets_one_clear_sentence(net):
    x = np.eye(2)
    with one_sentence("order is 2", "at most 1"):
        training.sample(net, x, [0, 1], time=1.0, order=2)
    with one_sentence("start is given", "order 0"):
        training.sample(net, x, [0, 1], time=1.0, order=1, start=np.ones((2, 2)))
    with one_sentence("batch is 3", "at most 2"):
        training.sample(net, x, [0, 1], steps=2, learning_rate=0.1, batch=3)


def test_kinks_are_refused_by_name():
    with one_sentence("activation is relu", "order 1"):
        training.sample(MLP((2, 8, 2), "relu"), np.eye(2), [0, 1], time=1.0, order=1)


def test_correlators_are_spread_over_outputs_as_their_deltas_say():
    X = np.random.default_rng(0).normal(size=(3, 2, 2, 2, 2))
    np.testing.assert_array_equal(_fluctuations._composite(X, 3), composite(X)(3))
