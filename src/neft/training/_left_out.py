"""The leave-one-out error of a regression, from the diagonal of an inverse that is known only by its products."""

from typing import NamedTuple

import numpy as np

PROBES = 64
"""Random vectors, where nobody says how many."""

_GROUPS = 8
"""Groups of them: what one group's absence changes says how far the whole is off, and by how much it is biased."""


class LeftOut(NamedTuple):
    """The mean square by which a target is missed by the regression on all others, and its standard error."""

    value: float
    error: float


def probes(count: int, many: int, seed: int = 0) -> np.ndarray:
    """Random signs (N, n), for as many groups of the same size."""
    many = max(_GROUPS, -(-many // _GROUPS) * _GROUPS)
    return np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), (count, many))


def leave_one_out(a: np.ndarray, signs: np.ndarray, solved: np.ndarray, largest: np.ndarray) -> LeftOut:
    """From coefficients a = Gy (N, n_L), random signs z (N, n) and Gz, for G = (Θ + ridge)⁻¹.

    The regression on all but i misses y_i by a_i/G_ii, and the mean of z_i (Gz)_i is G_ii (docs/theory/training,
    eqs. 63 and 64). `largest` (N,) is the diagonal of Θ + ridge: no G_ii is below its inverse.
    """
    groups = (signs * solved).reshape(len(a), _GROUPS, -1).mean(axis=2)

    def missed(diagonal: np.ndarray) -> float:
        return float(np.mean((a / np.maximum(diagonal, 1 / largest)[:, None]) ** 2))

    whole = missed(groups.mean(axis=1))
    without = np.array([missed(np.delete(groups, g, axis=1).mean(axis=1)) for g in range(_GROUPS)])
    spread = np.sqrt((_GROUPS - 1) * np.mean((without - without.mean()) ** 2))
    return LeftOut(_GROUPS * whole - (_GROUPS - 1) * float(without.mean()), float(spread))
