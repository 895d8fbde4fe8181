import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP
from neft.width import parameterize

KINDS = ("standard", "ntk", "mup")
NET = MLP(
    (3, 17, 11, 2),
    "tanh",
    C_b=(0.1, 0.0, 0.3),
    C_W=(1.5, 1.2, 0.8),
    lambda_b=(0.2, 0.9, 0.4),
    lambda_W=(1.1, 0.3, 0.7),
)


def outputs(form, params, x):
    """The network with its multipliers, written out."""
    for l, (W, b) in enumerate(params):
        signal = jnp.tanh(x) if l else x
        x = form.multiplier_W[l] * (signal @ W.T) + form.multiplier_b[l] * b[None, :]
    return x


def draw(form, seed):
    rng, params = np.random.default_rng(seed), []
    for l, (n, m) in enumerate(zip(form.widths, form.widths[1:])):
        W = np.sqrt(form.variance_W[l]) * rng.normal(size=(m, n))
        params.append((W, np.sqrt(form.variance_b[l]) * rng.normal(size=m)))
    return params


def step(form, params, x, y, size):
    gradient = jax.grad(lambda p: jnp.sum((outputs(form, p, x) - y) ** 2) / 2)(params)
    rates = list(zip(form.rate_W, form.rate_b))
    return jax.tree.map(lambda p, r, g: p - size * r * g, params, rates, gradient)


X, Y = np.random.default_rng(0).normal(size=(4, 3)), np.ones((4, 2))


def test_a_step_of_training_is_the_same_in_every_parameterization():
    def run(form):
        @jax.jit
        def two_steps(params):
            one = step(form, params, X, Y, 0.3)
            two = step(form, one, X, Y, 0.3)
            return jnp.stack([outputs(form, p, X) for p in (params, one, two)])

        with jax.enable_x64(True):
            return np.asarray(two_steps(draw(form, 1)))

    standard, *others = (run(parameterize(NET, kind)) for kind in KINDS)
    assert np.abs(standard[-1] - standard[0]).max() > 0.05
    for found in others:
        np.testing.assert_allclose(found, standard, rtol=1e-11, atol=1e-12)


def test_the_standard_one_is_the_specification_itself():
    form = parameterize(NET, "standard")
    with jax.enable_x64(True):
        params = draw(form, 1)
        np.testing.assert_allclose(outputs(form, params, X), NET.apply(params, X), rtol=1e-13)
    np.testing.assert_allclose(form.rate_W, [rate.W for rate in NET.rates()])
    np.testing.assert_allclose(form.rate_b, [rate.b for rate in NET.rates()])


@pytest.mark.parametrize("net", [NET, MLP((3, 2), "tanh", C_W=0.0), MLP((3, 9, 2), "relu", lambda_W=0.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_is_the_identity(kind, net):
    form = parameterize(net, kind)
    back = form.network()
    assert back.widths == net.widths and back.activation == net.activation
    for name in ("C_b", "C_W", "lambda_b", "lambda_W"):
        np.testing.assert_allclose(getattr(back, name), getattr(net, name), rtol=1e-14)
    again = parameterize(back, kind)
    for name in form.constants:
        np.testing.assert_allclose(getattr(again, name), getattr(form, name), rtol=1e-14)


@pytest.mark.parametrize("kind", ["standard", "ntk"])
def test_constants_are_the_hyperparameters_of_the_theory(kind):
    form = parameterize(NET, kind)
    for name, ours in (("variance_b", "C_b"), ("variance_W", "C_W"), ("rate_b", "lambda_b"), ("rate_W", "lambda_W")):
        np.testing.assert_allclose(form.constants[name], getattr(NET, ours), rtol=1e-14)


def test_scaling_keeps_the_constants_and_comes_back():
    for kind in KINDS:
        form = parameterize(NET, kind)
        wide = form.at((3, 34, 55, 2))
        assert wide.constants == form.constants or all(
            np.array_equal(wide.constants[k], form.constants[k]) for k in form.constants
        )
        again = parameterize(wide.network(), kind)
        for name in form.constants:
            np.testing.assert_allclose(again.constants[name], form.constants[name], rtol=1e-13)
        np.testing.assert_allclose(form.at(NET.widths).network().C_W, NET.C_W)


def changes(kind, n):
    """Root mean square changes of each layer by a step of its own weights, (0, l), or its own biases, (1, l)."""
    form = parameterize(MLP((3, 16, 16, 2), "tanh", C_W=1.5, C_b=0.1), kind).at((3, n, n, 2))

    @jax.jit
    def squares(params):
        # Targets so far away that the outputs at initialization, smaller in wide networks in μP, do not matter.
        moved = step(form, params, X, 100 * Y, 1e-4)
        found = []
        for l, (new, old) in enumerate(zip(moved, params)):
            before = outputs(form, params[: l + 1], X)
            for alone in ((new[0], old[1]), (old[0], new[1])):
                found.append(jnp.mean((outputs(form, [*params[:l], alone], X) - before) ** 2))
        return jnp.stack(found)

    return np.sqrt(np.mean([squares(draw(form, seed)) for seed in range(8)], axis=0)).reshape(3, 2).T


def test_every_parameter_moves_its_layer_at_any_width_in_mup_only():
    # The defining property: a step changes each preactivation by O(1) in μP, hidden ones by O(1/√n) in the NTK's form.
    with jax.enable_x64(True):
        mup, ntk = (changes(kind, 256) / changes(kind, 16) for kind in ("mup", "ntk"))
    assert ((mup > 0.5) & (mup < 2)).all(), mup
    assert ((ntk[:, :2] > 1 / 8) & (ntk[:, :2] < 1 / 2)).all() and ((ntk[:, 2] > 0.5) & (ntk[:, 2] < 2)).all(), ntk


def test_it_goes_to_a_file_and_back(tmp_path):
    form = parameterize(NET, "mup")
    form.save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json") == form


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("kind is 'mupp'", "did you mean 'mup'"):
        parameterize(NET, "mupp")
    with one_sentence("widths is (3, 2)", "must hold 4 numbers"):
        parameterize(NET, "mup").at((3, 2))
    own = neft.activation(lambda z: z**3, name="cube")
    with one_sentence("'cube'", "must be given"):
        parameterize(MLP((3, 4, 1), own), "ntk").network()
