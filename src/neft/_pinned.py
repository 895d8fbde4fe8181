"""Averages with a delta: one variable is pinned to a kink, the others keep their conditional distribution."""

import itertools
import math
from collections.abc import Sequence

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
                (given,) = at_kink(act, [pattern], K, o, kink, rtol=rtol)
                result[o] += kink.jump * density_at(kink, K[o, o]) * given
    return result


def density_at(kink: Kink, K: float) -> float:
    """The density of a variable of variance K at a kink."""
    return math.exp(-(kink.position**2) / (2 * K)) / math.sqrt(2 * math.pi * K)


def at_kink(
    act: Activation, patterns: Sequence[tuple[int, int, int]], K: np.ndarray, o: int, kink: Kink, *, rtol: float
) -> list[np.ndarray]:
    """⟨σ^(p)(z_a) σ^(q)(z_b) σ^(r)(z_c)⟩ given that z_o is at the kink, for each (p, q, r); axes a, b, c."""
    slope = K[:, o] / K[o, o]
    mean, left = slope * kink.position, K - np.outer(slope, K[o])
    pinned = np.diagonal(left) < 2 * _ALIGNED * np.diagonal(K)
    fixed, free = np.flatnonzero(pinned), np.flatnonzero(~pinned)
    ramps = _ramps(act, max(map(max, patterns)), slope[fixed], mean[fixed])
    masks = list(itertools.product((False, True), repeat=3))
    wanted = sorted({tuple(n for n, here in zip(one, mask) if here) for one in patterns for mask in masks} - {()})
    moving = {}
    if len(free):
        found = almost_everywhere(act, wanted, left[np.ix_(free, free)], rtol=rtol, mean=mean[free])
        moving = dict(zip(wanted, found))
    return [_filled(pattern, masks, fixed, free, ramps, moving) for pattern in patterns]


def _filled(pattern, masks: list, fixed: np.ndarray, free: np.ndarray, ramps: dict, moving: dict) -> np.ndarray:
    # Every way in which the three are among those that are pinned too, or not.
    weights, result = np.array([5.0, 8.0, 5.0]) / 18, np.zeros((len(fixed) + len(free),) * 3)
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


def _ramps(act: Activation, highest: int, slope: np.ndarray, mean: np.ndarray) -> dict[int, np.ndarray]:
    # The derivatives of the pinned samples on their way across the kink, at Gauss-Legendre nodes of [0, 1].
    way = (1 + np.array([-math.sqrt(0.6), 0.0, math.sqrt(0.6)])) / 2
    ramps = {n: np.tile(elementwise(act.derivative(n), mean), (3, 1)) for n in range(highest + 1)}
    for i, z in enumerate(mean):
        for other in act.kinks:
            if abs(z - other.position) < 1e-9 * max(1.0, abs(z)) and other.order <= highest:
                on = way if slope[i] > 0 else 1 - way
                for n, (below, above) in enumerate(zip(*sides(act, other, highest))):
                    if n >= other.order:
                        ramps[n][:, i] = below + (above - below) * on
    return ramps
