"""Write tests/gold.json: 50-digit reference values for the activations, made with mpmath and without neft.

Every number is a decimal string. Inputs (z, K, rho, the slope 0.1) mean the double nearest to what is written, so that
a test may pass float("0.1") and compare with the truth for exactly that double. Every integral is computed at two
resolutions, most of them also by a second method or against an identity; a disagreement raises ArithmeticError.

    derivatives  σ, σ', σ'', σ''' at points z
    taylor       σ^(k)(0)/k!, from the right where σ has a kink at 0
    moments      <z^e σ^a σ'^b σ''^c σ'''^d> for z ~ N(0, K) and the same for the absolute value of the integrand
    pairs        <σ^(m)(z1) σ^(n)(z2)> for a correlated Gaussian pair

In the moments the deltas of σ'' and σ''' at kinks are counted; in the pairs derivatives are taken almost everywhere.
The "absolute" of a pair is only the scale for its errors, computed in doubles, and has 8 digits; all else has 25.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath.ctx_mp import MPContext
from scipy import special

# A context of our own: importing this file must not change the precision of anyone else's mpmath.
mp: Any = MPContext()
mp.dps = 50
mpf = mp.mpf
Real = Any  # an mpf; mpmath has no types

DIGITS = 25
SECTIONS = ("derivatives", "taylor", "moments", "pairs")


def text(x: Real, digits: int = DIGITS) -> str:
    """The decimal string that is stored."""
    return mp.nstr(mpf(x), digits)


def require(ok: bool, what: str) -> None:
    """Raise if a self-check failed (an assert would vanish under -O)."""
    if not ok:
        raise ArithmeticError(what)


# ---------------------------------------------------------------------------------------------------------------------
# Activations


class Piece(NamedTuple):
    """σ(z) = c0 + c1 z + c2 (e^z - 1) for lo < z < hi; expm1 keeps σ accurate near 0."""

    lo: Real
    hi: Real
    c0: Real
    c1: Real
    c2: Real

    def jet(self, z: Real) -> tuple[Real, ...]:
        """σ, σ', σ'', σ'''."""
        if not self.c2:
            return self.c0 + self.c1 * z, self.c1, mpf(0), mpf(0)
        x = self.c2 * mp.exp(z)
        return self.c0 + self.c1 * z + self.c2 * mp.expm1(z), self.c1 + x, x, x


def pieces(*rows: tuple[float, float, float, float, float]) -> tuple[Piece, ...]:
    """Pieces from plain numbers."""
    return tuple(Piece(*map(mpf, row)) for row in rows)


INF = math.inf
PIECES = {
    "relu": pieces((-INF, 0, 0, 0, 0), (0, INF, 0, 1, 0)),
    "leaky_relu(0.1)": pieces((-INF, 0, 0, 0.1, 0), (0, INF, 0, 1, 0)),
    "elu(1)": pieces((-INF, 0, 0, 0, 1), (0, INF, 0, 1, 0)),
    "elu(0.5)": pieces((-INF, 0, 0, 0, 0.5), (0, INF, 0, 1, 0)),
    "hard_tanh": pieces((-INF, -1, -1, 0, 0), (-1, 1, 0, 1, 0), (1, INF, 1, 0, 0)),
}


def linear_jet(z: Real) -> tuple[Real, ...]:
    """z."""
    return z, mpf(1), mpf(0), mpf(0)


def quadratic_jet(z: Real) -> tuple[Real, ...]:
    """z²."""
    return z * z, 2 * z, mpf(2), mpf(0)


def tanh_jet(z: Real) -> tuple[Real, ...]:
    """tanh; σ' = sech² from e^{-2|z|}, because 1 - tanh² loses the tail."""
    t = mp.tanh(z)
    e = mp.exp(-2 * abs(z))
    s = 4 * e / (1 + e) ** 2
    return t, s, -2 * t * s, s * (4 - 6 * s)


def sigmoid_jet(z: Real) -> tuple[Real, ...]:
    """1/(1+e^{-z}); 1 - 2σ = -tanh(z/2) is used where the difference would cancel."""
    e = mp.exp(-abs(z))
    s1 = e / (1 + e) ** 2
    s = 1 / (1 + e) if z > 0 else e / (1 + e)
    return s, s1, -mp.tanh(z / 2) * s1, s1 * (1 - 6 * s1)


def softplus_jet(z: Real) -> tuple[Real, ...]:
    """ln(1+e^z)."""
    return (max(z, mpf(0)) + mp.log1p(mp.exp(-abs(z))), *sigmoid_jet(z)[:3])


def swish_jet(beta: int) -> Callable[[Real], tuple[Real, ...]]:
    """z sigmoid(βz)."""

    def jet(z: Real) -> tuple[Real, ...]:
        s, s1, s2, s3 = sigmoid_jet(beta * z)
        x = beta * z
        return z * s, s + x * s1, beta * (2 * s1 + x * s2), beta**2 * (3 * s2 + x * s3)

    return jet


def erf_jet(z: Real) -> tuple[Real, ...]:
    """erf(z)."""
    g = 2 * mp.exp(-z * z) / mp.sqrt(mp.pi)
    return mp.erf(z), g, -2 * z * g, (4 * z * z - 2) * g


def gelu_jet(z: Real) -> tuple[Real, ...]:
    """z Φ(z), Φ through erfc so that the left tail keeps its relative precision."""
    phi = mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
    cdf = mp.erfc(-z / mp.sqrt(2)) / 2
    return z * cdf, cdf + z * phi, (2 - z * z) * phi, z * (z * z - 4) * phi


def sin_jet(z: Real) -> tuple[Real, ...]:
    """sin(z)."""
    c, s = mp.cos_sin(z)
    return s, c, -s, -c


def mish_jet(z: Real) -> tuple[Real, ...]:
    """z t, with t = tanh(softplus(z)) = 1 - 2/D, D = w² + 2w + 2, w = e^z."""
    w = mp.exp(z)
    d = w * w + 2 * w + 2
    p = w * (w + 1)  # D' = 2p
    q = w * (2 + w * (2 - w * (3 + 2 * w)))  # t'' = 4q/D³
    q1 = w * (2 + w * (4 - w * (9 + 8 * w)))  # q' = dq/dz
    t, t1, t2, t3 = w * (w + 2) / d, 4 * p / d**2, 4 * q / d**3, 4 * (q1 * d - 6 * q * p) / d**4
    return z * t, t + z * t1, 2 * t1 + z * t2, 3 * t2 + z * t3


