import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from jax.flatten_util import ravel_pytree

from neft import MLP, tangent, training

pytestmark = pytest.mark.xdist_group("tangent")  # what the fixture computes is computed once

NET = MLP(widths=(2, 3, 4, 2), activation="gelu", C_b=0.3, C_W=1.4, lambda_b=0.6, lambda_W=0.9)
X = np.random.default_rng(0).normal(size=(3, 2))


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def brute(double):
    """Explicit derivatives of every output by every parameter."""
    params = NET.init(jax.random.key(1), dtype=jnp.float64)
    theta, back = ravel_pytree(params)
    rates = ravel_pytree(jax.tree.map(lambda r, p: jnp.full(p.shape, r), NET.rates(), params))[0]
    x = jnp.asarray(X[:2])
    z = lambda t: NET.apply(back(t), x)  # noqa: E731
    first, second = jax.jacrev(z), jax.jacfwd(jax.jacrev(z))
    derivatives = jax.jit(lambda t: (first(t), second(t), jax.jacfwd(second)(t)))
    return params, x, rates, *derivatives(theta)


def test_the_ntk_through_layers_and_by_jacobians_is_that_of_brute_force(brute):
    params, x, rates, J, _, _ = brute
    exact = np.einsum("aip,p,bjp->abij", J, rates, J)
    plain = lambda p, x: NET.apply(p, x)  # noqa: E731
    for f in (NET, NET.apply, plain):
        np.testing.assert_allclose(tangent.ntk(f, params, x, rates=NET.rates()), exact, rtol=1e-12, atol=1e-13)
        traced = tangent.ntk(f, params, x, rates=NET.rates(), trace=True)
        np.testing.assert_allclose(traced, np.trace(exact, axis1=2, axis2=3), rtol=1e-12)


@pytest.mark.slow
def test_two_sets_of_inputs_and_rates_of_every_kind(brute):
    params, x, *_ = brute
    other = jnp.asarray(X)
    plain = lambda p, x: NET.apply(p, x)  # noqa: E731
    arrays = jax.tree.map(lambda r, p: jnp.full(p.shape, r), NET.rates(), params)
    for rates in (1.0, 0.7, NET.rates(), arrays):
        layers = tangent.ntk(NET, params, x, other, rates=rates)
        np.testing.assert_allclose(tangent.ntk(plain, params, x, other, rates=rates), layers, rtol=1e-12, atol=1e-14)
        assert layers.shape == (2, 3, 2, 2)
    np.testing.assert_allclose(
        tangent.ntk(NET, params, x, rates=arrays), tangent.ntk(NET, params, x, rates=NET.rates())
    )


