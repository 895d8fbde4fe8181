import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

from neft import BatchNorm, Dense, Network, fisher
from neft.fisher import capture, clip_by_preactivations, scale_by_preactivations
from neft.fisher._layers import layers
from neft.fisher._optimizers import averaging, in_units

RNG = np.random.default_rng(4)
X = RNG.normal(size=(20, 5)) * [3.0, 1.0, 0.3, 1.0, 1.0] + 1
NORM = BatchNorm(lambda_gain=1.0, lambda_bias=1.0)
NET = Network(5, [Dense(6), "relu", NORM, Dense(3)])


def stepped(opt, zero=False):
    opt = optax.with_extra_args_support(opt)
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, NET.init(jax.random.key(0), dtype=jnp.float64))
    if zero:
        params = (*params[:2], jax.tree.map(lambda leaf: 0 * leaf, params[2]))

    @jax.jit
    def step(params):
        seen = capture(NET, X, params, loss=lambda z: jnp.square(z - 1).mean())
        return seen, opt.update(seen.gradient, opt.init(params), params, captures=seen)[0]

    return params, *jax.tree.map(np.asarray, step(params))


def relative(params, updates, seen, examples=None):
    # √(tr ΔWGΔWᵀ / tr WGWᵀ) of each layer by the dense metric.
    found = []
    for (W, b), (dW, db), x in zip(layers(params), layers(updates), seen.inputs):
        tilde = np.hstack([x, np.ones((len(x), 1))])[:examples]
        G = tilde.T @ tilde / len(tilde)
        rows = [np.hstack([W, b[:, None]]), np.hstack([dW, db[:, None]])]
        size, change = (np.trace(r @ G @ r.T) for r in rows)
        found.append(np.sqrt(change / size))
    return found


@pytest.mark.parametrize("examples", [None, 7])
def test_every_layer_changes_by_the_rate(examples):
    with jax.enable_x64(True):
        opt = optax.chain(scale_by_preactivations(examples=examples), optax.scale_by_learning_rate(0.03))
        params, seen, updates = stepped(opt)
    np.testing.assert_allclose(relative(params, updates, seen, examples), 0.03, rtol=1e-10)
    for layer, gradient in zip(layers(updates), layers(seen.gradient)):
        ratio = np.asarray(layer.W)[gradient.W != 0] / gradient.W[gradient.W != 0]
        assert np.ptp(ratio) < 1e-9 * abs(ratio[0]) and ratio[0] < 0
    gains = np.hstack([updates[1].gain, updates[1].bias])
    values = np.hstack([params[1].gain, params[1].bias])
    assert np.linalg.norm(gains) == pytest.approx(0.03 * np.linalg.norm(values), rel=1e-10)


@pytest.mark.parametrize("make", [in_units, averaging])
def test_the_rate_of_a_batch_goes_as_the_root_of_its_size(make):
    with jax.enable_x64(True):
        changes = [stepped(make(0.03, momentum=0.5, inputs="white", batch=batch))[2] for batch in (None, 80)]
    # Batches of 20 here: half the step that 80 would have.
    for own, known in zip(*map(jax.tree.leaves, changes)):
        np.testing.assert_allclose(known, own / 2, rtol=1e-12, atol=1e-15)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(changes[0]))


def test_a_layer_of_zeros_can_move_and_no_update_stays_none():
    with jax.enable_x64(True):
        _, seen, updates = stepped(scale_by_preactivations(floor=0.2), zero=True)
    tilde = np.hstack([seen.inputs[1], np.ones((20, 1))])
    change = tilde @ np.hstack([updates[2].W, updates[2].b[:, None]]).T
    assert np.sqrt((change**2).mean()) == pytest.approx(0.2, rel=1e-10)
    assert not seen.gradient[0].W.any() and not updates[0].W.any()


def test_factors_stay_between_two_looks():
    with jax.enable_x64(True):
        params, seen, _ = stepped(optax.sgd(0.1))
        opt = scale_by_preactivations(every=4)
        state, found = opt.init(params), []
        step = jax.jit(lambda scale, state: opt.update(scaled(seen.gradient, scale), state, params, captures=seen))
        for k in range(26):
            updates, state = step(2.0**k, state)
            found.append(np.linalg.norm(updates[0].W))
    # The size of the update is looked at in the first 20 steps and at steps 20 and 24.
    np.testing.assert_allclose(np.array(found) / found[0], [1] * 21 + [2, 4, 8, 1, 2], rtol=1e-9)


def scaled(tree, scale):
    return jax.tree.map(lambda leaf: scale * leaf, tree)


def test_clipping_bounds_the_change_and_passes_what_is_small():
    with jax.enable_x64(True):
        params, seen, large = stepped(optax.chain(optax.sgd(100.0), clip_by_preactivations(0.05)))
        small = stepped(optax.chain(optax.sgd(1e-6), clip_by_preactivations(0.05)))[2]
    np.testing.assert_allclose(relative(params, large, seen), 0.05, rtol=1e-10)
    np.testing.assert_allclose(small[2].W, -1e-6 * seen.gradient[2].W, rtol=1e-12)


def refused(params):
    opt = scale_by_preactivations()
    seen = capture(NET, X.astype(np.float32), NET.init(jax.random.key(0)), loss=lambda z: (z**2).mean())
    state = opt.init(NET.init(jax.random.key(0)))
    return opt.update(seen.gradient, state, params, captures=None if params is not None else seen)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("examples is 0",), lambda: scale_by_preactivations(examples=0)),
        (("every is 0",), lambda: scale_by_preactivations(every=0)),
        (("largest is 0",), lambda: clip_by_preactivations(0.0)),
        (("floor is 0",), lambda: fisher.scale_by_preactivations(floor=0.0)),
        (("no linear layer",), lambda: scale_by_preactivations().init(jnp.ones(3))),
        (("params is missing",), lambda: refused(None)),
        (("captures is missing",), lambda: refused(NET.init(jax.random.key(0)))),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
