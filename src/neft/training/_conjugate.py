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


class State(NamedTuple):
    """Where conjugate gradients are: solution, residual, direction, r·z, and how many products it took."""

    x: np.ndarray
    r: np.ndarray
    p: np.ndarray
    rz: np.ndarray
    products: np.ndarray


def conjugate(
    product: Product,
    precondition: Product,
    b: np.ndarray,
    tolerance: float,
    most: int,
    *,
    state: State | None = None,
    notice: Callable[[State], None] | None = None,
) -> Solved:
    """A⁻¹b by conjugate gradients: with a good preconditioner, iterative refinement that never overshoots.

    It ends when each column's residual is below `tolerance` of its size, or after `most` products. `notice` is told
    where it is after each of them, and from such a `state` it goes on.
    """
    size = np.linalg.norm(b, axis=0)
    size = np.where(size > 0, size, 1.0)
    if state is None:
        z = precondition(b)
        state = State(np.zeros_like(b), b.copy(), z, _dots(b, z), np.array(0))
    while _worst(state.r, size) > tolerance and state.products < most:
        x, r, p, rz, products = state
        Ap = product(p)
        step = _ratio(rz, _dots(p, Ap))
        x, new = x + step * p, r - step * Ap
        if _worst(new, size) > tolerance:
            z = precondition(new)
            # Polak and Ribière's form: a preconditioner that rounds is not quite the same from one step to the next.
            p, rz = z + _ratio(_dots(z, new - r), rz) * p, _dots(new, z)
        state = State(x, new, p, rz, products + 1)
        if notice is not None:
            notice(state)
    return Solved(state.x, _worst(state.r, size), int(state.products))


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", a, b)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _worst(r: np.ndarray, size: np.ndarray) -> float:
    return float((np.linalg.norm(r, axis=0) / size).max(initial=0.0))
