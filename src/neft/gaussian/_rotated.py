"""Pair averages by quadrature in rotated coordinates, for correlations near ±1, where Hermite expansions are long.

With unit variables x₁, x₂ of correlation ρ, let p and q be standard normal coordinates along and across the long axis,

    x₁ = A p + B q,    x₂ = s (A p - B q),    A² = (1+|ρ|)/2,    B² = (1-|ρ|)/2,    s = sign ρ.

For |ρ| near 1, B is small and the inner integral over q easy. Kinks of f become breakpoints of both integrals, so that
every panel sees a smooth function.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._quadrature import in_units, unit_rule

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 9.0
_GRADED = 20  # outer panels that every function gets
_AROUND = np.array([-9.0, -4.0, -1.5, 0.0, 1.5, 4.0, 9.0])  # outer breakpoints near a kink, in widths B/A
_TINY = 1e-150


@functools.partial(jax.jit, static_argnames=("f", "kinks", "length", "panels", "refine"))
def rotated(
    f: Callable,
    K1: Float[Array, " pairs"],
    K2: Float[Array, " pairs"],
    rho: Float[Array, " pairs"],
    *,
    kinks: tuple[float, ...],
    length: float,
    panels: int,
    refine: int = 1,
) -> Float[Array, " pairs"]:
    """⟨f(z₁) f(z₂)⟩ for each pair.

    `panels` is the number of inner panels between two breakpoints; `refine` multiplies the panels of both integrals.
    """
    return jax.vmap(lambda a, b, r: _one(f, a, b, r, kinks, length, panels, refine))(K1, K2, rho)


@functools.partial(jax.jit, static_argnames=("f", "kinks", "length", "panels"))
def aligned(
    f: Callable,
    K1: Float[Array, " pairs"],
    K2: Float[Array, " pairs"],
    sign: Float[Array, " pairs"],
    *,
    kinks: tuple[float, ...],
    length: float,
    panels: int = 16,
) -> Float[Array, " pairs"]:
    """⟨f(z₁) f(z₂)⟩ at ρ = sign = ±1, where one variable is a multiple of the other."""
    spread1, spread2 = jnp.sqrt(K1), jnp.sqrt(K2)
    breaks = [*in_units(jnp, kinks, spread1), *(sign * b for b in in_units(jnp, kinks, spread2))]
    breaks = list(jnp.sort(jnp.stack(breaks), axis=0)) if breaks else []
    x, w = unit_rule(jnp, jnp.maximum(spread1, spread2), breaks, length=length, panels=panels)
    return (w * f(spread1[:, None] * x) * f((sign * spread2)[:, None] * x)).sum(-1)


def panels_for(K: np.ndarray, rho: np.ndarray, length: float) -> np.ndarray:
    """Inner panels, from a short list, so that each is at most three lengths of f and resolves the Gaussian itself."""
    across = np.sqrt(K * (1 - np.abs(rho)) / 2) / length
    choices = np.array([4, 8, 16, 32])
    return choices[np.minimum(np.searchsorted(choices, 2 * _REACH * across / 3), len(choices) - 1)]


def nodes_per_pair(kinks: int, panels: int) -> int:
    """How many points one pair costs."""
    outer = (_GRADED + len(_AROUND) * (2 * kinks + kinks**2)) * len(_NODES)
    return outer * (2 * kinks + 1) * panels * len(_NODES)


def _one(f: Callable, K1: Array, K2: Array, rho: Array, kinks: tuple, length: float, panels: int, refine: int) -> Array:
    s = jnp.where(rho < 0, -1.0, 1.0)
    A, B = jnp.sqrt((1 + jnp.abs(rho)) / 2), jnp.sqrt((1 - jnp.abs(rho)) / 2)
    spread1, spread2 = jnp.sqrt(K1), jnp.sqrt(K2)
    # Positions of the kinks in the unit variables; far away where the variance is zero.
    at1 = [k / jnp.maximum(spread1, _TINY) for k in kinks]
    at2 = [s * k / jnp.maximum(spread2, _TINY) for k in kinks]
    c = jnp.minimum(length / jnp.maximum(jnp.maximum(spread1, spread2), _TINY), _REACH)
    edges = c * jnp.sinh(jnp.linspace(-1.0, 1.0, _GRADED * refine + 1) * jnp.arcsinh(_REACH / c))
    centres = [*at1, *at2, *((a + b) / 2 for a in at1 for b in at2)]
    if centres:
        # A kink of f(z₁) is crossed while p moves by a few B/A.
        near = (jnp.stack(centres)[:, None] + B * _AROUND[None, :]) / A
        edges = jnp.sort(jnp.concatenate([edges, jnp.clip(near, -_REACH, _REACH).ravel()]))
    p, outer = _panels(edges)

    def inner(p):
        breaks = [(a - A * p) / jnp.maximum(B, _TINY) for a in at1] + [(A * p - b) / jnp.maximum(B, _TINY) for b in at2]
        ends = jnp.stack([jnp.asarray(-_REACH), *(jnp.clip(q, -_REACH, _REACH) for q in breaks), jnp.asarray(_REACH)])
        ends = jnp.sort(ends)
        fractions = np.arange(panels * refine) / (panels * refine)
        cut = ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * fractions[None, :]
        q, weight = _panels(jnp.append(cut.ravel(), _REACH))
        z1, z2 = spread1 * (A * p + B * q), spread2 * s * (A * p - B * q)
        return (weight * f(z1) * f(z2)).sum()

    return (outer * jax.vmap(inner)(p)).sum()


def _panels(edges: Array) -> tuple[Array, Array]:
    half = (edges[1:] - edges[:-1])[:, None] / 2
    x = edges[:-1, None] + half * (1 + _NODES[None, :])
    w = half * _WEIGHTS[None, :] * jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x.ravel(), w.ravel()
