"""Pair averages of functions about which nothing is known beforehand, on the host.

Hermite coefficients come from a mesh on which the function is resolved, so they are right for steep and oscillating
ones too; how many are needed depends on ρ alone. Near ρ = ±1, where that is too many, the rotated coordinates of
`_rotated` are integrated by panels that are halved where they have to be; and where the function changes more often
than the joint density does, that density is interpolated instead.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from .. import _hermite
from .._accuracy import warn_missed
from .._adaptive import averages, integrated
from .._mesh import NODES, WEIGHTS

_REACH = 13.0
_ACROSS = 9.0  # standard deviations of the rotated coordinates
_DEGREE = 24  # nodes of a box, on which Hermite functions are interpolated
_FINE = np.polynomial.legendre.leggauss(_DEGREE)
_LADDER = (64, 256, 1024, 4096)
_BOX = 0.9  # half-widths of boxes that interpolate the joint density, in its own widths
_GRADED = np.array([-9.0, -4.0, -1.5, 0.0, 1.5, 4.0, 9.0])


@dataclasses.dataclass(frozen=True)
class Resolved:
    """σ^(n) at points z on the host, where to cut panels in |z| ≤ reach, its kinks, and its name for warnings."""

    f: Callable[[np.ndarray], np.ndarray]
    cuts: Callable[[float], np.ndarray]
    kinks: tuple[float, ...]
    name: str

    def in_units(self, spread: float, reach: float = _REACH) -> np.ndarray:
        """The cuts in x = z/spread."""
        return self.cuts(reach * spread) / spread if spread > 1e-150 else np.empty(0)


def any_pair(of: Resolved, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, rtol: float) -> np.ndarray:
    """⟨f(z₁) f(z₂)⟩ for each of many pairs, arrays of one shape (pairs,)."""
    variances, where = np.unique(np.concatenate([K1, K2]), return_inverse=True)
    first, second = where[: len(K1)], where[len(K1) :]
    squares = _squares(of, variances, rtol)
    size, result = np.abs(rho), np.empty(len(rho))
    ends = size == 1
    terms, a, reach = _coefficients(of, variances, squares, float(size[~ends].max(initial=0.0)), rtol)
    near = size <= reach
    if near.any():
        result[near] = _summed(a, first[near], second[near], rho[near], terms)
    # Each of these is dear, and kernels are symmetric.
    far = np.flatnonzero(~near & ~ends)
    sides = np.sort(np.stack([first, second])[:, far], axis=0)
    _, once, again = np.unique(np.stack([*sides, rho[far]]), axis=1, return_index=True, return_inverse=True)
    worst = 0.0
    for i in far[once]:
        scale, given = math.sqrt(squares[first[i]] * squares[second[i]]), (float(K1[i]), float(K2[i]), float(rho[i]))
        if _cost_of_bands(of, *given) < _cost_of_rotated(of, *given):
            result[i] = _by_bands(of, *given)
        else:
            result[i], error = _rotated(of, *given, scale, rtol)
            worst = max(worst, error)
    result[far] = result[far[once]][again.ravel()]
    if worst > rtol:
        warn_missed(of.name, worst, rtol)
    if ends.any():
        result[ends] = _on_a_line(of, np.sqrt(K1[ends]), np.sqrt(K2[ends]), rho[ends], rtol)
    return result


def _squares(of: Resolved, variances: np.ndarray, rtol: float) -> np.ndarray:
    spread = np.sqrt(variances)

    def integrand(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        return of.f(spread[row] * x)[None] ** 2

    return averages(integrand, [of.in_units(s) for s in spread], max(rtol, 1e-12), of.name)[0]


def _on_a_line(of: Resolved, r1: np.ndarray, r2: np.ndarray, sign: np.ndarray, rtol: float) -> np.ndarray:
    def integrand(x: np.ndarray, row: np.ndarray) -> np.ndarray:
        return (of.f(r1[row] * x) * of.f(sign[row] * r2[row] * x))[None]

    breaks = [np.concatenate([of.in_units(a), s * of.in_units(b)]) for a, b, s in zip(r1, r2, sign)]
    return averages(integrand, breaks, rtol, of.name)[0]


def _coefficients(
    of: Resolved, variances: np.ndarray, squares: np.ndarray, below: float, rtol: float
) -> tuple[int, np.ndarray, float]:
    """A number of terms, the coefficients (terms, variances), and the largest |ρ| that they serve."""
    terms, a, reach = 0, np.empty((0, len(variances))), -1.0
    for terms in _LADDER:
        # The shortest wave of He_k is about π/√k long; so many nodes interpolate half a dozen of its radians.
        nodes, weights, found = _boxes(of, variances, 5.0 / math.sqrt(terms + 16))
        error = float(np.max(np.abs(found - squares) / np.where(squares > 0, squares, 1.0)))
        a = _projected(nodes, weights, terms)
        if error > max(rtol, 1e-12):
            # A function that is not resolved: more work would not help.
            warn_missed(of.name, error, rtol)
            return terms, a, 1.0
        # Stopping here loses at most tail |ρ|^terms.
        tail = max(float(_hermite.tails(a, squares)[-1]), 1e-300)
        reach = min((0.1 * rtol / tail) ** (1 / terms), 1.0)
        if reach >= below:
            break
    return terms, a, reach


def _boxes(of: Resolved, variances: np.ndarray, widest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes x (nodes,) and weights (nodes, variances) with ∫ f(√K x) u(x) dx = Σ weights·u, however rough f is.

    The functions u are those that 24 nodes interpolate in every box of at most this half-width. Also ⟨f²⟩ by the same
    panels.
    """
    count = math.ceil(_REACH / widest)
    edges = np.linspace(-_REACH, _REACH, count + 1)
    half = _REACH / count
    unit, unit_weights = _FINE
    nodes = (edges[:-1, None] + half * (1 + unit[None, :])).ravel()
    # From moments with Legendre polynomials to values at the nodes.
    k = np.arange(_DEGREE)
    back = np.polynomial.legendre.legvander(unit, _DEGREE - 1) * (k + 0.5)[None, :] * unit_weights[:, None]
    weights, squares = np.empty((len(nodes), len(variances))), np.empty(len(variances))
    for i, spread in enumerate(np.sqrt(variances)):
        inside = of.in_units(float(spread))
        fine = np.unique(np.concatenate([np.linspace(-_REACH, _REACH, 2 * count + 1), inside[np.abs(inside) < _REACH]]))
        h = np.diff(fine)[:, None] / 2
        x = fine[:-1, None] + h * (1 + unit[None, :])
        box = np.clip(((fine[:-1] + h[:, 0] + _REACH) / (2 * half)).astype(int), 0, count - 1)
        values = of.f((spread * x).ravel()).reshape(x.shape)
        weighted = values * h * unit_weights[None, :]
        t = (x - edges[box][:, None]) / half - 1
        moments = np.empty((_DEGREE, count))
        before, now = np.zeros_like(t), np.ones_like(t)
        for n in range(_DEGREE):
            moments[n] = np.bincount(box, (weighted * now).sum(axis=1), minlength=count)
            before, now = now, ((2 * n + 1) * t * now - n * before) / (n + 1)
        weights[:, i] = (back @ moments).T.ravel()
        gaussian = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        squares[i] = (weighted * values * gaussian).sum()
    return nodes, weights, squares


