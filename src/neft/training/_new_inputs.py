"""What a solved system says about new inputs: mean and variance, in blocks."""

import numpy as np

from .._blocks import BUDGET, block_size
from . import _budget
from ._solver import Solver
from ._tiles import TILE, Matrix, Tiles, cuts, in_threads, times

_VECTORS = 12
"""Vectors that a new input's variance takes while it is computed."""


def mean(tiles: Tiles, x_new: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Θ_xA a for coefficients a (N, n_L): (M, n_L)."""
    # Blocks of the training inputs are summed in their order, so that the threads do not change the rounding.
    total = np.zeros((len(x_new), coefficients.shape[1]))
    places = [(new, old) for new in cuts(len(x_new)) for old in cuts(tiles.points)]

    def part(place: tuple[slice, slice]) -> np.ndarray:
        new, old = place
        return times(tiles.between(x_new[new], tiles.x[old], np.float64), coefficients[old])

    for (new, _), found in zip(places, in_threads(part, places, "prediction")):
        total[new] += found
    return total


def variance(solve: Solver, x_new: np.ndarray) -> np.ndarray:
    """The variance of the outputs at new inputs, (M,)."""
    # Columns of A are the weights of the training inputs at one new input (docs/theory/training, eqs. 3 and 5).
    tiles = solve.matrix.tiles
    Theta_Ax = _columns(tiles, x_new)
    A = solve(Theta_Ax).x
    prior = Tiles(tiles.net, x_new, "nngp").diagonal()
    if tiles.which == "nngp":
        return prior - np.einsum("ij,ij->j", A, Theta_Ax)
    K = Tiles(tiles.net, tiles.x, "nngp")
    return prior + np.einsum("ij,ij->j", A, Matrix(K)(A) - 2 * _columns(K, x_new))


def _columns(tiles: Tiles, x_new: np.ndarray) -> np.ndarray:
    lines = cuts(tiles.points)
    made = in_threads(lambda old: tiles.between(tiles.x[old], x_new, np.float64), lines, "kernel")
    return np.concatenate(list(made))


def few(count: int, news: int, memory: float) -> list[slice]:
    """As many of the new inputs at once as what is left of the memory holds vectors for."""
    left = max(BUDGET, memory - _budget.resident())
    return cuts(news, min(TILE, block_size(8 * _VECTORS * count, news, budget=left)))
