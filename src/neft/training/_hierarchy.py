"""What training at finite width starts from: the outputs of one network and its tangent kernels, up to an order.

Indices are composite (sample, output), training samples first: M of them in all, A of the training set. In the products
of the hierarchy the last indices of dH and ddH only ever meet residuals, so they run over the training set.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._flat import Model, directional_derivative, flat
from ..network import Network
from ..tangent import ddntk, dntk, ntk


class Hierarchy(NamedTuple):
    """z, H, dH_ijk and the ddNTKs I_ijkl, II_ijkl and III_ijkl = II_ikjl; None beyond the order kept."""

    z: Float[Array, " M"]
    H: Float[Array, "M M"]
    dH: Float[Array, "M M A"] | None = None
    I: Float[Array, "M M A A"] | None = None
    II: Float[Array, "M M A A"] | None = None
    III: Float[Array, "M M A A"] | None = None


def hierarchy(f: Model | Network, params: Any, x: Array, train: int, order: int, rates: Any = None) -> Hierarchy:
    """The hierarchy of one network by `neft.tangent`, in blocks, with the first `train` of the samples x trained on."""
    z = flat(f, params).z(flat(f, params).theta, x)
    M, A = z.size, train * z.shape[1]

    def composite(values: Array) -> Array:
        k = values.ndim // 2
        return values.transpose(*(axis for pair in zip(range(k), range(k, 2 * k)) for axis in pair)).reshape((M,) * k)

    H = composite(ntk(f, params, x, rates=rates))
    if order == 1:
        return Hierarchy(z.ravel(), H)
    dH = composite(dntk(f, params, x, rates=rates))[..., :A]
    if order == 2:
        return Hierarchy(z.ravel(), H, dH)
    first, second = (composite(part) for part in ddntk(f, params, x, rates=rates))
    III = second.transpose(0, 2, 1, 3)
    return Hierarchy(z.ravel(), H, dH, *(part[:, :, :A, :A] for part in (first, second, III)))


def drawn(f: Model | Network, params: Any, x: Array, train: int, order: int, rates: Any = None) -> Hierarchy:
    """The same as one pure function, to compile and to map over draws; its memory grows with M² times the parameters.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 4, 1))
    >>> one = lambda key: drawn(net, net.init(key), jnp.ones((3, 2)), 2, 3, net.rates())
    >>> jax.eval_shape(jax.vmap(one), jax.random.split(jax.random.key(0), 5)).dH.shape
    (5, 3, 3, 2)
    """
    model = flat(f, params, rates)

    def z(theta: Array) -> Array:
        return model.z(theta, x).ravel()

    J = jax.jacrev(z)(model.theta)
    v = J * model.rates[None, :]
    A = train * (len(J) // len(x))
    found = Hierarchy(z(model.theta), J @ v.T)
    if order == 1:
        return found

    def along(*directions: Array) -> Array:
        return directional_derivative(z, model.theta, directions)

    second = jax.vmap(lambda a: jax.vmap(lambda b: along(a, b))(v[:A]))(v)
    found = found._replace(dH=second.transpose(2, 0, 1))
    if order == 2:
        return found
    third = jax.vmap(lambda a: jax.vmap(lambda b: jax.vmap(lambda c: along(a, b, c))(v[:A]))(v[:A]))(v)
    # D²z_i v_k for all i and k, (k, i, P).
    curved = jax.vmap(lambda one: jax.jvp(jax.jacrev(z), (model.theta,), (one,))[1])(v)
    weighted = curved[:A] * model.rates[None, None, :]
    return found._replace(
        I=third.transpose(3, 0, 1, 2),
        II=jnp.einsum("kip,ljp->ijkl", curved[:A], weighted),
        III=jnp.einsum("jip,lkp->ijkl", curved, weighted[:, :A]),
    )
