"""Draws deep tanh networks for one input and keeps V/K², A/Θ² and B/Θ² against depth, in `src/neft/plot/depth.json`.

    .venv/bin/python tools/draw_depth.py plain "branches of 1/√L" …

Without names all are drawn, which takes a quarter of an hour; depths that the file has are kept. No weights are
drawn and no recursion is known: given what a dense block made of its input, y = Wx, a vector g that is passed back
through it is x (y·g)/|x|² and Gaussian numbers across x, exactly, so that a network as wide as it likes costs a few
vectors a block. Every quantity is fitted as a + b/n + c/n² over three widths, several times the depth where it grows
with it, and a is kept.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILE = Path(__file__).parents[1] / "src" / "neft" / "plot" / "depth.json"
DEPTHS = (2, 4, 8, 16, 32, 100)
PROBES = 8  # vectors that are passed back from a stage, as two readouts and more
GROUPS = 20
SEED = 1
RATIOS = ("V", "A", "B")


class Kind(NamedTuple):
    """A network of tanh: γ, the number of matrices of a branch, a norm before it, C_W and rates of its last matrix."""

    skip: float
    matrices: int
    norm: bool
    C_W: float
    rate: float
    per_depth: bool
    times: int  # the narrowest is so many times as wide as deep, and LEAST at least
    draws: tuple[int, int, int]  # of each of three widths, to depth 32; fewer beyond
    whole: bool = False  # a norm of the stream itself before every block: after the sum
    drawn_at: tuple[int, ...] = DEPTHS


NETWORKS = {
    "plain": Kind(0.0, 1, False, 1.0, 1.0, False, 2, (8_000, 16_000, 16_000)),
    "skip 0.8": Kind(0.8, 1, False, 1 - 0.8**2, 1.0, False, 2, (8_000, 16_000, 16_000)),
    "branches of 1/√L": Kind(1.0, 1, False, 2.0, 2.0, True, 0, (20_000, 40_000, 60_000)),
    "pre-norm": Kind(1.0, 2, True, 1.0, 1.0, False, 0, (10_000, 20_000, 30_000)),
    "post-norm": Kind(1.0, 2, False, 1.0, 1.0, False, 3, (8_000, 16_000, 16_000), whole=True, drawn_at=(16,)),
}
LEAST = 24  # of the widths


class Passed(NamedTuple):
    """A dense block that was passed: what went in, what came out, its variance and rates."""

    x: np.ndarray
    y: np.ndarray
    C_W: float
    lambda_b: float
    lambda_W: float


def forward(kind, depth, n, draws, rng):
    """The stream after every block (draws, n), and the dense blocks that were passed."""
    z = rng.standard_normal((draws, n), np.float32)
    share = depth if kind.per_depth else 1
    last = {"C_W": kind.C_W / share, "lambda_b": kind.rate / share, "lambda_W": kind.rate / share}
    stages, blocks = [z], []
    for _ in range(depth):
        root = np.sqrt((z * z).mean(1, keepdims=True)) if kind.whole else None
        if root is not None:
            z = stages[-1] = z / root
        inner, seen = None, z
        if kind.norm:
            seen = z / np.sqrt((z * z).mean(1, keepdims=True))
        if kind.matrices == 2:
            v = spread(seen, 1.0) * rng.standard_normal((draws, n), np.float32)
            inner, seen = Passed(seen, v, 1.0, 1.0, 1.0), v
        s = np.tanh(seen)
        y = spread(s, last["C_W"]) * rng.standard_normal((draws, n), np.float32)
        blocks.append((inner, Passed(s, y, **last), root))
        z = np.float32(kind.skip) * z + y
        stages.append(z)
    return stages, blocks


def spread(x, C_W):
    """The standard deviation of an entry of Wx."""
    return np.sqrt(np.float32(C_W) * (x * x).mean(1, keepdims=True))


def back(block, g, rng):
    """Wᵀg of probes g (draws, PROBES, n) given y = Wx, and what the block's parameters add to their NTK."""
    x, y, C_W, lambda_b, lambda_W = block
    n = x.shape[1]
    products = g @ g.transpose(0, 2, 1)
    own = (lambda_b + lambda_W * (x * x).mean(1))[:, None, None] * products
    square = (x * x).sum(1)[:, None, None]
    fresh = rng.standard_normal(g.shape, np.float32)
    fresh = np.linalg.cholesky(products.astype(float)).astype(np.float32) @ fresh * np.float32(math.sqrt(C_W / n))
    fresh -= (fresh @ x[:, :, None] / square) * x[:, None, :]
    return (g @ y[:, :, None] / square) * x[:, None, :] + fresh, own


def along_sphere(z, g):
    """The part of g that does not change the length of z."""
    unit = z / np.sqrt((z * z).sum(1, keepdims=True))
    return g - (g @ unit[:, :, None]) * unit[:, None, :]


