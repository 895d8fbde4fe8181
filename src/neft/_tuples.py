"""Averages over up to four correlated Gaussian variables, for all tuples of N inputs at once.

Distinct inputs are taken in subsets of at most four. A subset's variables are z = L x with a pivoted Cholesky factor L,
so z_i depends on x_1..x_i only and the integral is nested; the innermost one is a function of a single mean. A singular
covariance only makes entries of L vanish.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._accuracy import warn_missed
from ._activation import Activation, derivative_of
from ._blocks import blocks
from ._given_pair import given_pairs, serves
from ._moments import Powers
from ._of_own import own_moments
from ._periodic import few, product_average
from ._precision import float64
from ._promote import to_rank
from ._quadrature import AROUND_A_KINK, elementwise, refined

DerivativeOrders = tuple[int, ...]

_REACH = 9.0
_STENCIL = 8  # points of the interpolation of the innermost average
# Steps in lengths of σ, and nodes between two breakpoints where there are kinks, tried in turn until two agree.
_STEPS = (0.38, 0.3, 0.24, 0.19, 0.155, 0.125)
_GAUSS = (6, 8, 11, 15)
_MORE_FOR_PAIRS = 5  # to rounding: nearly equal inputs ask for differences of these averages
_PER_POINT = 2e-8  # seconds
_PATIENCE = 60.0  # seconds for one set of inputs
_POINTS = 2**21  # points of the integrand that are held at once


@float64
def almost_everywhere(
    act: Activation,
    patterns: Sequence[DerivativeOrders],
    K: np.ndarray,
    *,
    rtol: float,
    mean: np.ndarray | None = None,
    first: int | None = None,
    others: int = 2,
) -> tuple[np.ndarray, ...]:
    """What `gaussian.products` gives, for arguments known to be good, of derivatives of any order, deltas left out.

    An activation with kinks may be given variables of nonzero mean, shape (N,). With `first`, tuples of more than
    `others` (1 or 2) different inputs that are not among that many first ones need not be made; their entries mean
    nothing.
    """
    if mean is None and few(act.fourier, K):
        return tuple(product_average(act.fourier, pattern, K) for pattern in patterns)
    if mean is None and len(distinct := _distinct(K)[0]) < len(K):
        # The same variable twice is one variable.
        where = _distinct(K)[1]
        first = None if first is None else int((distinct < first).sum())
        found = almost_everywhere(act, patterns, K[np.ix_(distinct, distinct)], rtol=rtol, first=first, others=others)
        return tuple(array[np.ix_(*(where,) * array.ndim)] for array in found)
    if mean is None and serves(act, patterns, len(K), rtol):
        return given_pairs(act, patterns, K, rtol=rtol, first=first, others=others)
    # Refine on the hardest subsets alone, then do all of them once.
    samples = _hardest(K)
    levels = _levels(act, patterns, rtol)
    sizes = [_natural_size(act, pattern, float(np.diag(K).max())) for pattern in patterns]

    def solve(level: float) -> list[np.ndarray]:
        finest = level if act.kinks else levels[-1]
        return [
            array
            for chosen in samples
            for array in _all_tuples(
                act, patterns, K[np.ix_(chosen, chosen)], level, finest, None if mean is None else mean[chosen]
            )
        ]

    coarse, error, level = solve(levels[0]), math.inf, levels[-1]
    for before, level in itertools.pairwise(levels):
        fine = solve(level)
        error = max(_relative(a, b, size) for a, b, size in zip(coarse, fine, sizes * len(samples)))
        if error <= rtol:
            # What was measured is the error of the coarser level; with room to spare it is good enough.
            level = before if error <= rtol / 30 else level
            break
        coarse = fine
    if error > rtol:
        warn_missed(f"products of {act.name}", error, rtol)
    return _all_tuples(act, patterns, K, level, levels[-1], mean)


def _distinct(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # The first of each group of rows that are equal, and for each row its place among those.
    _, found, where = np.unique(K, axis=0, return_index=True, return_inverse=True)
    # In the order in which they come.
    order = np.argsort(found)
    return found[order], np.argsort(order)[where.ravel()]


def _hardest(K: np.ndarray) -> list[np.ndarray]:
    # The widest variables, and the two that are nearest to one line with the two widest others.
    spread = np.sqrt(np.maximum(np.diag(K), 1e-300))
    widest = np.argsort(spread)[::-1]
    aligned = np.abs(K) / np.outer(spread, spread) - 2 * np.eye(len(K))
    pair = np.unravel_index(np.argmax(aligned), K.shape)
    mixed = [*pair, *(i for i in widest if i not in pair)][:4] if len(K) > 1 else [0]
    subsets = {tuple(sorted(int(i) for i in chosen)) for chosen in (widest[:4], mixed)}
    return [np.array(chosen) for chosen in sorted(subsets)]


def _levels(act: Activation, patterns: Sequence[DerivativeOrders], rtol: float) -> list[float]:
    if act.kinks:
        return [float(n) for n in _GAUSS]
    length = act.length if math.isfinite(act.length) else 1.0
    # The error falls like exp(-2π·1.5/step), from a height that grows with the order of the poles: do not start where
    # the tolerance cannot be met.
    height = 4 + 1.2 * max(map(sum, patterns))
    start = sum(10**height * math.exp(-9.4 / step) > rtol for step in _STEPS)
    return [step * length for step in _STEPS[min(start, len(_STEPS) - 2) :]]


def _relative(a: np.ndarray, b: np.ndarray, size: float) -> float:
    # An array may vanish by parity: then a thousandth of its factors' size is what counts.
    scale = max(np.abs(b).max(initial=0.0), 1e-3 * size)
    return float(np.abs(a - b).max(initial=0.0) / scale) if scale > 0 else 0.0


def _natural_size(act: Activation, pattern: DerivativeOrders, K: float) -> float:
    squares = _of_one(act, tuple((n, n) for n in pattern), np.array([K]))
    return math.sqrt(math.prod(squares[0]))


def _all_tuples(
    act: Activation,
    patterns: Sequence[DerivativeOrders],
    K: np.ndarray,
    level: float,
    finest: float,
    mean: np.ndarray | None,
) -> tuple[np.ndarray, ...]:
    N = len(K)
    results = tuple(np.empty((N,) * len(p)) for p in patterns)
    lengths = {len(p) for p in patterns}
    for size in range(1, min(N, max(lengths)) + 1):
        subsets = np.array(list(itertools.combinations(range(N), size)))
        factors, order = _pivoted(K[subsets[:, :, None], subsets[:, None, :]])
        subsets = np.take_along_axis(subsets, order, axis=1)
        # How many slots of a pattern fall on each distinct input, and the products of derivatives that stand there.
        splits = [sizes for sizes in itertools.product(range(1, 5), repeat=size) if sum(sizes) in lengths]
        features = tuple(tuple(_parts_of(patterns, s, sum(sizes)) for s in sizes) for sizes in splits)
        if size == 1 and mean is None:
            tensors = [_of_one(act, lists, np.diagonal(K)) for (lists,) in features]
        else:
            means = np.zeros(subsets.shape) if mean is None else mean[subsets]
            # Beside more variables, two cost little and get the best there is.
            best = finest + _MORE_FOR_PAIRS if act.kinks else finest if min(N, max(lengths)) > 2 else level
            tensors = _over_subsets(act, features, factors, best if size <= 2 else level, means)
        for sizes, lists, tensor in zip(splits, features, tensors):
            for pattern, result in zip(patterns, results):
                _fill(result, pattern, subsets, sizes, lists, tensor)
    return results


def _of_one(act: Activation, lists: tuple[DerivativeOrders, ...], K: np.ndarray) -> np.ndarray:
    options = {"kinks": [k.position for k in act.kinks], "length": act.length, "oscillates": act.oscillates}

    def average(orders: DerivativeOrders) -> np.ndarray:
        def integrand(z: np.ndarray) -> np.ndarray:
            values = {n: elementwise(derivative_of(act.function, n), z) for n in set(orders)}
            return math.prod(values[n] for n in orders)  # type: ignore[return-value]

        return refined(integrand, K, options, 1e-12, f"products of {act.name}")

    if not act.named:
        powers = [Powers(*(orders.count(n) for n in range(4))) for orders in lists]
        return own_moments(act, powers, K, rtol=1e-12, what=f"products of {act.name}", spiky=False).T

    return np.stack([average(orders) for orders in lists], axis=1)


def _parts_of(patterns: Sequence[DerivativeOrders], count: int, length: int) -> tuple[DerivativeOrders, ...]:
    # Every choice of `count` slots from a pattern of that length, as sorted orders.
    chosen = {tuple(sorted(c)) for p in patterns if len(p) == length for c in itertools.combinations(p, count)}
    return tuple(sorted(chosen))


def _fill(
    result: np.ndarray,
    pattern: DerivativeOrders,
    subsets: np.ndarray,
    sizes: tuple[int, ...],
    features: tuple,
    values: np.ndarray,
) -> None:
    if sum(sizes) != len(pattern):
        return
    for slots in itertools.product(range(len(sizes)), repeat=len(pattern)):
        if tuple(slots.count(i) for i in range(len(sizes))) != sizes:
            continue
        on_each = [tuple(sorted(n for n, slot in zip(pattern, slots) if slot == i)) for i in range(len(sizes))]
        place = tuple(features[i].index(orders) for i, orders in enumerate(on_each))
        result[tuple(subsets[:, slot] for slot in slots)] = values[(slice(None), *place)]


def _pivoted(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of a stack of covariances, largest remaining variance first, and the variables' order."""
    count, size, _ = C.shape
    C, rows = C.copy(), np.arange(count)
    order = np.tile(np.arange(size), (count, 1))
    floor = 1e-14 * np.trace(C, axis1=1, axis2=2)
    L = np.zeros_like(C)
    for k in range(size):
        pivot = k + np.argmax(np.diagonal(C, axis1=1, axis2=2)[:, k:], axis=1)
        for array in (C, L):
            array[rows, k], array[rows, pivot] = array[rows, pivot].copy(), array[rows, k].copy()
        C[rows, :, k], C[rows, :, pivot] = C[rows, :, pivot].copy(), C[rows, :, k].copy()
        order[rows, k], order[rows, pivot] = order[rows, pivot].copy(), order[rows, k].copy()
        left = C[:, k, k]
        root = np.sqrt(np.where(left > floor, left, 0.0))
        column = np.where(root[:, None] > 0, C[:, :, k] / np.where(root > 0, root, 1.0)[:, None], 0.0)
        column[:, :k] = 0.0
        L[:, :, k] = column
        C -= column[:, :, None] * column[:, None, :]
    return L, order


