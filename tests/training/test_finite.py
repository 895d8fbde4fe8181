import importlib.util
import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP
from neft.training import ExpansionWarning, _finite, predict, predict_from_tensors
from neft.training._evolve import _descend, _flow
from neft.training._finite import AFFORDABLE, predict_finite
from neft.training._hierarchy import Hierarchy
from neft.training._pairings import correlators, permuted
from neft.training._response import PARTS, TENSORS, corrections
from neft.training._weights import Moment, nested, weights

from .reference import XT, X, Y, composite, spread

N, A, O = 3, 2, 2
END = Moment(np.inf)
MOMENTS = (END, Moment(0.7), Moment(np.inf, 5, 0.2))
IDS = ("end", "time", "steps")
SLOW = [pytest.param(m, marks=() if m.steps else pytest.mark.slow, id=name) for m, name in zip(MOMENTS, IDS)]
rng = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def _the_same_numbers_in_every_order():
    global rng
    rng = np.random.default_rng(3)


def positive(size):
    root = rng.normal(size=(size, size))
    return root @ root.T / size + np.eye(size)


def random_tensors():
    """Tensors that obey no symmetry but those of K and Θ, so that every slot counts."""
    pairs = {name: positive(N) for name in ("K", "Theta", "K1", "Theta1")}
    return pairs | {name: rng.normal(size=(N,) * 4) for name in TENSORS if name not in pairs}


pytestmark = pytest.mark.xdist_group("training finite")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def found():
    """A prediction with its correction, for a network of one hidden layer."""
    net = MLP((2, 64, 2), "tanh", C_b=0.1, C_W=1.2, lambda_b=0.7, lambda_W=0.8)
    return net, predict_finite(net, X[:1], Y[:1], XT)


def full(W):
    """Weights over composite indices: one output for the first two of them, any for the others."""
    W = np.einsum(W, list(range(W.ndim)), np.eye(O), [50, 51], [0, 50, 1, 51, *range(2, W.ndim)])
    W = W.reshape(N * O, N * O, *W.shape[4:])
    for axis in range(2, W.ndim):
        W = np.repeat(W, O, axis=axis)
    return W


class Composite:
    """c₁ and c₂ with weights and kernels over composite indices, projected on the eigenvectors of Θ_AA."""

    def __init__(self, moment, Theta):
        self.w, _, v = weights(moment, Theta, A)
        self.v = spread(v, O)
        self.eta = moment.eta

    def project(self, T, free=1):
        for axis in range(free, T.ndim):
            T = np.moveaxis(np.tensordot(T, self.v[: T.shape[axis]], axes=(axis, 0)), -1, axis)
        return T

    def terms(self, dH, I, II, III):
        """The sums of weights and kernels that multiply εε and εεε."""
        sym = lambda T: T + T.swapaxes(0, 1)  # noqa: E731
        w, Y = self.w, I + II + III
        second = [(w.d, sym(dH)), (w.dH, dH)]
        third = [(w.Y, sym(Y)), (w.Y0, Y), (w.Z, sym(I + II)), (w.I, I)]
        third = [(None if phi is None else np.einsum("kdb,kmnr->dbmnr", w.G, phi), T) for phi, T in third]
        two, three = (
            sum(
                np.einsum("db...,b...->d...", full(weight), self.project(T))
                for weight, T in terms
                if weight is not None
            )
            for terms in (second, third)
        )
        return two, three


@pytest.mark.parametrize("moment", SLOW)
def test_the_response_to_second_order_is_that_of_the_hierarchy(moment):
    # Perturbations of size s leave an error s³ (of ΔH) and s⁴ (of s²dH and s²ddH alone) in the outputs that flow or
    # descent reaches.
    with jax.enable_x64(True):
        z, y = rng.normal(size=N * O), Y.ravel()
        Theta, change = positive(N), positive(N * O)
        dH, I, II = (rng.normal(size=(N * O,) * k) for k in (3, 4, 4))
        dH = dH + dH.swapaxes(1, 2)
        I = sum(I.transpose(0, *p) for p in itertools.permutations((1, 2, 3)))
        II = II + II.transpose(1, 0, 3, 2)
        III = II.transpose(0, 2, 1, 3)
        C = Composite(moment, Theta)
        M = slice(A * O)
        cut = [dH[..., M], *(T[:, :, M, M] for T in (I, II, III))]
        two, three = C.terms(dH, I, II, III)
        e = C.v.T @ (z - np.r_[y, np.zeros(O)])
        Pi = spread(C.w.initial, O)
        start = (np.eye(N * O) - Pi)[:, M] @ y + Pi @ z
        H1 = np.einsum("dbm,bm,m->d", full(C.w.H1), change @ C.v, e)
        HH = np.einsum("dbmn,bm,mn,n->d", full(C.w.HH), change @ C.v, C.v.T @ change @ C.v, e)
        dd = np.einsum("dmn,m,n->d", two, e, e) - np.einsum("dmnr,m,n,r->d", three, e, e, e)
        for s1, s2, power in ((1.0, 0.0, 3), (0.0, 1.0, 4)):
            errors = []
            for s in (0.08, 0.04):
                h = Hierarchy(z, spread(Theta, O) + s1 * s * change, *(0.1 * s2 * s**2 * T for T in cut))
                course = _end(Hierarchy(*map(jnp.asarray, h)), jnp.asarray(Y), moment)
                response = start + s1 * (-s * H1 + s**2 * HH) + 0.1 * s2 * s**2 * dd
                errors.append(np.abs(np.asarray(course.z)[0] - response).max())
            assert np.log2(errors[0] / errors[1]) > power - 0.4, errors