def ntk(kind, stages, blocks, rng):
    """w_iᵀHw_j of the last stage for random w of variance 1/n, (draws, PROBES, PROBES)."""
    draws, n = stages[0].shape
    g = rng.standard_normal((draws, PROBES, n), np.float32) / np.float32(math.sqrt(n))
    H = np.zeros((draws, PROBES, PROBES))
    for z, (inner, last, root) in reversed(list(zip(stages, blocks))):
        down, own = back(last, g, rng)
        H += own
        down *= 1 - (last.x * last.x)[:, None, :]
        if inner is not None:
            down, own = back(inner, down, rng)
            H += own
        if kind.norm:
            down = along_sphere(z, down) / np.sqrt((z * z).mean(1))[:, None, None]
        g = np.float32(kind.skip) * g + down
        if root is not None:
            g = along_sphere(z, g) / root[:, :, None]
    # The first block: one input of mean square 1, rates of 1.
    return H + 2.0 * (g @ g.transpose(0, 2, 1))


def lengths(kind, stages, blocks):
    """Of ρ = |z|²/n of the last stage its parts R, known before the last numbers, and M, of mean 0; n Var M given R."""
    share = kind.skip**2
    start = (stages[0].astype(float) ** 2).mean(1)
    R, M, variance = np.ones_like(start), start - 1, np.full_like(start, 2.0)
    for z, (_, last, root) in zip(stages, blocks):
        if root is not None:  # a length that is fixed has no spread
            R, M, variance = np.ones_like(R), np.zeros_like(M), np.zeros_like(variance)
        y, kappa = last.y.astype(float), last.C_W * (last.x.astype(float) ** 2).mean(1)
        rho = (z.astype(float) ** 2).mean(1)
        R = share * R + kappa
        M = share * M + 2 * kind.skip * (z * y).mean(1) + (y * y).mean(1) - kappa
        variance = share**2 * variance + 4 * share * rho * kappa + 2 * kappa**2
    return R, M, variance


def ratios(means, n):
    """V/K², A/Θ² and B/Θ² at width n, from means."""
    R, square, M, mixed, variance, tau, both, across = means
    U = n * (square - R**2 + 2 * (mixed - R * M)) + variance
    return np.array([U / R**2 - 2, n * (both - tau**2) / tau**2, n * across / tau**2 - 1])


def widths(kind, depth):
    """Three widths for a depth."""
    least = max(LEAST, kind.times * depth)
    return [least, 2 * least, 6 * least]


def one(kind, depth, n, draws, rng):
    """Means over draws of what `ratios` takes."""
    stages, blocks = forward(kind, depth, n, draws, rng)
    R, M, variance = lengths(kind, stages, blocks)
    H = ntk(kind, stages, blocks, rng)
    diagonal = H.diagonal(axis1=1, axis2=2)
    trace, pairs = diagonal.sum(1), PROBES * (PROBES - 1)
    both = (trace**2 - (diagonal**2).sum(1)) / pairs
    across = ((H**2).sum((1, 2)) - (diagonal**2).sum(1)) / pairs
    return [part.mean() for part in (R, R * R, M, R * M, variance, trace / PROBES, both, across)]


def drawn(kind, depth):
    """The three ratios in the limit of large widths, and their errors."""
    values, errors = [], []
    for n, most in zip(widths(kind, depth), kind.draws):
        draws = round(most * min(1, 32 / depth))
        rng = np.random.default_rng([SEED, depth, n])
        count = math.ceil(draws // GROUPS * n * depth * (2 + 2 * kind.matrices) / 30_000_000)  # of parts, for memory
        groups = [
            np.mean([one(kind, depth, n, draws // GROUPS // count, rng) for _ in range(count)], 0)
            for _ in range(GROUPS)
        ]
        without = [ratios(np.delete(groups, g, 0).mean(0), n) for g in range(GROUPS)]
        values.append(ratios(np.mean(groups, 0), n))
        errors.append(np.sqrt((GROUPS - 1) * np.var(without, axis=0)))
    at = 1 / np.array(widths(kind, depth), float)
    weights = np.linalg.inv(at[:, None] ** np.arange(3))[0]
    return weights @ np.array(values), np.sqrt(weights**2 @ np.array(errors) ** 2)


def main(names):
    """Draw these networks, or all."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or NETWORKS:
        kind = NETWORKS[name]
        new = {"depths": []} | {ratio: [] for ratio in RATIOS}
        kept[name] = new | kept.get(name, {}) | kind._asdict()
        kept[name] |= {"command": f"tools/draw_depth.py {name!r}", "seed": SEED}
        for depth in (depth for depth in kind.drawn_at if depth not in kept[name]["depths"]):
            start = time.process_time()
            values, errors = drawn(kind, depth)
            kept[name]["depths"].append(depth)
            for ratio, value, error in zip(RATIOS, values, errors):
                kept[name][ratio].append([float(f"{value:.5g}"), float(f"{error:.2g}")])
            FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
            print(name, depth, values.round(3), errors.round(3), f"{time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