def _over_subsets(
    act: Activation, features: tuple, factors: np.ndarray, level: float, means: np.ndarray
) -> list[np.ndarray]:
    """For each split, the tensors of all subsets: (subsets, features of variable 1, features of variable 2, …)."""
    size = factors.shape[1]
    units, step = np.zeros(0), np.zeros(len(factors))
    if act.kinks:
        kinks = tuple(kink.position for kink in act.kinks)
        points = math.prod(_counts(size, len(kinks), int(level)))
        solve = functools.partial(_kinked, act, features, kinks, int(level))
    else:
        grids = tuple(jnp.asarray(_grid(float(np.abs(factors[:, :, j]).max()), level)) for j in range(size))
        # The innermost average is tabulated in units of its own spread: a small variable has small values everywhere.
        spread = np.sqrt((factors[:, -1] ** 2).sum(axis=1))
        step = np.minimum(level, 0.5 * np.maximum(spread, 1e-100)) / 4
        reach = float((np.abs(factors[:, -1]).sum(axis=1) / step).max()) * _REACH
        points = max(math.prod(len(x) for x in grids[:-1]), len(grids[-1]) * 2 * reach)
        # Before the table is made, which may be long itself.
        refuse_cost(act, points * _PER_POINT)
        units = _table(reach)
        solve = functools.partial(_smooth, act, features, grids)
    refuse_cost(act, points * _PER_POINT)
    label = f"averages over {size} inputs" if size == 4 else None
    found = []
    for part in blocks(len(factors), 1, label=label):
        i = part.start
        given = jnp.asarray(means[i] if act.kinks else units * step[i])
        found.append(jax.tree.map(np.asarray, solve(given, jnp.asarray(factors[i]))))
    return [np.stack(tensors) for tensors in zip(*found)]