@pytest.mark.slow
def test_rates_mean_the_same_in_all_of_tangent_and_in_training(brute):
    params, x, rates, J, H, _ = brute
    plain = lambda p, x: NET.apply(p, x)  # noqa: E731
    e, v = np.ones((2, 2)), np.asarray(J) * np.asarray(rates)[None, None, :]
    own, ones = np.einsum("aip,bjp->abij", v, J), np.einsum("aip,bjp->abij", J, J)
    assert np.abs(own - ones).max() > 0.1
    for f in (NET, NET.apply):
        np.testing.assert_allclose(tangent.ntk(f, params, x), own, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            tangent.products(f, params, x, [e]), np.einsum("abij,bj->ai", own, e), rtol=1e-12, atol=1e-13
        )
    np.testing.assert_allclose(tangent.mlp_ntk(NET, params, x), own, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        tangent.dntk(NET, params, x), np.einsum("aipq,bjp,ckq->abcijk", H, v, v), rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(training.evolve(NET.apply, params, x, e, truncation=1).H, own, rtol=1e-12, atol=1e-13)
    for f, given in ((plain, None), (plain, 1.0), (NET, 1.0)):
        np.testing.assert_allclose(tangent.ntk(f, params, x, rates=given), ones, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_the_ddntks_of_a_network_have_its_rates(brute):
    params, x, *_ = brute
    for found, wanted in zip(tangent.ddntk(NET.apply, params, x), tangent.ddntk(NET, params, x, rates=NET.rates())):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_images_of_bytes_have_the_ntk_of_the_same_numbers():
    net = MLP(widths=(3, 4, 2), activation="linear")
    params, x = net.init(jax.random.key(0)), np.array([[200, 100, 3], [7, 250, 90]], np.uint8)
    plain = lambda p, x: net.apply(p, x)  # noqa: E731
    numbers = tangent.ntk(plain, params, x.astype(float), rates=net.rates())
    np.testing.assert_allclose(tangent.ntk(net, params, x), numbers, rtol=1e-12)


@pytest.mark.slow
def test_blocks_change_nothing(brute, monkeypatch):
    params, *_ = brute
    x = jnp.asarray(np.random.default_rng(2).normal(size=(7, 2)))
    plain = lambda p, x: NET.apply(p, x)  # noqa: E731
    whole = [tangent.ntk(f, params, x, trace=t) for f in (NET, plain) for t in (False, True)]
    monkeypatch.setattr("neft.tangent._ntk.block_size", lambda *_: 3)
    again = [tangent.ntk(f, params, x, trace=t) for f in (NET, plain) for t in (False, True)]
    for a, b in zip(whole, again):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_the_dntk_is_that_of_brute_force(brute):
    params, x, rates, J, H, _ = brute
    v = J * rates[None, None, :]
    exact = np.einsum("aipq,bjp,ckq->abcijk", H, v, v)
    np.testing.assert_allclose(tangent.dntk(NET, params, x, rates=NET.rates()), exact, rtol=1e-11, atol=1e-13)
    assert np.abs(exact).max() > 0.01


@pytest.mark.slow
def test_both_ddntks_are_those_of_brute_force(brute):
    params, x, rates, J, H, third = brute
    v = J * rates[None, None, :]
    one = np.einsum("aipqr,bjp,ckq,dlr->abcdijkl", third, v, v, v, optimize=True)
    half = np.einsum("aipq,ckq->aickp", H, v)
    two = np.einsum("aickp,p,bjdlp->abcdijkl", half, rates, half, optimize=True)
    found = tangent.ddntk(NET, params, x, rates=NET.rates())
    for exact, part in zip((one, two), found):
        assert np.abs(exact).max() > 0.01
        np.testing.assert_allclose(part, exact, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_products_contract_the_tensors(brute):
    params, x, *_ = brute
    e = [jnp.asarray(v) for v in np.random.default_rng(3).normal(size=(3, 2, 2))]
    rates = NET.rates()
    H, dH = tangent.ntk(NET, params, x, rates=rates), tangent.dntk(NET, params, x, rates=rates)
    dd = tangent.ddntk(NET, params, x, rates=rates)[0]
    exact = [
        np.einsum("abij,bj->ai", H, e[0]),
        np.einsum("abcijk,bj,ck->ai", dH, *e[:2]),
        np.einsum("abcdijkl,bj,ck,dl->ai", dd, *e),
    ]
    for k, value in enumerate(exact, start=1):
        found = tangent.products(NET, params, x, e[:k], rates=rates)
        np.testing.assert_allclose(found, value, rtol=1e-10, atol=1e-12)
    elsewhere = tangent.products(NET, params, x, e[:1], at=x[:1], rates=rates)
    np.testing.assert_allclose(elsewhere, exact[0][:1], rtol=1e-10)


@pytest.mark.slow
def test_an_equinox_model_works_as_it_is():
    model = eqx.nn.MLP(2, 3, 4, 2, key=jax.random.key(0))
    f = lambda m, x: jax.vmap(m)(x)  # noqa: E731
    trained, fixed = eqx.partition(model, eqx.is_inexact_array)
    theta, back = ravel_pytree(trained)
    J = jax.jit(jax.jacrev(lambda t: f(eqx.combine(back(t), fixed), jnp.asarray(X))))(theta)
    np.testing.assert_allclose(tangent.ntk(f, model, X), np.einsum("aip,bjp->abij", J, J), rtol=1e-5)


@pytest.mark.slow
def test_the_dtype_is_the_models():
    with jax.enable_x64(False):
        params = NET.init(jax.random.key(0))
        x = X.astype(np.float32)
        assert tangent.ntk(NET, params, x).dtype == jnp.float32
        assert tangent.ntk(lambda p, x: NET.apply(p, x), params, x).dtype == jnp.float32


def test_bad_input_gets_one_clear_sentence():
    params = NET.init(jax.random.key(0))
    plain = lambda p, x: NET.apply(p, x)  # noqa: E731
    with one_sentence("x1", "nan"):
        tangent.ntk(NET, params, np.full((1, 2), np.nan))
    with one_sentence("x1 has shape (0, 2)"):
        tangent.ntk(NET, params, np.ones((0, 2)))
    with one_sentence("x2 has inputs of shape (3,)"):
        tangent.ntk(NET, params, X, np.ones((1, 3)))
    with one_sentence("rates hold 2 leaves"):
        tangent.ntk(plain, params, X, rates=[1.0, 2.0])
    with one_sentence("rates hold an array of shape (5,)"):
        tangent.ntk(plain, params, X, rates=[np.ones(5)] + [1.0] * 5)
    with one_sentence("f maps 3 inputs"):
        tangent.dntk(lambda p, x: NET.apply(p, x)[:, 0], params, X)
    with one_sentence("nothing to differentiate"):
        tangent.ntk(lambda p, x: x, {"n": 1}, X)
    with one_sentence("vectors hold 0 arrays"):
        tangent.products(NET, params, X, [])
    with one_sentence("vectors hold an array of shape (3,)"):
        tangent.products(NET, params, X, [np.ones(3)])
