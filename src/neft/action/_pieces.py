"""The logits by monomial: f = c + Σ s_{j+k} C(j+k, j) U(Wz)^j b^k (docs/theory/action, eq. 5)."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from .._activation import Activation
from ._model import homogeneous

Degrees = tuple[int, int, int, int]
"""How often U, W, b and c occur."""

Pieces = dict[Degrees, Any]
"""A part of the logits by its degrees, each of shape (n, M), or (1, M) where it does not depend on the sample."""


def name(degrees: Degrees, joined: bool = False) -> str:
    """The monomial in letters; for ReLU-like activations (W,b) is one letter.

    >>> name((2, 2, 0, 0)), name((1, 1, 0, 1), joined=True)
    ('UUWW', 'U(Wb)c')
    """
    letters = ("U", "(Wb)" if joined else "W", "b", "c")
    return "".join(letter * count for letter, count in zip(letters, degrees))


def pieces(params: Any, x: Any, s: tuple[float, ...], *, dtype: Any) -> Pieces:
    """Every part of the logits up to total degree len(s), from the numbers s_0.. and x = Wz (n × H); traceable code."""
    U, _, b, c = params
    found: Pieces = {(0, 0, 0, 1): c[None].astype(dtype)}
    bias = U.astype(dtype)
    for k, number in enumerate(s):
        if k or number:
            found[1, 0, k, 0] = number * bias.sum(axis=1)[None]
        bias = bias * b.astype(dtype)[None, :]
    if any(s[1:]):
        power = x
        for j in range(1, len(s)):
            if not any(s[j:]):
                break
            # One product for all powers of b: rows are U, Ub, Ubb, …
            kept = [k for k in range(len(s) - j) if s[j + k]]
            if kept:
                stacked = jnp.concatenate([U * b[None, :] ** k for k in kept])
                parts = jnp.split((power @ stacked.T).astype(dtype), len(kept), axis=1)
                for k, part in zip(kept, parts):
                    found[1, j, k, 0] = s[j + k] * math.comb(j + k, j) * part
            power = power * x
    for j in range(1, len(s)):
        for k in range(len(s) - j):
            # A vanishing number leaves a term that is there and zero.
            found.setdefault((1, j, k, 0), jnp.zeros((1, len(c)), dtype))
    return found


def homogeneous_pieces(params: Any, x: Any, act: Activation, *, dtype: Any) -> Pieces:
    """c and Uρ with ρ = σ(Wz+b), for σ(tx) = tσ(x): exact for t ≥ 0."""
    U, _, b, c = params
    return {(0, 0, 0, 1): c[None].astype(dtype), (1, 1, 0, 0): (act(x + b[None, :]) @ U.T).astype(dtype)}


def of_activation(act: Activation, order: int) -> Callable[[Any, Any], Pieces]:
    """The function (params, Wz) -> parts of the logits up to total degree `order`, in float64; traceable code."""
    s = () if homogeneous(act) else tuple(float(number) for number in act.taylor(max(order - 1, 0)))

    def run(params, x):
        if homogeneous(act):
            found = homogeneous_pieces(params, x, act, dtype=jnp.float64)
        else:
            found = pieces(params, x, s, dtype=jnp.float64)
        return {degrees: part for degrees, part in found.items() if sum(degrees) <= order}

    return run
