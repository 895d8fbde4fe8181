import jax
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP
from neft.ensemble import estimate

NET = MLP((3, 6, 5, 2), "relu", C_b=0.1, C_W=1.2)
X = np.array([1.0, -0.5, 0.3])


def test_estimates_are_reproducible_and_extend_each_other():
    key = jax.random.key(2)
    short, again, long = (estimate(NET, X, draws, key) for draws in (200, 200, 400))
    assert short == again
    # The draws of the shorter run are among those of the longer one.
    rest = 2 * long.K.mean - short.K.mean
    assert np.isfinite(rest).all() and (long.B.stderr[1:] < short.B.stderr[1:]).all()


def test_results_do_not_depend_on_the_chunks(monkeypatch):
    from neft.ensemble import _estimate

    whole = estimate(NET, X, 300, jax.random.key(0))
    monkeypatch.setattr(_estimate, "_CHUNK", 50)
    parts = estimate(NET, X, 300, jax.random.key(0))
    for name in whole.tensors:
        np.testing.assert_allclose(parts.tensors[name].mean, whole.tensors[name].mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(parts.tensors[name].stderr, whole.tensors[name].stderr, rtol=1e-7, atol=1e-10)


def test_standard_errors_are_the_spread_of_repeated_runs():
    runs = [estimate(NET, X, 128, jax.random.key(100 + i)) for i in range(60)]
    for name in ("K", "Theta", "V", "A", "D", "F", "B"):
        means = np.array([run.tensors[name].mean[2] for run in runs])
        claimed = np.mean([run.tensors[name].stderr[2] for run in runs])
        # 60 runs know their spread to 9 %; heavy tails add some.
        assert means.std(ddof=1) == pytest.approx(claimed, rel=0.45), name


def test_float32_networks_give_the_same_within_their_precision():
    double, single = (estimate(NET, X, 128, jax.random.key(1), dtype=dtype) for dtype in (np.float64, np.float32))
    # The random numbers of the two types differ, so only statistics agree.
    error = np.hypot(double.F.stderr, single.F.stderr)[1:]
    assert (np.abs(double.F.mean - single.F.mean)[1:] < 5 * error).all()
    assert single.V.mean.dtype == np.float64


def test_the_first_layer_is_exactly_gaussian_with_a_deterministic_ntk():
    found = estimate(NET, X, 64, jax.random.key(0), dtype=np.float32)
    assert found.K.stderr[0] == found.Theta.stderr[0] == found.V.mean[0] == found.A.mean[0] == 0


def test_what_autodiff_cannot_see_is_not_estimated():
    # The third derivative of elu(1) holds a delta, and only R counts it.
    found = set(estimate(MLP((3, 4, 2), "elu(1)"), X, 8, jax.random.key(0)).tensors)
    assert set("PQSTU") <= found and "R" not in found


def test_kinked_activations_have_no_differentials():
    found = estimate(MLP((3, 4, 2), "relu"), X, 8, jax.random.key(0))
    assert set(found.tensors) == {"K", "Theta", "V", "A", "B", "D", "F", "K1", "Theta1"}
    with pytest.raises(AttributeError, match="but not 'R'"):
        _ = found.R


def test_estimates_survive_a_file(tmp_path):
    found = estimate(NET, X, 16, jax.random.key(0))
    found.save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("draws is 1", "at least 2"):
        estimate(NET, X, 1, jax.random.key(0))
    with one_sentence("x has shape (2,)"):
        estimate(NET, X[:2], 10, jax.random.key(0))
    with one_sentence("x holds nan"):
        estimate(NET, [1.0, np.nan, 0.0], 10, jax.random.key(0))
