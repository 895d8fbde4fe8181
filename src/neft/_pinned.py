"""Averages with a delta: one variable is pinned to a kink, the others keep their conditional distribution."""

import itertools
import math

import numpy as np
from jaxtyping import Float

from ._activation import Activation, Kink
from ._moments import sides
from ._precision import float64
from ._quadrature import elementwise
from ._tuples import almost_everywhere

_ALIGNED = 1e-13


@float64
def pinned_products(
    act: Activation, order: int, pattern: tuple[int, int, int], K: Float[np.ndarray, "N N"], *, rtol: float
) -> Float[np.ndarray, "N N N N"]:
    """What the deltas in σ^(order)(z_o) add to ⟨σ^(order)(z_o) σ^(p)(z_a) σ^(q)(z_b) σ^(r)(z_c)⟩; axes o, a, b, c.

    The pattern (p, q, r) holds derivatives that jump at most. Where samples coincide, a delta meets jumps of the
    others, and all of them are crossed together: the limit of smooth functions (docs/theory/width, section Kinks).
    """
    result = np.zeros((len(K),) * 4)
    for o in range(len(K)):
        for kink in act.kinks:
            if kink.order == order - 1:
                density = math.exp(-(kink.position**2) / (2 * K[o, o])) / math.sqrt(2 * math.pi * K[o, o])
                result[o] += kink.jump * density * _given(act, pattern, K, o, kink, rtol)
    return result


def _given(act: Activation, pattern: tuple, K: np.ndarray, o: int, kink: Kink, rtol: float) -> np.ndarray:
    # ⟨σ^(p)(z_a) σ^(q)(z_b) σ^(r)(z_c)⟩ given z_o = kink.
    slope = K[:, o] / K[o, o]
    mean, left = slope * kink.position, K - np.outer(slope, K[o])
    pinned = np.diagonal(left) < 2 * _ALIGNED * np.diagonal(K)
    fixed, free = np.flatnonzero(pinned), np.flatnonzero(~pinned)
    ramps = _ramps(act, max(pattern), slope[fixed], mean[fixed], kink)
    weights, result = np.array([5.0, 8.0, 5.0]) / 18, np.zeros((len(K),) * 3)
    masks = list(itertools.product((False, True), repeat=3))
    wanted = sorted({tuple(n for n, here in zip(pattern, mask) if here) for mask in masks} - {()})
    moving = {}
    if len(free):
        found = almost_everywhere(act, wanted, left[np.ix_(free, free)], rtol=rtol, mean=mean[free])
        moving = dict(zip(wanted, found))
    for mask in masks:
        slots = [free if here else fixed for here in mask]
        if any(len(slot) == 0 for slot in slots):
            continue
        orders = tuple(n for n, here in zip(pattern, mask) if here)
        value = np.asarray(moving[orders]) if orders else np.ones(())
        still = [ramps[n] for n, here in zip(pattern, mask) if not here]
        letters = iter("abc")
        names = [next(letters) for _ in mask]
        moves = "".join(name for name, here in zip(names, mask) if here)
        terms = ",".join([moves, "u", *("u" + name for name, here in zip(names, mask) if not here)])
        result[np.ix_(*slots)] = np.einsum(f"{terms}->{''.join(names)}", value, weights, *still)
    return result


def _ramps(act: Activation, highest: int, slope: np.ndarray, mean: np.ndarray, kink: Kink) -> dict[int, np.ndarray]:
    # The derivatives of the pinned samples on their way across the kink, at Gauss-Legendre nodes of [0, 1].
    way = (1 + np.array([-math.sqrt(0.6), 0.0, math.sqrt(0.6)])) / 2
    ramps = {n: np.tile(elementwise(act.derivative(n), mean), (3, 1)) for n in range(highest + 1)}
    for i, z in enumerate(mean):
        for other in act.kinks:
            if abs(z - other.position) < 1e-9 * max(1.0, abs(z)) and other.order <= highest:
                below, above = (side[other.order] for side in sides(act, other))
                on = way if slope[i] > 0 else 1 - way
                ramps[other.order][:, i] = below + (above - below) * on
    return ramps
