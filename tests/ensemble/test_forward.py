"""The contractions of one draw against explicit Jacobians, Hessians and third derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from neft import MLP
from neft.ensemble import differentials, kernels


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


RATES = {"lambda_b": (0.5, 0.4, 0.6), "lambda_W": (0.7, 0.8, 1.2)}
NET = MLP((3, 3, 4, 2), "sin", C_b=(0.1, 0.2, 0.3), C_W=(1.1, 1.3, 0.9), **RATES)
X = np.array([0.3, -1.0, 0.8])


def _flat(params):
    vector, back = ravel_pytree(params)
    rates = [jax.tree.map(lambda rate, value: jnp.full_like(value, rate), r, p) for r, p in zip(NET.rates(), params)]
    return vector, back, np.asarray(ravel_pytree(tuple(rates))[0])


def test_differentials_are_contractions_of_the_full_derivatives():
    params = NET.init(jax.random.key(3))
    vector, back, rate = _flat(params)
    found = jax.jit(differentials, static_argnums=0)(NET, params, jnp.asarray(X))
    for l in range(NET.depth):

        def output(v, l=l):
            return NET.preactivations(back(v), X)[l][:2]

        z = np.asarray(output(vector))
        J = np.asarray(jax.jacfwd(output)(vector))
        H = np.asarray(jax.jit(jax.jacfwd(jax.jacfwd(output)))(vector))
        third = np.asarray(jax.jit(jax.jacfwd(jax.jacfwd(jax.jacfwd(output))))(vector))
        v = rate * J
        dH = np.einsum("iab,ja,kb->ijk", H, v, v)
        ddI = np.einsum("iabc,ja,kb,lc->ijkl", third, v, v, v)
        ddII = np.einsum("iab,jac,a,kb,lc->ijkl", H, H, rate, v, v, optimize=True)
        exact = {
            "P": (dH[0, 1, 1] * z[0] + dH[1, 0, 0] * z[1]) / 2,
            "Q": (dH[0, 0, 1] * z[1] + dH[1, 1, 0] * z[0]) / 2,
            "R": (ddI[0, 0, 1, 1] + ddI[1, 1, 0, 0]) / 2,
            "S": (ddII[0, 0, 1, 1] + ddII[1, 1, 0, 0]) / 2,
            "T": ddII[0, 1, 0, 1],
            "U": ddII[0, 1, 1, 0],
        }
        for name, value in exact.items():
            assert float(getattr(found, name)[l]) == pytest.approx(float(value), rel=1e-11, abs=1e-13), (name, l)


def test_kernels_are_averages_over_the_last_layers_weights():
    # Explicit Jacobians of many last layers on top of one network, against the closed form.
    params, draws = NET.init(jax.random.key(5)), 20_000
    found = kernels(NET, params, jnp.asarray(X))
    _, _, rate = _flat(params)

    @jax.jit
    def sample(key):
        last = NET.init(key)[-1]
        vector, back = ravel_pytree((*params[:-1], last))
        z = NET.apply(back(vector), X)
        J = jax.jacrev(lambda v: NET.apply(back(v), X))(vector)
        H = (rate * J) @ J.T
        return jnp.stack([z[0] ** 2, H[0, 0], z[0] * z[1] * H[0, 1], H[0, 1] ** 2])

    values = np.asarray(jax.vmap(sample)(jax.random.split(jax.random.key(6), draws)))
    stderr = values.std(axis=0) / np.sqrt(draws)
    exact = np.array([found.G[-1], found.H[-1], found.FF[-1], found.BB[-1]])
    assert (np.abs(values.mean(axis=0) - exact) < 5 * stderr).all()
    assert (np.abs(exact) > 10 * stderr).all()
