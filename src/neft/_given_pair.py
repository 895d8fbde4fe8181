"""Averages over four correlated Gaussian variables, for all tuples of tens of inputs and smooth functions.

Two of the four, z_p and z_q, are integrated over on a grid. Given them the other two are Gaussian, with means m that
are linear in z_p and z_q, deviations s and a correlation ρ, and Mehler's series gives their average,

    ⟨f(z_r) g(z_s)⟩ = Σ_k ρ^k f_k(m_r, s_r) g_k(m_s, s_s),    f_k(m, s) = ⟨f(m + s x) He_k(x)⟩ / √k!,

so that the sum over the grid is, for every k, one matrix product that serves all r and s (docs/theory/width, eqs. 76
and 77). p is the first input of a tuple, q the one that makes the series shortest: an input that stands twice, or
nearly so, is in the pair, and what is left of it has no deviation.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv

from . import _progress
from ._accuracy import warn_missed
from ._activation import Activation, derivative_of
from ._blocks import blocks
from ._quadrature import all_elementwise

Orders = tuple[int, ...]

# Steps of the grid in lengths of σ, tried in turn until two agree, and by how much each grid reaches beyond the last.
_STEPS = (0.42, 0.36, 0.31, 0.27, 0.235, 0.205, 0.18)
_FURTHER = 0.12
_TERMS = 64  # of the series, at the most
_SINGLE = 1e-6  # tolerance from which on products are made in float32
_FINEST = 1e-7  # tolerance that is met
_HELD, _FEWEST = 2**19, 192  # numbers that are held at once, near the processor; nodes of the grid, at the least
_GATHERED = 2**16  # tuples that are put in place at once
_FINE = 0.15  # step of the one-dimensional averages, in lengths
_SMALLEST = 5  # inputs from which on this is worth its table


class _Job(NamedTuple):
    """A pair, and the inputs that are taken with it: tuples (p, q, r, s) with r among the rows and s the columns."""

    p: int
    q: int
    rows: np.ndarray
    columns: np.ndarray


def serves(act: Activation, patterns: Sequence[Orders], count: int, rtol: float) -> bool:
    """Whether averages of these patterns are made here: smooth σ, tens of inputs, a tolerance that asks for no more."""
    four, smooth = all(len(pattern) == 4 for pattern in patterns), not act.kinks and not act.oscillates
    return four and smooth and math.isfinite(act.length) and count >= _SMALLEST and rtol >= _FINEST


def given_pairs(
    act: Activation,
    patterns: Sequence[Orders],
    K: np.ndarray,
    *,
    rtol: float,
    first: int | None = None,
    others: int = 2,
) -> tuple[np.ndarray, ...]:
    """⟨σ^(p)(z_a) σ^(q)(z_b) σ^(r)(z_c) σ^(s)(z_d)⟩ for each pattern (p, q, r, s), of shape (N, N, N, N).

    The error is at most about rtol times the largest entry of each array. With `first` only tuples are made in which at
    most `others` (1 or 2) different inputs stand that are not among that many first ones; the other entries are 0.
    """
    plan, sample = _planned(K, first, others, act.length), _hardest(K)
    tried = _planned(K[np.ix_(sample, sample)], None, 2, act.length)
    table = _table(act, patterns, plan, max(plan.longest, tried.longest), rtol / 3)
    grid, before, error = len(_STEPS) - 1, None, math.inf
    for grid in range(len(_STEPS)):
        found = _all(patterns, tried, table, grid)
        if before is not None:
            error = max(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300) for a, b in zip(before, found))
            if error <= rtol:
                break
        before = found
    if error > rtol:
        warn_missed(f"products of {act.name}", error, rtol)
    # What was measured is the error of the coarser grid.
    grid = max(grid - 1, 0) if error <= rtol / 3 else grid
    if rtol >= _SINGLE:
        table.single()
    return _all(patterns, plan, table, grid, label=f"averages over {len(K)} inputs")


def _hardest(K: np.ndarray) -> np.ndarray:
    # The widest variables, the two that are nearest to one line, and the one that is farthest from all.
    spread = np.sqrt(np.diag(K))
    aligned = np.abs(K) / np.outer(spread, spread) - 2 * np.eye(len(K))
    pair = np.unravel_index(np.argmax(aligned), K.shape)
    chosen = [*pair, *np.argsort(spread)[::-1][:2], int(np.argmin(aligned.sum(axis=0)))]
    return np.unique(np.array(chosen, dtype=int))


class _Plan(NamedTuple):
    """Inputs in the order in which they are paired, the pairs, and how the series of every tuple falls with each."""

    order: np.ndarray
    K: np.ndarray
    jobs: list[_Job]
    measure: np.ndarray
    chosen: np.ndarray

    @property
    def widest(self) -> float:
        """The largest deviation."""
        return math.sqrt(float(np.diag(self.K).max()))

    @property
    def longest(self) -> float:
        """By what the longest series falls."""
        return float(self.measure[self.chosen].max())


def _planned(K: np.ndarray, first: int | None, others: int, length: float) -> _Plan:
    N = len(K)
    first = N if first is None else first
    order = _central_first(K, first)
    K = K[np.ix_(order, order)]
    jobs = _jobs(N, first) if others == 2 or first == N else _jobs_with_one(N, first)
    return _Plan(order, K, jobs, *_shortest(K, jobs, length))


def _table(act: Activation, patterns: Sequence[Orders], plan: _Plan, longest: float, rtol: float) -> "_Table":
    if _terms(longest, rtol) > _TERMS:
        warn_missed(f"products of {act.name}", longest**_TERMS, rtol)
    orders, terms = 1 + max(map(max, patterns)), min(_terms(longest, rtol), _TERMS)
    return _Table(act, orders, terms, _reach(len(_STEPS) - 1, rtol), plan.widest, rtol)


def _reach(grid: int, rtol: float) -> float:
    # Beyond it are rtol/3 of a fourth power's average, as of σσσσ where σ is linear. Finer grids reach further, so that
    # two of them tell what is missed.
    return math.sqrt(2 * float(gammainccinv(2.5, rtol / 3))) + _FURTHER * grid


def _all(
    patterns: Sequence[Orders], plan: _Plan, table: "_Table", grid: int, label: str | None = None
) -> tuple[np.ndarray, ...]:
    spacing = _STEPS[grid] * min(1.0, table.act.length / plan.widest)
    nodes, weights = _disc(spacing, _reach(grid, table.rtol))
    results = tuple(np.zeros((len(plan.K),) * 4) for _ in patterns)
    gathered = _Tuples(patterns, results)
    for job in _progress.track(plan.jobs, label) if label else plan.jobs:
        mask = _part(plan.chosen, job)
        job, mask = job._replace(rows=job.rows[mask.any(axis=1)], columns=job.columns[mask.any(axis=0)]), _packed(mask)
        if not mask.size:
            continue
        terms = min(_terms(float(_part(plan.measure, job)[mask].max()), table.rtol), table.terms)
        gathered.add(job, mask, _averages(patterns, table, plan.K, job, nodes, weights, terms))
    gathered.fill()
    back = np.argsort(plan.order)
    return tuple(result[np.ix_(back, back, back, back)] for result in results)


def _central_first(K: np.ndarray, first: int) -> np.ndarray:
    # What is given the most central input varies least.
    spread = np.sqrt(np.diag(K))
    central = np.argsort(-np.abs(K / np.outer(spread, spread)).sum(axis=0), kind="stable")
    return np.concatenate([central[central < first], np.arange(first, len(K))])


def _terms(measure: float, rtol: float) -> int:
    if measure <= 0:
        return 1
    return max(1, math.ceil(math.log(rtol / 10) / math.log(min(measure, 0.99))))


def _disc(step: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Half of the points of a square lattice around 0 within reach, and their weights; the other half is its image."""
    count = math.floor(reach / step)
    x = np.arange(-count, count + 1) * step
    a, b = (axis.ravel() for axis in np.meshgrid(x, x, indexing="ij"))
    half = (a * a + b * b <= reach**2) & ((a > 0) | ((a == 0) & (b >= 0)))
    a, b = a[half], b[half]
    weights = np.exp(-(a * a + b * b) / 2) * step**2 / (2 * math.pi)
    weights[(a == 0) & (b == 0)] /= 2  # its own image
    return np.stack([a, b]), weights


