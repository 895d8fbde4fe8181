"""Where the series of the action stops converging: zeros of partition functions and poles of the activation."""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from .. import _check
from .._activation import Activation
from .._blocks import block_size, blocks
from .._precision import float64
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ._along import log_mean_exp, logit_series
from ._exclusion import free_of_zeros
from ._expand import describe
from ._model import Parameters, Samples, homogeneous, parameters, samples, smooth_at_zero

_ORDER = 32
_TOLERANCE = 1e-9
# Angles on a half circle, dense next to the imaginary axis, where the poles are.
_NEAR = np.geomspace(1e-7, math.pi / 2, 1000)
_ANGLES = np.unique(np.concatenate([np.linspace(0, math.pi, 1001), math.pi / 2 - _NEAR, math.pi / 2 + _NEAR]))
_EXAMINED = 10
_FASTEST = 2.0
"""Radians between neighbouring points; beyond π a turn would be taken for the opposite one."""
_SHIFTS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3)

ZERO, POLE, NOTHING = "zero of a partition function", "singularity of the activation", "nothing"


@result
class Radius(Result):
    """The radius of convergence of S(tθ) in t, and what binds it.

    `pole` is the activation's bound, its nearest singularity over max|Wz+b| (infinite for an entire one). `zero` is the
    nearest zero t of a partition function Σ_α e^{f_α(t)} that was found, with its distance and the sample it belongs
    to. The radius is the smaller of the two.

    Of the `samples`, `searched` were searched for zeros, and `excluded` have none within 0.999 of the radius by a bound
    on their logits; `verified` says that the argument principle counts none there for any of the others either. With a
    user's own activation, of whose singularities and series only estimates are known, it is never verified.
    """

    radius: float
    binds: Literal["zero of a partition function", "singularity of the activation", "nothing"]
    pole: float
    zero_distance: float
    zero: tuple[float, float] | None
    sample: int | None
    samples: int
    searched: int
    excluded: int
    verified: bool
    activation: str
    made: Made


@public
@float64
def radius(params: Any, data: Any, *, activation: Any = "silu", candidates: int = 24) -> Radius:
    """The radius of convergence of the action's series along tθ (docs/theory/action, eqs. 20-21).

    Args:
        params: as for `expand`.
        data: as for `expand`.
        activation: as for `expand`.
        candidates: how many samples are searched for zeros first, those whose own series grow fastest. Of the others,
            those that a bound does not exclude are examined with the argument principle, ten times as many at most.

    >>> theta = dict(U=[[1.0], [0.0]], c=[0.0, 0.0], W=[[1.0]], b=[0.0])
    >>> found = radius(theta, ([[1.0], [-1.0]], [0, 1]), activation="linear")
    >>> found.binds, round(float(found.radius) ** 2, 6)
    ('zero of a partition function', 3.141593)
    """
    candidates = _check.integer("candidates", candidates, at_least=1)
    act = smooth_at_zero(activation)
    theta, source = parameters(params), data
    data = samples(data, classes=theta.classes, features=theta.features)
    theta = Parameters(*(a.astype(np.float64) for a in theta))
    growth, reach = _growth(theta, data, act)
    if homogeneous(act) or not math.isfinite(act.singularity):
        pole = math.inf
    else:
        pole = act.singularity / reach if reach > 0 else math.inf
    nearest, owner, searched, free, verified = _nearest_zero(theta, data, act, np.argsort(growth), candidates, pole)
    distance = math.inf if nearest is None else abs(nearest)
    bound = min(pole, distance)
    return Radius(
        radius=float(bound),
        binds=NOTHING if math.isinf(bound) else ZERO if distance <= pole else POLE,
        pole=float(pole),
        zero_distance=float(distance),
        zero=None if nearest is None else (float(nearest.real), float(abs(nearest.imag))),
        sample=owner,
        samples=len(data.m),
        searched=searched,
        excluded=free,
        verified=verified,
        activation=act.name,
        made=Made.by("neft.action.radius", specification=describe(theta, source, act) | {"candidates": candidates}),
    )


