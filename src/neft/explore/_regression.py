"""Regression on a few points of a line: trained networks at infinite width, at this width and by simulation."""

import functools
import warnings
from typing import Any

import numpy as np

from .. import Network, training, width
from ._limits import DEEPEST_FINITE, MOST_POINTS
from ._numbers import short
from ._settings import Refused, Settings

GRID, FEW = 41, 21
"""Places on the line at infinite width, and at this width or by simulation."""

_TENSORS, _TOLERANCE = ("K", "Theta", "K1", "Theta1", *"ABDFPQRSTU"), 1e-4
_PER_DECADE, _DECADES = 4, 4
_REACH, _BESIDE = 2.0, 0.02


def network(settings: Settings) -> Network:
    """The network with one input."""
    return settings.network(inputs=1)


def line(count: int) -> np.ndarray:
    """Places where the function is shown, between -2 and 2, of shape (count, 1)."""
    places = np.linspace(-_REACH, _REACH, count)
    # Without biases nothing passes at 0, and what no signal reaches has no corrections.
    return np.where(np.abs(places) < _BESIDE, _BESIDE, places)[:, None]


def arrays(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Training inputs (N, 1) and targets (N,)."""
    points = np.array(settings.points)
    return points[:, :1], points[:, 1]


def times(settings: Settings) -> np.ndarray:
    """The moments of the slider: 0, four decades around 1 over the NTK's largest eigenvalue, and infinity."""
    N = len(settings.points)
    return _moments(_on_line(settings)[1][:N, :N])


def _moments(Theta: np.ndarray) -> np.ndarray:
    largest = np.linalg.eigvalsh(Theta)[-1]
    if not largest > 0:
        raise ValueError("all learning rates are 0, so that nothing is trained.")
    later = 10.0 ** (np.arange(_PER_DECADE * _DECADES + 1) / _PER_DECADE - 1) / largest
    return np.concatenate([[0.0], [float(f"{time:.3g}") for time in later], [np.inf]])


def _on_line(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    # Always as many inputs, so that a further point compiles nothing.
    x, _ = arrays(settings)
    filling = np.repeat(x[:1], MOST_POINTS - len(x), axis=0)
    at = np.concatenate([x, line(GRID), filling])
    shape = (settings.activation, settings.residual, settings.skip, settings.norm, settings.depth)
    found = _kernel(*shape, tuple(settings.dense.values()), at.tobytes())
    used = len(x) + GRID
    return found[0][:used, :used], found[1][:used, :used]


@functools.lru_cache(maxsize=8)
def _kernel(
    name: str, residual: str, skip: float, norm: str, depth: int, dense: tuple[float, ...], at: bytes
) -> tuple[np.ndarray, np.ndarray]:
    values = dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), dense))
    settings = Settings(activation=name, residual=residual, skip=skip, norm=norm, depth=depth, **values)
    x = np.frombuffer(at).reshape(-1, 1)
    found = width.repeated_kernel(network(settings), x)
    return np.asarray(found.K), np.asarray(found.Theta)


def infinite(settings: Settings) -> dict[str, Any]:
    """Mean and spread at infinite width at all moments, on the whole line."""
    _, y = arrays(settings)
    K, Theta = _on_line(settings)
    at = times(settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = training.predict_from_kernels(K, Theta, y, time=at)
    return {
        "x": short(line(GRID)[:, 0]),
        "times": short(at),
        "mean": short(found.mean[..., 0], 5),
        "std": short(found.std[..., 0], 5),
        "notes": sorted({str(one.message) for one in said}),
    }


def finite(settings: Settings) -> dict[str, Any]:
    """Mean and spread with the corrections of order 1/width, at all moments from one computation."""
    if settings.depth > DEEPEST_FINITE:
        raise Refused(
            {
                "depth": f"depth is {settings.depth}, but the curve at this width is made for at most {DEEPEST_FINITE} "
                "layers, which take ten seconds: its Code button has the command that computes deeper ones."
            }
        )
    x, y = arrays(settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # Covariances between places on the line are not shown, so that they are not made.
        given = {"rtol": _TOLERANCE, "first": len(x), "others": 1}
        try:
            tensors = width.output_tensors(network(settings), np.concatenate([x, line(FEW)]), _TENSORS, **given)
        except width.AbsentTensor as absent:
            raise ValueError(f"the curve at this width needs tensors that are not known here: {absent}") from None
        at = _moments(tensors["Theta"][: len(x), : len(x)])
        found = training.predict_from_tensors(tensors, y, settings.width, time=at)
    return {
        "x": short(line(FEW)[:, 0]),
        "times": short(at),
        "mean": short(found.mean[..., 0], 5),
        "std": short(found.std[..., 0], 5),
        "expansion": short(found.expansion),
        "needs": found.trusted_from if found.trusted_from > settings.width else None,
        "notes": sorted({str(one.message) for one in said}),
    }
