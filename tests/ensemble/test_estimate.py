import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_of_each, one_sentence

import neft
from neft import MLP
from neft.ensemble import estimate

NET = MLP((3, 6, 5, 2), "relu", C_b=0.1, C_W=1.2)
X = np.array([1.0, -0.5, 0.3])
SEVEN = ("K", "Theta", "V", "A", "B", "D", "F")


def cheap(draws, key, **options):
    return estimate(NET, X, draws=draws, key=jax.random.key(key), only=SEVEN, **options)


@pytest.mark.slow
def test_estimates_are_reproducible_and_extend_each_other():
    short, again, long = (cheap(draws, 2) for draws in (200, 200, 400))
    assert short == again
    # The draws of the shorter run are among those of the longer one.
    rest = 2 * long.K.mean - short.K.mean
    assert np.isfinite(rest).all() and (long.B.stderr[1:] < short.B.stderr[1:]).all()


@pytest.mark.slow
def test_results_do_not_depend_on_the_chunks(monkeypatch):
    from neft.ensemble import _estimate

    whole = cheap(300, 0)
    monkeypatch.setattr(_estimate, "_CHUNK", 50)
    parts = cheap(300, 0)
    for name in whole.tensors:
        np.testing.assert_allclose(parts.tensors[name].mean, whole.tensors[name].mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(parts.tensors[name].stderr, whole.tensors[name].stderr, rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_standard_errors_are_the_spread_of_repeated_runs():
    runs = [cheap(128, 100 + i) for i in range(60)]
    for name in ("K", "Theta", "V", "A", "D", "F", "B"):
        means = np.array([run.tensors[name].mean[2] for run in runs])
        claimed = np.mean([run.tensors[name].stderr[2] for run in runs])
        # 60 runs know their spread to 9 %; heavy tails add some.
        assert means.std(ddof=1) == pytest.approx(claimed, rel=0.45), name


@pytest.mark.slow
def test_float32_networks_give_the_same_within_their_precision():
    double, single = (cheap(128, 1, dtype=dtype) for dtype in (np.float64, np.float32))
    # The random numbers of the two types differ, so only statistics agree.
    error = np.hypot(double.F.stderr, single.F.stderr)[1:]
    assert (np.abs(double.F.mean - single.F.mean)[1:] < 5 * error).all()
    assert single.V.mean.dtype == np.float64


def test_the_first_layer_is_exactly_gaussian_with_a_deterministic_ntk():
    found = cheap(64, 0, dtype=np.float32)
    assert found.K.stderr[0] == found.Theta.stderr[0] == found.V.mean[0] == found.A.mean[0] == 0


@pytest.mark.slow
def test_what_kinks_forbid_is_not_there():
    from neft.ensemble._estimate import NAMES, existing

    assert set(existing(NET)) == set("KVABDFPQ") | {"Theta", "K1", "Theta1"}
    assert existing(MLP((3, 4, 2), "elu(1)")) == existing(MLP((3, 4, 2), "gelu")) == NAMES
    with pytest.raises(AttributeError, match="but not 'R'"):
        _ = cheap(16, 0).R
    step = neft.activation(lambda z: jnp.where(z > 0, 1.0, 0.0), name="step", kinks=((0.0, 0, 1.0),))
    found = estimate(MLP((3, 4, 2), step), X, draws=512, key=jax.random.key(0))
    assert set(found.tensors) == {"K", "V", "K1"}
    assert abs(found.V.mean[1] - 1 / 4) < 5 * found.V.stderr[1]


def test_only_what_is_asked_for_is_computed_and_is_the_same():
    net, key = MLP((3, 4, 2), "tanh"), jax.random.key(4)
    whole, part = (
        estimate(net, X, draws=16, key=key, only=("V", "A", "T", "P")),
        estimate(net, X, draws=16, key=key, only=("T", "V")),
    )
    assert list(part.tensors) == ["T", "V"]
    for name in part.tensors:
        np.testing.assert_allclose(part.tensors[name].mean, whole.tensors[name].mean, rtol=1e-12)


@pytest.mark.parametrize(
    "name, widths",
    [
        pytest.param("leaky_relu(0.3)", (3, 4, 2), marks=pytest.mark.slow),
        pytest.param("sin", (3, 4, 5, 2), marks=pytest.mark.slow),
        pytest.param("hard_tanh", (3, 4, 5, 2), marks=pytest.mark.slow),
    ],
)
def test_several_inputs_hold_each_input_alone_and_repeated_inputs_are_one(name, widths):
    # The same draws and the same signs, so that entries agree to rounding, deltas included.
    net, key = MLP(widths, name, C_b=0.1, C_W=1.2), jax.random.key(7)
    other = np.array([0.4, 0.7, -0.2])
    several = estimate(net, np.stack([X, other, X]), draws=24, key=key)
    for which, x in enumerate((X, other)):
        alone = estimate(net, x, draws=24, key=key)
        for tensor, found in several.tensors.items():
            places = [(which,)] if which == 1 else [(0,), (2,), (0, 2)]
            for place in places:
                axes = found.mean.ndim - 1
                index = (slice(None), *(place[i % len(place)] for i in range(axes)))
                if tensor in ("K", "Theta", "K1", "Theta1") and len(place) > 1:
                    continue  # pairs of samples are averaged over one layer, single ones over two
                one = alone.tensors[tensor]
                np.testing.assert_allclose(found.mean[index], one.mean, rtol=1e-7, atol=1e-9, err_msg=tensor)
                np.testing.assert_allclose(found.stderr[index], one.stderr, rtol=1e-5, atol=1e-9, err_msg=tensor)


@pytest.mark.slow
def test_tensors_of_several_inputs_have_their_symmetries():
    net = MLP((3, 4, 2), "sin", C_b=0.1)
    found = estimate(net, np.stack([X, X[::-1]]), draws=16, key=jax.random.key(1))
    assert found.K.mean.shape == (2, 2, 2) and found.P.stderr.shape == (2, 2, 2, 2, 2)
    # New order of the axes that leaves a tensor as it is.
    same = {"K": (1, 0), "Theta": (1, 0), "V": (2, 3, 0, 1), "A": (2, 3, 0, 1), "D": (1, 0, 2, 3), "F": (2, 3, 0, 1)}
    same |= {"B": (2, 3, 0, 1), "P": (0, 2, 1, 3), "R": (0, 1, 3, 2), "S": (1, 0, 3, 2), "T": (2, 3, 0, 1)}
    for name, axes in (same | {"U": (2, 3, 0, 1)}).items():
        mean = found.tensors[name].mean
        np.testing.assert_allclose(mean.transpose(0, *(a + 1 for a in axes)), mean, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "widths",
    one_of_each([(3, 1), (3, 1, 1), (1, 1, 3, 1, 1)], quick=[(3, 1)]),
)
def test_one_layer_and_layers_of_one_neuron_are_no_special_case(widths):
    found = estimate(
        MLP(widths, "tanh", C_W=(1.0,) * (len(widths) - 2) + (0.0,)), X[: widths[0]], draws=4, key=jax.random.key(0)
    )
    assert all(np.isfinite(e.mean).all() and np.isfinite(e.stderr).all() for e in found.tensors.values())


@pytest.mark.slow
def test_estimates_survive_a_file(tmp_path):
    found = cheap(16, 0)
    found.save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("draws is 1", "at least 2"):
        estimate(NET, X, draws=1, key=jax.random.key(0))
    with one_sentence("x has shape (2,)"):
        estimate(NET, X[:2], draws=10, key=jax.random.key(0))
    with one_sentence("x holds nan"):
        estimate(NET, [1.0, np.nan, 0.0], draws=10, key=jax.random.key(0))
    with one_sentence("x has shape (0, 3)"):
        estimate(NET, np.ones((0, 3)), draws=10, key=jax.random.key(0))
    with one_sentence("x has shape ()"):
        estimate(NET, 1.0, draws=10, key=jax.random.key(0))
    with one_sentence("each of only is 'R'", "one of K, Theta"):
        estimate(NET, X, draws=10, key=jax.random.key(0), only=("R",))
    with one_sentence("dtype", "float32 or float64"):
        estimate(NET, X, draws=10, key=jax.random.key(0), dtype=np.int32)
    with one_sentence("overflows at layer"):
        estimate(MLP((3, *(8,) * 12), "quadratic", C_W=5.0), 1e3 * X, draws=10, key=jax.random.key(0), only=("V",))