def piecewise_jet(parts: Sequence[Piece]) -> Callable[[Real], tuple[Real, ...]]:
    """The jet of a piecewise activation away from its kinks."""
    return lambda z: next(part for part in parts if z <= part.hi).jet(z)


JETS: dict[str, Callable[[Real], tuple[Real, ...]]] = {
    "linear": linear_jet,
    "relu": piecewise_jet(PIECES["relu"]),
    "leaky_relu(0.1)": piecewise_jet(PIECES["leaky_relu(0.1)"]),
    "elu(1)": piecewise_jet(PIECES["elu(1)"]),
    "elu(0.5)": piecewise_jet(PIECES["elu(0.5)"]),
    "tanh": tanh_jet,
    "hard_tanh": piecewise_jet(PIECES["hard_tanh"]),
    "sigmoid": sigmoid_jet,
    "softplus": softplus_jet,
    "erf": erf_jet,
    "sin": sin_jet,
    "gelu": gelu_jet,
    "silu": swish_jet(1),
    "swish(2)": swish_jet(2),
    "mish": mish_jet,
    "quadratic": quadratic_jet,
}
NAMES = tuple(JETS)

# The definitions as one would write them on paper: the closed forms above are differentiated numerically against these.
DEFINITIONS: dict[str, Callable[[Real], Real]] = {
    "linear": lambda z: z,
    "relu": lambda z: max(z, mpf(0)),
    "leaky_relu(0.1)": lambda z: max(z, mpf(0.1) * z),
    "elu(1)": lambda z: z if z > 0 else mp.exp(z) - 1,
    "elu(0.5)": lambda z: z if z > 0 else (mp.exp(z) - 1) / 2,
    "tanh": lambda z: mp.sinh(z) / mp.cosh(z),
    "hard_tanh": lambda z: min(max(z, mpf(-1)), mpf(1)),
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "softplus": lambda z: mp.log(1 + mp.exp(z)),
    "erf": lambda z: mp.erf(z),
    "sin": lambda z: mp.sin(z),
    "gelu": lambda z: z * mp.ncdf(z),
    "silu": lambda z: z / (1 + mp.exp(-z)),
    "swish(2)": lambda z: z / (1 + mp.exp(-2 * z)),
    "mish": lambda z: z * mp.tanh(mp.log(1 + mp.exp(z))),
    "quadratic": lambda z: z**2,
}


class Kink(NamedTuple):
    """A point where a derivative jumps: its order and the jets on both sides."""

    z: Real
    order: int
    left: tuple[Real, ...]
    right: tuple[Real, ...]


def kinks(name: str) -> list[Kink]:
    """The kinks of an activation (σ itself never jumps here)."""
    found = []
    parts = PIECES.get(name, ())
    for a, b in pairwise(parts):
        left, right = a.jet(a.hi), b.jet(a.hi)
        found.append(Kink(a.hi, next(k for k in range(4) if left[k] != right[k]), left, right))
    require(all(kink.order > 0 for kink in found), f"{name} jumps")
    return found


@cache
def scanned_roots(name: str) -> tuple[Real, ...]:
    """Where σ, σ', σ'' or σ''' changes sign: bracketed on a grid in [-12, 12] (all have one sign beyond), bisected."""
    jet = JETS[name]
    found: set[Real] = set()
    grid = [mpf(k) / 16 - mpf(1) / 77 for k in range(-192, 193)]
    jets = [jet(z) for z in grid]
    for a, b, at_a, at_b in zip(grid, grid[1:], jets, jets[1:], strict=False):
        for order in range(4):
            if at_a[order] * at_b[order] < 0:
                lo, hi = a, b
                for _ in range(mp.prec + 10):
                    middle = (lo + hi) / 2
                    lo, hi = (middle, hi) if jet(middle)[order] * at_a[order] > 0 else (lo, middle)
                found.add(mpf(0) if abs(lo) < 1e-40 else lo)
    return tuple(sorted(found))


def breakpoints(name: str, limit: Real, scale: Real = 1) -> list[Real]:
    """The ends ±limit, the kinks and the sign changes of σ(scale z) and its derivatives, and 0.

    Structure of width one inside a wide Gaussian sits at 0, and tanh-sinh resolves any scale next to an end point.
    """
    if name == "sin":
        inside = {k * mp.pi / 2 for k in range(-int(2 * limit * abs(scale)), int(2 * limit * abs(scale)) + 1)}
    else:
        inside = set(scanned_roots(name)) | {kink.z for kink in kinks(name)} | {mpf(0)}
    inside = {z / scale for z in inside}
    ordered = sorted({z for z in inside if abs(z) < limit} | {-limit, limit})
    # A root known to 50 digits twice (as a root and as a kink) would leave a segment without width.
    return [z for k, z in enumerate(ordered) if k == 0 or z - ordered[k - 1] > limit * mpf("1e-40")]


# ---------------------------------------------------------------------------------------------------------------------
# One-dimensional integrals: tanh-sinh on segments

FIRST_LEVEL, LAST_LEVEL = 3, 8
TOLERANCE = mpf("1e-25")
REACH = 14  # Gaussians are cut at 14 standard deviations: e^{-98} = 1e-43


@cache
def tanh_sinh(level: int) -> list[tuple[Real, Real]]:
    """(distance from the end point, weight / step) on (-1, 1), t > 0: all nodes at the first level, new ones later."""
    nodes = []
    k = 1
    while True:
        t = mpf(k) / 2**level
        g = mp.pi / 2 * mp.sinh(t)
        distance = 2 / (1 + mp.exp(2 * g))
        weight = mp.pi / 2 * mp.cosh(t) * distance * (2 - distance)
        if weight < 1e-46:
            return nodes
        nodes.append((distance, weight))
        k += 1 if level == FIRST_LEVEL else 2


