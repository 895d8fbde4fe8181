"""Whether gradient descent gets anywhere: how much of what a step does to outputs tells two inputs apart (docs/advice).

Layer l moves an output at the rate η n ⟨σ²⟩ when its weights have the rate η, and of all that a part 1 - c differs
between two inputs whose preactivations have the correlation c at the end. Inputs of correlation 0.3 stand for data: it
is the mean of two images of Fashion-MNIST with standardised pixels.
"""

import functools
import math

import numpy as np

from .._activation import Activation

ENOUGH = 0.6
"""The least headway with which some hundred steps halve the loss (docs/advice)."""

_NODES, _END, _TERMS = 4001, 13.0, 200
_DATA = 0.3
_SAME = 1e-7  # relative change of K below which the coefficients of the layer before serve


def correlation(act: Activation, K: np.ndarray, C_b: np.ndarray, C_W: np.ndarray) -> float:
    """c of the outputs of two inputs of correlation 0.3, with an error of at most 2 % of 1 - c.

    Layers l = 1..L run along the arrays; K are variances of preactivations at infinite width.

    >>> import neft
    >>> relu = neft.activation("relu")
    >>> round(correlation(relu, np.full(2, 2.0), np.zeros(2), np.full(2, 2.0)), 4)  # (√0.91 + 0.3 (π - arccos 0.3))/π
    0.4827
    """
    powers = np.arange(_TERMS)
    c = 1 - (1 - _DATA) * (1 - float(C_b[0]) / float(K[0]))
    of, weights = math.nan, np.zeros(_TERMS)
    for l in range(1, len(K)):
        if not abs(K[l - 1] - of) <= _SAME * K[l - 1]:
            of = float(K[l - 1])
            weights = _coefficients(act, of) ** 2
        # The variance holds what the expansion leaves out, which is then the same for both inputs: it is little.
        total = (float(K[l]) - float(C_b[l])) / float(C_W[l])
        rest = max(total - weights.sum(), 0.0)
        c = (float(C_b[l]) + float(C_W[l]) * (weights @ c**powers + rest * c**_TERMS)) / float(K[l])
        c = min(float(c), 1.0)
    return c


def headway(rate: float, width: int, act: Activation, K: np.ndarray, C_b: np.ndarray, C_W: np.ndarray) -> float:
    """η n Σ_l ⟨σ²⟩^(l) (1 - c) of a network with one rate for all weights."""
    square = (K[1:] - C_b[1:]) / C_W[1:]
    return rate * width * float(square.sum()) * (1 - correlation(act, K, C_b, C_W))


def _coefficients(act: Activation, K: float) -> np.ndarray:
    """⟨σ(√K z) h_k(z)⟩ with normalized Hermite polynomials h_k."""
    z, table = _table()
    return table @ np.asarray(act(math.sqrt(K) * z), float)


@functools.cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Nodes, and at each the Hermite polynomials times its weight in an average."""
    z = np.linspace(-_END, _END, _NODES)
    table = np.empty((_TERMS, _NODES))
    table[0], table[1] = 1.0, z
    # Functions rather than polynomials, which overflow at the ends: times the square root of the density.
    table[:2] *= np.exp(-(z**2) / 4)
    for k in range(2, _TERMS):
        table[k] = (z * table[k - 1] - math.sqrt(k - 1) * table[k - 2]) / math.sqrt(k)
    table *= np.exp(-(z**2) / 4) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    return z, table
