import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft.fisher._inverse import damped, newton_schulz

COMPILED = jax.jit(newton_schulz)


def matrices(condition, count=3, size=12):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(count, size, size)))[0]
    values = np.geomspace(1, condition, size) * rng.uniform(0.1, 50, size=(count, 1))
    return np.einsum("nij,nj,nkj->nik", Q, values, Q)


@pytest.mark.parametrize("guess", ["identity", "zero", "close", "far"])
@pytest.mark.parametrize("condition", [1.0, 30.0, 1e4])
def test_products_invert(condition, guess):
    A = matrices(condition)
    exact = np.linalg.inv(A)
    noise = np.random.default_rng(1).normal(size=A.shape)
    first = {
        "identity": np.broadcast_to(np.eye(12), A.shape),
        "zero": np.zeros_like(A),
        "close": exact * 1.05,
        "far": 1e6 * noise,
    }
    with jax.enable_x64(True):
        found = np.asarray(COMPILED(A, first[guess]))
    np.testing.assert_allclose(found @ A, np.broadcast_to(np.eye(12), A.shape), atol=1e-12 * condition)


def test_single_precision_is_reached():
    A = matrices(300.0).astype(np.float32)
    found = np.asarray(newton_schulz(jnp.asarray(A), jnp.zeros(A.shape, jnp.float32)))
    np.testing.assert_allclose(found, np.linalg.inv(A.astype(float)), rtol=0, atol=3e-4 * np.abs(found).max())


def test_damping_adds_both_parts():
    G = np.diag([1.0, 3.0])
    np.testing.assert_allclose(damped(G, 0.5, 0.25), np.diag([2.5, 4.5]))