def node_sums(f: Callable[[Real, Real], list[Real]], a: Real, b: Real, level: int) -> list[Real]:
    """The sums over a level's new nodes of f(z, weight)."""
    half = (b - a) / 2
    rows = []
    if level == FIRST_LEVEL:
        rows.append(f(a + half, half * mp.pi / 2))
    for distance, weight in tanh_sinh(level):
        rows += [f(a + half * distance, half * weight), f(b - half * distance, half * weight)]
    return [mp.fsum(column) for column in zip(*rows, strict=True)]


def integrate(f: Callable[[Real, Real], list[Real]], points: Sequence[Real]) -> tuple[list[Real], list[Real]]:
    """Integrals of f(z, 1) (several at once; f multiplies by the weight) and of |f|, if f keeps its sign on segments.

    Steps are halved, segment by segment, until two of them agree relative to the integral of |f|. tanh-sinh about
    doubles its digits with each halving, so the finer result is better than their difference.
    """
    segments = list(pairwise(points))
    sums = [node_sums(f, a, b, FIRST_LEVEL) for a, b in segments]
    values = [[s / 2**FIRST_LEVEL for s in row] for row in sums]
    active = list(range(len(segments)))
    for level in range(FIRST_LEVEL + 1, LAST_LEVEL + 1):
        old = [values[k] for k in active]
        for k in active:
            sums[k] = [s + new for s, new in zip(sums[k], node_sums(f, *segments[k], level), strict=True)]
            values[k] = [s / 2**level for s in sums[k]]
        absolute = [mp.fsum(map(abs, column)) for column in zip(*values, strict=True)]
        active = [
            k
            for k, before in zip(active, old, strict=True)
            if any(abs(x - y) > TOLERANCE * s for x, y, s in zip(values[k], before, absolute, strict=True))
        ]
        if not active:
            return [mp.fsum(column) for column in zip(*values, strict=True)], absolute
    raise ArithmeticError(f"tanh-sinh did not converge on {[tuple(map(float, segments[k])) for k in active]}")


def snap(value: Real, absolute: Real) -> Real:
    """An integral that vanishes by symmetry is stored as zero, not as its rounding error."""
    return mpf(0) if abs(value) < mpf("1e-40") * absolute else value


# ---------------------------------------------------------------------------------------------------------------------
# Section 1: derivatives

POSITIVE = (1e-8, 1e-3, 0.05, 0.3, 0.9, 1.7, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0)
POINTS = tuple(-z for z in reversed(POSITIVE)) + POSITIVE


def numerical_jet(name: str, z: Real) -> list[Real]:
    """σ and three derivatives by differentiating the definition numerically."""
    definition, asymptote = DEFINITIONS[name], [mpf(0)] * 4
    if z > 3 and name in ("erf", "gelu"):
        # erf'(40) = 1e-695 is lost in a difference of ones: differentiate what is left beside 1 or z.
        definition = {"erf": lambda x: -mp.erfc(x), "gelu": lambda x: -x * mp.ncdf(-x)}[name]
        asymptote[:2] = [mpf(1), mpf(0)] if name == "erf" else [z, mpf(1)]
    elif z < -3 and name == "erf":
        definition = lambda x: mp.erfc(-x)  # noqa: E731
        asymptote[0] = mpf(-1)
    return [asymptote[0] + definition(z)] + [asymptote[k] + mp.diff(definition, z, k) for k in (1, 2, 3)]


def derivatives_of(name: str) -> dict[str, Any]:
    """σ and three derivatives at POINTS, checked against numerical differentiation of the definition."""
    rows = []
    for z in map(mpf, POINTS):
        jet = JETS[name](z)
        rows.append(jet)
        with mp.workdps(200):
            for order, (x, y) in enumerate(zip(jet, numerical_jet(name, z), strict=True)):
                allowed = mpf("1e-30") * abs(x) if x else mpf("1e-60")
                require(abs(x - y) <= allowed, f"{name}: derivative {order} at {z} off by {abs(x - y)}")
    return {"z": [repr(z) for z in POINTS], "values": [[text(x) for x in column] for column in zip(*rows, strict=True)]}


# ---------------------------------------------------------------------------------------------------------------------
# Section 2: Taylor coefficients, exact rationals times at most one constant

ORDER = 40


def riccati(constant: int, linear: int) -> list[Fraction]:
    """The series of y' = constant + linear y - y², y(0) = linear/2: tanh for (1, 0), sigmoid for (0, 1)."""
    y = [Fraction(linear, 2)]
    for k in range(ORDER):
        square = sum((y[i] * y[k - i] for i in range(k + 1)), Fraction(0))
        y.append(((constant if k == 0 else 0) + linear * y[k] - square) / (k + 1))
    return y


def rational(x: Fraction) -> Real:
    """An mpf."""
    return mpf(x.numerator) / x.denominator


