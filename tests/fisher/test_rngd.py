import re
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

from fisher import reference
from neft import MLP, BatchNorm, Dense, Layer, LayerNorm, Network, Residual, RMSNorm, fisher
from neft.fisher import Settings, capture, refresh, rngd, scale_by_rngd, soap
from neft.fisher._glorot import glorot
from neft.fisher._layers import layers
from neft.fisher._optimizers import averaging, in_units

NET = MLP(widths=(5, 4, 4, 3), activation="relu")
L2 = 1e-2
RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 5)) * [3.0, 1.0, 0.3, 1.0, 1.0] + 1
Y = RNG.integers(3, size=40)


def loss(outputs, y):
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def penalty(params):
    return L2 / 2 * sum((layer.W**2).sum() for layer in params)


def batches(steps, size=8):
    order = np.random.default_rng(1).integers(40, size=(steps, size))
    return X[order], Y[order]


def one_step(opt, net=NET):
    def step(carry, batch):
        params, state = carry
        x, y = batch
        seen = capture(net, x, params, loss=lambda z: loss(z, y), penalty=penalty)
        updates, state = opt.update(seen.gradient, state, params, captures=seen)
        return (optax.apply_updates(params, updates), state), seen.loss

    return step


def start(dtype=jnp.float64, seed=0):
    return glorot(NET, jax.random.key(seed), dtype=dtype)


@pytest.mark.parametrize(("period", "steps"), [pytest.param(100, 205, marks=pytest.mark.slow), (2, 5)])
def test_published_is_the_published_algorithm_step_by_step(period, steps):
    xs, ys = batches(steps)
    with jax.enable_x64(True):
        opt = rngd(0.02, preset="published", refresh_every=period)
        params = start()
        state = opt.init(params)
        weights = [np.hstack([W, b[:, None]]) for W, b in params]
        metrics, inverses = reference.start(weights)
        step = jax.jit(one_step(opt))
        for k in range(steps):
            reference.step(weights, metrics, inverses, k + 1, xs[k], ys[k], 0.02, L2, period)
            (params, state), _ = step((params, state), (xs[k], ys[k]))
            for layer, W in zip(params, weights):
                np.testing.assert_allclose(np.hstack([layer.W, layer.b[:, None]]), W, rtol=1e-9, atol=1e-11)
        assert np.abs(weights[1][:, :-1] - start()[1].W).max() > 0.01


