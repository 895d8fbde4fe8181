"""Powers of an activation and its derivatives averaged over one Gaussian variable, with the deltas at kinks."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._activation import Activation, Kink
from ._periodic import average, harmonics
from ._quadrature import PANELS, rule


class Powers(NamedTuple):
    """The integrand z^z · σ^s · σ'^s1 · σ''^s2 · σ'''^s3.

    >>> Powers(s=1, s1=2, s2=1)
    Powers(s=1, s1=2, s2=1, s3=0, z=0)
    """

    s: int = 0
    s1: int = 0
    s2: int = 0
    s3: int = 0
    z: int = 0


def pure_moments(
    act: Activation, powers: Sequence[Powers], K: Float[Array, "*shape"], *, panels: int | None = None
) -> Float[Array, "powers *shape"]:
    """Several moments of one activation on shared nodes: `gaussian.moment` as a pure function, for jit, vmap and grad.

    `panels` is static; the default serves every named activation at K from 1e-6 to 1e4 (an oscillating one to 1e3).
    The precision is that of K and of the configuration: 1e-12 of ⟨|f|⟩ needs float64. At K = 0 the value is that of the
    integrand at the origin, but the derivative in K is NaN: √K has none there.
    """
    kinks = [k.position for k in act.kinks]
    if act.fourier is None:
        count = panels or (64 * PANELS if act.oscillates else PANELS)
    else:
        count = panels or PANELS * max(4, len(act.fourier.coefficients))
    z, w = rule(K, kinks=kinks, cuts=act.cuts, length=act.length, oscillates=act.oscillates, panels=count)
    derivatives = {n: act.derivative(n)(z) for n in range(4) if any(p[n] for p in powers)}
    found = [
        (w * monomial(jnp, derivatives, p, z)).sum(-1) + delta_part(deltas(act, p), jnp.asarray(K)) for p in powers
    ]
    if act.fourier is not None:
        # Panels serve where a period is long for the Gaussian, and the Fourier series cancels.
        rate, K = act.fourier.frequency, jnp.asarray(K, dtype=float)
        sums = [average(jnp, fourier_of_product(act, p), rate, p.z, K) for p in powers]
        found = [jnp.where(rate**2 * K > 1, far, near) for far, near in zip(sums, found)]
    return jnp.stack(found)


@functools.lru_cache(maxsize=256)
def fourier_of_product(act: Activation, powers: Powers) -> np.ndarray:
    """The Fourier coefficients of the integrand without z^z, for an activation that has a Fourier series."""
    bare = powers._replace(z=0)
    return harmonics(
        act.function, act.fourier, lambda at: monomial(np, dict(enumerate(at)), bare, at[0]), sum(powers[:4])
    )


def deltas(act: Activation, powers: Powers) -> tuple[tuple[float, float], ...]:
    """The (position, weight) of each delta function in the integrand; a ValueError where the product does not exist.

    At a kink where σ^(q) jumps, σ^(q+1) holds a delta. The product σ^(q)^p σ^(q+1) is the derivative of
    σ^(q)^(p+1)/(p+1), so its delta weighs the jump of that, whatever smooth functions approach σ (docs/theory/width,
    eq. 65).

    >>> from neft import activation
    >>> deltas(activation("hard_tanh"), Powers(s=1, s1=2, s2=1))
    ((-1.0, -0.3333333333333333), (1.0, -0.3333333333333333))
    """
    spikes = []
    for kink in act.kinks:
        q, derivative_powers = kink.order, powers[:4]
        above = derivative_powers[q + 1 :]
        if not any(above):
            continue
        if any(above[1:]) or above[0] > 1:
            text = "".join(f"σ{chr(39) * n}^{p} " for n, p in enumerate(derivative_powers) if p).strip()
            raise ValueError(
                f"the average of {text} does not exist for {act.name}: its derivative {q} jumps at {kink.position:g}, "
                "which leaves a product of deltas."
            )
        if not math.isfinite(kink.jump):
            raise ValueError(
                f"the average does not exist for {act.name}: its derivative {q} is not bounded at {kink.position:g}."
            )
        left, right = sides(act, kink)
        p = derivative_powers[q]
        weight = (right[q] ** (p + 1) - left[q] ** (p + 1)) / (p + 1)
        for n in range(q):
            weight *= right[n] ** derivative_powers[n]
        spikes.append((kink.position, weight * kink.position**powers.z))
    return tuple(spikes)


@functools.lru_cache(maxsize=256)
def sides(act: Activation, kink: Kink, highest: int = 0) -> tuple[list[float], list[float]]:
    """σ and its derivatives up to the one that jumps, or further, just left and just right of a kink."""
    # Just beside the kink: far enough to be a normal number, near enough to change nothing.
    step = max(abs(kink.position) * 2.0**-50, 1e-150)

    def limits(side: int) -> list[float]:
        # What is continuous there is taken at the kink itself, so that ReLU's σ(0) is exactly 0.
        offsets = [0.0] * kink.order + [side * step] * (1 + max(0, highest - kink.order))
        return [float(act.derivative(n)(kink.position + offset)) for n, offset in enumerate(offsets)]

    # These are numbers of the activation, even when the caller is being traced.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return limits(-1), limits(1)


def delta_part(spikes: Sequence[tuple[float, float]], K: Array) -> Array:
    """What these (position, weight) add to an average over z ~ N(0, K), of K's shape."""
    # At K = 0 the Gaussian is a delta itself: only a spike elsewhere has a limit, 0.
    safe = jnp.where(K > 0, K, 1.0)
    total = jnp.zeros_like(K)
    for position, weight in spikes:
        density = jnp.exp(-(position**2) / (2 * safe)) / jnp.sqrt(2 * jnp.pi * safe)
        at_zero = 0.0 if position or not weight else math.inf
        total = total + weight * jnp.where(K > 0, density, at_zero) if weight else total
    return total


def monomial(xp: Any, derivatives: Mapping[int, Any], powers: Powers, z: Any) -> Any:
    """The integrand at z from the derivatives there, by order; `xp` is numpy or jax.numpy."""
    value = z**powers.z if powers.z else xp.ones_like(z)
    for n, derivative in derivatives.items():
        if powers[n]:
            value = value * derivative ** powers[n]
    return value
