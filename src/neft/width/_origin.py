"""σ near 0, and the map of K there (docs/theory/width, eqs. 70-72)."""

import contextlib
import functools
import math
from typing import NamedTuple

import jax
import numpy as np

from .._activation import Activation

_BESIDE_ZERO = 1e-150  # a normal number, so near that no derivative of order one changes
_LARGE = 1e30  # a derivative beyond this is one that diverges at 0


class Origin(NamedTuple):
    """σ near 0, as σ(0) + a± z + …, and the map K → C_W⟨s²⟩ there for σ(0) = 0 and C_W = 1/A_2.

    ⟨s²⟩ = A_2 K (1 + a_half √K + a_1 K + …) and ⟨s'²⟩ = A_2 (1 + a_half √K + b_1 K + …). Averages of the two sides
    of 0 replace σ_k, so a kink at 0 is no exception; without one a_half = 0. The coefficients are NaN
    where K = 0 is no fixed point, or where a higher derivative diverges.
    """

    value: float  # σ(0)
    A_2: float
    A_4: float
    growth: float  # d⟨s²⟩/dK at K = 0
    a_half: float
    a_1: float
    b_1: float

    @property
    def fixed(self) -> bool:
        """Whether K = 0 is a fixed point at C_b = 0 with susceptibilities that are not 0."""
        return self.value == 0 and self.A_2 > 0


@functools.lru_cache(maxsize=256)
def origin(act: Activation) -> Origin:
    """What σ is near 0, from both sides."""
    left, right = _derivatives(act, -1), _derivatives(act, 1)
    value = right[0]
    A_2, A_4 = (_mean(left[1] ** n, right[1] ** n) for n in (2, 4))
    growth = A_2 + (value * _mean(left[2], right[2]) if value else 0.0)
    if value and left[1] != right[1]:
        growth = math.copysign(math.inf, value * (right[1] - left[1]))  # ⟨σ''σ⟩ holds the delta of the kink
    if value or not A_2:
        return Origin(value, A_2, A_4, growth, *(math.nan,) * 3)
    half = _sum(right[1] * right[2], -left[1] * left[2]) * math.sqrt(2 / math.pi)
    a_1, b_1 = (
        _sum(*(part / 2 for side in (left, right) for part in (weight * side[2] ** 2, side[1] * side[3])))
        for weight in (0.75, 1.0)
    )
    return Origin(value, A_2, A_4, growth, half / A_2, a_1 / A_2, b_1 / A_2)


def _derivatives(act: Activation, side: int) -> list[float]:
    # Even when the caller is being traced, these are numbers of the activation.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        beside = [float(act.derivative(n)(side * _BESIDE_ZERO)) for n in range(4)]
    if not _all_finite(beside):
        # A function such as z sin(z)/z is smooth, but its program divides by zero.
        with contextlib.suppress(ValueError):
            beside = list(act.taylor(3) * [1, 1, 2, 6])
    if not _all_finite(beside[:2]):
        raise ValueError(f"activation {act.name!r} is not finite beside 0 or has no finite slope there, but must be.")
    if not _all_finite(beside):
        beside[2:] = [math.nan, math.nan]
    # What is there by rounding, or because this is not quite 0, would decide which power of K rules.
    noise = 1e-14 * float(np.nanmax(np.abs(beside)))
    return [0.0 if abs(value) <= noise else value for value in beside]


def _all_finite(values: list[float]) -> bool:
    return all(math.isfinite(value) and abs(value) < _LARGE for value in values)


def _mean(left: float, right: float) -> float:
    return (left + right) / 2


def _sum(*terms: float) -> float:
    # Terms that cancel are zero, whatever their rounding leaves: its sign would decide what attracts.
    total = math.fsum(terms)
    return 0.0 if abs(total) <= 1e-12 * float(np.abs(terms).sum()) else total
