"""Variances measured from weights, with their errors, and the initializers that make such weights."""

import math
from typing import NamedTuple

import numpy as np

_TRUNCATED = 2 / 0.87962566  # where a normal variable is cut at two deviations, in units of what is left of them
# ⟨z⁴⟩/⟨z²⟩² of each kind, and √N times the standard error of it among N numbers.
_FOURTH = {"uniform": (1.8, 1.15), "truncated normal": (2.3655, 1.96), "normal": (3.0, math.sqrt(24))}
_FEW, _SURE = 32, 1000


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
    size = math.sqrt(float((flat**2).mean()))
    fourth, most = float(((flat / size) ** 4).mean()), float(np.abs(flat).max()) / size
    root = math.sqrt(flat.size)
    largest = {"uniform": math.sqrt(3), "truncated normal": _TRUNCATED, "normal": math.inf}
    for kind, (expected, error) in _FOURTH.items():
        if abs(fourth - expected) < 5 * error / root and most <= largest[kind] * (1 + 3 / root):
            # Of few numbers a normal one is not far out either.
            return "normal, perhaps truncated" if kind == "truncated normal" and flat.size < _SURE else kind
    return "of another kind"


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