def _jobs(N: int, first: int) -> list[_Job]:
    jobs = [_Job(p, p, np.array([p]), np.array([p])) for p in range(N)]
    jobs += [_Job(p, q, np.arange(p, N), np.arange(p, N)) for p, q in itertools.combinations(range(first), 2)]
    # Beside an input that is not among the first there is at most one other such.
    others = np.arange(first, N)
    jobs += [
        _Job(p, q, np.append(np.arange(p, first), q), np.append(p, others))
        for p in range(first)
        for q in range(first, N)
    ]
    jobs += [_Job(p, q, np.array([p, q]), np.array([p, q])) for p, q in itertools.combinations(range(first, N), 2)]
    return jobs


def _jobs_with_one(N: int, first: int) -> list[_Job]:
    # The same where beside the first inputs only one other stands, once or more often.
    jobs = [_Job(p, p, np.array([p]), np.array([p])) for p in range(N)]
    pairs = itertools.combinations(range(first), 2)
    jobs += [_Job(p, q, np.arange(p, first), np.arange(p, N)) for p, q in pairs]
    jobs += [
        _Job(p, q, np.append(np.arange(p, first), q), np.array([p, q])) for p in range(first) for q in range(first, N)
    ]
    return jobs


def _remaining(K: np.ndarray, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (2, N) of all variables on the two that z_p and z_q are made of, and what covariance is left."""
    on_p = K[p] / math.sqrt(K[p, p])
    left = K[q, q] - on_p[q] ** 2
    on_q = (K[q] - on_p[q] * on_p) / math.sqrt(left) if left > 1e-13 * K[q, q] else np.zeros(len(K))
    on = np.stack([on_p, on_q])
    rest = K - on.T @ on
    rest[[p, q]] = rest[:, [p, q]] = 0.0
    return on, rest


def _shortest(K: np.ndarray, jobs: list[_Job], length: float) -> tuple[np.ndarray, np.ndarray]:
    """By what the series falls for each pair (axes 0, 1) and rest (axes 2, 3), and where the pair is a tuple's best."""
    N = len(K)
    measure = np.full((N,) * 4, np.inf, dtype=np.float32)
    for p, q, rows, columns in jobs:
        _, rest = _remaining(K, p, q)
        scale = np.sqrt(np.maximum(np.diag(rest), 0) + length**2)
        ratio = (np.abs(rest) / np.outer(scale, scale)).astype(np.float32)
        for a, b in ((rows, columns), (columns, rows)):
            measure[p, q][np.ix_(a, b)] = ratio[np.ix_(a, b)]
    # A tuple (p, a, b, c) with p first can be cut (p, a), (p, b) or (p, c).
    best = np.minimum(np.minimum(measure, measure.transpose(0, 2, 1, 3)), measure.transpose(0, 2, 3, 1))
    return measure, (measure <= best) & np.isfinite(measure)


def _part(whole: np.ndarray, job: _Job) -> np.ndarray:
    return whole[job.p, job.q][np.ix_(job.rows, job.columns)]


def _packed(mask: np.ndarray) -> np.ndarray:
    return mask[np.ix_(mask.any(axis=1), mask.any(axis=0))]


class _Table:
    """f_k(m, s) of σ and its derivatives as series of Chebyshev polynomials in m and s, as long as rtol wants them."""

    def __init__(self, act: Activation, orders: int, terms: int, reach: float, widest: float, rtol: float) -> None:
        self.act, self.orders, self.terms, self.reach, self.widest, self.rtol = act, orders, terms, reach, widest, rtol
        rng = np.random.default_rng(0)
        places = reach * widest * rng.uniform(-1, 1, 40), widest * rng.uniform(0, 1, 40) ** 2
        truth = self._averages(*places)
        size = np.abs(truth).max(axis=(0, 2), keepdims=True)
        in_m, in_s = 48, 12
        while True:
            self.series = self._fitted(in_m, in_s)
            found = self.values(self.at(places[1], self.terms), places[0][:, None])[..., 0]
            error = float((np.abs(found - truth) / size).max())
            if error <= rtol / 3 or in_m > 400:
                break
            # The error falls geometrically.
            more = math.log(rtol / 6) / math.log(error) if error < 0.1 else 2.0
            more = min(max(more, 1.1), 2.0)
            in_m, in_s = math.ceil(more * in_m), math.ceil(more * in_s)
        if error > rtol:
            warn_missed(f"products of {act.name}", error, rtol)

    def single(self) -> None:
        """Go on in float32."""
        self.series = self.series.astype(np.float32)

    def derivatives(self, z: np.ndarray) -> np.ndarray:
        """σ, σ', … at z, stacked."""
        return np.stack(all_elementwise([derivative_of(self.act.function, n) for n in range(self.orders)], z))

    def _averages(self, m: np.ndarray, s: np.ndarray) -> np.ndarray:
        # f_k at pairs of m and s: (pairs, orders, terms). He_k moves weight out to √(4k).
        step = _FINE * min(1.0, self.act.length / self.widest)
        count = math.ceil((8.0 + 2 * math.sqrt(self.terms)) / step)
        x = np.arange(-count, count + 1) * step
        values = self.derivatives(m[:, None] + s[:, None] * x[None, :])
        weights = _hermite(x, self.terms) * np.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))
        return np.einsum("opx,kx->pok", values, weights, optimize=True)

    def _fitted(self, in_m: int, in_s: int) -> np.ndarray:
        angle_m, angle_s = (np.pi * (np.arange(n) + 0.5) / n for n in (in_m, in_s))
        m, s = self.reach * self.widest * np.cos(angle_m), self.widest * (np.cos(angle_s) + 1) / 2
        values = self._averages(*(axis.ravel() for axis in np.meshgrid(m, s, indexing="ij")))
        values = values.reshape(in_m, in_s, self.orders, self.terms)
        to_m, to_s = (np.cos(np.outer(np.arange(len(a)), a)) * 2 / len(a) for a in (angle_m, angle_s))
        to_m[0] /= 2
        to_s[0] /= 2
        return np.einsum("am,bs,msok->boka", to_m, to_s, values, optimize=True)

    def at(self, s: np.ndarray, terms: int) -> np.ndarray:
        """The series in m for deviations s: (variables, orders, terms, degrees)."""
        at_s = np.cos(np.arange(len(self.series)) * np.arccos(np.clip(2 * s / self.widest - 1, -1, 1))[:, None])
        return np.tensordot(at_s.astype(self.series.dtype), self.series[:, :, :terms], 1)

    def values(self, series: np.ndarray, m: np.ndarray) -> np.ndarray:
        """f_k at means m (variables, nodes) and at -m behind them: (variables, orders, terms, 2 nodes)."""
        count, orders, terms, degrees = series.shape
        t = np.clip(m / (self.reach * self.widest), -1, 1).astype(series.dtype)
        T = np.empty((degrees, *t.shape), dtype=series.dtype)
        T[0], T[1] = 1, t
        t = 2 * t
        for n in range(2, degrees):
            np.multiply(T[n - 1], t, out=T[n])
            T[n] -= T[n - 2]
        T, series = T.transpose(1, 0, 2), series.reshape(count, orders * terms, degrees)
        # Polynomials of even and odd degree tell m from -m.
        even = np.ascontiguousarray(series[:, :, 0::2]) @ T[:, 0::2]
        odd = np.ascontiguousarray(series[:, :, 1::2]) @ T[:, 1::2]
        return np.concatenate([even + odd, even - odd], axis=-1).reshape(count, orders, terms, -1)


