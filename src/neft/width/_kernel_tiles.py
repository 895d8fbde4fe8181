"""Kernels of whole blocks of inputs: all layers of a block in one compiled pass (docs/theory/width, eqs. 47-48)."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .._activation import Activation
from .._closed import Pair, form_of
from .._moments import Powers, pure_moments
from .._of_own import own_moments
from ..gaussian import pair
from ._kernel_expansion import over
from ._kernel_pairs import apart, between, by_form, first_pair, next_pair, unit
from ._one_input import Rates

_OWN = 1e-12  # tolerance of averages of a user's own function
_ROWS = 64  # rows of a tile that go through all layers together, so that they stay in the cache


class Diagonal(NamedTuple):
    """What each input has by itself: K and Θ of all layers (L, N), ⟨σ²⟩ of the hidden ones (L-1, N)."""

    K: Any
    Theta: Any
    square: Any


def diagonal(act: Activation, q: np.ndarray, rates: Rates) -> Diagonal:
    """The recursion of one input, for many of mean square q at once."""
    K, Theta, squares = rates.C_b[0] + rates.C_W[0] * q, rates.lambda_b[0] + rates.lambda_W[0] * q, []
    Ks, Thetas = [K], [Theta]
    averages = functools.partial(_squares, act)
    for l in range(1, len(rates.C_b)):
        square, slope = averages(K) if form_of(act) else over(K, averages)
        Theta = rates.lambda_b[l] + rates.lambda_W[l] * square + rates.C_W[l] * Theta * slope
        K = rates.C_b[l] + rates.C_W[l] * square
        Ks, Thetas, squares = [*Ks, K], [*Thetas, Theta], [*squares, square]
    return Diagonal(np.stack(Ks), np.stack(Thetas), np.stack(squares) if squares else np.empty((0, len(q))))


def _squares(act: Activation, K: np.ndarray) -> np.ndarray:
    # ⟨σ²⟩ and ⟨σ'²⟩. What a user's own function needs is not known beforehand.
    if not act.named and form_of(act) is None:
        return own_moments(act, [Powers(s=2), Powers(s1=2)], K, rtol=_OWN, what=f"kernel of {act.name}")
    # Padded, so that compiled code is found again.
    padded = np.pad(K, (0, (1 << (len(K) - 1).bit_length()) - len(K)), mode="edge")
    return np.asarray(_compiled_squares(act, jnp.asarray(padded)))[:, : len(K)]


@functools.partial(jax.jit, static_argnames="act")
def _compiled_squares(act: Activation, K: Array) -> Array:
    form = form_of(act)
    if form is not None:
        return jnp.stack([average(Pair.one(K, jnp.sqrt(K))) for average in form[:2]])
    # In pieces, because every variance has nodes of its own.
    return lax.map(lambda k: pure_moments(act, [Powers(s=2), Powers(s1=2)], k), K, batch_size=64).T


class Side(NamedTuple):
    """A block of inputs: x (n, n_0), √K (L, n), √⟨σ²⟩ (L-1, n)."""

    x: Any
    r: Any
    s: Any


@functools.partial(jax.jit, static_argnames="nearness")
def products(side1: Side, side2: Side, rates: Rates, *, nearness: bool) -> tuple[Array, Array | None]:
    """x₁·x₂/n_0, and 1 - |ρ| at layer 1 if asked for, of a block of pairs in the dtype of the inputs: (n1, n2)."""
    gram = side1.x @ side2.x.T / side1.x.shape[1]
    if not nearness:
        return gram, None
    scale = side1.r[0][:, None] * side2.r[0][None, :]
    rho = (rates.C_b[0] + rates.C_W[0] * gram) / jnp.where(scale > 0, scale, 1)
    return gram, jnp.maximum(1 - jnp.abs(rho), 0).astype(gram.dtype)


@functools.partial(jax.jit, static_argnames=("act", "sharp", "dtype"))
def tile(
    act: Activation, gram: Array, side1: Side, side2: Side, rates: Rates, *, sharp: bool, dtype: Any
) -> tuple[Array, Array]:
    """K and Θ of the output layer for a block of pairs (n1, n2) of these products x₁·x₂/n_0, in closed form.

    The products' own dtype serves the correlations at layer 1, `dtype` what follows. The number of rows is a multiple
    of those that go together, or smaller.
    """
    rows = min(_ROWS, gram.shape[0])
    first = Rates(*(value[0].astype(gram.dtype) for value in rates))
    cast = functools.partial(jax.tree.map, lambda a: a.astype(dtype))
    side2 = Side(None, side2.r[:, None], side2.s[:, None])

    def strip(inputs):
        gram, r, s = inputs
        side = Side(None, r.T[..., None], s.T[..., None])
        pair, Theta = first_pair(first, gram, side.r[0].astype(gram.dtype), side2.r[0].astype(gram.dtype))
        return flow(act, *cast((pair, Theta, side, side2, rates)), sharp=sharp)

    def cut(value):
        return value.reshape(len(value) // rows, rows, *value.shape[1:])

    K, Theta = lax.map(strip, (cut(gram), cut(side1.r.T), cut(side1.s.T)))
    return K.reshape(gram.shape), Theta.reshape(gram.shape)


@functools.partial(jax.jit, static_argnames="act")
def line(act: Activation, side1: Side, n: Any, side2: Side, rates: Rates) -> tuple[Array, Array]:
    """K and Θ of input n of a block paired with those of another, with correlations from differences of inputs.

    Products of inputs leave 1 - |ρ| an error of rounding, of which a kink sees the root.
    """
    first = Rates(*(value[0] for value in rates))
    r = side1.r[:, n, None]
    gram = side2.x @ side1.x[n] / side2.x.shape[1]
    pair, Theta = first_pair(first, gram, r[0], side2.r[0])
    gap, total = apart(unit(first, side1.x[n])[None, :], jax.vmap(lambda x: unit(first, x))(side2.x))
    scale = pair.r1 * pair.r2
    pair = pair._replace(gap=scale * gap, total=scale * total)
    side1 = Side(None, r, side1.s[:, n, None])
    return flow(act, pair, Theta, side1, side2._replace(x=None), rates, sharp=True)


def flow(
    act: Activation, pair: Pair, Theta: Array, side1: Side, side2: Side, rates: Rates, *, sharp: bool
) -> tuple[Array, Array]:
    """K and Θ of the output layer from the pair at layer 1; the sides' arrays broadcast with the pair's.

    `sharp` carries √(K1 K2) - c from layer to layer, which costs time and is wanted where the averages change quickly
    near ρ = ±1.
    """
    form = form_of(act)
    later = Rates(*(value[1:] for value in rates))
    if not later.C_b.size:
        return pair.c, Theta
    assert form is not None

    def layer(state, inputs):
        pair, Theta = state
        rates, (s1, old1, r1), (s2, old2, r2) = inputs
        pair = pair if sharp else between(old1, old2, pair, old1 * old2 - pair)
        pair, Theta = next_pair(rates, by_form(form, pair), Theta, s1, s2, r1, r2)
        return (pair if sharp else pair.c, Theta), None

    sides = [(side.s, side.r[:-1], side.r[1:]) for side in (side1, side2)]
    last: Any = pair if sharp else pair.c
    (last, Theta), _ = lax.scan(layer, (last, Theta), (later, *sides))
    return last.c if sharp else last, Theta


def by_quadrature(
    act: Activation, rho: np.ndarray, K1: np.ndarray, K2: np.ndarray, Theta: np.ndarray, rates: Rates
) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of the output layer, a layer at a time with pair averages that refine themselves.

    ρ and Θ are those of layer 1, of shape (n1, n2); K1 and K2 are variances of all layers, (L, n).
    """
    c = rho * np.sqrt(np.outer(K1[0], K2[0]))
    for l in range(1, len(K1)):
        square, slope = (pair(act, K1[l - 1][:, None], K2[l - 1][None, :], rho, order=n) for n in (0, 1))
        Theta = rates.lambda_b[l] + rates.lambda_W[l] * square + rates.C_W[l] * Theta * slope
        c = rates.C_b[l] + rates.C_W[l] * square
        scale = np.sqrt(np.outer(K1[l], K2[l]))
        rho = np.clip(np.divide(c, scale, out=np.zeros_like(c), where=scale > 0), -1, 1)
    return c, Theta