def test_the_default_is_one_metric_per_layer_and_a_plain_first_layer():
    steps = 31
    xs, ys = batches(steps)
    with jax.enable_x64(True):
        opt = rngd(0.05, refresh_every=10)
        params = start()
        state = opt.init(params)
        weights = [np.hstack([W, b[:, None]]) for W, b in params]
        G = [np.eye(W.shape[1]) for W in weights]
        inverse = [g.copy() for g in G]
        settings = fisher.Settings()
        every, rate, damping = settings.update_every, settings.metric_step, settings.relative_damping
        step = jax.jit(one_step(opt))
        for k in range(steps):
            grads, tildes, _ = reference.gradients(weights, xs[k], ys[k], L2)
            for l in range(1, 3):
                if k % every == 0:
                    G[l] = (1 - rate) * G[l] + rate * tildes[l].T @ tildes[l] / len(xs[k])
                if (k + 1) % 10 == 0:
                    inverse[l] = np.linalg.inv(G[l] + damping * np.trace(G[l]) * np.eye(len(G[l])))
            for l in range(3):
                weights[l] -= 0.05 * grads[l] @ (inverse[l] if l else np.eye(6))
            (params, state), _ = step((params, state), (xs[k], ys[k]))
        for layer, W in zip(params, weights):
            np.testing.assert_allclose(np.hstack([layer.W, layer.b[:, None]]), W, rtol=1e-9, atol=1e-11)
    assert state[0].metrics[0] is None


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "published"])
def test_vmapped_scans_are_loops_over_steps(preset):
    opt = rngd(0.05, preset=preset, refresh_every=4, update_every=2)
    with jax.enable_x64(True):
        xs, ys = batches(9)
        step = one_step(opt)

        def begin(key):
            params = glorot(NET, key, dtype=jnp.float64)
            return params, opt.init(params)

        @jax.jit
        @jax.vmap
        def train(key):
            return jax.lax.scan(step, begin(key), (jnp.asarray(xs), jnp.asarray(ys)))

        keys = jax.random.split(jax.random.key(3), 3)
        (together, _), costs = train(keys)
        single, begin = jax.jit(step), jax.jit(begin)
        for i, key in enumerate(keys):
            carry = begin(key)
            for k in range(9):
                carry, cost = single(carry, (xs[k], ys[k]))
                assert float(cost) == pytest.approx(float(costs[i, k]), rel=1e-10)
            for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(carry[0])):
                np.testing.assert_allclose(a[i], b, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_refreshing_outside_is_refreshing_inside():
    with jax.enable_x64(True):
        inside = rngd(0.05, preset="published", refresh_every=5)
        outside = rngd(0.05, preset="published", refresh_every=5, inverse="outside")
        xs, ys = batches(10)
        params = start()
        a, b = (params, inside.init(params)), (params, outside.init(params))
        steps = jax.jit(one_step(inside)), jax.jit(one_step(outside))
        for k in range(10):
            a, _ = steps[0](a, (xs[k], ys[k]))
            b, _ = steps[1](b, (xs[k], ys[k]))
            if (k + 1) % 5 == 0:
                b = (b[0], refresh(b[1]))
                for X, Z in zip(a[1][0].inverses, b[1][0].inverses):
                    np.testing.assert_allclose(X, Z, rtol=1e-9, atol=1e-9)
                # The step that refreshes already uses the new inverse; outside it comes one step later.
                a = (b[0], a[1])


def test_refresh_works_on_a_vmapped_state():
    opt = rngd(0.1, preset="published", inverse="outside")
    with jax.enable_x64(True):
        begin = jax.jit(jax.vmap(lambda key: opt.init(glorot(NET, key, dtype=jnp.float64))))
        state = refresh(begin(jax.random.split(jax.random.key(0), 3)))
        one = state[0]
        assert one.inverses[1].shape == (3, 4, 5, 5) and one.inverses[0].shape == (3, 6, 6)
        np.testing.assert_allclose(one.inverses[1][2, 1], np.eye(5) / (1 + 5e-4), rtol=1e-12)


@pytest.mark.slow
def test_it_chains_with_clipping_schedules_momentum_and_decay():
    schedule = optax.exponential_decay(0.1, 5, 0.5)
    opt = optax.chain(
        optax.add_decayed_weights(1e-3),
        optax.clip_by_global_norm(1.0),
        scale_by_rngd(),
        optax.trace(0.9),
        optax.scale_by_learning_rate(schedule),
    )
    params = start(jnp.float32)
    xs, ys = (jnp.asarray(a) for a in batches(300))
    data = (xs.astype(jnp.float32), ys)
    (_, state), losses = jax.jit(lambda c: jax.lax.scan(one_step(opt), c, data))((params, opt.init(params)))
    assert losses[-20:].mean() < losses[:20].mean()
    assert int(state[2].count) == 300
    by_schedule = rngd(schedule)
    assert jax.tree.structure(by_schedule.init(params)) != jax.tree.structure(rngd(0.1).init(params))


def as_module(params):
    module = eqx.nn.MLP(5, 3, 4, 2, activation=jax.nn.relu, key=jax.random.key(0))
    where = lambda m: [p for layer in m.layers for p in (layer.weight, layer.bias)]  # noqa: E731
    return eqx.tree_at(where, module, [p for layer in params for p in layer])


@pytest.mark.slow
def test_an_equinox_module_takes_the_same_steps_as_an_mlp():
    opt = rngd(0.05, inputs="running", refresh_every=2, update_every=1)
    xs, ys = batches(6)
    with jax.enable_x64(True):
        params = start()
        model = as_module(params)
        plain, states = params, (opt.init(params), opt.init(eqx.filter(model, eqx.is_inexact_array)))

        @eqx.filter_jit
        def step(plain, model, states, x, y):
            seen = capture(NET, x, plain, loss=lambda z: loss(z, y))
            other = capture(model, x, loss=lambda z: loss(z, y))
            updates, first = opt.update(seen.gradient, states[0], plain, captures=seen)
            plain = optax.apply_updates(plain, updates)
            updates, second = opt.update(other.gradient, states[1], captures=other)
            return plain, eqx.apply_updates(model, updates), (first, second), seen, other

        for k in range(6):
            plain, model, states, seen, other = step(plain, model, states, jnp.asarray(xs[k]), jnp.asarray(ys[k]))
            for a, b in zip(seen.inputs + seen.preactivations, other.inputs + other.preactivations):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        for layer, linear in zip(plain, model.layers):
            np.testing.assert_allclose(layer.W, linear.weight, rtol=1e-9)
            np.testing.assert_allclose(layer.b, linear.bias, rtol=1e-9, atol=1e-13)


def as_flax(params):
    return {f"Dense_{l}": {"kernel": W.T, "bias": b} for l, (W, b) in enumerate(params)}


def flax_like(params, x):
    # As the apply of a Flax module with a skip and a norm's gain.
    h = jax.nn.relu(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"][None, :])
    h = h + jax.nn.relu(h @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"][None, :])
    return (h * params["scale"][None, :]) @ params["Dense_2"]["kernel"] + params["Dense_2"]["bias"][None, :]


def test_a_function_of_flax_parameters_is_captured_without_rewriting_it():
    opt = rngd(0.1, inputs="running", start="batch", refresh_every=1, relative_damping=1e-2)
    with jax.enable_x64(True):
        params = {**as_flax(start()), "scale": jnp.full(4, 1.5)}

        @jax.jit
        def step(params):
            seen = capture(flax_like, X, params, loss=lambda z: loss(z, Y))
            gradient = jax.grad(lambda p: loss(flax_like(p, X), Y))(params)
            return seen, gradient, *opt.update(seen.gradient, opt.init(params), params, captures=seen)

        seen, gradient, updates, state = jax.tree.map(np.asarray, step(params))
        for a, b in zip(jax.tree.leaves(seen.gradient), jax.tree.leaves(gradient)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
        dense = [jax.tree.map(np.asarray, params[f"Dense_{l}"]) for l in range(3)]
        h = [X, np.maximum(X @ dense[0]["kernel"] + dense[0]["bias"], 0)]
        h.append((h[1] + np.maximum(h[1] @ dense[1]["kernel"] + dense[1]["bias"], 0)) * 1.5)
        for l, x in enumerate(h):
            np.testing.assert_allclose(seen.inputs[l], x, rtol=1e-12)
            np.testing.assert_allclose(seen.preactivations[l], x @ dense[l]["kernel"] + dense[l]["bias"], rtol=1e-12)
            tilde = np.hstack([x, np.ones((40, 1))])
            G = tilde.T @ tilde / 40
            G = G + 1e-2 * np.trace(G) * np.eye(len(G))
            g = np.vstack([gradient[f"Dense_{l}"]["kernel"], gradient[f"Dense_{l}"]["bias"]])
            found = np.vstack([updates[f"Dense_{l}"]["kernel"], updates[f"Dense_{l}"]["bias"]])
            np.testing.assert_allclose(found, -0.1 * np.linalg.inv(G) @ g, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(updates["scale"], -0.1 * gradient["scale"], rtol=1e-12)
        assert len(state[0].metrics) == 3


@pytest.mark.slow
def test_a_sequence_without_biases_is_captured():
    keys = jax.random.split(jax.random.key(0))
    model = eqx.nn.Sequential(
        [
            eqx.nn.Linear(5, 4, use_bias=False, key=keys[0]),
            eqx.nn.Lambda(jnp.tanh),
            eqx.nn.Linear(4, 2, key=keys[1]),
        ]
    )
    opt = rngd(0.1, inputs="running", refresh_every=1, metric_step=0.02, relative_damping=3e-3)
    state = opt.init(eqx.filter(model, eqx.is_inexact_array))
    assert [G.shape for G in state[0].metrics] == [(5, 5), (5, 5)]
    x = jnp.asarray(X[:8], jnp.float32)

    @eqx.filter_jit
    def step(model, state):
        seen = capture(model, x, loss=lambda z: (z**2).mean())
        return seen, opt.update(seen.gradient, state, captures=seen)[0]

    seen, updates = step(model, state)
    G = 0.98 * np.eye(5) + 0.02 * np.asarray(x.T @ x) / 8
    G = G + 3e-3 * np.trace(G) * np.eye(5)
    expected = -0.1 * np.asarray(seen.gradient.layers[0].weight) @ np.linalg.inv(G)
    np.testing.assert_allclose(updates.layers[0].weight, expected, rtol=2e-4, atol=1e-7)


def test_capture_gives_the_gradient_of_the_loss():
    params = start(jnp.float32)
    x, y = jnp.asarray(X[:8], jnp.float32), Y[:8]
    seen = jax.jit(lambda p: capture(NET, x, p, loss=lambda z: loss(z, y), penalty=penalty))(params)
    value, gradient = jax.jit(jax.value_and_grad(lambda p: loss(NET.apply(p, x), y) + penalty(p)))(params)
    assert float(seen.loss) == pytest.approx(float(value), rel=1e-6)
    for a, b in zip(jax.tree.leaves(seen.gradient), jax.tree.leaves(gradient)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


NORM = BatchNorm(lambda_gain=1.0, lambda_bias=1.0)
NORMALIZED = Network(5, [Dense(4), "relu", NORM, Dense(4), "relu", NORM, Dense(3)])


@pytest.mark.slow
def test_batch_normalization_parameters_take_plain_gradient_steps():
    with jax.enable_x64(True):
        params = glorot(NORMALIZED, jax.random.key(1), dtype=jnp.float64)
        opt = rngd(0.05, preset="published", refresh_every=1)

        @jax.jit
        def step(params):
            seen = capture(NORMALIZED, X[:8], params, loss=lambda z: loss(z, Y[:8]))
            return seen, opt.update(seen.gradient, opt.init(params), params, captures=seen)[0]

        seen, updates = step(params)
        for update, gradient in zip(updates[1::2], seen.gradient[1::2]):
            np.testing.assert_allclose(update.gain, -0.05 * gradient.gain, rtol=1e-12)
            np.testing.assert_allclose(update.bias, -0.05 * gradient.bias, rtol=1e-12)
        natural = np.asarray(updates[2].W) / np.asarray(seen.gradient[2].W)
    assert np.ptp(natural) > 1e-3 and len(seen.inputs) == 3


SKIPPED = Network(
    5,
    [
        Dense(4),
        Residual(RMSNorm(lambda_gain=1.0), Dense(6), "relu", Dense(4)),
        Residual(LayerNorm(), "tanh", Dense(3), skip=Dense(3)),
        LayerNorm(lambda_gain=1.0, lambda_bias=1.0),
        Dense(3),
    ],
)


def begun(key):
    return jax.jit(lambda key: glorot(SKIPPED, key, dtype=jnp.float64))(key)


@pytest.mark.slow
def test_captures_of_a_residual_network_are_its_dense_blocks():
    # A gradient by weights is the sum over inputs of the gradient by preactivations and the layer's input: so both are
    # in the right place, which is that of the parameters.
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, begun(jax.random.key(2)))

        def penalty(params):
            return L2 * (params[1].branch[1].W ** 2).sum()

        def cost(params):
            return loss(SKIPPED.apply(params, X[:8]), Y[:8]) + penalty(params)

        @jax.jit
        def both(params):
            seen = capture(SKIPPED, X[:8], params, loss=lambda z: loss(z, Y[:8]), penalty=penalty)
            return seen, *jax.value_and_grad(cost)(params)

        seen, value, gradient = jax.tree.map(np.asarray, both(params))
        assert float(seen.loss) == pytest.approx(float(value), rel=1e-13)
        assert jax.tree.structure(seen.gradient) == jax.tree.structure(gradient)
        for a, b in zip(jax.tree.leaves(seen.gradient), jax.tree.leaves(gradient)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
        found = layers(params)
        assert len(found) == len(seen.inputs) == 6
        for (W, b), x, z in zip(found, seen.inputs, seen.preactivations):
            np.testing.assert_allclose(z, x @ W.T + b, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(seen.inputs[3], np.tanh(_layer_norm(_second(seen))), rtol=1e-12)
        np.testing.assert_allclose(seen.inputs[4], _second(seen), rtol=1e-13)


def _second(seen):
    # What leaves the first residual block.
    return np.asarray(seen.preactivations[0] + seen.preactivations[2])


def _layer_norm(z):
    return (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-6)


@pytest.mark.slow
def test_a_step_of_rngd_on_a_residual_network_lowers_the_loss():
    opt = rngd(0.05, inputs="running", metric_step=0.5, refresh_every=1, relative_damping=1e-2)
    with jax.enable_x64(True):
        params = begun(jax.random.key(2))

        @jax.jit
        def step(params):
            seen = capture(SKIPPED, X, params, loss=lambda z: loss(z, Y))
            updates, state = opt.update(seen.gradient, opt.init(params), params, captures=seen)
            moved = optax.apply_updates(params, updates)
            return seen, updates, state, loss(SKIPPED.apply(moved, X), Y)

        seen, updates, state, after = jax.tree.map(np.asarray, step(params))
        assert float(after) < float(seen.loss) - 1e-3
        # Each layer by its own metric, in NumPy; gains by the plain gradient.
        for (dW, db), (gW, gb), x in zip(layers(updates), layers(seen.gradient), seen.inputs):
            tilde = np.hstack([x, np.ones((len(x), 1))])
            G = 0.5 * np.eye(tilde.shape[1]) + 0.5 * tilde.T @ tilde / len(x)
            G = G + 1e-2 * np.trace(G) * np.eye(len(G))
            expected = -0.05 * np.hstack([gW, gb[:, None]]) @ np.linalg.inv(G)
            np.testing.assert_allclose(np.hstack([dW, db[:, None]]), expected, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(updates[3].gain, -0.05 * seen.gradient[3].gain, rtol=1e-12)
        assert len(state[0].metrics) == 6


@pytest.mark.parametrize("opt", [rngd(1e-3), in_units(1e-3), averaging(1e-3)])
def test_a_step_factorizes_no_matrix(opt):
    x, y = (jnp.asarray(a[0]) for a in batches(1))
    params = start(jnp.float32)
    text = str(jax.make_jaxpr(one_step(opt))((params, opt.init(params)), (x.astype(jnp.float32), y)))
    done = re.findall(r"= (\w+)", text)
    dear = {"cholesky", "eig", "eigh", "qr", "geqrf", "householder_product", "lu", "svd", "triangular_solve"}
    assert "dot_general" in done
    assert [name for name in done if name in dear] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rngd", "rngd-units", "soap"])
def test_ten_thousand_steps_end_while_other_threads_compute(name):
    # Several factorizations in one step could wait for each other for good.
    opt = in_units(1e-3) if name == "rngd-units" else soap(1e-3) if name == "soap" else rngd(1e-3, refresh_every=5)
    params = start(jnp.float32)
    xs, ys = (jnp.asarray(a) for a in batches(10_000))
    busy = threading.Event()

    def compute():
        A = np.random.default_rng(0).normal(size=(300, 300))
        while not busy.is_set():
            np.linalg.inv(A @ A.T + np.eye(300))

    others = [threading.Thread(target=compute, daemon=True) for _ in range(4)]
    for thread in others:
        thread.start()
    try:
        run = jax.jit(lambda carry, data: jax.lax.scan(one_step(opt), carry, data))
        losses = np.asarray(run((params, opt.init(params)), (xs.astype(jnp.float32), ys))[1])
    finally:
        busy.set()
        for thread in others:
            thread.join()
    assert losses.shape == (10_000,) and np.isfinite(losses).all()
    assert losses[-1000:].mean() < losses[:100].mean()


def test_the_natural_step_does_not_depend_on_the_units_of_the_inputs():
    # A linear layer on inputs x and on inputs Ax: with the exact metric the outputs move alike.
    net = MLP(widths=(3, 2), activation="linear")
    with jax.enable_x64(True):
        A = np.array([[2.0, 0.3, 0.0], [0.0, 0.1, 0.5], [1.0, 0.0, 4.0]])
        x, W, b = X[:, :3], RNG.normal(size=(2, 3)), np.zeros(2)
        opt = rngd(0.1, inputs="running", metric_step=1.0, refresh_every=1, relative_damping=0.0)

        @jax.jit
        def moved(inputs, weights):
            params = (Layer(weights, jnp.asarray(b)),)
            seen = capture(net, inputs, params, loss=lambda z: (z**2).sum())
            updates, _ = opt.update(seen.gradient, opt.init(params), params, captures=seen)
            return net.apply(optax.apply_updates(params, updates), inputs)

        moved = [moved(x, W), moved(x @ A.T, W @ np.linalg.inv(A))]
        np.testing.assert_allclose(moved[0], moved[1], rtol=1e-8, atol=1e-10)


def captured(model=NET, count=8):
    params = start(jnp.float32)
    return params, capture(model, jnp.asarray(X[:count], jnp.float32), params, loss=lambda z: (z**2).mean())


class Twice(eqx.Module):
    first: eqx.nn.Linear

    def __call__(self, x):
        return self.first(self.first(x))


class Never(Twice):
    def __call__(self, x):
        return x


class Mapped(Twice):
    def __call__(self, x):
        return jax.vmap(self.first)(x[None])[0]


class Compiled(Twice):
    def __call__(self, x):
        return jax.jit(lambda x: self.first(x))(x)


def test_a_layer_to_one_number_is_captured():
    model = eqx.nn.MLP(5, "scalar", 8, 1, key=jax.random.key(0))
    x = jnp.ones((3, 5))
    seen = capture(model, x, loss=lambda z: (z**2).mean())
    assert seen.outputs.shape == (3,) and [z.shape for z in seen.preactivations] == [(3, 8), (3, 1)]
    opt = rngd(0.1)
    params = eqx.filter(model, eqx.is_inexact_array)
    updates, _ = opt.update(seen.gradient, opt.init(params), params, captures=seen)
    assert all(np.isfinite(one).all() for one in jax.tree.leaves(updates))


def test_inputs_of_16_bits_are_captured_outside_of_compiled_code_too():
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), start(jnp.float32))
    x = jnp.asarray(X[:3], jnp.bfloat16)
    assert capture(NET, x, params).inputs[0].dtype == jnp.bfloat16
    with one_sentence("x holds nan"):
        capture(NET, x.at[0, 0].set(jnp.nan), params)


@pytest.mark.slow
def test_metrics_of_16_bits_are_inverted_outside():
    opt = rngd(0.1, inverse="outside", inputs="running")
    inverse = refresh(opt.init(start(jnp.float16)))[0].inverses[0]
    assert inverse.dtype == jnp.float16
    np.testing.assert_allclose(inverse, np.eye(6) / (1 + 6e-3), rtol=1e-3)


def test_a_function_that_is_computed_again_for_its_gradient_is_captured():
    params = {**as_flax(start(jnp.float32)), "scale": jnp.full(4, 1.5)}
    x = jnp.asarray(X[:3], jnp.float32)
    one, other = (capture(function, x, params) for function in (flax_like, jax.checkpoint(flax_like)))
    for a, b in zip(one.inputs + one.preactivations, other.inputs + other.preactivations, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def labelled(leaf):
    # A layer for one optimizer and two for another, or weights for one and biases for the other.
    return lambda params: jax.tree.map_with_path(lambda path, value: "ab"[leaf(path, value)], params)


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [lambda path, value: path[0].idx > 0, lambda path, value: value.ndim == 2])
@pytest.mark.parametrize("make", [lambda: rngd(0.1), fisher.scale_by_preactivations])
def test_masked_layers_are_refused(leaf, make):
    params, seen = captured()
    opt = optax.multi_transform({"a": optax.with_extra_args_support(optax.sgd(0.1)), "b": make()}, labelled(leaf))
    with one_sentence("a linear layer is masked"):
        opt.update(seen.gradient, opt.init(params), params, captures=seen)


def test_the_neuron_of_settings_may_be_named():
    params, seen = captured()
    given = (Settings(neuron=kind, metric="neuron", start="batch") for kind in ("tanh", fisher.response("tanh")))
    one, other = (
        opt.update(seen.gradient, opt.init(params), params, captures=seen)[0] for opt in map(scale_by_rngd, given)
    )
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_array_equal(a, b)


SQUARE = {"a": {"kernel": np.eye(5, dtype=np.float32)}}


def square(kind):
    return kind(eqx.nn.Linear(5, 5, key=jax.random.key(0)))


def captured_with(**how):
    return capture(NET, jnp.ones((2, 5)), start(jnp.float32), **({"loss": jnp.sum} | how))


def singular():
    state, *rest = rngd(0.1, inverse="outside", inputs="running", relative_damping=0.0).init(start(jnp.float32))
    return state._replace(metrics=jax.tree.map(jnp.zeros_like, state.metrics)), *rest


def update_with(captures):
    params, seen = captured()
    opt = rngd(0.1)
    return opt.update(seen.gradient, opt.init(params), params, captures=captures(seen))


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("relative_damping", "-1"), lambda: rngd(0.1, relative_damping=-1.0)),
        (("damping", "-0.1"), lambda: rngd(0.1, damping=-0.1)),
        (("metric_step", "at most 1"), lambda: rngd(0.1, metric_step=1.5)),
        (("refresh_every", "at least 1"), lambda: rngd(0.1, refresh_every=0)),
        (("preset", "publised", "did you mean"), lambda: rngd(0.1, preset="publised")),
        (("metric is", "diagonal"), lambda: rngd(0.1, metric="diagonal")),
        (("metric names 2 layers", "have 3"), lambda: rngd(0.1, metric=["shared"] * 2).init(start(jnp.float32))),
        (("learning_rate",), lambda: rngd(-0.1)),
        (("captures is missing",), lambda: update_with(lambda seen: None)),
        (("captures are of 2 layers",), lambda: update_with(lambda s: s._replace(inputs=s.inputs[:2]))),
        (("captures of layer 2 have 5 inputs",), lambda: update_with(lambda s: s._replace(inputs=(s.inputs[0],) * 3))),
        (("no linear layer",), lambda: rngd(0.1).init({"a": jnp.ones(3)})),
        (("params is None",), lambda: capture(NET, jnp.ones((2, 5)))),
        (("x has shape (5,)",), lambda: capture(NET, jnp.ones(5), start(jnp.float32))),
        (("model is a function", "a Network"), lambda: capture(penalty, jnp.ones((2, 5)))),
        (("no linear layer",), lambda: capture(flax_like, jnp.ones((2, 5)), {"a": jnp.ones(3)})),
        (
            ("a.kernel is multiplied 2 times",),
            lambda: capture(lambda p, x: x @ p["a"]["kernel"] @ p["a"]["kernel"], jnp.ones((2, 5)), SQUARE),
        ),
        (("loss returns None",), lambda: captured_with(loss=lambda z: None)),
        (("loss returns a number of type int32",), lambda: captured_with(loss=lambda z: (z > 0).sum())),
        (("penalty returns an array of shape (4, 5)",), lambda: captured_with(penalty=lambda p: p[0].W)),
        (("no inverse", "damping"), lambda: refresh(singular())),
        (("penalty",), lambda: capture(NET, jnp.ones((2, 5)), start(jnp.float32), penalty=penalty)),
        (("holds its own parameters",), lambda: capture(square(Twice), jnp.ones((2, 5)), 1)),
        (("layer 1 is called more than once",), lambda: capture(square(Twice), jnp.ones((2, 5)))),
        (("layer 1 is never called",), lambda: capture(square(Never), jnp.ones((2, 5)))),
        (("of Mapped is called inside vmap",), lambda: capture(square(Mapped), jnp.ones((2, 5)))),
        (("of Compiled is called inside", "jit"), lambda: capture(square(Compiled), jnp.ones((2, 5)))),
        (("damping is 0", "few axes"), lambda: rngd(0.1, rank=4, relative_damping=0.0)),
        (("start is 'batch'", "'identity'"), lambda: rngd(0.1, start="batch", inverse="outside")),
        (("omega",), lambda: rngd(0.1, omega=0.0)),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
