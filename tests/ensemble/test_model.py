import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP
from neft.ensemble import estimate_model

KEY = jax.random.key(0)
X = np.array([[1.0, -0.5, 0.3], [0.2, 0.9, -0.4]])


@pytest.mark.slow
def test_the_cumulants_are_those_of_the_definition_and_unbiased():
    # Averages over all samples of size 5 from a few points, against the population's own cumulants.
    from neft.ensemble._model import _cumulants, _sums

    rng = np.random.default_rng(0)
    z, H = rng.normal(size=(100_000, 5, 2)) ** 2, rng.normal(size=(100_000, 5, 1))
    H = H + z[..., :1] * z[..., 1:]
    found = [_cumulants(_sums(a, b)) for a, b in zip(z[:5000], H[:5000])]
    a, b, h = z[..., 0].ravel(), z[..., 1].ravel(), H.ravel()
    a, b, h = a - a.mean(), b - b.mean(), h - h.mean()
    exact = {
        ("two_point", 0, 0): (a * a).mean(),
        ("four_point", 0, 0, 0, 0): (a**4).mean() - 3 * (a * a).mean() ** 2,
        ("four_point", 0, 0, 1, 1): (a * a * b * b).mean() - (a * a).mean() * (b * b).mean() - 2 * (a * b).mean() ** 2,
        ("mixed", 0, 1, 0): (a * b * h).mean(),
        ("ntk_covariance", 0, 0): (h * h).mean(),
    }
    for (name, *where), value in exact.items():
        values = np.array([each[name][tuple(where)] for each in found])
        assert abs(values.mean() - value) < 5 * values.std() / np.sqrt(len(values)), (name, where)


@pytest.mark.slow
def test_a_network_of_ones_own_agrees_with_theory():
    # Two layers are exact at any width: K and V of the outputs, Θ, A, B, D and F of the NTK.
    n = 2
    net = MLP((3, n, 2), "relu", C_b=0.2, C_W=1.3, lambda_b=0.3, lambda_W=0.7)
    known = neft.width.statistics(net, X[0])
    found = estimate_model(net.init, net.apply, X[:1], draws=60_000, key=KEY, rates=net.rates())
    same, other, crossed = (0,) * 8, (0, 0, 0, 0, 0, 1, 0, 1), (0, 0, 0, 1, 0, 0, 0, 1)
    for estimate, where, value in (
        (found.two_point, (0, 0, 0, 0), known.K[1]),
        (found.ntk, (0, 0, 0, 0), known.Theta[1]),
        (found.four_point, same, 3 * known.V[1] / n),
        (found.four_point, other, known.V[1] / n),
        (found.ntk_covariance, other, known.A[1] / n),
        (found.ntk_covariance, crossed, known.B[1] / n),
        (found.mixed, other, known.D[1] / n),
        (found.mixed, crossed, known.F[1] / n),
    ):
        error = estimate.stderr[where]
        assert abs(estimate.mean[where] - value) < 5 * error
        assert abs(value) > 10 * error, (where, value, error)
    assert (np.abs(found.mean.mean) < 5 * found.mean.stderr).all()


@pytest.mark.slow
def test_an_equinox_model_is_as_good_as_a_function():
    def init(key):
        return eqx.nn.MLP(3, 2, width_size=4, depth=1, key=key)

    found = estimate_model(init, lambda model, x: jax.vmap(model)(x), X, draws=40, key=KEY)
    assert found.ntk.mean.shape == found.two_point.stderr.shape == (2, 2, 2, 2)
    # The NTK of one draw, by an explicit Jacobian.
    model = init(jax.random.fold_in(KEY, 3))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    J = jax.jit(jax.jacrev(lambda p: jax.vmap(eqx.combine(p, static))(X).ravel()))(params)
    H = sum(leaf.reshape(4, -1) @ leaf.reshape(4, -1).T for leaf in jax.tree.leaves(J))
    from neft.ensemble._model import _sample

    apply = jax.jit(lambda key, i: _sample(init, lambda m, x: jax.vmap(m)(x), True, jnp.asarray(X), 1.0, key, i))
    _, own = apply(KEY, jnp.asarray(3))
    np.testing.assert_allclose(own, H, rtol=1e-5)


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_blocks_and_survives_a_file(tmp_path, monkeypatch):
    net = MLP((3, 4, 1), "relu")
    found = estimate_model(net.init, net.apply, X, draws=50, key=KEY)
    monkeypatch.setattr("neft.ensemble._model.block_size", lambda *args: 1)
    again = estimate_model(net.init, net.apply, X, draws=50, key=KEY, ntk=False)
    np.testing.assert_allclose(again.four_point.mean, found.four_point.mean, rtol=1e-5, atol=1e-8)
    found.save(tmp_path / "found.npz")
    assert neft.load(tmp_path / "found.npz") == found
    assert again.ntk is None and "not asked for" in str(again)


@pytest.mark.slow
def test_standard_errors_are_the_spread_of_repeated_runs():
    net = MLP((3, 5, 1), "tanh", C_b=0.1)
    runs = [
        estimate_model(net.init, net.apply, X[:1], draws=320, key=jax.random.key(i), rates=net.rates())
        for i in range(24)
    ]
    for name in ("two_point", "four_point", "ntk", "ntk_covariance", "mixed"):
        means = np.array([getattr(run, name).mean.item() for run in runs])
        claimed = np.sqrt(np.mean([getattr(run, name).stderr.item() ** 2 for run in runs]))
        # 24 runs know their spread to 15 %, and so does a jackknife of 32 groups.
        assert means.std(ddof=1) == pytest.approx(claimed, rel=0.5), name


def test_bad_input_gets_one_clear_sentence():
    net = MLP((3, 4, 2), "relu")
    with one_sentence("draws is 1", "at least 5"):
        estimate_model(net.init, net.apply, X, draws=1, key=KEY)
    with one_sentence("x holds nan"):
        estimate_model(net.init, net.apply, X * np.nan, draws=10, key=KEY)
    with one_sentence("apply returns floats of shape (2,)", "(2, outputs)"):
        estimate_model(net.init, lambda p, x: net.apply(p, x)[:, 0], X, draws=10, key=KEY)
    with one_sentence("20 × 2 values", "at most 24"):
        estimate_model(net.init, net.apply, np.ones((20, 3)), draws=10, key=KEY)
    with one_sentence("the outputs of draw 0 are not finite"):
        estimate_model(net.init, lambda p, x: net.apply(p, x) / 0.0, X, draws=10, key=KEY, ntk=False)
