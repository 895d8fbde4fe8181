"""Conjugate gradients in float64 for all right sides at once, with a preconditioner in whatever precision it has."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]


class Solved(NamedTuple):
    """The solution (N, n), the largest relative residual |b - Ax|/|b|, and how many products with A it took."""

    x: np.ndarray
    residual: float
    products: int


def conjugate(product: Product, precondition: Product, b: np.ndarray, tolerance: float, most: int) -> Solved:
    """A⁻¹b by conjugate gradients: with a good preconditioner, iterative refinement that never overshoots.

    It ends when each column's residual is below `tolerance` of its size, or after `most` products.
    """
    size = np.linalg.norm(b, axis=0)
    size = np.where(size > 0, size, 1.0)
    x, r = np.zeros_like(b), b.copy()
    z = precondition(r)
    p, rz = z, _dots(r, z)
    count, worst = 0, _worst(r, size)
    while worst > tolerance and count < most:
        Ap = product(p)
        count += 1
        step = _ratio(rz, _dots(p, Ap))
        x, r, old = x + step * p, r - step * Ap, r
        worst = _worst(r, size)
        if worst <= tolerance:
            break
        z = precondition(r)
        # Polak and Ribière's form: a preconditioner that rounds is not quite the same from one step to the next.
        p, rz = z + _ratio(_dots(z, r - old), rz) * p, _dots(r, z)
    return Solved(x, worst, count)


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", a, b)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _worst(r: np.ndarray, size: np.ndarray) -> float:
    return float((np.linalg.norm(r, axis=0) / size).max(initial=0.0))
