"""Which samples cannot have a zero of their partition function within a circle, without looking for one.

Σ_α e^{f_α} does not vanish while all Im f_α lie within less than π of each other. For |t| ≤ r the series of the logits,
x = Wz+b, bounds them: the first orders one by one, what is left by the moduli of all that it is made of,

    |f_α - f̄| ≤ Σ_{q≤N} r^(q+1) |f_α,q+1 - f̄_q+1| + r Σ_h |U_αh - Ū_h| m_N(r|x_h|),    m_N(x) = Σ_{q>N} |s_q| x^q

The sum m_N extends beyond the numbers at hand, and what is said of those is known of the named activations only, whose
singularities are simple poles and logarithms. Of a user's own function nothing is excluded.
"""

import math

import numpy as np

from .._activation import Activation
from .._blocks import block_size, blocks
from ._model import Parameters, Samples, homogeneous

_FIRST = 12
"""N, up to which orders keep the signs of their sums over hidden units."""
_TERMS = 100
_POINTS = 4001
_MARGIN = 1 - 1e-6


def free_of_zeros(theta: Parameters, data: Samples, act: Activation, size: float) -> np.ndarray:
    """For each sample, whether the bound shows that its partition function has no zero with |t| ≤ size."""
    free = np.zeros(len(data.m), bool)
    if not act.named or not math.isfinite(size):
        return free
    centred = theta._replace(U=theta.U - theta.U.mean(axis=0), c=theta.c - theta.c.mean())
    each = 8 * (2 * theta.features + 8 * theta.hidden + 2 * theta.classes)
    for part in blocks(len(data.m), block_size(each, len(data.m)), label="bounds"):
        x = np.asarray(data.z[part], np.float64) @ theta.W.T + theta.b
        free[part] = _spread(centred, x, act, size).max(axis=1) < _MARGIN * math.pi / 2
    return free


def _spread(theta: Parameters, x: np.ndarray, act: Activation, r: float) -> np.ndarray:
    """At least |f_α - f̄| for |t| ≤ r, from centred U and c and x = Wz+b; shape (n, M)."""
    if homogeneous(act):
        return r * np.abs(theta.c) + r**2 * np.abs(np.asarray(act(x), np.float64) @ theta.U.T)
    s = act.taylor(_FIRST)
    total = r * np.abs(theta.c + s[0] * theta.U.sum(axis=1)) + np.zeros((len(x), theta.classes))
    scaled = r * x
    power = np.ones_like(scaled)
    for number in s[1:]:
        power *= scaled
        if number:
            total += r * abs(number) * np.abs(power @ theta.U.T)
    return total + r * (_rest(act, np.abs(scaled)) @ np.abs(theta.U).T)


def _rest(act: Activation, x: np.ndarray, first: int = _FIRST + 1) -> np.ndarray:
    """Σ_{q≥first} |s_q| x^q, or more; infinite where the numbers at hand do not bound it."""
    s = np.abs(act.taylor(_TERMS))
    reach = act.singularity
    if not reach > 0:
        return np.full(x.shape, math.inf)
    # For an entire function the terms at hand reach as far as the last of them are negligible.
    limit = reach if math.isfinite(reach) else _far(s)
    grid = np.linspace(0, min(limit, max(float(x.max()), 1e-300)), _POINTS)
    values = np.polynomial.polynomial.polyval(grid, np.where(np.arange(_TERMS + 1) < first, 0, s))
    if math.isfinite(reach):
        # |s_q| reach^q stays below what it was for the later of the known terms: poles are simple, or logarithms.
        later = 2 * float((s[_TERMS // 2 :] * reach ** np.arange(_TERMS // 2, _TERMS + 1)).max())
        with np.errstate(divide="ignore"):
            values = values + later * (grid / reach) ** (_TERMS + 1) / np.maximum(1 - grid / reach, 0)
    # The sum is convex, so that straight lines between points lie above it.
    return np.where(x >= limit, math.inf, np.interp(x, grid, values))


def _far(s: np.ndarray) -> float:
    late = [(1e-9 / number) ** (1 / q) for q, number in enumerate(s) if q > _TERMS // 2 and number > 0]
    return min(late) / 2 if late else math.inf
