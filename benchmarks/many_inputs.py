"""All tensors for eight inputs at depth 4: time against one adaptive cubature per distinct average, and the error."""

import itertools
import math

import numpy as np
from measure import Ratio, in_turns, timed
from scipy.integrate import cubature

import neft

INPUTS, SAMPLED, RTOL, BOX = 8, 30, 1e-3, 8.0
PATTERNS = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 1, 1, 0), (3, 1, 1, 1), (2, 2, 1, 1))


def _tanh(order: int, z: np.ndarray) -> np.ndarray:
    t = np.tanh(z)
    return (t, 1 - t**2, -2 * t * (1 - t**2), (1 - t**2) * (6 * t**2 - 2))[order]


def _distinct(pattern: tuple[int, ...]) -> list[tuple[int, ...]]:
    # Index tuples up to permutations of slots with the same derivative.
    found = {
        tuple(i for n in sorted(set(pattern)) for i in sorted(i for i, p in zip(index, pattern) if p == n))
        for index in itertools.product(range(INPUTS), repeat=4)
    }
    return sorted(found)


def _average(pattern: tuple[int, ...], index: tuple[int, ...], K: np.ndarray):
    """The integrand of one average over its distinct inputs, as a function of standard normal points."""
    used = sorted(set(index))
    values, vectors = np.linalg.eigh(K[np.ix_(used, used)])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    orders = sorted(pattern)

    def integrand(x: np.ndarray) -> np.ndarray:
        z = x @ root.T
        weight = np.exp(-(x**2).sum(-1) / 2) / (2 * math.pi) ** (len(used) / 2)
        return weight * math.prod(_tanh(n, z[..., used.index(i)]) for n, i in zip(orders, index))

    return integrand, len(used)


def _dense(integrand, dimension: int) -> float:
    # A trapezoid rule that shares nothing with neft's but the theorem that it converges fast.
    axis = np.arange(-BOX, BOX + 0.01, 0.4 if dimension == 4 else 0.25)
    rest = np.array(list(itertools.product(axis, repeat=dimension - 1)))
    total = 0.0
    for first in axis:
        total += integrand(np.concatenate([np.full((len(rest), 1), first), rest], axis=1)).sum()
    return total * (axis[1] - axis[0]) ** dimension


def run() -> list[Ratio]:
    """CPU seconds of `statistics` against the sampled cubatures scaled up; errors of averages and of tensors."""
    rng = np.random.default_rng(0)
    net = neft.MLP((10, 64, 64, 64, 1), "tanh", C_b=0.1, C_W=1.3)
    x = rng.normal(size=(INPUTS, 10))
    found = neft.width.statistics(net, x)

    every = [(pattern, index) for pattern in PATTERNS for index in _distinct(tuple(sorted(pattern)))]
    K = found.K[1]
    # Of the averages of one layer; the three steps between four layers ask for the same ones.
    chosen = [every[i] for i in rng.choice(len(every), SAMPLED, replace=False)]
    errors, theirs_errors = [], []

    def by_cubature(integrand, dimension: int):
        # The box and the rule with which it is fastest: Genz-Malik, ten times the default in four dimensions.
        rule = "genz-malik" if dimension > 1 else "gk21"
        box = [BOX] * dimension
        return cubature(integrand, np.negative(box), box, rule=rule, rtol=RTOL, atol=0, max_subdivisions=100_000)

    exact = dict(zip(PATTERNS, neft.gaussian.products("tanh", PATTERNS, K, rtol=1e-7)))
    for pattern, index in chosen:
        integrand, dimension = _average(pattern, index, K)
        estimate = by_cubature(integrand, dimension)
        truth, scale = _dense(integrand, dimension), np.abs(exact[pattern]).max()
        slots = dict(enumerate(index))
        places = np.argsort(np.argsort(pattern, kind="stable"), kind="stable")
        value = exact[pattern][tuple(slots[int(p)] for p in places)]
        errors.append(abs(value - truth) / scale)
        theirs_errors.append(abs(float(estimate.estimate) - truth) / scale)
    integrals = [_average(pattern, index, K) for pattern, index in chosen]
    ours, theirs = in_turns(
        timed(lambda: neft.width.statistics(net, x)),
        timed(lambda: [by_cubature(*integral) for integral in integrals]),
        repeat=3,
    )
    fine = neft.width.statistics(net, x, rtol=1e-10)
    pairs = [(getattr(found, name)[-1], getattr(fine, name)[-1]) for name in fine.tensors]
    worst = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
    label = f"all tensors, tanh, {INPUTS} inputs, depth 4; {len(every) * 3:,} distinct averages"
    peer = f"cubature rtol {RTOL:g}, {SAMPLED} timed"
    return [
        Ratio.of(label, peer, 100, ours, theirs * len(every) * 3 / SAMPLED),
        Ratio(
            "largest error of those averages",
            f"cubature (off by {max(theirs_errors):.1e})",
            f"{max(errors):.1e}",
            "1e-6",
            1e-6 / max(errors),
            1,
        ),
        Ratio("largest error of a tensor, of its largest entry", "rtol 1e-10", f"{worst:.1e}", "1e-6", 1e-6 / worst, 1),
    ]
