"""Variances measured from weights, with their errors, and the initializers that make such weights."""

import math
from typing import NamedTuple

import numpy as np

_CUT, _INSIDE = 2.0, 0.95449974  # deviations at which frameworks cut a normal variable, and how often it is less
_TRUNCATED = _CUT / 0.87962566  # in units of the deviation that is left
# ⟨z⁴⟩/⟨z²⟩² of each kind, and √N times the standard error of it among N numbers.
_FOURTH = {"uniform": (1.8, 1.15), "truncated normal": (2.3655, 1.96), "normal": (3.0, math.sqrt(24))}
_LARGEST = {"uniform": math.sqrt(3), "truncated normal": _TRUNCATED, "normal": math.inf}
_FEW = 32
_SURE = math.log(1000)  # by which the likelihood of one kind must exceed that of another


class Measured(NamedTuple):
    """A variance, its standard error, and what kind of numbers they are.

    The error is that of independent numbers, from their own fourth moment.
    """

    variance: float
    error: float
    kind: str


def measured(values: np.ndarray, scale: float = 1.0) -> Measured:
    """The mean square of these numbers times `scale`.

    >>> found = measured(np.random.default_rng(0).normal(size=10_000), 4.0)
    >>> abs(found.variance - 4) < 4 * found.error, found.kind
    (True, 'normal')
    """
    flat = np.ravel(values).astype(np.float64)
    square = float((flat**2).mean())
    spread = float((flat**4).mean()) - square**2
    return Measured(scale * square, scale * math.sqrt(max(spread, 0.0) / flat.size), _kind(np.asarray(values), flat))


def _kind(values: np.ndarray, flat: np.ndarray) -> str:
    if not flat.any():
        return "zeros"
    if (flat == flat[0]).all():
        return "constant"
    if _orthogonal(values):
        return "orthogonal"
    if flat.size < _FEW:
        return "too few to tell"
    size, most = math.sqrt(float((flat**2).mean())), float(np.abs(flat).max())
    fourth, root = float(((flat / size) ** 4).mean()), math.sqrt(flat.size)
    found = _likelihoods(flat.size, size, most)
    likely = [kind for kind, likelihood in found.items() if likelihood > max(found.values()) - _SURE]
    fits = (
        abs(fourth - _FOURTH[kind][0]) < 5 * _FOURTH[kind][1] / root and most <= _LARGEST[kind] * size * (1 + 3 / root)
        for kind in likely
    )
    if not any(fits):
        return "of another kind"
    if likely == ["truncated normal", "normal"]:
        return "normal, perhaps truncated"
    return likely[0] if len(likely) == 1 else "too few to tell"


def _likelihoods(count: int, size: float, most: float) -> dict[str, float]:
    """The logarithm of the largest likelihood of each kind, of any scale, from root mean square and largest value."""
    scale = max(size, most / _CUT)
    normal = math.log(2 * math.pi) / 2
    return {
        "uniform": -count * math.log(2 * most),
        "truncated normal": -count * (math.log(scale * _INSIDE) + normal + (size / scale) ** 2 / 2),
        "normal": -count * (math.log(size) + normal + 0.5),
    }


def _orthogonal(values: np.ndarray) -> bool:
    if values.ndim != 2 or min(values.shape) < 2:
        return False
    values = values.astype(np.float64)
    values = values if values.shape[0] <= values.shape[1] else values.T
    square = values @ values.T
    size = float(np.trace(square)) / len(square)
    return bool(size > 0 and np.abs(square - size * np.eye(len(square))).max() < 1e-4 * size)


def initializer(found: Measured, fan_in: int, fan_out: int, default: str) -> str:
    """The name of the initializer that gives weights of this kind and variance; the framework's own where it is that.

    `default` is the framework's: "uniform" for PyTorch and Equinox (±1/√fan-in), "lecun" for Flax, "" for none.
    """
    if found.kind in ("zeros", "constant", "too few to tell", "of another kind"):
        return found.kind
    if found.kind == "orthogonal":
        return f"orthogonal, gain {math.sqrt(found.variance * max(fan_out / fan_in, 1.0)):.3g}"
    names = {"1/√fan-in": 1 / 3} if found.kind == "uniform" else {}
    names |= {"LeCun": 1.0, "He": 2.0, "Glorot": 2 * fan_in / (fan_in + fan_out)}
    near = [name for name, variance in names.items() if abs(found.variance - variance) < 4 * found.error]
    if not near:
        return found.kind
    own = {"uniform": "1/√fan-in", "lecun": "LeCun"}.get(default)
    if own in near and (found.kind == "uniform") == (default == "uniform"):
        return f"{found.kind} {'±' if default == 'uniform' else ''}{own}, the framework's default"
    return f"{found.kind}, {' or '.join(near)}"
