"""Averages of a user's own activation over one Gaussian variable: they refine themselves, on the host."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._activation import Activation
from ._adaptive import averages
from ._kinks import derivatives
from ._mesh import PROBED, mesh_of, probed
from ._moments import Powers, delta_part, deltas, fourier_of_product, monomial
from ._periodic import average
from ._precision import float64


@float64
def own_moments(
    act: Activation, powers: Sequence[Powers], K: Any, *, rtol: float, what: str, spiky: bool = True
) -> np.ndarray:
    """What `gaussian.moment` gives for several powers at once, of shape (powers, *K.shape).

    The tolerance is relative to the average of the integrand's size; a warning, which names `what`, says when it is
    missed, and what does not exist is refused. Deltas at kinks are left out where it is not to be `spiky`.
    """
    K = np.asarray(K, float)
    spikes = [deltas(act, p) if spiky else () for p in powers]
    found = np.empty((len(powers), K.size))
    # Where a period is short for the Gaussian its Fourier series is best, else it cancels.
    far = _periodic(act, K.ravel())
    if far.any():
        found[:, far] = [_by_fourier(act, p, K.ravel()[far]) for p in powers]
    if not far.all():
        found[:, ~far] = _by_panels(act, powers, np.sqrt(K.ravel()[~far]), rtol, what)
    found = found.reshape(len(powers), *K.shape)
    return found + np.stack([np.asarray(delta_part(spike, jnp.asarray(K))) for spike in spikes])


def _periodic(act: Activation, K: np.ndarray) -> np.ndarray:
    return np.zeros(K.shape, bool) if act.fourier is None else act.fourier.frequency**2 * K > 1


def _by_fourier(act: Activation, p: Powers, K: np.ndarray) -> np.ndarray:
    return average(np, fourier_of_product(act, p), act.fourier.frequency, p.z, K)


def _by_panels(act: Activation, powers: Sequence[Powers], spread: np.ndarray, rtol: float, what: str) -> np.ndarray:
    def integrand(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        z = spread[row] * x
        at = derivatives(act.function, z)
        return np.stack([monomial(np, {n: at[n] for n in range(4) if p[n]}, p, z) for p in powers])

    return averages(integrand, [breaks(act, float(s)) for s in spread], rtol, what, count=len(powers))


def breaks(act: Activation, spread: float) -> np.ndarray:
    """Where panels in x = z/spread are cut: at kinks, and where σ asks for it."""
    if spread < 1e-150:
        return np.empty(0)
    return cuts(act, 13.0 * spread) / spread


def cuts(act: Activation, reach: float) -> np.ndarray:
    """Where panels in |z| ≤ reach are cut."""
    kinks = [kink.position for kink in act.kinks]
    edges = mesh_of(act.function, kinks, reach).edges
    # What shows near the origin is too narrow for a scan of a wide Gaussian.
    return np.union1d(edges, probed(act.function, kinks).edges) if reach > PROBED else edges