def _end(h, y, moment):
    if moment.over:
        return _flow(h, y, None)
    if moment.steps is None:
        return _flow(h, y, jnp.array([moment.time]))
    return _descend(h, y, jnp.array([moment.steps]), moment.eta)


def test_the_mean_is_theorys_formula_index_by_index():
    t, y = random_tensors(), Y
    l, vectors = np.linalg.eigh(t["Theta"][:A, :A])
    v = np.zeros((N, A))
    v[:A] = vectors
    Pi = np.eye(N)
    Pi[:, :A] -= t["Theta"][:, :A] @ np.linalg.inv(t["Theta"][:A, :A])
    u, K, Theta1 = vectors.T @ y, v.T @ t["K"] @ v, t["Theta1"] @ v

    def at(name, slot):
        X = t[name]
        for axis in set(range(4)) - {slot}:
            X = np.moveaxis(np.tensordot(X, v, axes=(axis, 0)), -1, axis)
        return X

    B, a = at("B", 0), at("A", 0)
    P0, P1, Q0, Q1, Q2 = at("P", 0), at("P", 1), at("Q", 0), at("Q", 1), at("Q", 2)
    R0, R1, R2, R3, S0, S1, S2 = (at(name, slot) for name, slot in zip("RRRRSSS", (0, 1, 2, 3, 0, 1, 2)))
    T0, T1, T2, U0, U2, U3 = (at(name, slot) for name, slot in zip("TTTUUU", (0, 1, 2, 0, 2, 3)))
    total = np.zeros((N, O))
    for i, b, m, n in itertools.product(range(O), range(N), range(A), range(A)):
        t2 = 1 / (l[m] * (l[m] + l[n]))
        s = Theta1[b, m] * u[m, i] / l[m] / A
        s -= (a[b, m, m, n] + B[b, m, m, n] + O * B[b, n, m, m]) * u[n, i] / (l[m] * l[n])
        first = P0[b, m, n, n] + O * Q0[b, m, n, n] + Q0[b, n, m, n]
        first += P1[m, b, n, n] + O * Q1[m, b, n, n] + Q2[m, n, b, n]
        second = P0[b, m, n, m] + Q0[b, m, n, m] + O * Q0[b, n, m, m]
        second += O * P1[m, b, n, m] + Q1[m, b, n, m] + Q2[m, n, b, m]
        s -= t2 * (u[m, i] * first + u[n, i] * second)
        for r in range(A):
            t3 = t2 / (l[m] + l[n] + l[r])
            Y1 = R0[b, m, n, r] + S0[b, m, n, r] + T0[b, m, n, r] + R1[m, b, n, r] + S1[m, b, n, r] + T1[m, b, n, r]
            Y2 = R0[b, n, r, m] + S0[b, n, m, r] + T0[b, n, m, r] + R2[m, r, b, n] + U2[m, r, b, n] + U3[m, r, n, b]
            Y3 = R0[b, r, m, n] + U0[b, r, m, n] + U0[b, r, n, m] + R3[m, n, r, b] + S2[m, n, b, r] + T2[m, n, b, r]
            s += t3 * (Y1 * u[m, i] * (u[n] @ u[r]) + Y2 * u[n, i] * (u[m] @ u[r]) + Y3 * u[r, i] * (u[m] @ u[n]))
            s += t3 * K[m, n] * u[r, i] * (Y1 + Y2 + O * Y3) + t3 * K[m, r] * u[n, i] * (Y1 + O * Y2 + Y3)
            s += t3 * K[n, r] * u[m, i] * (O * Y1 + Y2 + Y3)
        total[:, i] += Pi[:, b] * s
    np.testing.assert_allclose(sum(corrections(t, y, END).mean_parts.values()), total, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("moment", MOMENTS, ids=IDS)
def test_mean_and_covariance_are_averages_over_composite_indices(moment):
    # The same averages without any pairing by hand: outputs and samples in one index, and Wick's theorem for z.
    t = random_tensors()
    X_ = correlators(t)
    HH, zzH, dHz, I, II = (composite(part)(O) for part in X_)
    C = Composite(moment, t["Theta"])
    w, v = C.w, C.v
    K, K1, Theta1 = (spread(t[name], O) for name in ("K", "K1", "Theta1"))
    Pi, u = spread(w.initial, O), v.T @ np.r_[Y.ravel(), np.zeros(O)]
    Kmn, PK = v.T @ K @ v, Pi @ K @ v
    KY = Kmn + np.outer(u, u)
    III = II.transpose(0, 2, 1, 3)
    three = C.terms(np.zeros((N * O,) * 3), I, II, III)[1]
    # A spectator z_e in the last slot of dHz.
    per_spectator = [C.terms(dHz[..., e], 0 * I, 0 * II, 0 * III)[0] for e in range(N * O)]
    two = np.stack(per_spectator, axis=-1)
    two_v = np.einsum("dmne,ek->dmnk", two, v)
    H1, HHw = full(w.H1), full(w.HH)
    HHv = np.einsum("xakc,am,kn,cr->xmnr", HH, v, v, v)
    mean = np.einsum("dbm,bm,m->d", H1, Theta1 @ v, u) - np.einsum("dbmn,bmmn,n->d", HHw, HHv, u)
    mean -= np.einsum("dmnm,n->d", two_v, u) + np.einsum("dmnn,m->d", two_v, u)
    Kuu = np.einsum("mn,r->mnr", Kmn, u)
    cubic = np.einsum("m,n,r->mnr", u, u, u) + Kuu + Kuu.transpose(0, 2, 1) + Kuu.transpose(2, 0, 1)
    mean += np.einsum("dmnr,mnr->d", three, cubic)
    found = corrections(t, Y, moment)
    np.testing.assert_allclose(sum(found.mean_parts.values()).ravel(), mean, rtol=1e-10, atol=1e-10)

    half = -np.einsum("ie,jxm,ecxa,cm,am->ij", Pi, H1, zzH, v, v)
    half -= np.einsum("im,jxm,xm->ij", PK, H1, Theta1 @ v)
    half += np.einsum("in,jxmn,xmmn->ij", PK, HHw, HHv)
    half += np.einsum("jmne,ie,mn->ij", two, Pi, KY)
    half += np.einsum("jmnn,im->ij", two_v, PK) + np.einsum("jmnm,in->ij", two_v, PK)
    half -= np.einsum("jmnr,im,nr->ij", three, PK, KY) + np.einsum("jmnr,in,mr->ij", three, PK, KY)
    half -= np.einsum("jmnr,ir,mn->ij", three, PK, KY)
    HwHx = np.einsum("xawc,am,cn->xmwn", HH, v, v)
    cov = half + half.T + Pi @ K1 @ Pi.T + np.einsum("ixm,jwn,xmwn,mn->ij", H1, H1, HwHx, KY)
    np.testing.assert_allclose(sum(found.cov_parts.values()).reshape(N * O, N * O), cov, rtol=1e-10, atol=1e-10)


def test_permuting_slots_permutes_the_composite_tensor():
    X_ = rng.normal(size=(3, 2, 2, 2, 2))
    for order in itertools.permutations(range(4)):
        # X'_{0123} = X_{order}.
        letters = "".join("abcd"[i] for i in order)
        expected = np.einsum(f"{letters}->abcd", composite(X_)(2))
        np.testing.assert_allclose(composite(permuted(X_, order))(2), expected, atol=1e-14)


def test_nested_weights_are_the_integrals_and_sums_they_say():
    x = (0.3, 0.3, 1.1)
    s = np.linspace(0, 2.0, 4001)
    inner = (np.exp(-x[1] * s) - np.exp(-x[2] * s)) / (x[2] - x[1])
    integral = np.trapezoid(np.exp(-x[0] * (2.0 - s)) * inner, s)
    np.testing.assert_allclose(nested(Moment(2.0), *map(np.array, x)), integral, rtol=1e-6)
    r, T = 1 - 0.1 * np.array(x), 6
    total = sum(0.01 * r[0] ** (T - 1 - a) * r[1] ** (a - 1 - b) * r[2] ** b for a in range(T) for b in range(a))
    np.testing.assert_allclose(nested(Moment(np.inf, T, 0.1), *map(np.array, x)), total, rtol=1e-12)


@pytest.mark.parametrize("time", [0.01, 1.0, 30.0, 1e3, 1e5])
def test_nested_weights_are_divided_differences_at_any_time(time):
    mpmath.mp.dps = 60
    nodes = np.array([[0.0, 0.7, 1.9, 2.6], [0.02, 0.05, 0.11, 1.3], [0.4, 0.40001, 0.9, 3.0]])
    found = nested(Moment(time), *nodes.T)
    for x, value in zip(nodes, found):
        x = [mpmath.mpf(float(one)) for one in x]
        terms = [
            mpmath.exp(-mpmath.mpf(time) * p) / mpmath.fprod(q - p for q in x if q != p) for p in x
        ]  # up to a sign the divided difference of e^{-xt}
        expected = float(mpmath.fsum(terms))
        # What is below the smallest number is 0.
        np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-300)


