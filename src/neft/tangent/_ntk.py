"""The neural tangent kernel of one network."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import subjaxprs
from jaxtyping import Array, Float

from .._blocks import BUDGET, block_size, tiles
from .._check import finite
from .._flat import Flat, Model, flat, per_leaf, rates_of, samples, split
from .._promote import common_dtype
from .._public import public
from ..network import MLP, Network
from ._layers import layer_ntk, layered, signals

_SAMPLES = 64
"""Inputs whose tangents are held at once, at most: more gain nothing."""


@public
def ntk(
    f: Model | Network, params: Any, x1: Any, x2: Any = None, *, rates: Any = None, trace: bool = False
) -> Float[Array, "N1 N2 O O"] | Float[Array, "N1 N2"]:
    """H_ij(x1, x2) = Σ_θ λ_θ ∂z_i(x1)/∂θ ∂z_j(x2)/∂θ for all pairs of inputs (docs/theory/width, eq. 5).

    In blocks: memory is bounded by the result. A row of f's output may depend on its own input only.

    Args:
        f: f(params, x) maps inputs of shape (N, …) to outputs (N, O); an MLP or its `apply` goes through its layers.
        params: any pytree; its floating-point arrays are differentiated, so an Equinox model works as it is.
        x1: inputs, shape (N1, …).
        x2: inputs, shape (N2, …); x1 again by default.
        rates: learning rates, a tree with a number or an array per array of `params`, or one number; by default those
            of an MLP, λ_b and λ_W/n_{l-1}, and 1 for any other function.
        trace: whether to sum over i = j, for a result of shape (N1, N2).

    >>> net = MLP(widths=(3, 8, 2))
    >>> ntk(net, net.init(jax.random.key(0)), jnp.ones((5, 3))).shape
    (5, 5, 2, 2)
    """
    x1 = samples("x1", x1)
    x2, symmetric = (x1, True) if x2 is None else (samples("x2", x2), False)
    if x1.shape[1:] != x2.shape[1:]:
        raise ValueError(f"x2 has inputs of shape {x2.shape[1:]}, but x1 has inputs of shape {x1.shape[1:]}.")
    step, outputs = _step(f, params, rates, x1, trace)
    size = block_size(outputs.bytes_per_sample, max(len(x1), len(x2)))
    O = outputs.number
    result = np.empty((len(x1), len(x2)) if trace else (len(x1), len(x2), O, O), outputs.dtype)
    for rows, columns in tiles(len(x1), len(x2), size, symmetric=symmetric, label="NTK"):
        block = np.asarray(step(x1[rows], x2[columns]))
        if symmetric and rows == columns:
            # To the last bit, whatever order sums were taken in.
            block = (block + (block.T if trace else block.transpose(1, 0, 3, 2))) / 2
        result[rows, columns] = block
        if symmetric and rows != columns:
            result[columns, rows] = block.T if trace else block.transpose(1, 0, 3, 2)
    finite("the NTK", result)
    return jnp.asarray(result)


class _Outputs(NamedTuple):
    # How many, of what type, and what a sample takes in memory on the way.
    number: int
    dtype: Any
    bytes_per_sample: float


def _step(
    f: Model | Network, params: Any, rates: Any, x: Array, trace: bool
) -> tuple[Callable[[Array, Array], Array], _Outputs]:
    through = layered(f, rates, params)
    if through is not None:
        net, leaves = through
        dtype, count = common_dtype(x, *jax.tree.leaves(params)), net.widths[-1]
        size = 4 * dtype.itemsize * sum(net.widths) * count
        leaves = jax.tree.map(lambda rate: jnp.asarray(rate, dtype), leaves)
        return functools.partial(_by_layers, net, params, leaves, trace=trace), _Outputs(count, dtype, size)
    model = flat(f, params, rates)
    count = jax.eval_shape(model.z, model.theta, x[:1]).shape[1]
    size = 3 * model.theta.dtype.itemsize * count * len(model.theta)
    if trace or count == 1:
        step = functools.partial(_by_jacobians, f, params, model.rates, trace=trace)
        return step, _Outputs(count, model.theta.dtype, size)
    trained = split(f, params)[1]
    every = per_leaf(rates_of(f, rates), trained)
    leaves = jax.tree.map(lambda rate, leaf: jnp.asarray(rate, leaf.dtype), every, trained)
    step = functools.partial(_by_products, f, params, leaves)
    size = count * (_bytes(model, x[:1].repeat(2, 0)) - _bytes(model, x[:1]))
    return step, _Outputs(count, model.theta.dtype, max(size, BUDGET / _SAMPLES))


def _bytes(model: Flat, x: Array) -> float:
    # All that the function holds on the way, if nothing is ever let go.
    def held(jaxpr) -> float:
        own = sum(v.aval.size * v.aval.dtype.itemsize for eqn in jaxpr.eqns for v in eqn.outvars)
        return own + sum(map(held, subjaxprs(jaxpr)))

    return held(jax.make_jaxpr(model.z)(model.theta, x).jaxpr)


@functools.partial(jax.jit, static_argnames="trace")
def _by_layers(net: MLP, params: Any, rates: Any, x1: Array, x2: Array, trace: bool) -> Array:
    # Inputs may be images of bytes, whose products would be taken modulo 256.
    dtype = common_dtype(x1, x2, *jax.tree.leaves(params))
    return layer_ntk(rates, *(signals(net, params, x.astype(dtype)) for x in (x1, x2)), trace=trace)


@eqx.filter_jit
def _by_products(f: Model | Network, params: Any, rates: Any, x1: Array, x2: Array) -> Array:
    # Each gradient of an output at one input, pushed forward at all others: 4 N²OP operations for P parameters, where
    # contracting Jacobians takes 2 N²O²P. One gradient at a time, in the parameters' own shapes: it is as large as they
    # are, and several at once, or a vector made of one, would go through memory again and again.
    z, trained = split(f, params)
    push = jax.linearize(lambda t: z(t, x1), trained)[1]

    def columns(one):
        outputs, pull = jax.vjp(lambda t: z(t, one[None])[0], trained)

        def column(e):
            return push(jax.tree.map(jnp.multiply, rates, pull(e)[0]))

        return jax.lax.map(column, jnp.eye(len(outputs), dtype=outputs.dtype))

    return jax.lax.map(columns, x2).transpose(2, 0, 3, 1)


@eqx.filter_jit
def _by_jacobians(f: Model | Network, params: Any, rates: Array, x1: Array, x2: Array, trace: bool) -> Array:
    model = flat(f, params)

    def jacobian(x):
        return jax.vmap(lambda one: jax.jacrev(lambda t: model.z(t, one[None])[0])(model.theta))(x)

    first, second = jacobian(x1) * rates[None, None, :], jacobian(x2)
    return jnp.einsum("aip,bip->ab" if trace else "aip,bjp->abij", first, second)
