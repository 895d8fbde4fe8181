"""The action by monomial to any order: power series in four variables, graded by the degrees in U, W, b and c.

With D the operator that multiplies a monomial by its total degree, e = e^f and l = ln Z obey De = (Df) e and Z Dl = DZ,
which fills the orders one by one.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from ._pieces import Degrees, Pieces


def term_sums(pieces: Pieces, m: Any, order: int) -> dict[Degrees, float]:
    """For every monomial up to the order, its sum over a block of samples with labels m."""
    m = np.asarray(m)
    f = {degrees: np.asarray(part, np.float64) for degrees, part in pieces.items()}
    # Centred logits: ln Z does not change but for the mean, and the sums cancel less.
    mean = {degrees: part.mean(axis=1) for degrees, part in f.items()}
    centred = {degrees: part - mean[degrees][:, None] for degrees, part in f.items() if part.any()}
    Z = {degrees: part.mean(axis=-1) for degrees, part in _exponential(centred, order).items()}
    found = defaultdict(float)
    for degrees, value in _logarithm(Z, order).items():
        found[degrees] += float(np.broadcast_to(value, (len(m),)).sum())
    for degrees, part in f.items():
        labelled = np.broadcast_to(part, (len(m), part.shape[1]))[np.arange(len(m)), m]
        found[degrees] += float((mean[degrees] - labelled).sum())
    found.pop((0, 0, 0, 0), None)
    return dict(found)


def _exponential(f: dict, order: int) -> dict:
    e: dict[Degrees, Any] = {(0, 0, 0, 0): np.ones((1, 1))}
    for degree in range(1, order + 1):
        new = defaultdict(float)
        for a, part in f.items():
            for b, known in _of_degree(e, degree - sum(a)):
                new[_sum(a, b)] = new[_sum(a, b)] + sum(a) / degree * part * known
        e.update(new)
    return e


def _logarithm(Z: dict, order: int) -> dict:
    # l_n = Z_n - Σ_{a<n} |a|/|n| l_a Z_{n-a}, with Z_0 = 1.
    l: dict[Degrees, Any] = {}
    for degree in range(1, order + 1):
        new = defaultdict(float)
        for n, value in _of_degree(Z, degree):
            new[n] = new[n] + value
        for a, known in list(l.items()):
            for b, value in _of_degree(Z, degree - sum(a)):
                new[_sum(a, b)] = new[_sum(a, b)] - sum(a) / degree * known * value
        l.update(new)
    return l


def _of_degree(series: dict, degree: int) -> list:
    return [(degrees, value) for degrees, value in series.items() if sum(degrees) == degree]


def _sum(a: Degrees, b: Degrees) -> Degrees:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])
