"""The NTK of one drawn network after each of its blocks, by the chain rule block by block.

A block y = f(θ, x) with rates λ has H' = J H Jᵀ + ⟨∇_θ y, λ∇_θ y⟩, J its Jacobian in x. In a residual block the NTK
between branch and stream goes through the branch with one J. No array is larger than H itself, where Jacobians in all
parameters are as large as H times the number of parameters over that of neurons.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..network import Block, Dense, Network, Nonlinearity, Residual
from ..network.engine import holds


class Seen(NamedTuple):
    """Values (N, n) at a place, their NTK (N, n, N, n), and that with where branches around it began, (N, n, N, m)."""

    z: Array
    H: Array
    cross: Array


def tangents(net: Network, params: Sequence[Any], x: Array) -> list[tuple[Array, Array]]:
    """Preactivations (N, n) and their NTK (N, n, N, n) after each block at the top that holds weights."""
    N, n = x.shape
    start = Seen(x, jnp.zeros((N, n, N, n), x.dtype), jnp.zeros((N, n, N, 0), x.dtype))
    found = []
    for block, seen in _along(net.blocks, params, net.rates(), start):
        if block.weighs:
            found.append((seen.z, seen.H))
    return found


def _along(
    blocks: Sequence[Block], params: Sequence[Any], rates: Sequence[Any], seen: Seen
) -> Iterator[tuple[Block, Seen]]:
    left, speeds = iter(params), iter(rates)
    for block in blocks:
        own = (next(left), next(speeds)) if holds(block, seen.z.shape[-1]) else ((), ())
        seen = _after(block, *own, seen)
        yield block, seen


def _after(block: Block, params: Any, rates: Any, seen: Seen) -> Seen:
    if isinstance(block, Residual):
        return _residual(block, params, rates, seen)
    if isinstance(block, Dense):
        return _dense(block, params, rates, seen)
    if isinstance(block, Nonlinearity):
        s, slope = jax.jvp(lambda z: block.apply((), z), (seen.z,), (jnp.ones_like(seen.z),))
        here, there = slope[:, :, None, None], slope[None, None]
        return Seen(s, here * seen.H * there, here * seen.cross)
    return _any(block, params, rates, seen)


def _dense(block: Dense, params: Any, rates: Any, seen: Seen) -> Seen:
    z, H, cross = seen
    own = jax.tree.map(lambda rate: jnp.asarray(rate, z.dtype), rates)
    shared, same = own.b + own.W * (z @ z.T), jnp.eye(block.width, dtype=z.dtype)
    half = jnp.einsum("ij,ajbk->aibk", params.W, H)
    new = jnp.einsum("aibk,lk->aibl", half, params.W) + shared[:, None, :, None] * same[None, :, None, :]
    return Seen(block.apply(params, z), new, jnp.einsum("ij,ajbk->aibk", params.W, cross))


def _any(block: Block, params: Any, rates: Any, seen: Seen) -> Seen:
    # Of one input at a time, since no block that has a kernel mixes inputs.
    z, H, cross = seen
    J = jax.vmap(jax.jacfwd(lambda one: block.apply(params, one[None])[0]))(z)
    new = jnp.einsum("aij,ajbk,blk->aibl", J, H, J)
    slopes = jax.jacrev(lambda own: block.apply(own, z))(params) if jax.tree.leaves(params) else ()
    for rate, leaf in zip(jax.tree.leaves(rates), jax.tree.leaves(slopes), strict=True):
        flat = leaf.reshape(*J.shape[:2], -1)
        new = new + jnp.asarray(rate, z.dtype) * jnp.einsum("aip,bjp->aibj", flat, flat)
    return Seen(block.apply(params, z), new, jnp.einsum("aij,ajbk->aibk", J, cross))


def _residual(block: Residual, params: Any, rates: Any, seen: Seen) -> Seen:
    z, H, outer = seen
    n = z.shape[1]
    start = Seen(z, H, jnp.concatenate([H, outer], axis=-1))
    *_, (_, branch) = _along(block.branch, params.branch, rates.branch, start)
    mixed, inner = branch.cross[..., :n], branch.cross[..., n:]
    if isinstance(block.skip, Block):
        # The other side of what branch and stream share goes through the skip.
        both = Seen(z, H, jnp.concatenate([outer, mixed.transpose(2, 3, 0, 1)], axis=-1))
        z, H, both = _after(block.skip, params.skip, rates.skip, both)
        outer, mixed = both[..., : outer.shape[-1]], both[..., outer.shape[-1] :].transpose(2, 3, 0, 1)
    else:
        skip = jnp.asarray(block.skip, z.dtype)
        z, H, outer, mixed = skip * z, skip * skip * H, skip * outer, skip * mixed
    return Seen(z + branch.z, H + branch.H + mixed + mixed.transpose(2, 3, 0, 1), outer + inner)