def test_long_times_and_small_steps_have_their_limits():
    t = random_tensors()
    end, late = corrections(t, Y, END), corrections(t, Y, Moment(200.0))
    now, stepped = corrections(t, Y, Moment(0.5)), corrections(t, Y, Moment(np.inf, 50_000, 1e-5))
    for a, b in ((end, late), (now, stepped)):
        for part in PARTS:
            np.testing.assert_allclose(a.mean_parts[part], b.mean_parts[part], rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(a.cov_parts[part], b.cov_parts[part], rtol=1e-3, atol=1e-4)
    nothing = corrections(t, Y, Moment(0.0))
    np.testing.assert_allclose(nothing.mean, 0, atol=1e-12)
    np.testing.assert_allclose(sum(nothing.mean_parts.values()), 0, atol=1e-12)
    np.testing.assert_allclose(sum(nothing.cov_parts.values())[:, 0, :, 0], t["K1"])


@pytest.mark.slow
def test_training_inputs_end_on_their_targets_and_outputs_become_correlated(found):
    _, result = found
    np.testing.assert_allclose(result.train_mean, Y[:1], atol=1e-12)
    np.testing.assert_allclose(result.train_cov, 0, atol=1e-12)
    np.testing.assert_allclose(result.mean, result.infinite_mean + sum(result.mean_parts.values()))
    assert result.mean.shape == (1, 2) and result.cov.shape == (1, 2, 1, 2) and result.width == 64
    assert abs(result.correlation[0, 0, 1]) > 1e-4 and 0 < result.expansion < 0.1
    np.testing.assert_allclose(result.cov, result.cov.transpose(2, 3, 0, 1))


@pytest.mark.slow
def test_estimated_tensors_give_the_same_within_their_errors():
    net, x = MLP((2, 64, 2), "tanh", C_b=0.1, C_W=1.2), np.concatenate([X, XT])
    result = predict_finite(net, X, Y, XT)
    draws = neft.ensemble.estimate(net, x, draws=4096, key=jax.random.key(5))
    tensors = {name: draws.tensors[name].mean[-1] for name in TENSORS}
    stats = neft.width.statistics(net, x, only=("K", "Theta"))
    tensors |= {"K": stats.K[-1], "Theta": stats.Theta[-1]} | {name: np.zeros((3, 3)) for name in ("K1", "Theta1")}
    other = predict_from_tensors(tensors, Y, 64)
    for part in PARTS[1:]:
        for a, b in ((other.mean_parts, result.mean_parts), (other.cov_parts, result.cov_parts)):
            size = np.abs(b[part]).max()
            assert size * 64 > 0.01
            np.testing.assert_allclose(a[part], b[part], atol=0.05 * size)


@pytest.mark.parametrize("when", [{}, {"time": [0.3, np.inf]}, {"steps": [2, 9], "learning_rate": 0.1}])
def test_infinite_width_is_that_of_order_zero(when):
    t = random_tensors()
    result = predict_from_tensors(t, Y, 10**6, **when)
    infinite = neft.training.predict_from_kernels(t["K"], t["Theta"], Y, **when)
    np.testing.assert_allclose(result.infinite_mean, infinite.mean, atol=1e-12)
    np.testing.assert_allclose(result.infinite_cov, infinite.cov, atol=1e-12)
    np.testing.assert_allclose(result.mean, infinite.mean, atol=1e-3)
    assert result.cov.shape == (*infinite.mean.shape, 1, 2)


def test_a_result_can_be_kept(found, tmp_path):
    found[1].save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found[1]


def test_a_narrow_network_is_warned_of():
    t = random_tensors()
    with pytest.warns(ExpansionWarning, match="at width 1,"):
        narrow = predict_from_tensors(t | {"A": 10 * np.ones((N,) * 4)}, Y, 1)
    # No warning, which would be an error, from the width on that it names.
    wide = predict_from_tensors(t | {"A": 10 * np.ones((N,) * 4)}, Y, narrow.trusted_from)
    assert 0.24 < wide.expansion <= 0.25 and wide.trusted_from == narrow.trusted_from > 1


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("relu", "R, S, T and U"):
        predict_finite(MLP((2, 8, 2), "relu"), X, Y)
    t = random_tensors()
    with one_sentence("tensors lack Q"):
        predict_from_tensors({name: value for name, value in t.items() if name != "Q"}, Y, 8)
    with one_sentence("B has shape (2, 2)"):
        predict_from_tensors(t | {"B": np.ones((2, 2))}, Y, 8)
    with one_sentence("smallest eigenvalue"):
        predict_from_tensors(t | {"Theta": np.ones((N, N))}, Y, 8)
    with one_sentence("width is 0"):
        predict_from_tensors(t, Y, 0)
    with one_sentence("learning_rate is 90"):
        predict_from_tensors(t, Y, 8, steps=3, learning_rate=90.0)


@pytest.mark.slow
def test_what_is_affordable_is_a_thousandth_of_the_correction():
    # Five inputs: accurately by nested integrals, and as tens of inputs are done.
    x = np.random.default_rng(4).normal(size=(5, 3)) + 0.7
    net, y = MLP((3, 32, 1), "gelu", C_b=0.1, C_W=1.5), np.array([1.0, -1.0, 0.5])
    exact, found = (predict(net, x[:3], y, x[3:], order=1, rtol=rtol) for rtol in (1e-9, AFFORDABLE))
    for one, other, infinite in (
        (found.mean, exact.mean, exact.infinite_mean),
        (found.cov[:, 0, :, 0], exact.cov[:, 0, :, 0], exact.infinite_cov),
    ):
        assert np.abs(one - other).max() < 1e-3 * np.abs(other - infinite).max()
        assert np.abs(one - other).max() > 0


@pytest.mark.slow
def test_six_images_are_right_and_say_how_far():
    # `tools/predict_exactly.py` had minutes for the same corrections by nested integrals.
    path = Path(__file__)
    spec = importlib.util.spec_from_file_location("tool", path.parents[2] / "tools" / "predict_exactly.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    kept = json.loads(path.with_name("six_images.json").read_text(encoding="utf-8"))
    off, said = [], []
    for rtol in (1e-3, AFFORDABLE):
        mean, cov, error = tool.corrections(rtol)
        truth = ((mean, np.array(kept["mean"])), (cov, np.array(kept["cov"])))
        off.append(max(np.abs(one - other).max() / np.abs(other).max() for one, other in truth))
        said.append(error)
    assert off[1] < 1e-3
    # What a prediction says of its error is a bound, and goes with the tolerance.
    assert all(0 < one < other for one, other in zip(off, said)), (off, said)
    assert said[1] < 0.1 * said[0]


@pytest.mark.slow
def test_blocks_of_test_inputs_differ_in_what_is_between_them_alone(monkeypatch):
    x = np.random.default_rng(5).normal(size=(8, 3))
    net, y = MLP((3, 32, 2), "tanh", C_b=0.1), np.array([[1.0, 0.0], [-1.0, 0.5]])
    whole = predict(net, x[:2], y, x[2:], time=[1.0, 4.0], order=1, rtol=1e-6)
    monkeypatch.setattr(_finite, "TOGETHER", 5)
    monkeypatch.setattr(_finite, "LEAST", 3)
    parts = predict(net, x[:2], y, x[2:], time=[1.0, 4.0], order=1, rtol=1e-6)
    assert (whole.blocks, parts.blocks) == (1, 2)
    np.testing.assert_allclose(parts.mean, whole.mean, atol=1e-5)
    np.testing.assert_allclose(parts.infinite_cov, whole.infinite_cov, atol=1e-10)
    for cut in (slice(0, 3), slice(3, 6)):
        np.testing.assert_allclose(parts.cov[:, cut, :, cut], whole.cov[:, cut, :, cut], atol=1e-5)
    between, infinite = parts.cov[:, :3, :, 3:], whole.infinite_cov[:, :3, 3:]
    np.testing.assert_allclose(between, np.einsum("tij,ab->tiajb", infinite, np.eye(2)), atol=1e-10)
    assert np.abs(between - whole.cov[:, :3, :, 3:]).max() > 1e-3
