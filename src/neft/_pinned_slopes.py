"""Averages with two derivatives of a product of two slopes σ', where slopes jump (docs/theory/residual, eqs. 52-54).

A slope that jumps has a delta for its derivative, and the derivative of a delta for its second one. Both of two
variables may be pinned to kinks, which is finite where they are not multiples of each other. Where they are, only the
second derivative of the whole product exists, in whose two parts the pair of deltas cancels: it is left out of both.
"""

import itertools

import numpy as np
from jaxtyping import Float

from ._activation import Activation, Kink
from ._moments import sides
from ._pinned import at_kink, density_at
from ._precision import float64
from ._tuples import almost_everywhere

# The √(1 - ρ²) below which two variables are multiples of each other. Taken so, the sum is off by this number; taken
# apart, by the rounding of coefficients over it.
_ALIKE = 1e-6

Slopes = Float[np.ndarray, "N N M M"]


@float64
def curved_slopes(act: Activation, K: np.ndarray, N: int, *, rtol: float) -> tuple[Slopes, Slopes]:
    """What deltas add to ⟨σ_e σ_f σ'''_j σ'_k⟩ and to ⟨σ_e σ_f σ''_j σ''_k⟩; axes e, f, j, k.

    Of the variables with covariance K, e and f are among the first N, and j and k among the others.
    """
    M = len(K) - N
    td, ee = np.zeros((2, N, N, M, M))
    for j, kink in itertools.product(range(M), act.kinks):
        if kink.order > 2:
            continue
        own = K[N + j, N + j]
        slope, density = K[:, N + j] / own, density_at(kink, own)
        below, above = sides(act, kink, 2)
        jump, more = above[1] - below[1], above[2] - below[2]
        found = at_kink(act, [(0, 0, 1), (1, 0, 1), (0, 0, 2)], K, N + j, kink, rtol=rtol)
        whole, turned, bent = (one[:N, :N, N:] for one in found)
        # The derivative of a delta is less the derivative of all that it multiplies: of the density, and of the others.
        turned = slope[:N, None, None] * turned
        turned = turned + np.swapaxes(turned, 0, 1) + slope[N:] * bent
        td[:, :, j] += density * ((more + jump * kink.position / own) * whole - jump * turned)
        ee[:, :, j] += density * jump * bent
        ee[:, :, :, j] += density * jump * bent
    for j, k in itertools.combinations(range(M), 2):
        both = _both_pinned(act, K, N, N + j, N + k, rtol)
        for one, other in ((j, k), (k, j)):
            ee[:, :, one, other] += both
            td[:, :, one, other] -= K[N + j, N + k] / K[N + one, N + one] * both
    return td, ee


def _both_pinned(act: Activation, K: np.ndarray, N: int, j: int, k: int, rtol: float) -> np.ndarray:
    # ⟨σ_e σ_f δ_j δ_k⟩ with the jumps of both.
    total = np.zeros((N, N))
    slope = K[:, j] / K[j, j]
    left = K - np.outer(slope, K[j])
    if left[k, k] < _ALIKE**2 * K[k, k]:
        return total
    across = left[:, k] / left[k, k]
    free = (left - np.outer(across, left[k]))[:N, :N]
    for one, other in itertools.product(act.kinks, repeat=2):
        if one.order == other.order == 1:
            far = other.position - slope[k] * one.position
            density = density_at(one, K[j, j]) * density_at(Kink(far, 1, 1.0), left[k, k])
            mean = (slope * one.position + across * far)[:N]
            (pairs,) = almost_everywhere(act, [(0, 0)], free, rtol=rtol, mean=mean)
            total += one.jump * other.jump * density * pairs
    return total
