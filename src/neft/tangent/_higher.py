"""dNTK and ddNTK of one network, by derivatives along gradients, never by a full Hessian.

With v = λ∇z of a sample and an output, dH = D²z[v, v'], the first ddNTK is D³z[v, v', v''] and the second the product
of D²z v and D²z' v' with the learning rates between them.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._blocks import block_size, blocks
from .._check import finite
from .._flat import Flat, Model, directional_derivative, flat, samples
from .._public import public
from ..network import Network


@public
def dntk(f: Model | Network, params: Any, x: Any, *, rates: Any = None) -> Float[Array, "N N N O O O"]:
    """dH_{ijk}(a, b, c) = Σ λλ d²z_i(a)/dθ₁dθ₂ dz_j(b)/dθ₁ dz_k(c)/dθ₂ (docs/theory/width, eq. 6).

    Axes are (a, b, c, i, j, k). Arguments as in `ntk`. The result holds (N·O)³ numbers; for larger models contract with
    `products`.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 4, 1))
    >>> dntk(net, net.init(jax.random.key(0)), jnp.ones((3, 2))).shape
    (3, 3, 3, 1, 1, 1)
    """
    model, x, v = _gradients(f, params, x, rates)
    return _samples_first(_along(model, x, v, 2), len(x))


@public
def ddntk(
    f: Model | Network, params: Any, x: Any, *, rates: Any = None
) -> tuple[Float[Array, "N N N N O O O O"], Float[Array, "N N N N O O O O"]]:
    """Both ddNTKs, axes samples first, in the order of their definitions (docs/theory/width, eqs. 7-8).

    I_{ijkl}(a, b, c, d) = Σ λλλ d³z_i(a)/dθ₁dθ₂dθ₃ dz_j(b)/dθ₁ dz_k(c)/dθ₂ dz_l(d)/dθ₃ and
    II_{ijkl}(a, b, c, d) = Σ λλλ d²z_i(a)/dθ₁dθ₂ d²z_j(b)/dθ₁dθ₃ dz_k(c)/dθ₂ dz_l(d)/dθ₃.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 4, 1))
    >>> [part.shape for part in ddntk(net, net.init(jax.random.key(0)), jnp.ones((1, 2)))]
    [(1, 1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1)]
    """
    model, x, v = _gradients(f, params, x, rates)
    first = _samples_first(_along(model, x, v, 3), len(x))
    return first, _samples_first(_second(model, x, v), len(x))


def _gradients(f: Model | Network, params: Any, x: Any, rates: Any) -> tuple[Flat, Array, Array]:
    model, x = flat(f, params, rates), samples("x", x)
    jacobian = jax.jit(jax.jacrev(model.z))(model.theta, x)
    return model, x, jacobian.reshape(-1, len(model.theta)) * model.rates[None, :]


def _along(model: Flat, x: Array, v: Array, order: int) -> np.ndarray:
    # (N·O,) * (order + 1): symmetric in all indices but the first, so each set of directions is done once.
    M = len(v)
    sets = np.array(list(itertools.combinations_with_replacement(range(M), order)))
    result = np.empty((M,) * (order + 1), v.dtype)

    @jax.jit
    def several(theta, v, x, sets):
        one = lambda chosen: directional_derivative(lambda t: model.z(t, x), theta, tuple(v[i] for i in chosen))  # noqa: E731
        return jax.vmap(one)(sets)

    size = block_size(2 ** (order + 1) * v.dtype.itemsize * (v.shape[1] + 4 * x.size), len(sets))
    for part in blocks(len(sets), size, label="dNTK" if order == 2 else "ddNTK"):
        found = np.asarray(several(model.theta, v, x, jnp.asarray(sets[part]))).reshape(-1, M)
        for slots in itertools.permutations(range(order)):
            result[:, *(sets[part][:, s] for s in slots)] = found.T
    return result


def _second(model: Flat, x: Array, v: Array) -> np.ndarray:
    M, P = v.shape

    @jax.jit
    def curved(theta, v, x):
        # D²z_i v for each output i: (M, P).
        def gradients(t):
            return jax.jacrev(lambda s: model.z(s, x).ravel())(t)

        return jax.vmap(lambda one: jax.jvp(gradients, (theta,), (one,))[1])(v)

    size = block_size(3 * v.dtype.itemsize * M * P, M)
    result = np.empty((M,) * 4, v.dtype)
    product = jax.jit(lambda a, b, rates: jnp.einsum("kip,p,ljp->ijkl", a, rates, b))
    for part in blocks(M, size, label="ddNTK"):
        left = curved(model.theta, v[part], x)
        for other in blocks(M, size):
            right = left if other == part else curved(model.theta, v[other], x)
            result[:, :, part, other] = np.asarray(product(left, right, model.rates))
    return result


def _samples_first(values: np.ndarray, N: int) -> Array:
    finite("the dNTK" if values.ndim == 3 else "the ddNTK", values)
    k = values.ndim
    split = values.reshape(*(size for _ in range(k) for size in (N, values.shape[0] // N)))
    return jnp.asarray(split.transpose(*range(0, 2 * k, 2), *range(1, 2 * k, 2)))
