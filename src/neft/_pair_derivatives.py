"""Averages of derivatives of any order over pairs of Gaussian variables, with the deltas at kinks integrated.

A kernel ⟨σ(z_a)σ(z_b)⟩ is a smooth function of a covariance that is not singular even where σ has kinks, and averages
of derivatives of σσ are derivatives of that function (docs/theory/width, eq. 60). Where σ has kinks, the derivative
beyond the one that jumps has a delta, which is integrated, and the derivatives beyond that one are moved on the
Gaussian, as Hermite polynomials of two independent coordinates. Where two variables are aligned, some of the averages
diverge and only a sum of them exists: see `aligned_pair`.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._accuracy import warn_missed
from ._activation import Activation, derivative_of
from ._moments import sides
from ._periodic import few, product_average
from ._precision import float64
from ._quadrature import AROUND_A_KINK, PANELS, elementwise, unit_rule
from ._tuples import refuse_cost

DerivativeOrders = tuple[int, int]

_REACH = 9.0
_STEP = 0.2  # of the trapezoid rule, in lengths of σ: 1e-10 for the fifth derivative of tanh
_ROUNDING = 1e-14
_TOLERANCE = 1e-7
ALIGNED = 1e-7
"""The √(1 - ρ²) that rounding leaves between variables that are multiples of each other, and some room."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_TILE = 64  # nodes of the trapezoid rule
_PAIRS = 512