def erf_series() -> list[Fraction]:
    """√π/2 erf(z)."""
    series = [Fraction(0)] * (ORDER + 1)
    for n in range(ORDER // 2):
        series[2 * n + 1] = Fraction((-1) ** n, math.factorial(n) * (2 * n + 1))
    return series


def mish_series() -> list[Fraction]:
    """tanh(softplus(z)) = 1 - 2/D by dividing power series."""
    d = [Fraction(2**k + 2, math.factorial(k)) + (2 if k == 0 else 0) for k in range(ORDER + 1)]
    inverse = [1 / d[0]]
    for k in range(1, ORDER + 1):
        inverse.append(-sum((d[i] * inverse[k - i] for i in range(1, k + 1)), Fraction(0)) / d[0])
    return [(1 if k == 0 else 0) - 2 * x for k, x in enumerate(inverse)]


def taylor_series(name: str) -> list[Real]:
    """σ^(k)(0)/k! for k = 0 ... ORDER."""
    sigmoid = riccati(0, 1)
    if name in PIECES:
        part = next(part for part in PIECES[name] if part.hi > 0)  # right of 0
        return [part.c0, part.c1 + part.c2] + [part.c2 / math.factorial(k) for k in range(2, ORDER + 1)]
    if name == "softplus":
        return [mp.log(2)] + [rational(sigmoid[k - 1] / k) for k in range(1, ORDER + 1)]
    if name == "erf":
        return [2 / mp.sqrt(mp.pi) * rational(x) for x in erf_series()]
    if name == "gelu":  # z/2 + (z/2) erf(z/√2); erf has odd orders only, so the power of √2 is even
        inner = [
            rational(x / 2 ** ((k - 1) // 2)) / mp.sqrt(2 * mp.pi) if x else mpf(0) for k, x in enumerate(erf_series())
        ]
        return [mpf(0)] + [x + (mpf(1) / 2 if k == 0 else 0) for k, x in enumerate(inner[:-1])]
    exact: dict[str, Callable[[], list[Fraction]]] = {
        "linear": lambda: [Fraction(k == 1) for k in range(ORDER + 1)],
        "quadratic": lambda: [Fraction(k == 2) for k in range(ORDER + 1)],
        "tanh": lambda: riccati(1, 0),
        "sigmoid": lambda: sigmoid,
        "sin": lambda: [Fraction((0, 1, 0, -1)[k % 4], math.factorial(k)) for k in range(ORDER + 1)],
        "silu": lambda: [Fraction(0), *sigmoid[:-1]],
        "swish(2)": lambda: [Fraction(0), *(x * 2**k for k, x in enumerate(sigmoid[:-1]))],
        "mish": lambda: [Fraction(0), *mish_series()[:-1]],
    }
    return [rational(x) for x in exact[name]()]


def taylor_of(name: str) -> list[str]:
    """The Taylor coefficients, checked against numerical differentiation where σ is smooth at 0."""
    series = taylor_series(name)
    require(len(series) == ORDER + 1, f"{name} has {len(series)} Taylor coefficients")
    if name not in PIECES:
        with mp.workdps(250):
            numerical = mp.taylor(DEFINITIONS[name], 0, ORDER)
        largest = max(map(abs, series))
        for k, (x, y) in enumerate(zip(series, numerical, strict=True)):
            require(abs(x - y) <= mpf("1e-30") * (abs(x) or largest), f"{name} Taylor coefficient {k}")
    return [text(x) for x in series]


# ---------------------------------------------------------------------------------------------------------------------
# Section 3: moments

VARIANCES = ("1e-06", "0.001", "0.1", "1.0", "5.0", "100.0", "10000.0")
Powers = tuple[int, int, int, int, int]
POWERS: tuple[Powers, ...] = (
    (0, 1, 0, 0, 0),
    (0, 2, 0, 0, 0),
    (0, 0, 2, 0, 0),
    (0, 4, 0, 0, 0),
    (0, 2, 2, 0, 0),
    (0, 0, 4, 0, 0),
    (1, 1, 1, 0, 0),
    (1, 0, 1, 1, 0),
    (2, 2, 0, 0, 0),
    (2, 0, 2, 0, 0),
    (4, 2, 0, 0, 0),
    (4, 0, 2, 0, 0),
    (0, 1, 2, 1, 0),
    (0, 1, 0, 1, 0),
    (0, 0, 3, 0, 1),
    (0, 0, 1, 0, 1),
    (0, 0, 2, 2, 0),
    (0, 0, 0, 2, 0),
)


def exists(name: str, powers: Powers) -> bool:
    """Whether the moment exists: no product of deltas, no derivative of one."""
    order = min((kink.order for kink in kinks(name)), default=4)
    return not (order == 1 and (powers[3] > 1 or powers[4] > 0)) and not (order == 2 and powers[4] > 1)


def density(z: Real, variance: Real) -> Real:
    """The density of N(0, variance)."""
    return mp.exp(-z * z / (2 * variance)) / mp.sqrt(2 * mp.pi * variance)


def monomials(z: Real, jet: Sequence[Real], weight: Real, which: Sequence[Powers]) -> list[Real]:
    """weight z^e σ^a σ'^b σ''^c σ'''^d for all powers."""
    tables = []
    for x, top in zip((z, *jet), (4, 4, 4, 2, 1), strict=True):
        table = [mpf(1), x]
        while len(table) <= top:
            table.append(table[-1] * x)
        tables.append(table)
    out = []
    for powers in which:
        product = weight
        for table, power in zip(tables, powers, strict=True):
            if power:
                product = product * table[power]
        out.append(product)
    return out


def delta(kink: Kink, powers: Powers, variance: Real) -> Real:
    """What the delta of the derivative after the jumping one adds: the integral of f^n f' through a jump of f."""
    e, a, b, c, d = powers
    left, right = kink.left, kink.right
    front = density(kink.z, variance) * kink.z**e * right[0] ** a
    if kink.order == 1 and c == 1:
        return front * (right[1] ** (b + 1) - left[1] ** (b + 1)) / (b + 1)
    if kink.order == 2 and d == 1:
        return front * right[1] ** b * (right[2] ** (c + 1) - left[2] ** (c + 1)) / (c + 1)
    return mpf(0)


def generic_moments(name: str, variance: Real, which: Sequence[Powers]) -> tuple[list[Real], list[Real]]:
    """All moments at one variance by tanh-sinh on shared nodes, deltas included."""
    jet = JETS[name]
    norm, factor = 1 / mp.sqrt(2 * mp.pi * variance), -1 / (2 * variance)

    def f(z: Real, weight: Real) -> list[Real]:
        return monomials(z, jet(z), weight * norm * mp.exp(factor * z * z), which)

    values, absolutes = integrate(f, breakpoints(name, REACH * mp.sqrt(variance)))
    for kink in kinks(name):
        for k, powers in enumerate(which):
            term = delta(kink, powers, variance)
            values[k] += term
            absolutes[k] += abs(term)
    return values, absolutes


@cache
def gauss_legendre(n: int) -> list[tuple[Real, Real]]:
    """Nodes and weights on (0, 1): Newton on the Legendre recurrence."""
    rule = []
    for k in range(n):
        x = mp.cos(mp.pi * (k + mpf(3) / 4) / (n + mpf(1) / 2))
        slope = mpf(1)
        for _ in range(8):
            before, here = mpf(1), x
            for m in range(2, n + 1):
                before, here = here, ((2 * m - 1) * x * here - (m - 1) * before) / m
            slope = n * (x * here - before) / (x * x - 1)
            x -= here / slope
        rule.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return rule


def sin_quarters(variance: Real, n: int) -> tuple[list[Real], list[Real]]:
    """Moments of sin for wide Gaussians: the same n Gauss-Legendre nodes in every quarter period."""
    quarter = mp.pi / 2
    count = int(REACH * mp.sqrt(variance) / quarter) + 1
    values, absolutes = [mpf(0)] * len(POWERS), [mpf(0)] * len(POWERS)
    for x, weight in gauss_legendre(n):
        folded: dict[tuple[int, int], Real] = {(k, e): mpf(0) for k in range(4) for e in range(5)}
        for k in range(count):
            z = (x + k) * quarter
            g = mp.exp(-z * z / (2 * variance))
            z2 = z * z
            for e, term in ((0, g), (1, g * z), (2, g * z2), (4, g * z2 * z2)):
                folded[k % 4, e] += term
        c, s = mp.cos_sin(x * quarter)
        front = weight * quarter / mp.sqrt(2 * mp.pi * variance)
        for k, (sine, cosine) in enumerate(((s, c), (c, -s), (-s, -c), (-c, s))):
            for i, (powers, m) in enumerate(
                zip(POWERS, monomials(mpf(1), (sine, cosine, -sine, -cosine), front, POWERS), strict=True)
            ):
                term = m * folded[k, powers[0]]
                # σ and σ'' are odd, σ' and σ''' even: the left half line repeats or cancels the right one.
                values[i] += 0 if (powers[0] + powers[1] + powers[3]) % 2 else 2 * term
                absolutes[i] += 2 * abs(term)
    return values, absolutes


def sin_moment(powers: Powers, variance: Real) -> Real:
    """<z^e sin^p cos^q> exactly, as a sum of exponentials: <z^e e^{iωz}> = i^e K^{e/2} He_e(√K ω) e^{-Kω²/2}."""
    e, a, b, c, d = powers
    sines, cosines = a + c, b + d
    with mp.workdps(120):  # sin⁴ at K = 1e-6 is a small difference of exponentials
        # polynomial in x = e^{iz}: coefficient of x^{frequency}
        spectrum: dict[int, Any] = {0: mp.mpc(1)}
        for sign, unit in ((-1, mp.mpc(0, 2)),) * sines + ((1, mp.mpc(2)),) * cosines:
            new: dict[int, Any] = {}
            for frequency, x in spectrum.items():
                new[frequency + 1] = new.get(frequency + 1, 0) + x / unit
                new[frequency - 1] = new.get(frequency - 1, 0) + sign * x / unit
            spectrum = new
        total = mp.mpc(0)
        for frequency, x in spectrum.items():
            u = mp.sqrt(variance) * frequency
            hermite = (mpf(1), u, u**2 - 1, u**3 - 3 * u, u**4 - 6 * u**2 + 3)[e]
            total += x * mp.mpc(0, 1) ** e * mp.sqrt(variance) ** e * hermite * mp.exp(-(u**2) / 2)
        return (-1) ** (c + d) * total.real


def half_line(n: int, variance: Real) -> Real:
    """The integral of z^n over the right half of N(0, variance)."""
    return mp.sqrt(2 * variance) ** n * mp.gamma(mpf(n + 1) / 2) / (2 * mp.sqrt(mp.pi))


def polynomial_moment(name: str, powers: Powers, variance: Real) -> Real:
    """Moments of activations that are monomials on each half line (their deltas at 0 come with a factor 0)."""
    total = mpf(0)
    for side in (1, -1):
        slope = {"linear": mpf(1), "relu": mpf(side > 0), "leaky_relu(0.1)": mpf(1 if side > 0 else 0.1)}.get(name)
        zero = (mpf(0), 0)
        if slope is None:
            factors = [(mpf(1), 1), (mpf(1), 2), (mpf(2), 1), (mpf(2), 0), zero]
        else:
            factors = [(mpf(1), 1), (slope, 1), (slope, 0), zero, zero]
        coefficient = mp.fprod(c**power for (c, _), power in zip(factors, powers, strict=True))
        degree = sum(n * power for (_, n), power in zip(factors, powers, strict=True))
        total += coefficient * mpf(side) ** degree * half_line(degree, variance)
    return total


def check_moments(name: str, variance: Real, value: dict[Powers, Real], absolute: dict[Powers, Real]) -> None:
    """Closed forms where there are some, and Stein's lemma <z f> = K <f'>, which ties deltas to the rest."""
    exact: Callable[[Powers], Real] | None = None
    if name == "sin":
        exact = lambda powers: sin_moment(powers, variance)  # noqa: E731
    elif name in ("linear", "quadratic", "relu", "leaky_relu(0.1)"):
        exact = lambda powers: polynomial_moment(name, powers, variance)  # noqa: E731
    if exact is not None:
        for powers, x in value.items():
            require(
                abs(x - exact(powers)) <= mpf("1e-24") * absolute[powers],
                f"{name} {powers} at K={variance}: closed form",
            )
    stein: tuple[tuple[Powers, tuple[tuple[int, Powers], ...]], ...] = (
        ((1, 1, 1, 0, 0), ((1, (0, 0, 2, 0, 0)), (1, (0, 1, 0, 1, 0)))),
        ((1, 0, 1, 1, 0), ((1, (0, 0, 0, 2, 0)), (1, (0, 0, 1, 0, 1)))),
        ((2, 2, 0, 0, 0), ((1, (0, 2, 0, 0, 0)), (2, (1, 1, 1, 0, 0)))),
        ((2, 0, 2, 0, 0), ((1, (0, 0, 2, 0, 0)), (2, (1, 0, 1, 1, 0)))),
    )
    for left, right in stein:
        if all(powers in value for _, powers in right):
            scale = absolute[left] + variance * sum(n * absolute[powers] for n, powers in right)
            gap = value[left] - variance * sum(n * value[powers] for n, powers in right)
            require(abs(gap) <= mpf("1e-23") * scale, f"{name} {left} at K={variance}: Stein's lemma off by {gap}")


def moments_of(name: str) -> list[dict[str, Any]]:
    """All existing moments of one activation."""
    which = [powers for powers in POWERS if exists(name, powers)]
    records = []
    for written in VARIANCES:
        variance = mpf(float(written))
        if name == "sin" and variance > 50:  # hundreds of periods
            coarse, absolutes = sin_quarters(variance, 24)
            values, absolutes = sin_quarters(variance, 32)
            for x, y, s in zip(values, coarse, absolutes, strict=True):
                require(abs(x - y) <= TOLERANCE * s, f"sin at K={written}: Gauss-Legendre")
        else:
            values, absolutes = generic_moments(name, variance, which)
        check_moments(name, variance, dict(zip(which, values, strict=True)), dict(zip(which, absolutes, strict=True)))
        for powers, value, absolute in zip(which, values, absolutes, strict=True):
            stored = sin_moment(powers, variance) if name == "sin" else snap(value, absolute)
            records.append({"K": written, "powers": powers, "value": text(stored), "absolute": text(absolute)})
    return records


# ---------------------------------------------------------------------------------------------------------------------
# Section 4: pairs

PAIRS = (
    (1.0, 1.0, 0.3),
    (1.0, 1.0, -0.7),
    (0.5, 2.0, 0.9),
    (2.0, 5.0, -0.95),
    (1.0, 1.0, 0.999),
    (5.0, 5.0, 0.99),
    (0.01, 0.02, 0.6),
    (1.0, 1.0, 1.0),
    (2.0, 2.0, -1.0),
    (0.3, 1.5, 1.0),
    (1.0, 1.0, 1 - 1e-6),
    (30.0, 40.0, 0.97),
    (100.0, 100.0, 0.999),
    (1.0, 4.0, 0.0),
)
CROSS_CHECKED = PAIRS[2]  # where closed forms are also integrated with 50 digits
MEHLER = PAIRS[0]  # where the smooth activations are also summed as a Hermite series

# How far from the real axis σ is analytic (or, for entire functions, stays tame): it sets the trapezoid's step.
STRIP = {
    "linear": mpf(2),
    "quadratic": mpf(2),
    "tanh": mp.pi / 2,
    "sigmoid": mp.pi,
    "softplus": mp.pi,
    "silu": mp.pi,
    "swish(2)": mp.pi / 2,
    "mish": 3 * mp.pi / 4,
    "sin": mpf(2),
    "erf": mpf(3) / 2,
    "gelu": mpf(2),
}

PairValues = tuple[Real, Real]  # <σσ>, <σ'σ'>


def mean_product(first: Real, second: Real, rho: Real) -> Real:
    """<|z1 z2|>."""
    return 2 / mp.pi * mp.sqrt(first * second) * (mp.sqrt(1 - rho * rho) + rho * mp.asin(rho))


def closed_pair(name: str, first: Real, second: Real, rho: Real) -> PairValues | None:
    """Closed forms, valid at every correlation."""
    covariance = rho * mp.sqrt(first * second)
    if name == "linear":
        return covariance, mpf(1)
    if name == "quadratic":
        return first * second + 2 * covariance**2, 4 * covariance
    if name == "sin":
        damping = mp.exp(-(first + second) / 2)
        return damping * mp.sinh(covariance), damping * mp.cosh(covariance)
    if name == "erf":
        a, b = 1 + 2 * first, 1 + 2 * second
        return (
            2 / mp.pi * mp.asin(2 * covariance / mp.sqrt(a * b)),
            4 / (mp.pi * mp.sqrt(a * b - 4 * covariance**2)),
        )
    if name in ("relu", "leaky_relu(0.1)"):  # σ = A z + B |z|; the mixed terms are odd in the pair
        slope = PIECES[name][0].c1
        odd, even = (1 + slope) / 2, (1 - slope) / 2
        return (
            odd**2 * covariance + even**2 * mean_product(first, second, rho),
            odd**2 + even**2 * 2 / mp.pi * mp.asin(rho),
        )
    return None


def lattice_pair(name: str, first: Real, second: Real, rho: Real, digits: int) -> PairValues:
    """Smooth σ: the trapezoid rule for z1 and, inside, for z2 given z1; the steps aim at 10^-digits.

    The conditional mean r z1 moves by a whole number of inner steps per outer step, so σ is needed on one lattice only
    and the inner sum is a convolution with one Gaussian, done in integers (fixed point).
    """
    bits = 220
    r, width = rho * mp.sqrt(second / first), mp.sqrt(second * (1 - rho * rho))
    aim = digits * mp.log(10)
    by_poles, by_gaussian = 2 * mp.pi * STRIP[name] / aim, mp.pi * mp.sqrt(2 / aim)
    outer = min(by_poles, by_poles / abs(r), by_gaussian * mp.sqrt(first))
    ratio = int(mp.ceil(abs(r) * outer / min(by_poles, by_gaussian * width)))
    inner = abs(r) * outer / ratio
    step = ratio if rho > 0 else -ratio
    reach = mpf(25) / 2

    def fixed(x: Real) -> int:
        return int(mp.floor(mp.ldexp(x, bits)))

    @cache
    def inner_jet(j: int) -> tuple[int, int]:
        jet = JETS[name](j * inner)
        return fixed(jet[0]), fixed(jet[1])

    band = int(reach * width / inner) + 1
    kernel = [fixed(inner * density(k * inner, width**2)) for k in range(band + 1)]
    rows = int(reach * mp.sqrt(first) / outer) + 1
    total = [0, 0]
    for i in range(-rows, rows + 1):
        jet = JETS[name](i * outer)
        weight = outer * density(i * outer, first)
        for order in (0, 1):
            conditional = sum(kernel[abs(k)] * inner_jet(step * i + k)[order] for k in range(-band, band + 1))
            total[order] += (fixed(weight * jet[order]) * conditional) >> bits
    return mp.ldexp(total[0], -2 * bits), mp.ldexp(total[1], -2 * bits)


def mehler_pair(name: str, first: Real, second: Real, rho: Real) -> PairValues:
    """Smooth σ at a moderate correlation: the Hermite series, its coefficients by a trapezoid rule in whitened z."""
    terms, step = 64, mpf(1) / 10
    coefficients: list[list[list[Real]]] = []  # [variance][order][k]
    for variance in (first, second):
        sums = [[mpf(0)] * terms for _ in range(2)]
        for i in range(-150, 151):
            x = i * step
            jet = JETS[name](mp.sqrt(variance) * x)
            below, here = mpf(0), step * density(x, mpf(1))  # He_k(x)/√k! times the weight
            for k in range(terms):
                for order in (0, 1):
                    sums[order][k] += here * jet[order]
                below, here = here, (x * here - mp.sqrt(k) * below) / mp.sqrt(k + 1)
        coefficients.append(sums)
    a, b = [
        mp.fsum(x * y * rho**k for k, (x, y) in enumerate(zip(*two, strict=True)))
        for two in zip(*coefficients, strict=True)
    ]
    return a, b


def conditional_pair(name: str, first: Real, second: Real, rho: Real) -> PairValues:
    """Piecewise σ: <σ(z2)|z1> in closed form, tanh-sinh over z1 on segments that end at the kinks."""
    r, width = rho * mp.sqrt(second / first), mp.sqrt(second * (1 - rho * rho))
    parts, jet = PIECES[name], JETS[name]

    def probability(lo: Real, hi: Real) -> Real:
        # From whichever tail is thinner: a difference of ones would lose it.
        root = mp.sqrt(2)
        if lo > 0:
            return (mp.erfc(lo / root) - mp.erfc(hi / root)) / 2
        return (mp.erfc(-hi / root) - mp.erfc(-lo / root)) / 2

    def given(mean: Real) -> PairValues:
        value = slope = mpf(0)
        for part in parts:
            lo, hi = (part.lo - mean) / width, (part.hi - mean) / width
            inside = probability(lo, hi)
            value += (part.c0 - part.c2) * inside
            slope += part.c1 * inside
            if part.c1:
                edge = density(lo, mpf(1)) - density(hi, mpf(1))
                value += part.c1 * (mean * inside + width * edge)
            if part.c2:  # completing the square shifts the mean by the variance
                tilted = part.c2 * mp.exp(mean + width**2 / 2) * probability(lo - width, hi - width)
                value += tilted
                slope += tilted
        return value, slope

    def f(z: Real, weight: Real) -> list[Real]:
        here, there = jet(z), given(r * z)
        g = weight * density(z, first)
        return [g * here[0] * there[0], g * here[1] * there[1]]

    values, _ = integrate(f, breakpoints(name, REACH * mp.sqrt(first)))
    return values[0], values[1]


def line_pair(name: str, first: Real, second: Real, rho: Real) -> tuple[PairValues, PairValues]:
    """Values and absolute values for rho = ±1, where z2 is a multiple of z1."""
    scale = rho * mp.sqrt(second / first)
    jet = JETS[name]

    def f(z: Real, weight: Real) -> list[Real]:
        here, there = jet(z), jet(scale * z)
        g = weight * density(z, first)
        return [g * here[0] * there[0], g * here[1] * there[1]]

    limit = REACH * mp.sqrt(first)
    points = sorted({*breakpoints(name, limit), *breakpoints(name, limit, scale)})
    points = [z for k, z in enumerate(points) if k == 0 or z - points[k - 1] > limit * mpf("1e-40")]
    values, absolutes = integrate(f, points)
    return (values[0], values[1]), (absolutes[0], absolutes[1])


Doubles = Callable[[Any], tuple[Any, Any]]


def double_jet(name: str) -> Doubles:
    """σ and σ' on arrays of doubles."""

    def swish(beta: float) -> Doubles:
        def jet(z: Any) -> tuple[Any, Any]:
            s = special.expit(beta * z)
            return z * s, s + beta * z * s * (1 - s)

        return jet

    def mish(z: Any) -> tuple[Any, Any]:
        t = np.tanh(np.logaddexp(0, z))
        return z * t, t + z * (1 - t * t) * special.expit(z)

    def elu(alpha: float) -> Doubles:
        def jet(z: Any) -> tuple[Any, Any]:
            e = np.exp(np.minimum(z, 0))
            return np.where(z > 0, z, alpha * (e - 1)), np.where(z > 0, 1.0, alpha * e)

        return jet

    def leaky(slope: float) -> Doubles:
        return lambda z: (np.where(z > 0, z, slope * z), np.where(z > 0, 1.0, slope))

    jets: dict[str, Doubles] = {
        "linear": lambda z: (z, np.ones_like(z)),
        "relu": leaky(0.0),
        "leaky_relu(0.1)": leaky(0.1),
        "elu(1)": elu(1.0),
        "elu(0.5)": elu(0.5),
        "tanh": lambda z: (np.tanh(z), np.cosh(z) ** -2.0),
        "hard_tanh": lambda z: (np.clip(z, -1, 1), np.where(abs(z) < 1, 1.0, 0.0)),
        "sigmoid": lambda z: (special.expit(z), special.expit(z) * special.expit(-z)),
        "softplus": lambda z: (np.logaddexp(0, z), special.expit(z)),
        "erf": lambda z: (special.erf(z), 2 / math.sqrt(math.pi) * np.exp(-z * z)),
        "sin": lambda z: (np.sin(z), np.cos(z)),
        "gelu": lambda z: (
            z * special.ndtr(z),
            special.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
        ),
        "silu": swish(1.0),
        "swish(2)": swish(2.0),
        "mish": mish,
        "quadratic": lambda z: (z * z, 2 * z),
    }
    return jets[name]


def double_pair(name: str, first: float, second: float, rho: float) -> tuple[list[float], list[float]]:
    """Values and absolute values in doubles, |rho| < 1: Gauss-Legendre on cells that end at kinks and sign changes.

    |σσ| has kinks along lines of constant z1 or z2, where no spectral method converges; this one does not notice them.
    """
    reach = 9.0
    gap = (1 - rho) * (1 + rho)
    r, width = rho * math.sqrt(second / first), math.sqrt(second * gap)
    points, weights = np.polynomial.legendre.leggauss(12)

    def cells(variance: float) -> tuple[Any, Any]:
        limit = reach * math.sqrt(variance)
        size = min(0.5, limit / 12, 2 * math.sqrt(variance * gap))
        uniform = np.linspace(-limit, limit, 2 * math.ceil(limit / size) + 1)
        special_points = np.array([float(z) for z in breakpoints(name, mpf(limit))])
        edges = np.unique(np.concatenate([uniform, special_points]))
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (1 + points)), half * weights

    z1, w1 = cells(first)
    z2, w2 = (x.ravel() for x in cells(second))
    w1 = w1 * np.exp(-z1 * z1 / (2 * first)) / math.sqrt(2 * math.pi * first)
    w2 = w2 / (math.sqrt(2 * math.pi) * width)
    left, right = np.stack(double_jet(name)(z1)) * w1, np.stack(double_jet(name)(z2)) * w2
    both = np.concatenate([right, abs(right)])
    totals = np.zeros(4)
    for row, z in enumerate(z1):
        ends = sorted((r * z[0], r * z[-1]))
        window = slice(*np.searchsorted(z2, [ends[0] - reach * width, ends[1] + reach * width]))
        kernel = np.exp(-(((z2[window] - r * z[:, None]) / width) ** 2) / 2)
        conditional = both[:, window] @ kernel.T
        mine = left[:, row]
        totals += (np.concatenate([mine, abs(mine)]) * conditional).sum(axis=1)
    return totals[:2].tolist(), totals[2:].tolist()


def pair_values(name: str, written: tuple[float, float, float]) -> tuple[PairValues, list[Real]]:
    """Values and absolute values at one point, with their checks."""
    first, second, rho = map(mpf, written)

    def agree(one: Sequence[Real], two: Sequence[Real], scale: Sequence[Real], tolerance: str, how: str) -> None:
        for order, (x, y, s) in enumerate(zip(one, two, scale, strict=True)):
            require(
                abs(x - y) <= mpf(tolerance) * s + mpf("1e-48"),
                f"{name} {written} order {order}, {how}: off by {abs(x - y)}",
            )

    closed = closed_pair(name, first, second, rho)
    if abs(rho) == 1:
        line, absolute = line_pair(name, first, second, rho)
        if closed:
            agree(closed, line, absolute, "1e-24", "closed form")
        return line, list(absolute)
    doubles, rough = double_pair(name, *written)
    absolutes = list(map(mpf, rough))
    if rho == 0 and not closed:
        means = [
            integrate(
                lambda z, w, k=k: [w * density(z, k) * x for x in JETS[name](z)[:2]],
                breakpoints(name, REACH * mp.sqrt(k)),
            )[0]
            for k in (first, second)
        ]
        values = means[0][0] * means[1][0], means[0][1] * means[1][1]
    elif closed:
        values = closed
        if written == CROSS_CHECKED:
            quadrature = (
                conditional_pair(name, first, second, rho)
                if name in PIECES
                else lattice_pair(name, first, second, rho, 46)
            )
            agree(closed, quadrature, absolutes, "1e-24", "closed form")
    elif name in PIECES:
        values = conditional_pair(name, first, second, rho)
        # Exchanging the arguments integrates a different function.
        agree(values, conditional_pair(name, second, first, rho), absolutes, "1e-24", "exchanged arguments")
    else:
        values = lattice_pair(name, first, second, rho, 46)
        agree(values, lattice_pair(name, first, second, rho, 36), absolutes, "1e-24", "trapezoid")
        if written == MEHLER:
            agree(values, mehler_pair(name, first, second, rho), absolutes, "1e-24", "Hermite series")
    agree(values, list(map(mpf, doubles)), absolutes, "1e-11", "doubles")
    return values, absolutes


def pairs_of(name: str) -> list[dict[str, Any]]:
    """All pair averages of one activation."""
    records = []
    for written in PAIRS:
        values, absolutes = pair_values(name, written)
        for order, (value, absolute) in enumerate(zip(values, absolutes, strict=True)):
            inputs = dict(zip(("K1", "K2", "rho"), map(repr, written), strict=True))
            stored = text(snap(value, absolute))
            records.append({**inputs, "orders": [order, order], "value": stored, "absolute": text(absolute, 8)})
    return records


# ---------------------------------------------------------------------------------------------------------------------
# The file


def run(section: str, workers: int) -> dict[str, Any]:
    """One section for all activations; a single worker means this process."""
    one = {"derivatives": derivatives_of, "taylor": taylor_of, "moments": moments_of, "pairs": pairs_of}[section]
    if workers < 2:
        return {name: one(name) for name in NAMES}
    # Spawned, not forked: a test that calls this has JAX and its threads in the parent.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(NAMES, pool.map(one, NAMES), strict=True))


def derivatives(workers: int = 2) -> dict[str, Any]:
    """{name: {"z": [...], "values": [[σ...], [σ'...], [σ''...], [σ'''...]]}}."""
    return run("derivatives", workers)


def taylor(workers: int = 2) -> dict[str, Any]:
    """{name: [σ^(k)(0)/k! for k = 0 ... 40]}."""
    return run("taylor", workers)


def moments(workers: int = 2) -> dict[str, Any]:
    """{name: [{"K", "powers": [e, a, b, c, d], "value", "absolute"}]}."""
    return run("moments", workers)


def pairs(workers: int = 2) -> dict[str, Any]:
    """{name: [{"K1", "K2", "rho", "orders": [m, n], "value", "absolute"}]}."""
    return run("pairs", workers)


def make(sections: Iterable[str] = SECTIONS, workers: int = 2) -> dict[str, Any]:
    """The content of the file."""
    makers = {"derivatives": derivatives, "taylor": taylor, "moments": moments, "pairs": pairs}
    return {section: makers[section](workers) for section in sections}


def layout(gold: dict[str, Any]) -> str:
    """JSON with one record per line, so that differences can be read."""
    blocks = []
    for section, names in gold.items():
        rows = []
        for name, content in names.items():
            if isinstance(content, list) and isinstance(content[0], dict):
                body = "[\n" + ",\n".join(json.dumps(record) for record in content) + "\n]"
            else:
                body = json.dumps(content)
            rows.append(f"{json.dumps(name)}: {body}")
        blocks.append(f"{json.dumps(section)}: {{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def write(path: Path, content: str) -> None:
    """Replace the file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main() -> None:
    """Command line."""
    default = Path(__file__).resolve().parent.parent / "tests" / "gold.json"
    parser = argparse.ArgumentParser(description="write the 50-digit reference values")
    parser.add_argument("--out", type=Path, default=default, help="the file to write (tests/gold.json)")
    parser.add_argument("--section", choices=SECTIONS, action="append", help="make only this; keep the file's others")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    out: Path = arguments.out
    old = json.loads(out.read_text(encoding="utf-8")) if arguments.section and out.exists() else {}
    for section in arguments.section or SECTIONS:
        start = time.perf_counter()
        old |= make([section], arguments.workers)
        print(f"{section}: {time.perf_counter() - start:.1f} s", flush=True)
    write(out, layout({section: old[section] for section in SECTIONS if section in old}))


if __name__ == "__main__":
    main()
