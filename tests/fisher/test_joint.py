import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from scipy import linalg

from neft import fisher

RNG = np.random.default_rng(8)
WEIGHTS = [RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3))]
X = RNG.normal(size=(2, 2))


def negative_expected_hessian(activation, softmax):
    """-E[∂² ln p] over all states, by plain loops: the other definition, and other code."""
    values = (-1.0, 1.0) if activation == "tanh" else (0.0, 1.0)
    flat = np.concatenate([W.ravel() for W in WEIGHTS])

    def log_p(theta, path):
        total, at = 0.0, 0
        for l, W in enumerate(WEIGHTS):
            weights = theta[at : at + W.size].reshape(W.shape)
            at += W.size
            t = weights[:, :-1] @ path[l] + weights[:, -1]
            if softmax and l == 2:
                total += t[jnp.argmax(path[l + 1])] - jnp.log(jnp.exp(t).sum())
            else:
                mean = jnp.tanh(t) if activation == "tanh" else 1 / (1 + jnp.exp(-t))
                y = path[l + 1]
                p = (1 + y * mean) / 2 if activation == "tanh" else y * mean + (1 - y) * (1 - mean)
                total += jnp.log(p).sum()
        return total

    units = lambda n: np.array(np.meshgrid(*[values] * n, indexing="ij")).reshape(n, -1).T  # noqa: E731
    last = np.eye(3) if softmax else units(3)
    paths = [(x, h1, h2, y) for x in X for h1 in units(2) for h2 in units(2) for y in last]
    paths = [jnp.array(side) for side in zip(*paths)]
    chance = jnp.exp(jax.jit(jax.vmap(log_p, (None, 0)))(flat, paths)) / len(X)
    hessians = jax.jit(jax.vmap(jax.hessian(log_p), (None, 0)))(jnp.asarray(flat), paths)
    return -np.einsum("s,sij->ij", chance, hessians), float(chance.sum())


SLOW = [
    pytest.param(*case, marks=pytest.mark.slow) for case in (("tanh", False), ("sigmoid", True), ("sigmoid", False))
]


@pytest.mark.parametrize(("activation", "softmax"), [("tanh", True), *SLOW])
def test_theorem_3_by_enumeration(activation, softmax):
    with jax.enable_x64(True):
        exact, total = negative_expected_hessian(activation, softmax)
    assert total == pytest.approx(1, abs=1e-13)
    found = fisher.joint(WEIGHTS, X, activation=activation, softmax=softmax)
    np.testing.assert_allclose(found.matrix, exact, atol=1e-13)
    np.testing.assert_allclose(linalg.block_diag(*found.blocks), exact, atol=1e-13)
    assert found.defect < 1e-14
    assert np.abs(exact).max() > 0.1


def test_the_blocks_are_averages_over_the_layer_below():
    found = fisher.joint(WEIGHTS, X, activation="tanh")
    first = fisher.nonlinear_layer("tanh", WEIGHTS[0], X)
    np.testing.assert_allclose(found.blocks[0], first.dense(), atol=1e-14)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("activation", "relu"), lambda: fisher.joint(WEIGHTS, X, activation="relu")),
        (("layer 2", "(any, 3)"), lambda: fisher.joint([WEIGHTS[0], np.ones((2, 5))], X)),
        (("layers is empty",), lambda: fisher.joint([], X)),
        (("17 units",), lambda: fisher.joint([np.ones((17, 3))], X)),
        (("states together",), lambda: fisher.joint([np.ones((12, 3)), np.ones((12, 13))], X)),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
