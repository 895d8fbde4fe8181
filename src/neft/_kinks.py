"""Kinks of a function that is only known as a program: a scan of the real line, and one-sided derivatives.

Autodiff gives σ' almost everywhere and does not know what it skips: across a cell of the scan without a kink, σ^(n)
changes by the integral of σ^(n+1), and where it does not, the cell is split until the kink is left in the last one.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.ndimage import maximum_filter1d

from ._activation import Kink

SPAN = 50.0
"""Kinks are looked for in |z| ≤ SPAN,"""
FAR = 51200.0
"""and less closely in |z| ≤ FAR."""

# Of the largest value that the derivative takes nearby; smaller jumps are not looked for.
JUMP = 1e-6
MOST = 128

_SPACING = 0.02
_SQUEEZED = (32.0, 1024.0)  # powers of two, so that nothing is rounded
_MOST_FAR = 16
# Nearer to the origin a narrow pair of jumps is looked for too.
_CORE_SPAN, _CORE_SPACING = 8.0, 16.0 / 2**18
_CHUNK = 2048
_LIVE = 10_000
_CORE = np.linspace(-5.0, 5.0, 403)


@functools.lru_cache(maxsize=64)
def _compiled(function: Callable) -> Callable:
    jet = lambda z: (function(z),)  # noqa: E731
    for _ in range(3):
        jet = _one_more(jet)
    return jax.jit(lambda z: jnp.stack(jet(z)))


def _one_more(below: Callable) -> Callable:
    def jet(z):
        values, slopes = jax.jvp(below, (z,), (jnp.ones_like(z),))
        return *values, slopes[-1]

    return jet


class Scaled(NamedTuple):
    """The function of u that a function is at factor·u."""

    function: Callable
    factor: float


def derivatives(function: Callable | Scaled, z: np.ndarray) -> np.ndarray:
    """σ, σ', σ'', σ''' at the points z, shape (4, points), in float64; even while the caller is being traced."""
    if isinstance(function, Scaled):
        with np.errstate(over="ignore"):
            return derivatives(function.function, function.factor * z) * function.factor ** np.arange(4.0)[:, None]
    jet = _compiled(function)
    pieces = []
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        for i in range(0, len(z), _CHUNK):
            # Always the same shape, so that a function is compiled once.
            piece = np.resize(z[i : i + _CHUNK], _CHUNK)
            pieces.append(np.asarray(jet(jnp.asarray(piece)), np.float64)[:, : len(z) - i])
    return np.concatenate(pieces, axis=1)


def found(function: Callable) -> tuple[Kink, ...]:
    """The kinks in |z| ≤ FAR, increasing: where a derivative up to the third jumps or is not bounded.

    Beyond SPAN they are looked for as those of a function that is squeezed.
    """
    far: list[Kink] = []
    for factor in _SQUEEZED:
        reached = SPAN * factor / _SQUEEZED[0]
        for kink in _found(Scaled(function, factor), reached / factor):
            if abs(kink.position) * factor > reached and _is_finite_around(function, kink.position * factor):
                far.append(Kink(kink.position * factor, kink.order, kink.jump / factor**kink.order))
    # Of steps without end those near the origin have to do.
    return tuple(sorted([*_found(function, 0.0), *(far if len(far) <= _MOST_FAR else ())]))


def _is_finite_around(function: Callable, z: float) -> bool:
    # Where a function overflows it has no kink.
    return bool(np.isfinite(derivatives(function, z * np.array([0.8, 0.95, 1.0, 1.05, 1.2]))).all())


def _found(function: Callable | Scaled, beyond: float) -> tuple[Kink, ...]:
    cells = []
    # So close to the origin the higher derivatives of many a function are rounding.
    scans = [(SPAN, _SPACING, 4)] if beyond else [(SPAN, _SPACING, 4), (_CORE_SPAN, _CORE_SPACING, 2)]
    with np.errstate(all="ignore"):
        for span, spacing, orders in scans:
            # The ends of the cells are no round numbers, where kinks tend to be.
            ends = np.arange(-span, span, spacing) + 0.381966 * spacing
            for part in (ends[ends < -beyond], ends[ends > beyond]) if beyond else (ends,):
                suspects = _suspects(function, part, spacing, orders)
                # Squeezed, what grows like exp is suspect all over.
                if not beyond or len(suspects[0]) <= 256:
                    cells += _bisected(function, *suspects)
    kinks: list[Kink] = []
    for kink in sorted(filter(None, examined(function, sorted({_plain(*cell) for cell in cells})))):
        # Two cells may have met at one kink.
        if not kinks or kink.position - kinks[-1].position > 1e-9 * max(1.0, abs(kink.position)):
            kinks.append(kink)
    return tuple(kinks)


def _suspects(function: Callable | Scaled, ends: np.ndarray, spacing: float, orders: int) -> tuple[np.ndarray, ...]:
    # Cells of width below 1e-7 over which one of the first of σ, σ', σ'', σ''' does not change as its derivative says.
    values = derivatives(function, ends)
    size = np.nan_to_num(np.abs(values), posinf=0.0)
    scale = maximum_filter1d(size, size=round(2 / spacing) + 1, axis=1)[:, :-1]
    floor = _core(function)[:, None]
    left, right, at_left, at_right = ends[:-1], ends[1:], values[:, :-1], values[:, 1:]
    while True:
        width = right - left
        scale = np.maximum(scale, np.maximum(np.abs(at_left), np.abs(at_right)))
        surprise = np.abs(at_right[:3] - at_left[:3] - width / 2 * (at_left[1:] + at_right[1:]))
        excess = surprise / (JUMP * scale[:3] + 1e-10 * floor[:3])
        # A jump of σ''' shows as an error of σ'' that goes with the width, where that of a smooth function goes with
        # its cube.
        third = surprise[2] / (width * (1e-4 * scale[3] + 1e-8 * floor[3]))
        # Nothing over nothing is no surprise, nor is overflow.
        worst = np.nan_to_num([*excess, third][:orders], nan=0.0, posinf=np.inf).max(axis=0)
        worst[~np.isfinite([*at_left, *at_right]).all(axis=0)] = 0.0
        keep = np.sort(np.argsort(-worst, kind="stable")[:_LIVE])
        keep = keep[worst[keep] > 1]
        left, right, scale = left[keep], right[keep], scale[:, keep]
        at_left, at_right = at_left[:, keep], at_right[:, keep]
        if not len(left) or (right - left).max() < 1e-7:
            return left, right, at_left, at_right
        middle = (left + right) / 2
        at_middle = derivatives(function, middle)
        left, right = (np.stack(pair, axis=1).ravel() for pair in ((left, middle), (middle, right)))
        at_left, at_right = (
            np.stack(pair, axis=2).reshape(4, -1) for pair in ((at_left, at_middle), (at_middle, at_right))
        )
        scale = np.repeat(scale, 2, axis=1)


def _bisected(
    function: Callable | Scaled, left: np.ndarray, right: np.ndarray, at_left: np.ndarray, at_right: np.ndarray
) -> list[tuple[float, float]]:
    # In so small a cell nothing but a jump changes anything: follow the derivative that changes most for its size.
    if not len(left):
        return []
    change = np.abs(at_right - at_left) / (np.maximum(np.abs(at_left), np.abs(at_right)) + _core(function)[:, None])
    order = np.nan_to_num(change).argmax(axis=0)
    cell = np.arange(len(left))
    low, high = at_left[order, cell], at_right[order, cell]
    for _ in range(44):
        middle = (left + right) / 2
        at = derivatives(function, middle)[order, cell]
        to_left = np.abs(at - low) >= np.abs(high - at)
        right, high = np.where(to_left, middle, right), np.where(to_left, at, high)
        left, low = np.where(to_left, left, middle), np.where(to_left, low, at)
    return list(zip(left.tolist(), right.tolist()))


def _plain(low: float, high: float) -> float:
    # The number with the fewest digits among those that the cell leaves.
    slack = 4 * np.spacing(max(abs(low), abs(high))) + 1e-17
    if low - slack <= 0 <= high + slack:
        return 0.0
    for digits in range(1, 15):
        number = float(f"{low:.{digits}g}")
        if low - slack <= number <= high + slack:
            return number
    return (low + high) / 2


# Pairs of points on both sides, from which a derivative is extrapolated to the kink itself, at two distances; and
# points around, which show how large the derivative is anyway.
_BESIDE = np.array([-2000.0, -1000.0, -2.0, -1.0, 1.0, 2.0, 1000.0, 2000.0]) * 1e-13
_STEEP = np.geomspace(1e-9, 0.025, 40)
_AROUND = np.concatenate([-_STEEP, _STEEP, 0.05 * np.arange(-20.5, 21.0)])


def examined(function: Callable | Scaled, positions: Sequence[float]) -> list[Kink | None]:
    """The kink at each position, from the derivatives on both sides; None where none of them jumps.

    The jump is infinite where the derivative is not bounded.
    """
    if not len(positions):
        return []
    centre = np.asarray(positions, float)[:, None]
    points = centre + np.maximum(1.0, np.abs(centre)) * np.concatenate([_BESIDE, _AROUND])
    at = derivatives(function, points.ravel()).reshape(4, *points.shape)
    with np.errstate(all="ignore"):
        beside = at[..., : len(_BESIDE)]
        scale = np.nan_to_num(np.abs(at[..., len(_BESIDE) :]), posinf=0.0).max(axis=-1)
        threshold = JUMP * scale + 1e-10 * _core(function)[:, None]
        far, jump = _jump(beside[..., [0, 1, 6, 7]]), _jump(beside[..., 2:6])
        before, largest = (np.abs(beside[..., pair]).max(axis=-1) for pair in ([1, 6], [3, 4]))
        bounded = largest <= np.maximum(1.15 * np.maximum(before, scale), threshold)
        jumps = (np.abs(jump) > threshold) & (np.abs(jump - far) <= 0.05 * np.abs(jump))
    return [_first(position, *columns) for position, *columns in zip(positions, bounded.T, jumps.T, jump.T)]


def _first(position: float, bounded: np.ndarray, jumps: np.ndarray, jump: np.ndarray) -> Kink | None:
    for order in range(4):
        if not bounded[order]:
            return Kink(float(position), order, math.inf)
        if jumps[order]:
            return Kink(float(position), order, float(jump[order]))
    return None


def _jump(at: np.ndarray) -> np.ndarray:
    return (2 * at[..., 2] - at[..., 3]) - (2 * at[..., 1] - at[..., 0])


@functools.lru_cache(maxsize=64)
def _core(function: Callable | Scaled) -> np.ndarray:
    # How large the derivatives are near the origin: rounding goes with this, even where σ itself is small.
    return np.nan_to_num(np.abs(derivatives(function, _CORE)), posinf=0.0).max(axis=1)