def refuse_cost(act: Activation, seconds: float) -> None:
    """Say that an average over a few variables would take longer than anybody waits for."""
    if seconds > _PATIENCE:
        raise ValueError(
            f"products of {act.name} at such variances would take about {seconds / 3600:.2g} hours for each set of "
            f"inputs, because it changes over a distance of {act.length:.1g}, but must take at most "
            f"a minute: `gaussian.pair`, `width.kernel` and one input at a time have no such limit."
        )


def _counts(size: int, kinks: int, nodes: int) -> list[int]:
    # The nodes of each integral of `_kinked`.
    return [nodes * (4 + kinks * sum(map(len, _offsets(size)[d]))) for d in range(size)]


def _offsets(size: int) -> list[list[np.ndarray]]:
    around = AROUND_A_KINK if size < 3 else np.array([-4.0, -1.2, 0.0, 1.2, 4.0])
    return [[np.zeros(1)] + [around if size < 4 or d >= 2 else np.zeros(1)] * (size - d - 1) for d in range(size)]


def _grid(entry: float, step: float) -> np.ndarray:
    # The step must resolve σ in z = entry·x, and the Gaussian itself. Rounded counts let compiled code serve again.
    count = 8 * math.ceil(_REACH / min(0.7, step / max(entry, 1e-3)) / 8)
    return np.arange(-count, count + 1) * (_REACH / count)