def _hermite(x: np.ndarray, terms: int) -> np.ndarray:
    """He_k(x)/√k!, k below `terms`."""
    found = [np.ones_like(x), x]
    for k in range(2, terms):
        found.append((x * found[-1] - math.sqrt(k - 1) * found[-2]) / math.sqrt(k))
    return np.stack(found[:terms])


def _averages(
    patterns: Sequence[Orders],
    table: _Table,
    K: np.ndarray,
    job: _Job,
    nodes: np.ndarray,
    weights: np.ndarray,
    terms: int,
) -> dict[Orders, np.ndarray]:
    """⟨σ^(a)(z_p) σ^(b)(z_q) σ^(c)(z_r) σ^(d)(z_s)⟩ by orders (a, b, c, d), over rows r and columns s."""
    p, q, rows, columns = job
    on, rest = _remaining(K, p, q)
    s = np.sqrt(np.maximum(np.diag(rest), 0))
    rho = np.clip(rest / np.maximum(np.outer(s, s), 1e-300), -1, 1)[np.ix_(rows, columns)]
    square = np.array_equal(rows, columns)
    wanted = sorted({tuple(order) for pattern in patterns for order in itertools.permutations(pattern)})
    wanted = [order for order in wanted if not square or order[2] >= order[3]]
    sums = np.zeros((len(wanted), terms, len(rows), len(columns)), dtype=table.series.dtype)
    used = np.unique([p, q, *rows, *columns])
    series = table.at(s[used], terms)
    (at_p, at_q), of_rows, of_columns = (np.searchsorted(used, of) for of in ([p, q], rows, columns))
    size = max(_FEWEST, _HELD // (len(used) * max(series.shape[-1], 4 * terms)))
    weighted = np.empty((terms, len(rows), 2 * size), dtype=table.series.dtype)
    for part in blocks(nodes.shape[1], size):
        values = table.values(series, on.T[used] @ nodes[:, part])
        pair = values[[at_p, at_q], :, 0]
        left = values[of_rows].transpose(1, 2, 0, 3)  # orders, terms, variables, nodes
        right = left if square else values[of_columns].transpose(1, 2, 0, 3)
        w = np.concatenate([weights[part], weights[part]]).astype(table.series.dtype)
        of_pair = (w * pair[0])[:, None] * pair[1]
        buffer = weighted[..., : len(w)]
        for total, (a, b, c, d) in zip(sums, wanted):
            np.multiply(left[c], of_pair[a, b], out=buffer)
            total += np.matmul(buffer, right[d].transpose(0, 2, 1))
    powers = rho[None] ** np.arange(terms)[:, None, None]
    found = dict(zip(wanted, np.einsum("okrs,krs->ors", sums, powers)))
    if square:
        found |= {(a, b, d, c): values.T for (a, b, c, d), values in found.items()}
    return found


class _Tuples:
    """Averages of tuples (p, q, r, s), gathered over pairs and put where they belong, many at a time."""

    def __init__(self, patterns: Sequence[Orders], results: Sequence[np.ndarray]) -> None:
        self._patterns, self._results = patterns, results
        self._tuples: list[np.ndarray] = []
        self._values: list[dict[Orders, np.ndarray]] = []

    def add(self, job: _Job, mask: np.ndarray, found: dict[Orders, np.ndarray]) -> None:
        """Those of a pair, over its rows r and columns s, where the mask has them."""
        r, s = np.nonzero(mask)
        pair = np.broadcast_to([[job.p], [job.q]], (2, len(r)))
        self._tuples.append(np.concatenate([pair, job.rows[None, r], job.columns[None, s]]))
        self._values.append({order: values[r, s] for order, values in found.items()})
        if sum(part.shape[1] for part in self._tuples) > _GATHERED:
            self.fill()

    def fill(self) -> None:
        """Put all that is gathered into the results, in every order of the four inputs."""
        if not self._tuples:
            return
        tuples, N = np.concatenate(self._tuples, axis=1), len(self._results[0])
        values = {order: np.concatenate([part[order] for part in self._values]) for order in self._values[0]}
        for slots in itertools.permutations(range(4)):
            place = np.array([N ** (3 - slot) for slot in slots]) @ tuples
            for pattern, result in zip(self._patterns, self._results):
                a, b, c, d = (pattern[slot] for slot in slots)
                result.reshape(-1)[place] = values[a, b, c, d]
        self._tuples, self._values = [], []