@public
def series_radius(coefficients: Any) -> float:
    """The radius of convergence that the last coefficients of a series show, for logarithmic singularities.

    Next to a logarithm c_k ~ cos(kφ+δ)/(k r^k), so that k|c_k| r^k neither grows nor falls where it is largest.

    >>> round(series_radius([0.0, *((-2.0) ** k / k for k in range(1, 41))]), 6)
    0.5
    """
    c = np.abs(_check.array("coefficients", coefficients, ndim=1))
    k = np.arange(len(c))
    c = c * k
    present = np.flatnonzero(c)
    if len(present) < 4:
        return math.inf
    # The upper envelope of the second half, by windows that see past a zero of the cosine.
    half = present[present >= present[-1] // 2]
    found = math.inf
    for first in half[: max(1, len(half) // 3)]:
        last = half[half > first + (half[-1] - half[0]) // 2]
        slopes = (np.log(c[last]) - np.log(c[first])) / (last - first)
        found = min(found, float(np.exp(-slopes.max()))) if len(slopes) else found
    early, late = half[: len(half) // 2], half[len(half) // 2 :]
    # Two windows: their greatest elements, each referred to the other by the first estimate.
    for _ in range(8):
        scaled = np.log(c[half]) + half * math.log(found)
        a, b = early[np.argmax(scaled[: len(early)])], late[np.argmax(scaled[len(early) :])]
        found = float(np.exp(-(np.log(c[b]) - np.log(c[a])) / (b - a)))
    return found


def _growth(theta: Parameters, data: Samples, act: Activation) -> tuple[np.ndarray, float]:
    # For each sample 1/limsup|l_k|^(1/k) of ln Z; and max|Wz+b| over all.
    radii, reach = np.empty(len(data.m)), 0.0
    each = 8 * (2 * theta.features + 4 * theta.hidden + 3 * (_ORDER + 1) * theta.classes)
    run = _sample_series(act)
    for part in blocks(len(data.m), block_size(each, len(data.m)), label="partition functions"):
        z = np.asarray(data.z[part], np.float64)
        h = np.abs(z @ theta.W.T + theta.b).max()
        reach = max(reach, float(h))
        unit = (act.singularity if 0 < act.singularity < math.inf else 1.0) / max(float(h), 1e-300)
        l = np.abs(np.asarray(run(theta, z, unit)))[_ORDER // 2 :]
        k = np.arange(_ORDER // 2, _ORDER + 1)
        with np.errstate(divide="ignore"):
            radii[part] = unit * np.exp(-(np.log(k[:, None] * l) / k[:, None]).max(axis=0))
    return radii, reach


@functools.lru_cache(maxsize=16)
def _sample_series(act: Activation):
    s = None if homogeneous(act) else act.taylor(_ORDER - 1)

    @jax.jit
    def run(theta: Parameters, z: Any, unit: Any) -> Any:
        h = theta.W @ z.T + theta.b[:, None]
        l = log_mean_exp(logit_series(theta.U, theta.c, h, act, s, _ORDER, unit))
        return jnp.stack([jnp.zeros(z.shape[0]) if c is None else jnp.broadcast_to(c, (z.shape[0],)) for c in l])

    return run


def _nearest_zero(
    theta: Parameters, data: Samples, act: Activation, ranked: np.ndarray, candidates: int, pole: float
) -> tuple[complex | None, int | None, int, int, bool]:
    """The nearest zero, its sample, how many samples were searched and excluded, and whether that covers them all."""
    best, owner, searched = None, None, 0

    def search(i: int) -> None:
        nonlocal best, owner, searched
        searched += 1
        h = np.abs(np.asarray(data.z[i], np.float64) @ theta.W.T + theta.b).max()
        own = act.singularity / h if math.isfinite(pole) and h > 0 else math.inf
        for t in _zeros(_partition(theta, data.z[i], act), _starts(theta, data.z[i], act, own), own):
            if abs(t) < own * (1 - 1e-12) and (best is None or abs(t) < abs(best)):
                best, owner = t, i

    for i in track(ranked[:candidates], "zeros"):
        own = data._replace(z=data.z[i : i + 1], m=data.m[i : i + 1])
        if best is None or not free_of_zeros(theta, own, act, abs(best))[0]:
            search(int(i))
    limit = min(pole, math.inf if best is None else abs(best))
    if math.isinf(limit):
        return best, owner, searched, 0, False
    free = free_of_zeros(theta, data, act, 0.999 * limit)
    doubtful = [int(i) for i in ranked if not free[i]]
    # The argument principle needs to know where the function is analytic, which of a user's own is a guess.
    verified = act.named and len(doubtful) <= _EXAMINED * candidates
    for i in track(doubtful[: _EXAMINED * candidates], "argument principle"):
        Z = _partition(theta, data.z[i], act)
        if _winding(Z, 0.999 * limit) != 0:
            search(i)
            limit = min(pole, math.inf if best is None else abs(best))
            verified = verified and _winding(Z, 0.999 * limit) == 0
    return best, owner, searched, int(free.sum()), verified


def _starts(theta: Parameters, z: np.ndarray, act: Activation, pole: float) -> np.ndarray:
    # Poles of Padé approximants of (ln Z)', whose simple poles are the zeros; and points next to σ's poles.
    h = np.abs(np.asarray(z, np.float64) @ theta.W.T + theta.b).max()
    unit = (act.singularity if 0 < act.singularity < math.inf else 1.0) / max(float(h), 1e-300)
    l = np.asarray(_sample_series(act)(theta, np.asarray(z, np.float64)[None], unit))[:, 0]
    slope = l[1:] * np.arange(1, len(l))
    found = [unit * root for degree in (2, 4, 6) for root in _denominator_roots(slope, degree)]
    if math.isfinite(pole):
        # The poles nearest to the origin lie on the imaginary axis for all named activations but mish.
        found += [1j * pole * (1 - shift) * np.exp(1j * turn * shift) for shift in _SHIFTS for turn in (-1, 0, 1)]
    return np.array(found, complex)


def _denominator_roots(c: np.ndarray, degree: int) -> np.ndarray:
    rows = np.array([[c[k - j] for j in range(degree + 1)] for k in range(len(c) - 2 * degree, len(c))])
    scale = np.abs(rows).max()
    if not scale > 0 or not np.isfinite(scale):
        return np.empty(0)
    _, _, v = np.linalg.svd(rows / scale)
    q = v[-1]
    return np.roots(q[::-1]) if abs(q[-1]) > 1e-14 else np.empty(0)


def _partition(theta: Parameters, z: np.ndarray, act: Activation) -> Callable[[np.ndarray], np.ndarray]:
    """Z(t) e^{-f̄(t)} for complex t of shape (k,), the mean logit taken out."""
    h = np.asarray(z, np.float64) @ theta.W.T + theta.b
    U = theta.U - theta.U.mean(axis=0)
    c = theta.c - theta.c.mean()
    sigma = _complex(act)
    fixed = U @ np.asarray(act(h), np.float64) if homogeneous(act) else None

    def Z(t: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if fixed is not None:
                f = t[:, None] * c + t[:, None] ** 2 * fixed
            else:
                f = t[:, None] * (c + sigma(t[:, None] * h) @ U.T)
            return np.exp(f).mean(axis=1)

    return Z


def _zeros(Z: Callable, starts: np.ndarray, reach: float) -> np.ndarray:
    # Newton's method with a numerical derivative, from all starts at once, each until it stands still or leaves.
    t = starts[np.isfinite(starts)]
    moving = np.ones(len(t), bool)
    for _ in range(40):
        at = t[moving]
        step = 1e-6 * np.abs(at) + 1e-12
        with np.errstate(all="ignore"):
            change = Z(at) * 2 * step / (Z(at + step) - Z(at - step))
        size = np.abs(change)
        change = np.where(size > 0.2 * np.abs(at), change * 0.2 * np.abs(at) / np.where(size > 0, size, 1), change)
        t[moving] = np.where(np.isfinite(change), at - change, at)
        moving[moving] = np.isfinite(change) & (size > 1e-14 * np.abs(at)) & (np.abs(at) < 3 * reach)
        if not moving.any():
            break
    with np.errstate(all="ignore"):
        slope = (Z(t * (1 + 1e-6)) - Z(t * (1 - 1e-6))) / (2e-6 * t)
        good = np.isfinite(t) & (np.abs(Z(t) / slope) < _TOLERANCE * np.abs(t))
    return t[good]


def _winding(Z: Callable, size: float) -> int | None:
    """The number of zeros inside a circle without poles; None where the phase turns too fast to be followed."""
    # Z(t̄) is the conjugate of Z(t): half a circle will do.
    values = Z(size * np.exp(1j * _ANGLES))
    with np.errstate(all="ignore"):
        turns = np.angle(values[1:] / values[:-1])
    if not np.isfinite(turns).all() or np.abs(turns).max() > _FASTEST:
        return None
    return round(float(turns.sum()) / np.pi)


def _complex(act: Activation) -> Callable[[np.ndarray], np.ndarray]:
    name, _, numbers = act.name.rstrip(")").partition("(")
    parameter = [float(n) for n in numbers.split(",") if n]
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    known: dict[str, Callable] = {
        "linear": lambda x: x,
        "silu": lambda x: x * sigmoid(x),
        "swish": lambda x: x * sigmoid((parameter or [1.0])[0] * x),
        "sigmoid": sigmoid,
        "tanh": np.tanh,
        "softplus": lambda x: np.log(1 + np.exp(x)),
        "sin": np.sin,
        "erf": special.erf,
        "gelu": lambda x: x * special.erfc(-x * math.sqrt(0.5)) / 2,
        "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
        "quadratic": lambda x: x * x,
        "hard_tanh": lambda x: x,
    }
    if act.named and name in known:
        return known[name]
    return lambda x: np.asarray(act.function(jnp.asarray(x)))


def verdict(t: float, bound: float) -> str:
    """What partial sums at t mean: "inside" the radius they converge, "outside" they do not, whatever they show."""
    return "inside" if abs(t) < bound else "outside"
