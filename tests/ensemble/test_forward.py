"""What one draw tells, against explicit Jacobians, Hessians and third derivatives."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from neft import MLP
from neft.ensemble._differentials import differentials
from neft.ensemble._draw import draw
from neft.ensemble._forward import kernels


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


RATES = {"lambda_b": (0.5, 0.4, 0.6), "lambda_W": (0.7, 0.8, 1.2)}
NET = MLP((2, 3, 3, 2), "sin", C_b=(0.1, 0.2, 0.3), C_W=(1.1, 1.3, 0.9), **RATES)
X = np.array([[0.3, -1.0], [0.8, 0.4]])


class Explicit:
    """σ(z^l) of every sample and its derivatives in all parameters below, contracted along gradients."""

    def __init__(self, params, l, orders=3):
        vector, back = ravel_pytree(params[:l])
        rate = jax.tree.map(lambda rate, value: jnp.full_like(value, rate), NET.rates()[:l], tuple(params[:l]))
        rate = np.asarray(ravel_pytree(rate)[0])

        def signal(v):
            s = jnp.asarray(X)
            for W, b in back(v):
                s = NET.activation(s @ W.T + b[None, :])
            return s.T  # (neuron, sample)

        self.f = np.asarray(jax.jit(signal)(vector))
        functions = [jax.jacfwd(signal), jax.jacfwd(jax.jacfwd(signal)), jax.jacfwd(jax.jacfwd(jax.jacfwd(signal)))]
        J, *more = (np.asarray(jax.jit(function)(vector)) for function in functions[:orders])
        v = rate * J
        self.h = np.einsum("max,nbx->mnab", J, v)
        if not more:
            return
        second, third = more
        self.d = np.einsum("maxy,nbx,pcy->mnpabc", second, v, v, optimize=True)
        self.dd1 = np.einsum("maxyz,nbx,pcy,qdz->mnpqabcd", third, v, v, v, optimize=True)
        self.dd2 = np.einsum("maxy,nbxz,x,pcy,qdz->mnpqabcd", second, second, rate, v, v, optimize=True)


@pytest.mark.slow
def test_kernels_are_contractions_of_the_jacobian():
    params = draw(NET, jax.random.key(3), np.dtype(float)).params
    found = jax.jit(kernels, static_argnums=0)(NET, params, jnp.asarray(X))
    for l in (1, 2):
        known, n = Explicit(params, l, orders=1), NET.widths[l]
        square = np.einsum("ma,mb->ab", known.f, known.f) / n
        H = NET.lambda_b[l] + NET.lambda_W[l] * square + NET.C_W[l] / n * np.einsum("mmab->ab", known.h)
        FF = np.einsum("ma,mnbd,nc->abcd", known.f, known.h, known.f)
        BB = np.einsum("mnac,mnbd->abcd", known.h, known.h)
        for name, exact in {"G": NET.C_b[l] + NET.C_W[l] * square, "H": H, "FF": FF, "BB": BB}.items():
            np.testing.assert_allclose(getattr(found, name)[l], exact, rtol=1e-11, atol=1e-13, err_msg=name)


@pytest.mark.slow
def test_differentials_average_over_all_signs_to_the_full_contractions():
    params = draw(NET, jax.random.key(3), np.dtype(float)).params
    x = jnp.asarray(X)
    found = jax.jit(kernels, static_argnums=0)(NET, params, x)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=6))).reshape(64, 2, 3)
    rows = tuple(jnp.asarray(signs * np.sqrt(NET.C_W[l] / NET.widths[l])) for l in (1, 2))
    each = jax.jit(jax.vmap(lambda *w: differentials(NET, params, x, w, found)))(*rows)
    mean = jax.tree.map(lambda values: np.asarray(values).mean(axis=0), each)
    for l in (1, 2):
        known, n = Explicit(params, l), NET.widths[l]
        c, e = NET.C_W[l] / n, NET.lambda_W[l] / n
        f, h, d = known.f, known.h, known.d
        # The averages over Gaussian rows of the forward equations, written out; axes in the order of docs/theory/width.
        pulled = np.einsum("md,mppabc->abcd", f, d)
        turned = np.einsum("mmqabc,qd->abcd", d, f)
        F = np.einsum("mb,mpac,pd->abcd", f, h, f)
        exact = {
            "P": c**2 * pulled,
            "Q": e * c * F + c**2 * turned,
            "R": e * c * np.einsum("acdb->abcd", pulled) + c**2 * np.einsum("mmppabcd->abcd", known.dd1),
            "S": e * c * np.einsum("mpac,mpbd->abcd", h, h) + c**2 * np.einsum("mmppabcd->abcd", known.dd2),
            "T": e**2 * F
            + e * c * (turned + turned.transpose(2, 3, 0, 1))
            + c**2 * np.einsum("mpmpacbd->abcd", known.dd2),
            "U": c**2 * np.einsum("mppmacdb->abcd", known.dd2),
        }
        for name, value in exact.items():
            assert np.abs(value).max() > 1e-3
            np.testing.assert_allclose(getattr(mean, name)[l], value, rtol=1e-11, atol=1e-13, err_msg=f"{name}, {l}")
