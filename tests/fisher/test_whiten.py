import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, Layer, fisher, load

RNG = np.random.default_rng(2)
X = RNG.normal(size=(200, 6)) @ RNG.normal(size=(6, 6)) + RNG.normal(size=6)
X[:, 5] = 0.25  # a constant input, as the corner pixels are
NET = MLP(widths=(6, 5, 3), activation="tanh")
L2, ETA = 0.01, 0.07


def cost(net, square):
    def value(params, x, y):
        z = net.apply(params, x)
        return ((z - y) ** 2).mean() + L2 / 2 * (square(params[0].W) + (params[1].W ** 2).sum())

    return value


@pytest.mark.slow
def test_a_plain_step_in_whitened_inputs_is_the_natural_step():
    y = RNG.normal(size=(20, 3))
    x = X[:20]
    with jax.enable_x64(True):
        white = fisher.whiten(X)
        params = NET.init(jax.random.key(0), dtype=jnp.float64)
        inside = white.enter(params)
        np.testing.assert_allclose(NET.apply(inside, white(x)), NET.apply(params, x), rtol=1e-12, atol=1e-13)
        raw = cost(NET, lambda W: (W**2).sum())
        gradient = jax.jit(jax.grad(raw))(params, x, y)
        changed = jax.jit(jax.grad(cost(NET, white.square)))(inside, white(x), y)
        stepped = white.leave(jax.tree.map(lambda p, g: p - ETA * g, inside, changed))
        tilde = np.hstack([X, np.ones((200, 1))])
        G = tilde.T @ tilde / 200 + white.damping * np.diag([1.0] * 6 + [0.0])
        g = np.hstack([gradient[0].W, gradient[0].b[:, None]])
        assert white.damping == pytest.approx(6e-3 * X.var(0).sum(), rel=1e-12)
        # The gradient holds L2·W, so the decay is preconditioned like everything else.
        expected = np.hstack([params[0].W, params[0].b[:, None]]) - ETA * g @ np.linalg.inv(G)
        found = np.hstack([stepped[0].W, stepped[0].b[:, None]])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert np.abs(found - np.hstack([params[0].W, params[0].b[:, None]])).max() > 1e-3


def test_whitened_inputs_have_unit_second_moment_without_damping():
    white = fisher.whiten(X[:, :5], relative_damping=0.0)
    z = np.hstack([white(X[:, :5]), np.ones((200, 1))])
    np.testing.assert_allclose(z.T @ z / 200, np.eye(6), atol=1e-10)


def test_units_and_origin_of_the_inputs_do_not_matter():
    white = fisher.whiten(X, rank=3)(X)
    for factor, offset in ((1.0, 1e3), (1e-4, 0.0), (1e4, -1e5)):
        moved = factor * X + offset
        # Axes are known but for their sign.
        again = fisher.whiten(moved, rank=3)(moved)
        np.testing.assert_allclose(again * np.sign((again * white).sum(0)), white, rtol=0, atol=1e-6)


def test_whole_numbers_are_whitened_as_what_they_are():
    counts = RNG.integers(0, 255, (100, 6)).astype(np.uint8)
    white = fisher.whiten(counts)
    found = white(counts)
    np.testing.assert_allclose(found, white(counts.astype(np.float64)), rtol=1e-12)
    assert found.dtype == np.float64 and np.abs(found).max() > 1


def test_leaving_undoes_entering(tmp_path):
    white = fisher.whiten(X)
    with jax.enable_x64(True):
        params = NET.init(jax.random.key(0), dtype=jnp.float64)
        for a, b in zip(jax.tree.leaves(white.leave(white.enter(params))), jax.tree.leaves(params)):
            np.testing.assert_allclose(a, b, atol=1e-12)
        square = float(white.square(white.enter(params)[0].W))
        assert square == pytest.approx(float((params[0].W ** 2).sum()), rel=1e-12)
    white.save(tmp_path / "white.npz")
    assert load(tmp_path / "white.npz") == white


def test_fewer_axes_keep_the_largest():
    white = fisher.whiten(X, rank=2)
    whole = fisher.whiten(X)
    assert white(X).shape == (200, 2)
    np.testing.assert_allclose(white(X), whole(X)[:, :2], atol=1e-12)
    entered = white.enter((Layer(np.ones((4, 6)), np.zeros(4)),))
    assert entered[0].W.shape == (4, 2)


def test_truncated_and_from_a_part_it_is_the_dense_formula():
    # On the axes that are kept, the natural step of the metric of the part; on the others none.
    white = fisher.whiten(X, rank=3, samples=80, damping=0.1, relative_damping=1e-2)
    part = X[:80]
    axes = np.linalg.eigh(np.cov(part.T, bias=True))[1]
    P = axes[:, -3:] @ axes[:, -3:].T
    epsilon = 0.1 + 1e-2 * part.var(0).sum()
    assert white.damping == pytest.approx(epsilon, rel=1e-12)
    delta = RNG.normal(size=(80, 4))
    V = Layer(delta.T @ white(part), delta.sum(0))
    W, b = (np.asarray(value) for value in white.leave((V,))[0])
    centred = (part - part.mean(0)) @ P
    expected = delta.T @ centred @ np.linalg.inv(centred.T @ centred / 80 + epsilon * np.eye(6))
    np.testing.assert_allclose(W, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b, delta.sum(0) - expected @ part.mean(0), rtol=1e-5, atol=1e-5)


def test_a_share_of_the_variance_keeps_the_fewest_axes_that_carry_it():
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    for share in (0.5, 0.9, 0.999999):
        kept = fisher.whiten(X, rank=share).axes.shape[1]
        carried = values[:kept].sum() / values.sum()
        assert carried >= share > carried - values[kept - 1] / values.sum()


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("damping", "positive"), lambda: fisher.whiten(X, relative_damping=0.0)),
        (("rank is 1", "share of the variance"), lambda: fisher.whiten(X, rank=1.0)),
        (("samples is 300", "at most 200"), lambda: fisher.whiten(X, samples=300)),
        (("rank", "at most 6"), lambda: fisher.whiten(X, rank=7)),
        (("relative_damping", "-1"), lambda: fisher.whiten(X, relative_damping=-1.0)),
        (("at least two",), lambda: fisher.whiten(X[:1])),
        (("x has shape (3, 4)",), lambda: fisher.whiten(X)(np.ones((3, 4)))),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
