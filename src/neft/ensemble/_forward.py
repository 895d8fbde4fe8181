"""What one drawn network tells about every tensor, for one input.

At each layer the weights of that layer are averaged over exactly wherever this can be done in closed form, which leaves
far less noise than the correlators themselves: given the layer before, outputs are Gaussian with variance G, and the
NTK is known up to those weights (seed 004, NTK forward equation).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._network import MLP, Layer


class Kernels(NamedTuple):
    """Averages over the weights of layer l, given the network before it; each of shape (L,).

    G and H are the variance of a preactivation and the diagonal NTK; FF and BB are the squares that F and B count.
    """

    G: Float[Array, " layers"]
    H: Float[Array, " layers"]
    FF: Float[Array, " layers"]
    BB: Float[Array, " layers"]


class Differentials(NamedTuple):
    """The correlators of dNTK and ddNTK for two drawn neurons of a layer; each of shape (L,)."""

    P: Float[Array, " layers"]
    Q: Float[Array, " layers"]
    R: Float[Array, " layers"]
    S: Float[Array, " layers"]
    T: Float[Array, " layers"]
    U: Float[Array, " layers"]


def kernels(net: MLP, params: tuple[Layer, ...], x: Float[Array, " n_0"]) -> Kernels:
    """The averages of all layers of one drawn network."""
    sigma, slope = net.activation, net.activation.derivative(1)
    zs = net.preactivations(params, x)
    q = jnp.mean(x * x)
    first = (net.C_b[0] + net.C_W[0] * q, net.lambda_b[0] + net.lambda_W[0] * q, 0 * q, 0 * q)
    rows, NTK = [first], first[1] * jnp.eye(net.widths[1], dtype=x.dtype)
    for l in range(1, net.depth):
        n, C_W, lambda_W = net.widths[l], net.C_W[l], net.lambda_W[l]
        s, d = sigma(zs[l - 1]), slope(zs[l - 1])
        inner = d[:, None] * NTK * d
        square = jnp.mean(s * s)
        rows.append(
            (
                net.C_b[l] + C_W * square,
                net.lambda_b[l] + lambda_W * square + C_W * jnp.mean(jnp.diagonal(inner)),
                (C_W / n) ** 2 * (s @ inner @ s),
                (C_W / n) ** 2 * jnp.sum(inner * inner),
            )
        )
        W = params[l].W
        NTK = (net.lambda_b[l] + lambda_W * square) * jnp.eye(net.widths[l + 1], dtype=x.dtype) + W @ inner @ W.T
    return Kernels(*(jnp.stack(column) for column in zip(*rows)))


def differentials(net: MLP, params: tuple[Layer, ...], x: Float[Array, " n_0"]) -> Differentials:
    """The correlators of all layers of one drawn network, by contraction along gradients.

    With v_i = λ∇z_i: dH_ijk = D²z_i[v_j, v_k], ddI_ijkl = D³z_i[v_j, v_k, v_l], ddII_ijkl = ⟨D²z_i v_k, λ D²z_j v_l⟩.
    """
    rows = [_at_layer(net, params[: l + 1], x, l) for l in range(net.depth)]
    return Differentials(*(jnp.stack(column) for column in zip(*rows)))


def _at_layer(net: MLP, params: tuple[Layer, ...], x: Array, l: int) -> tuple[Array, ...]:
    # Two neurons of layer l are enough for every index structure.
    last = params[l]
    params = (*params[:l], Layer(last.W[:2], last.b[:2]))
    rates = net.rates()[: l + 1]

    def outputs(p):
        signal = x
        for W, b in p[:-1]:
            signal = net.activation(W @ signal + b)
        return p[-1].W @ signal + p[-1].b

    def scale(tree):
        return jax.tree.map(jnp.multiply, rates, tree)

    def output(direction):
        return lambda p: jnp.vdot(direction, outputs(p))

    # Stacked over the two neurons, so that every derivative is compiled once: v[i] = λ∇z_i, hv[i, k] = D²z_i v_k.
    neurons, z = jnp.eye(2, dtype=x.dtype), outputs(params)
    v = jax.vmap(lambda e: scale(jax.grad(output(e))(params)))(neurons)
    hv = jax.vmap(lambda e: jax.vmap(lambda t: jax.jvp(jax.grad(output(e)), (params,), (t,))[1])(v))(neurons)

    def third(e, own, other):
        # D³z_i[v_i, v_j, v_j]
        def curvature(p):
            return jax.jvp(lambda q: jax.jvp(output(e), (q,), (other,))[1], (p,), (other,))[1]

        return jax.jvp(curvature, (params,), (own,))[1]

    R = jax.vmap(third)(neurons, v, jax.tree.map(lambda leaf: leaf[::-1], v))
    dH = _contract("ijx,kx->ijk", hv, v)
    ddII = _contract("ikx,jlx->ijkl", hv, jax.vmap(jax.vmap(scale))(hv))
    return (
        (dH[0, 1, 1] * z[0] + dH[1, 0, 0] * z[1]) / 2,
        (dH[0, 0, 1] * z[1] + dH[1, 1, 0] * z[0]) / 2,
        R.mean(),
        (ddII[0, 0, 1, 1] + ddII[1, 1, 0, 0]) / 2,
        (ddII[0, 1, 0, 1] + ddII[1, 0, 1, 0]) / 2,
        (ddII[0, 1, 1, 0] + ddII[1, 0, 0, 1]) / 2,
    )


def _contract(subscripts: str, a: Any, b: Any) -> Array:
    # A sum over all parameters, which are the last axes of every leaf.
    first, second = (subscripts.index(",") - 1, subscripts.index("->") - subscripts.index(",") - 2)
    parts = [
        jnp.einsum(subscripts, left.reshape(*left.shape[:first], -1), right.reshape(*right.shape[:second], -1))
        for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b))
    ]
    return functools.reduce(jnp.add, parts)