def _table(reach: float) -> np.ndarray:
    count = 256 * math.ceil((2 * reach + 2 * _STENCIL) / 256)
    return np.arange(count) - (count - 1) / 2


def _features(act: Activation, lists: tuple[DerivativeOrders, ...], z: Array) -> Array:
    used = sorted({n for orders in lists for n in orders})
    derivatives = jnp.stack([derivative_of(act.function, n)(z) for n in used])
    slots = np.array([[used.index(n) for n in orders] for orders in lists]).T
    return functools.reduce(jnp.multiply, (derivatives[slot] for slot in slots))


@functools.partial(jax.jit, static_argnames=("act", "features"))
def _smooth(
    act: Activation, features: tuple, grids: tuple[Array, ...], table: Array, L: Float[Array, "m m"]
) -> list[Array]:
    """The tensors of averages of one subset by trapezoid rules, one axis of features per variable, for each split."""
    size = len(grids)
    weights = [jnp.exp(-x * x / 2) * ((x[-1] - x[0]) / (len(x) - 1) / math.sqrt(2 * math.pi)) for x in grids]

    def mean(axes: list[Array], i: int) -> Array:
        total = jnp.zeros(())
        for j, x in enumerate(axes):
            total = total[..., None] + to_rank(L[i, j] * x, j + 1)
        return total

    def tensor(lists: tuple) -> Array:
        moved = L[-1, -1] * grids[-1][None, :]

        def average(means: Array) -> Array:
            return (_features(act, lists[-1], means[:, None] + moved) * weights[-1][None, None, :]).sum(-1)

        rows = max(1, 8 * _POINTS // len(grids[-1]) // 256 * 256)
        if len(table) <= rows:
            averaged = average(table)
        else:
            # Too much to hold at once; a table is a multiple of 256 long.
            pieces = lax.map(average, table.reshape(-1, 256))
            averaged = jnp.moveaxis(pieces, 1, 0).reshape(len(lists[-1]), -1)
        if size == 1:
            return _interpolate(table, averaged, jnp.zeros(()))
        points = math.prod(len(x) for x in grids[1:-1]) * math.prod(map(len, lists[1:]))
        return _summed(lambda x, w: outer(lists, averaged, [x, *grids[1:]], [w, *weights[1:]]), *first, points)

    first = grids[0], weights[0]

    def outer(lists: tuple, averaged: Array, axes: list[Array], weights: list[Array]) -> Array:
        inside = _interpolate(table, averaged, mean(axes[: size - 1], size - 1))
        for i in range(size - 2, -1, -1):
            here = _features(act, lists[i], mean(axes[: i + 1], i)) * to_rank(weights[i], i + 2)
            # Features here and features inside, over x_1..x_i, are summed over x_i.
            flat = inside.reshape(-1, *here.shape[1:])
            summed = jnp.einsum("f...x,g...x->fg...", here, flat)
            inside = summed.reshape(here.shape[0], *inside.shape[: inside.ndim - i - 1], *here.shape[1:-1])
        return inside

    return [tensor(lists) for lists in features]


def _summed(part: Callable[[Array, Array], Array], x: Array, w: Array, points: int) -> Array:
    # part(x, w) is a sum over the nodes x, each of which costs this many points: done in pieces that stay in memory.
    count = min(len(x), max(1, _POINTS // points))
    if count == len(x):
        return part(x, w)
    short = -len(x) % count
    x, w = jnp.pad(x, (0, short), mode="edge"), jnp.pad(w, (0, short))
    return lax.map(lambda piece: part(*piece), (x.reshape(-1, count), w.reshape(-1, count))).sum(0)


def _interpolate(table: Array, values: Float[Array, "features points"], at: Array) -> Array:
    # Lagrange interpolation between neighbours on a uniform table: far cheaper than another integral for every point.
    step = table[1] - table[0]
    where = (at - table[0]) / step
    first = jnp.clip(jnp.floor(where).astype(int) - (_STENCIL // 2 - 1), 0, len(table) - _STENCIL)
    offset = where - first.astype(where.dtype)
    # Products of the distances to all points before and after each.
    before, after = [jnp.ones_like(offset)], [jnp.ones_like(offset)]
    for k in range(_STENCIL - 1):
        before.append(before[-1] * (offset - k))
        after.append(after[-1] * (offset - (_STENCIL - 1 - k)))
    total = jnp.zeros((values.shape[0], *at.shape))
    for k in range(_STENCIL):
        norm = math.prod(k - j for j in range(_STENCIL) if j != k)
        total = total + (before[k] * after[_STENCIL - 1 - k] / norm)[None] * values[:, first + k]
    return total


@functools.partial(jax.jit, static_argnames=("act", "features", "kinks", "nodes"))
def _kinked(
    act: Activation,
    features: tuple,
    kinks: tuple[float, ...],
    nodes: int,
    mean: Float[Array, " m"],
    L: Float[Array, "m m"],
) -> list[Array]:
    """The same by Gauss-Legendre between the kinks of all variables that an integral moves.

    A kink of the integral's own variable is a break. One of a later variable is smoothed by the integrals inside, over
    a width that vanishes as the variables align, so it gets breaks around it too, unless four variables forbid it.
    """
    size = L.shape[0]
    unit, unit_weights = np.polynomial.legendre.leggauss(nodes)
    offsets, counts = _offsets(size), _counts(size, len(kinks), nodes)

    def level(lists: tuple, d: int, means: Array, together: int) -> Array:
        # `together` of these calls are made at once.
        slopes = L[d:, d]
        moves = jnp.abs(slopes) > 1e-12
        # A variable that does not move with x_d has no break in it: push its break out of reach.
        divisor, far = jnp.where(moves, slopes, 1.0), jnp.where(moves, 0.0, 2 * _REACH)
        width = jnp.sqrt((L[d:, d + 1 :] ** 2).sum(axis=1))
        shifts = [width[i] * offsets[d][i] - means[i] for i in range(size - d)]
        breaks = [(k + shifts[i]) / divisor[i] + far[i] for k in kinks for i in range(size - d)]
        edges = [jnp.linspace(-_REACH, _REACH, 5), *(jnp.clip(b, -_REACH, _REACH) for b in breaks)]
        edges = jnp.sort(jnp.concatenate(edges))
        half = (edges[1:] - edges[:-1])[:, None] / 2
        x = (edges[:-1, None] + half * (1 + unit[None, :])).ravel()
        w = (half * unit_weights[None, :]).ravel() * jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        if d == size - 1:
            return (_features(act, lists[d], means[0] + slopes[0] * x) * w[None, :]).sum(-1)
        points = together * math.prod(counts[d + 1 :]) * len(lists[-1])
        many = together * min(len(x), max(1, _POINTS // points))

        def part(x: Array, w: Array) -> Array:
            here = _features(act, lists[d], means[0] + slopes[0] * x) * w[None, :]
            inside = jax.vmap(lambda t: level(lists, d + 1, means[1:] + slopes[1:] * t, many))(x)
            return jnp.tensordot(here, inside, axes=(1, 0))

        return _summed(part, x, w, points)

    return [level(lists, 0, mean, 1) for lists in features]
