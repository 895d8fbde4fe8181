"""The NTK of an MLP through its layers: gradients are outer products, so no Jacobian is formed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._flat import network, per_leaf, rates_of, separate
from .._promote import numeric
from .._public import public
from ..network import MLP, Network
from ..network.engine import plain


def layered(f: Any, rates: Any, params: Any) -> tuple[MLP, Any] | None:
    """The network and its rates where `f` is a plain one or its `apply`, with one rate per array; else None."""
    found = network(f)
    net = plain(found) if isinstance(found, Network) else None
    if net is None:
        return None
    leaves = per_leaf(rates_of(f, rates), params)
    return None if any(np.ndim(rate) for rate in jax.tree.leaves(leaves)) else (net, leaves)


def signals(net: MLP, params: Any, x: Array) -> tuple[list[Array], list[Array]]:
    """What enters each layer, (N, n_{l-1}), and the derivatives of the outputs by its preactivations, (N, O, n_l)."""
    zs = net.preactivations(params, x)
    dtype = zs[-1].dtype
    entering = [jnp.asarray(x, dtype), *(net.activation(z) for z in zs[:-1])]
    slope = net.activation.derivative(1)
    N, O = zs[-1].shape
    backward = [jnp.broadcast_to(jnp.eye(O, dtype=dtype), (N, O, O))]
    for layer, z in zip(reversed(params[1:]), reversed(zs[:-1])):
        backward.append((backward[-1] @ jnp.asarray(layer[0], dtype)) * slope(z)[:, None, :])
    return entering, backward[::-1]


def layer_ntk(
    rates: Any, first: tuple[list[Array], list[Array]], second: tuple[list[Array], list[Array]], trace: bool
) -> Float[Array, "N1 N2 *outputs"]:
    """Σ over layers of (λ_W s₁·s₂ + λ_b) times the product of the derivatives by preactivations."""
    total: Any = 0.0
    for (rate_W, rate_b), s1, s2, d1, d2 in zip(rates, first[0], second[0], first[1], second[1]):
        N1, O, n = d1.shape
        weights = rate_W * (s1 @ s2.T) + rate_b
        if trace:
            total = total + weights * (d1.reshape(N1, O * n) @ d2.reshape(-1, O * n).T)
        else:
            products = (d1.reshape(N1 * O, n) @ d2.reshape(-1, n).T).reshape(N1, O, -1, O)
            total = total + weights[:, None, :, None] * products
    return total if trace else total.transpose(0, 2, 1, 3)


@public
def mlp_ntk(
    net: Network,
    params: Any,
    x1: Float[Array, "N1 n_0"],
    x2: Float[Array, "N2 n_0"] | None = None,
    *,
    trace: bool = False,
) -> Float[Array, "N1 N2 *outputs"]:
    """What `ntk` gives for a network without `rates`, as a pure function to compile, map or differentiate.

    A multilayer perceptron goes through its layers, any other network by its Jacobians.

    >>> net = MLP(widths=(3, 8, 2))
    >>> jax.jit(lambda params, x: mlp_ntk(net, params, x))(net.init(jax.random.key(0)), jnp.ones((5, 3))).shape
    (5, 5, 2, 2)
    """
    separate(net)
    x1, x2 = net.flat(x1), None if x2 is None else net.flat(x2)
    for argument, x in (("x1", x1), ("x2", x1 if x2 is None else x2)):
        if 0 in (shape := numeric(argument, x).shape) or len(shape) != 2:
            raise ValueError(f"{argument} has shape {shape}, but must have shape (N, {net.inputs}) with N at least 1.")
    chain = plain(net)
    if chain is None:
        return _by_jacobians(net, params, x1, x1 if x2 is None else x2, trace)
    net, first = chain, signals(chain, params, x1)
    return layer_ntk(net.rates(), first, first if x2 is None else signals(net, params, x2), trace)


def _by_jacobians(net: Network, params: Any, x1: Array, x2: Array, trace: bool) -> Array:
    rates = jax.tree.leaves(net.rates())

    def jacobian(x):
        one = jax.jacrev(lambda params, x: net.apply(params, x[None])[0])
        leaves = jax.tree.leaves(jax.vmap(one, (None, 0))(params, x))
        return [leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves]

    total: Any = 0.0
    for rate, first, second in zip(rates, jacobian(x1), jacobian(x2), strict=True):
        total = total + rate * jnp.einsum("aip,bip->ab" if trace else "aip,bjp->abij", first, second)
    return total