def _projected(x: np.ndarray, weights: np.ndarray, terms: int) -> np.ndarray:
    # a_k = ∫ f(√K x) He_k(x)/√k! φ(x) dx, a few orders at a time.
    half = np.exp(-x * x / 4)
    weights = weights * (half / math.sqrt(2 * math.pi))[:, None]
    a = np.empty((terms, weights.shape[1]))
    before, now = np.zeros_like(x), half
    block = np.empty((64, len(x)))
    for k in range(terms):
        block[k % 64] = now
        before, now = now, (x * now - math.sqrt(k) * before) / math.sqrt(k + 1)
        if k % 64 == 63:
            a[k - 63 : k + 1] = block @ weights
    return a


def _summed(a: np.ndarray, first: np.ndarray, second: np.ndarray, rho: np.ndarray, terms: int) -> np.ndarray:
    total = np.zeros(len(rho))
    for k in range(terms - 1, -1, -1):
        total = total * rho + a[k, first] * a[k, second]
    return total


def _cost_of_bands(of: Resolved, K1: float, K2: float, rho: float) -> float:
    # In points.
    boxes = _REACH / (_BOX * math.sqrt((1 - abs(rho)) * (1 + abs(rho))))
    cells = len(of.in_units(math.sqrt(K1))) + len(of.in_units(math.sqrt(K2)))
    return (4 * boxes + cells) * 2 * _DEGREE**2 + boxes * _DEGREE**2 * _ACROSS / _BOX


def _cost_of_rotated(of: Resolved, K1: float, K2: float, rho: float) -> float:
    B = math.sqrt((1 - abs(rho)) / 2)
    cells = len(of.in_units(math.sqrt(K1))) + len(of.in_units(math.sqrt(K2)))
    panels = 19 + cells + (min(len(_GRADED) * cells, 8 * _ACROSS / B) if cells * B > 1 else 0)
    return 3 * 16 * panels * 16 * (8 + cells * min(1.0, _ACROSS * B / _REACH))


