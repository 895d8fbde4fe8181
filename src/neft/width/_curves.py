"""Averages of one activation that decide what a layer does to K, on grids of it (docs/theory/width, eqs. 67-69)."""

import math
from typing import Any, NamedTuple

import numpy as np

from .._activation import Activation
from .._blocks import block_size, blocks
from .._quadrature import elementwise, in_units, unit_rule
from ..gaussian import Powers, moment
from ._origin import origin

SQUARE, SLOPE, GROWTH = Powers(s=2), Powers(s1=2), Powers(s=1, s1=1, z=1)
"""⟨s²⟩, ⟨s'²⟩ and K d⟨s²⟩/dK."""


class Curves(NamedTuple):
    """⟨s²⟩, ⟨s'²⟩ and d⟨s²⟩/dK on a grid of K, and the relative error of each point."""

    K: np.ndarray
    ss: np.ndarray
    a: np.ndarray
    g: np.ndarray
    error: np.ndarray


def per_weight(act: Activation, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """⟨s'²⟩ and d⟨s²⟩/dK, which are χ_⊥ and χ_∥ per unit of C_W, to 1e-12; a ValueError where σ jumps."""
    safe = np.where(K > 0, K, 1.0)
    a, g = moment(act, SLOPE, safe), np.asarray(moment(act, GROWTH, safe) / safe)
    if (K > 0).all():
        return a, g
    near = origin(act)
    return np.where(K > 0, a, near.A_2), np.where(K > 0, g, near.growth)


def grid(act: Activation, decades: int, per_decade: int) -> np.ndarray:
    """A logarithmic grid of K around the square of the activation's length."""
    unit = act.length**2 if math.isfinite(act.length) else 1.0
    return unit * np.logspace(-decades, decades, 2 * decades * per_decade + 1)


def curves(act: Activation, K: np.ndarray) -> Curves:
    """The averages on a grid, with the errors that a second quadrature of half the panels shows.

    A K at which they overflow is left out.
    """
    half, fine = (_on_grid(act, panels, K) for panels in _panels(act))
    kept = np.isfinite(half).all(0) & np.isfinite(fine).all(0)
    half, (ss, a, g) = half[:, kept], fine[:, kept]
    size = np.stack([ss, a, a + np.abs(g)])
    error = np.max(np.abs(half - [ss, a, g]) / np.where(size > 0, size, 1.0), axis=0)
    return Curves(K[kept], ss, a, g, error)


def _panels(act: Activation) -> tuple[int, int]:
    return (256, 512) if act.oscillates else (16, 32)


def _on_grid(act: Activation, panels: int, K: np.ndarray) -> np.ndarray:
    options: dict[str, Any] = {"length": act.length, "oscillates": act.oscillates, "panels": panels, "cuts": act.cuts}
    kinks = [kink.position for kink in act.kinks]
    found = []
    # With the compiled σ and σ' of `moment`: a program for the three averages would take longer to compile than to run.
    for part in blocks(K.size, block_size(8 * 8 * 16 * panels * (len(kinks) + 1), K.size)):
        spread = np.sqrt(K[part])
        x, w = unit_rule(np, spread, in_units(np, kinks, spread), **options)
        z = spread[:, None] * x
        s, d = (elementwise(act.derivative(n), z) for n in (0, 1))
        with np.errstate(over="ignore", invalid="ignore"):
            found.append([(w * f).sum(-1) for f in (s * s, d * d, z * s * d / K[part, None])])
    return np.concatenate(found, axis=1)