@float64
def pair_derivatives(
    act: Activation, orders: tuple[DerivativeOrders, ...], K: Float[np.ndarray, "N N"]
) -> dict[DerivativeOrders, Float[np.ndarray, "N N"]]:
    """⟨σ^(p)(z_a) σ^(q)(z_b)⟩ for each (p, q), both ways round; K has a positive diagonal.

    Entries of pairs that a kink forbids alone hold what `aligned_pair` says.
    """
    wanted = tuple(sorted({order for p, q in orders for order in ((p, q), (q, p))}))
    if few(act.fourier, K):
        return {order: product_average(act.fourier, order, K) for order in wanted}
    found = {order: np.zeros(K.shape) for order in wanted}
    spread = np.sqrt(np.diagonal(K))
    rho = np.clip(K / np.outer(spread, spread), -1.0, 1.0)
    across = np.sqrt((1 - rho) * (1 + rho)) if act.kinks else np.ones(K.shape)
    np.fill_diagonal(across, 0.0)
    apart = [(a, b) for a, b in itertools.combinations(range(len(K)), 2) if across[a, b] > 0]
    if apart:
        rows, columns = np.array(apart).T
        given = (jnp.asarray(v) for v in (spread[rows], spread[columns], rho[rows, columns]))
        solve = _kinked if act.kinks else _smooth
        given, count = tuple(given), _count(act, float(spread.max()))
        # The points of one pair, for each derivative.
        points = (2 * count) ** 2 * (1 if not act.kinks else len(_NODES) ** 2 * (1 + 5 * len(act.kinks)))
        refuse_cost(act, points * 2e-8 * (1 + max(map(max, wanted))))
        values = np.asarray(solve(act, wanted, count, *given))
        if not act.named:
            _compare(act, values, np.asarray(solve(act, wanted, 3 * count // 2, *given)))
        for (p, q), value in zip(wanted, values):
            found[p, q][rows, columns] = value
            found[q, p][columns, rows] = value
    alike = {order: _alike(act, *order) for order in wanted}
    for a, b in np.argwhere(across < max(alike.values())):
        aligned = tuple(order for order in wanted if across[a, b] < alike[order])
        if aligned:
            values = aligned_pair(act, aligned, float(spread[a]), math.copysign(float(spread[b]), rho[a, b]))
            for order in aligned:
                found[order][a, b] = values[order]
    return found


def _alike(act: Activation, p: int, q: int) -> float:
    # The √(1 - ρ²) below which a pair counts as aligned. The averages with p + q derivatives diverge like its inverse
    # to this power, but are asked for only in a sum that stays finite, or in the product of two (tensor A). Taken as
    # aligned, the sum is off by √(1 - ρ²); taken apart, by the rounding of its terms.
    kink = min((k.order for k in act.kinks), default=math.inf)
    power = max(0, p + q - 2 * kink - 1)
    if kink == 0 and power:
        # Where σ itself jumps the sum does not stay finite: only what rounding cannot tell from aligned counts as such.
        return ALIGNED
    return _ROUNDING ** (1 / (1 + max(2, power))) if power else _ROUNDING


def _compare(act: Activation, values: np.ndarray, finer: np.ndarray) -> None:
    # What a user's own function needs is not known beforehand.
    error = float((np.abs(finer - values).max(axis=1) / np.maximum(np.abs(finer).max(axis=1), 1e-12)).max())
    if error > _TOLERANCE:
        warn_missed(f"averages of derivatives of {act.name}", error, _TOLERANCE)


def aligned_pair(
    act: Activation, orders: tuple[DerivativeOrders, ...], ca: float, cb: float
) -> dict[DerivativeOrders, float]:
    """The averages for two variables z_a = c_a x and z_b = c_b x of one standard normal x.

    Where more than one delta meets, an average does not exist alone. What exists is the sum over all ways to share
    the derivative d/dx of σ''σ', or its powers on σσ and σ'σ', between the two factors, and nothing else is ever asked:
    a tensor of these samples has components in the ratio of powers of c_a and c_b. Then ⟨σ'''σ'⟩ holds the whole of
    ⟨d/dx σ''σ'⟩/c_a, and ⟨σ^(4)σ⟩ and ⟨σ^(5)σ'⟩ hold half of what the others leave. Where σ itself jumps, ⟨σ''σ⟩ and
    ⟨σ^(4)σ⟩ hold half of the sum and the others nothing.
    """
    kink = min((k.order for k in act.kinks), default=math.inf)
    line = _Line(act, ca, cb)
    found: dict[DerivativeOrders, float] = {}

    def value(p: int, q: int) -> float:
        if (p, q) not in found:
            found[p, q] = _entry(line, value, kink, p, q)
        return found[p, q]

    return {order: value(*order) for order in orders}


def _entry(line: "_Line", value, kink: float, p: int, q: int) -> float:
    ca, cb = line.scales
    if max(p, q) <= kink:
        return line.average(p, q)
    if kink == 0 and (p, q) in ((1, 1), (3, 1)):
        return 0.0
    if (p, q) == (2, 0):
        # d/dx (σ'σ) = c_a σ''σ + c_b σ'σ'.
        if kink == 0:
            return line.average(0, 0, 2) / 2 / ca**2
        return (line.average(1, 0, 1) - cb * value(1, 1)) / ca
    if (p, q) == (2, 2):
        return 0.0
    if (p, q) == (3, 1):
        return (line.with_deltas() - cb * value(2, 2)) / ca
    if (p, q) == (4, 0):
        others = 4 * ca**3 * cb * value(3, 1) + 4 * ca * cb**3 * value(1, 3) + 6 * (ca * cb) ** 2 * value(2, 2)
        return (line.average(0, 0, 4) - others) / 2 / ca**4
    if (p, q) == (5, 1):
        return line.average(1, 1, 4) / 2 / ca**4
    if (p, q) in ((4, 2), (3, 3), (2, 4)):
        return 0.0
    return _entry(_Line(line.act, cb, ca), lambda i, j: value(j, i), kink, q, p)


class _Line:
    # Averages over one standard normal variable of which both are multiples.

    def __init__(self, act: Activation, ca: float, cb: float):
        self.act, self.scales = act, (ca, cb)
        self._known: dict[tuple[int, float], np.ndarray] = {}
        kinks = [k.position for k in act.kinks]
        breaks = sorted(k / c for k in kinks for c in (ca, cb))
        spread = np.asarray(max(abs(ca), abs(cb)))
        panels = 4 * PANELS * (16 if act.oscillates else 1)
        cuts = [k / c * spread for k in act.cuts for c in (ca, cb)] if act.cuts else ()
        options = {"length": act.length, "oscillates": act.oscillates, "panels": panels, "cuts": cuts}
        self.x, self.w = unit_rule(np, spread, [np.asarray(b) for b in breaks], **options)

    def average(self, p: int, q: int, hermite: int = 0) -> float:
        """⟨He_k(x) σ^(p)(c_a x) σ^(q)(c_b x)⟩, almost everywhere."""
        first, second = (self._values(n, c) for n, c in zip((p, q), self.scales))
        return float((self.w * np.polynomial.hermite_e.hermeval(self.x, np.eye(5)[hermite]) * first * second).sum())

    def _values(self, n: int, scale: float) -> np.ndarray:
        if (n, scale) not in self._known:
            self._known[n, scale] = elementwise(derivative_of(self.act.function, n), scale * self.x)
        return self._known[n, scale]

    def with_deltas(self) -> float:
        """⟨x σ''(c_a x) σ'(c_b x)⟩: a delta that meets a jump sees the middle of it."""
        ca, cb = self.scales
        total = self.average(2, 1, 1)
        for kink in self.act.kinks:
            if kink.order == 1:
                x = kink.position / ca
                total += kink.jump / abs(ca) * x * _density(x) * _middle(self.act, cb * x)
        return total


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _middle(act: Activation, z: float) -> float:
    for kink in act.kinks:
        if kink.order == 1 and abs(z - kink.position) < 1e-9 * max(1.0, abs(z)):
            left, right = sides(act, kink)
            return (left[1] + right[1]) / 2
    return float(elementwise(act.derivative(1), np.array([z]))[0])


def _count(act: Activation, spread: float) -> int:
    # Nodes, or panels, on each side of the origin; rounded, so that compiled code serves again.
    length = act.length if math.isfinite(act.length) else max(spread, 1.0)
    if act.kinks:
        return 4 * math.ceil(max(6.0, spread * _REACH / length / 2) / 4)
    return _TILE // 2 * math.ceil(_REACH / min(0.5, _STEP * length / spread) / (_TILE // 2))


def _smooth(
    act: Activation, orders: tuple[DerivativeOrders, ...], count: int, ca: Array, cb: Array, rho: Array
) -> np.ndarray:
    pairs = len(rho)
    given = (np.pad(np.asarray(values), (0, -pairs % _PAIRS), mode="edge") for values in (ca, cb, rho))
    tiles = -(-2 * count // _TILE)
    return np.asarray(_smooth_sums(act, orders, _REACH / count, tiles, pairs, *given))[:, :pairs]


# How fine the grid is and how many pairs there are is no part of the program, so that one serves all layers.
@functools.partial(jax.jit, static_argnames=("act", "orders"))
def _smooth_sums(
    act: Activation,
    orders: tuple[DerivativeOrders, ...],
    step: Array,
    tiles: Array,
    pairs: Array,
    ca: Array,
    cb: Array,
    rho: Array,
) -> Array:
    highest = max(max(pair) for pair in orders)

    def nodes(tile: Array) -> tuple[Array, Array]:
        # The last one, nine deviations out, is left away.
        x = (tile * _TILE + jnp.arange(_TILE)).astype(rho.dtype) * step - _REACH
        return x, jnp.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))

    functions = [derivative_of(act.function, n) for n in range(highest + 1)]

    def one(pair: Array, found: Array) -> Array:
        a, b, r = ca[pair], cb[pair], rho[pair]

        def along(tile: Array, total: Array) -> Array:
            x, w = nodes(tile)

            def across(other: Array, inner: Array) -> Array:
                y, v = nodes(other)
                z = b * (r * x[:, None] + jnp.sqrt((1 - r) * (1 + r)) * y[None, :])
                return inner + jnp.stack([f(z) @ v for f in functions])

            second = lax.fori_loop(0, tiles, across, jnp.zeros((highest + 1, _TILE)))
            first = [f(a * x) * w for f in functions]
            return total + jnp.stack([(first[p] * second[q]).sum() for p, q in orders])

        return found.at[:, pair].set(lax.fori_loop(0, tiles, along, jnp.zeros(len(orders))))

    return lax.fori_loop(0, pairs, one, jnp.zeros((len(orders), len(rho))))


@functools.partial(jax.jit, static_argnames=("act", "orders", "count"))
def _kinked(
    act: Activation, orders: tuple[DerivativeOrders, ...], count: int, ca: Array, cb: Array, rho: Array
) -> Array:
    # The highest derivative whose averages need no Hermite polynomials: it has deltas.
    highest = 1 + min(kink.order for kink in act.kinks)
    kinks = np.array([kink.position for kink in act.kinks])
    even = jnp.linspace(-_REACH, _REACH, 2 * count + 1)

    def one(given):
        ca, cb, rho = given
        across = jnp.sqrt((1 - rho) * (1 + rho))
        # z_a = c_a x and z_b = c_b (ρ x + across·y). Averages over y smooth the kinks of z_b.
        along = jnp.where(jnp.abs(rho) > 1e-3, rho, 1e-3)
        near = (kinks[:, None] / cb + across * AROUND_A_KINK[None, :]) / along
        x, first = _with_hermite(act, highest, ca, jnp.zeros(()), kinks / ca, jnp.concatenate([even, near.ravel()]))

        def inner(x):
            # So far out that nothing is left of the Gaussian, but its polynomials are finite.
            at = jnp.clip((kinks / cb - rho * x) / across, -4 * _REACH, 4 * _REACH)
            return _with_hermite(act, highest, cb * across, cb * rho * x, at, even)[1].sum(-1)

        second = lax.map(inner, x, batch_size=256)
        table = jnp.einsum("pix,xqj->pqij", first, second)

        # Between variables that are nearly aligned the averages are large and cancel in what is asked of them. So
        # each large one is computed once, and the others from it by integration by parts along x.
        near = jnp.abs(rho) > 0.5
        divisor = cb * jnp.where(near, rho, 1.0)

        @functools.cache
        def average(p: int, q: int, k: int = 0) -> Array:
            # ⟨He_k(x) σ^(p)(z_a) σ^(q)(z_b)⟩
            if p > highest:
                # d/dx acts on both factors.
                return (average(p - 1, q, k + 1) - rho * cb * average(p - 1, q + 1, k)) / ca
            beyond = max(0, q - highest)
            along_y = table[p, q - beyond, k, beyond] / (cb * across) ** beyond
            if p == highest or not beyond:
                return along_y
            along_x = (average(p, q - 1, k + 1) - ca * average(p + 1, q - 1, k)) / divisor
            return jnp.where(near, along_x, along_y)

        return jnp.stack([average(p, q) for p, q in orders])

    return lax.map(one, (ca, cb, rho)).T


def _with_hermite(
    act: Activation, highest: int, scale: Array, shift: Array, kinks: Array, edges: Array
) -> tuple[Array, Array]:
    """Nodes x of a standard normal, and σ^(p)(shift + scale x) He_k(x) there with their weights; axes p, k, x.

    The last derivative has deltas at some of the kinks, which are at the given x and are the last nodes.
    """
    edges = jnp.sort(jnp.clip(jnp.concatenate([edges, kinks]), -_REACH, _REACH))
    half = (edges[1:] - edges[:-1])[:, None] / 2
    x = (edges[:-1, None] + half * (1 + _NODES[None, :])).ravel()
    regular = jnp.stack([derivative_of(act.function, n)(shift + scale * x) for n in range(highest + 1)])
    regular = jnp.pad(regular * (half * _WEIGHTS[None, :]).reshape(1, -1), [(0, 0), (0, len(kinks))])
    jumps = jnp.array([kink.jump if kink.order == highest - 1 else 0.0 for kink in act.kinks])
    functions = regular.at[-1, len(x) :].set(jumps / scale)
    x = jnp.concatenate([x, kinks])
    gaussian = jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    hermite = jnp.stack([jnp.ones_like(x), x, x**2 - 1, x**3 - 3 * x, x**4 - 6 * x**2 + 3])
    return x, functions[:, None] * (hermite * gaussian[None, :])[None]