def _by_bands(of: Resolved, K1: float, K2: float, rho: float) -> float:
    # The joint density of x₁ and x₂ is as wide as s around x₁ = ρx₂.
    s, size = math.sqrt((1 - abs(rho)) * (1 + abs(rho))), abs(rho)
    nodes, weights, _ = _boxes(of, np.array([K1, K2]), _BOX * s)
    x, first = nodes.reshape(-1, _DEGREE), weights[:, 0].reshape(-1, _DEGREE)
    # With the second variable turned round ρ is positive.
    second = (weights[::-1, 1] if rho < 0 else weights[:, 1]).reshape(-1, _DEGREE)
    second = second * np.exp(-x * x / 2) / (2 * math.pi * s)
    count, width = len(x), 2 * _REACH / len(x)
    around = math.ceil(_ACROSS * s / size / width) + 1
    total = 0.0
    centre = (np.arange(count) + 0.5) * width - _REACH
    partner = np.floor((centre / size + _REACH) / width).astype(int)
    for offset in range(-around, around + 1):
        both = np.flatnonzero((partner + offset >= 0) & (partner + offset < count))
        for start in range(0, len(both), 512):
            i = both[start : start + 512]
            j = partner[i] + offset
            u = (x[i][:, :, None] - size * x[j][:, None, :]) / s
            total += float(np.einsum("ba,bac,bc->", first[i], np.exp(-u * u / 2), second[j], optimize=True))
    return total


def _rotated(of: Resolved, K1: float, K2: float, rho: float, scale: float, rtol: float) -> tuple[float, float]:
    # With x₁ = A p + B q and x₂ = s (A p - B q), the integral over q inside that over p.
    s, r1, r2 = -1.0 if rho < 0 else 1.0, math.sqrt(K1), math.sqrt(K2)
    A, B = math.sqrt((1 + abs(rho)) / 2), math.sqrt((1 - abs(rho)) / 2)
    # In the unit variables; increasing.
    at1, at2 = of.in_units(r1), np.sort(s * of.in_units(r2))
    even = np.linspace(-_ACROSS, _ACROSS, 9)

    def inner(p: np.ndarray, _: np.ndarray) -> np.ndarray:
        rows1, q1 = _within(at1, A * p, _ACROSS * B)
        rows2, q2 = _within(at2, A * p, _ACROSS * B)
        rows = np.concatenate([np.repeat(np.arange(len(p)), len(even)), rows1, rows2])
        q = np.concatenate([np.tile(even, len(p)), q1 / B, -q2 / B])
        order = np.lexsort((q, rows))
        rows, q = rows[order], q[order]
        inside = np.flatnonzero((rows[1:] == rows[:-1]) & (q[1:] > q[:-1]))
        total = np.zeros(len(p))
        # A piece at a time, so that memory stays bounded.
        for start in range(0, len(inside), 1 << 16):
            left = inside[start : start + (1 << 16)]
            half = (q[left + 1] - q[left])[:, None] / 2
            at = q[left][:, None] + half * (1 + NODES[None, :])
            centre = A * p[rows[left]][:, None]
            values = of.f((r1 * (centre + B * at)).ravel()) * of.f((r2 * s * (centre - B * at)).ravel())
            weighted = values.reshape(at.shape) * half * WEIGHTS[None, :] * np.exp(-at * at / 2)
            total += np.bincount(rows[left], weighted.sum(axis=1), minlength=len(p))
        return total[None] / math.sqrt(2 * math.pi)

    # A place where f changes quickly is crossed while p moves by a few B/A; many of them need no more panels than that.
    # Where z₁ is at one place and z₂ at another, nothing is smoothed.
    quick1, quick2 = _quick(of, at1, r1, B), _quick(of, at2, s * r2, B)
    around = _thinned((np.concatenate([quick1, quick2])[:, None] + B * _GRADED[None, :]).ravel(), B / 4)
    near = np.concatenate([at1, at2, _between(quick1, quick2, 2 * _ACROSS * B), around]) / A
    edges = np.concatenate([np.linspace(-_ACROSS, _ACROSS, 19), near[np.abs(near) < _ACROSS]])
    sizes = np.array([[scale if scale > 0 else 1.0]])
    found, _ = integrated(inner, [np.unique(edges)], rtol, weight=_gaussian, sizes=sizes)
    return float(found.values[0, 0]), float(found.errors[0])


def _quick(of: Resolved, at: np.ndarray, spread: float, B: float) -> np.ndarray:
    # Of the cuts those at kinks and of cells that are no wider than what the other coordinate smooths.
    if not len(at):
        return at
    kinks = np.array(of.kinks) / spread
    return np.concatenate([kinks, at[:-1][np.diff(at) < 2 * _ACROSS * B]])


def _between(one: np.ndarray, two: np.ndarray, most: float) -> np.ndarray:
    # The middles of places that are so close to each other; of very many places they are as dense as these.
    if len(one) * len(two) > 1 << 14:
        return np.empty(0)
    apart = one[:, None] - two[None, :]
    return ((one[:, None] + two[None, :]) / 2)[np.abs(apart) < most]


def _within(at: np.ndarray, centre: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    # For each centre the entries of `at` within reach of it, as rows and differences.
    first, last = np.searchsorted(at, centre - reach), np.searchsorted(at, centre + reach)
    count = last - first
    rows = np.repeat(np.arange(len(centre)), count)
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[rows]
    return rows, at[index] - centre[rows]


def _thinned(edges: np.ndarray, least: float) -> np.ndarray:
    # Of edges closer to each other than this, one.
    edges = np.sort(edges)
    kept = np.unique(np.floor(edges / least), return_index=True)[1]
    return edges[kept]


def _gaussian(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
