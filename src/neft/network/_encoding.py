"""Encodings of positions: fixed waves that are added to what attention compares (docs/theory/positions, eqs. 5-6)."""

import math
from typing import Any

import numpy as np
from scipy import special

ENCODINGS = ("sinusoidal", "gaussian")
_LONGEST = 1e4  # of the wave lengths over 2π, as Vaswani et al. 2017 have them
_STEPS = {1: (0.6180339887498949,), 2: (0.7548776662466927, 0.5698402909980532)}  # of sequences that fill a square


def waves(kind: str, shape: tuple[int, ...], channels: int, length: float) -> np.ndarray:
    """e(p) at positions (H, W) in so many channels, (H·W, channels), of mean square one.

    Pairs √2 sin ω·p, √2 cos ω·p whose signs alternate, so that the mean over channels vanishes.

    >>> waves("sinusoidal", (3,), 2, 1.0).shape
    (3, 2)
    """
    pairs = np.arange(-(-channels // 2))
    if kind == "gaussian":
        steps = _STEPS[len(shape)]
        quantiles = (0.5 + np.outer(pairs, steps)) % 1.0
        omega, signs = special.ndtri(quantiles) / length, 1 - 2 * (pairs % 2)
    else:
        along, of = pairs % len(shape), pairs // len(shape)
        count = -(-len(pairs) // len(shape))
        omega = np.where(along[:, None] == np.arange(len(shape)), _LONGEST ** -((of + 0.5) / count)[:, None], 0.0)
        signs = 1 - 2 * (of % 2)
    angle = _places(shape) @ omega.T
    both = np.stack([np.sin(angle), np.cos(angle)], axis=-1) * signs[:, None]
    return math.sqrt(2) * both.reshape(len(angle), -1)[:, :channels]


def correlation(kind: str, shape: tuple[int, ...], length: float) -> np.ndarray:
    """R(p, p'), the mean of e(p) e(p') over infinitely many channels, (H·W, H·W).

    >>> correlation("gaussian", (2,), 1.0).round(3).tolist()
    [[1.0, 0.607], [0.607, 1.0]]
    """
    places = _places(shape)
    apart = np.abs(places[:, None, :] - places[None, :, :])
    if kind == "gaussian":
        return np.exp(-(apart**2).sum(-1) / (2 * length**2))
    some = np.where(apart > 0, apart, 1.0)
    # ∫₀¹ cos(Δ L^-u) du of each axis.
    ci = special.sici(some)[1] - special.sici(some / _LONGEST)[1]
    return np.where(apart > 0, ci / math.log(_LONGEST), 1.0).mean(-1)


def _places(shape: tuple[int, ...]) -> np.ndarray:
    axes: Any = np.meshgrid(*map(np.arange, shape), indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, len(shape)).astype(float)
