"""How the test error falls with the number of training inputs, from the spectrum of kernel and targets.

After Simon et al. 2021 and Canatar, Bordelon, Pehlevan 2021; the spectrum of all inputs is told by a sample of them as
in Jacot et al. 2020, but with leave-one-out errors (docs/theory/training, eqs. 65-70).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq

from .._result import Made, Result, result

_LEVELS = 200
"""Ridges at which the sample is looked at."""

_NEAR = 1.0
"""Powers of e in κ over which slopes are taken that reach beyond the sample."""

_FAR = 30.0
"""Powers of e in κ beyond the sample where the search for a number of inputs ends."""


@result
class LearningCurve(Result):
    """The mean square by which outputs miss the targets of new inputs, for numbers of training inputs.

    `error` is what theory expects from the spectrum of a `sample` of training inputs; where a size is larger than the
    sample, `beyond` says so, and power laws continue what it showed. `measured` are regressions on as many inputs of
    the data, tried on test inputs, or None. `dimension` is how many directions the data determine in the sense of
    Σ L², and `kappa` the eigenvalue that is half learned.
    """

    sizes: Int[np.ndarray, " sizes"]
    error: Float[np.ndarray, " sizes"]
    measured: Float[np.ndarray, " sizes"] | None
    beyond: Bool[np.ndarray, " sizes"]
    kappa: Float[np.ndarray, " sizes"]
    dimension: Float[np.ndarray, " sizes"]
    sample: int
    kernel: str
    ridge: float
    made: Made


class Seen(NamedTuple):
    """What a sample shows at growing κ: logarithms of κ, of D = Σ L, of Σ L² and of the bias B (eqs. 67-70)."""

    sample: int
    kappa: np.ndarray
    D: np.ndarray
    D2: np.ndarray
    B: np.ndarray

    def at(self, which: np.ndarray, log_kappa: float) -> float:
        """One of them; below the least κ a straight line goes on."""
        if log_kappa >= self.kappa[0]:
            return float(np.interp(log_kappa, self.kappa, which))
        near = self.kappa < self.kappa[0] + _NEAR
        slope = np.polyfit(self.kappa[near], which[near], 1)[0]
        return float(which[0] + slope * (log_kappa - self.kappa[0]))


def seen(Theta: np.ndarray, y: np.ndarray) -> Seen:
    """From the kernel of M inputs, its ridge on the diagonal, and their targets (M, n_L)."""
    M = len(Theta)
    values, vectors = scipy.linalg.eigh(Theta, driver="evd")
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    squares, along = vectors * vectors, vectors.T @ y
    rows = []
    for more in (0.0, *np.geomspace(1e-2 * values[0], 10 * values[-1], _LEVELS)):
        gain = 1 / (values + more)
        kappa = 1 / gain.sum()
        free = 1 / (kappa**2 * (gain * gain).sum())  # M - Σ L²
        missed = (vectors @ (gain[:, None] * along)) / (squares @ gain)[:, None]
        rows.append((kappa, M - more / kappa, M - free, np.mean(missed**2) * free / M))
    return Seen(M, *np.log(np.maximum(rows, np.finfo(float).tiny)).T)


class Expected(NamedTuple):
    """The test error of a number of inputs, κ, and Σ L²."""

    error: float
    kappa: float
    dimension: float


def expected(shown: Seen, size: int) -> Expected:
    """The error E = n B/(n - Σ L²), where κ makes D = n (docs/theory/training, eqs. 65 and 66)."""

    def excess(log_kappa: float) -> float:
        return shown.at(shown.D, log_kappa) - np.log(size)

    found: Any = brentq(excess, shown.kappa[0] - _FAR, shown.kappa[-1])
    log_kappa = float(found)
    # The part of n that Σ L² takes changes slowly, so it is what goes on beyond the sample.
    part = min(np.exp(shown.at(shown.D2 - shown.D, log_kappa)), 1 - 1e-9)
    return Expected(np.exp(shown.at(shown.B, log_kappa)) / (1 - part), float(np.exp(log_kappa)), size * part)
