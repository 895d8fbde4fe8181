"""Kernels of small networks on positions, by loops over all pairs of positions, from the definitions alone."""

import math

import numpy as np


def relu(K1, K2, c):
    rho = np.clip(c / np.sqrt(K1 * K2), -1, 1) if K1 * K2 > 0 else 0.0
    theta = np.arccos(rho)
    return math.sqrt(K1 * K2) * (math.sin(theta) + (math.pi - theta) * rho) / (2 * math.pi), (math.pi - theta) / (
        2 * math.pi
    )


def erf(K1, K2, c):
    below = (1 + 2 * K1) * (1 + 2 * K2)
    return 2 / math.pi * math.asin(2 * c / math.sqrt(below)), 4 / math.pi / math.sqrt(below - 4 * c * c)


def silu(K1, K2, c):
    """By the trapezoid rule in two dimensions."""
    a1, a2 = math.sqrt(K1), math.sqrt(K2)
    rho = min(max(c / (a1 * a2), -1), 1) if a1 * a2 > 0 else 0.0
    z1, z2 = a1 * NODES[:, None], a2 * (rho * NODES[:, None] + math.sqrt(1 - rho**2) * NODES[None, :])
    s1, s2 = (1 / (1 + np.exp(-z)) for z in (z1, z2))
    value, slope = z1 * s1 * z2 * s2, s1 * (1 + z1 * (1 - s1)) * s2 * (1 + z2 * (1 - s2))
    return WEIGHTS @ value @ WEIGHTS, WEIGHTS @ slope @ WEIGHTS


NODES = np.linspace(-8, 8, 101)
WEIGHTS = np.exp(-(NODES**2) / 2) * (NODES[1] - NODES[0]) / math.sqrt(2 * math.pi)
ACTIVATIONS = {"relu": relu, "erf": erf, "silu": silu}


class Pairs:
    """Covariances S[p, q] and tangent kernels T[p, q] of two inputs at all pairs of positions."""

    def __init__(self, positions, S11, S22, S12, T12):
        self.positions, self.S11, self.S22, self.S12, self.T12 = positions, S11, S22, S12, T12


def start(x1, x2):
    """Of two images (H, W, C)."""
    positions = list(np.ndindex(x1.shape[:-1]))
    a, b = (np.array([x[p] for p in positions]) for x in (x1, x2))
    n = x1.shape[-1]
    return Pairs(positions, a @ a.T / n, b @ b.T / n, a @ b.T / n, np.zeros((len(a), len(b))))


def activated(pairs, name):
    """The averages at every pair of positions."""
    f = ACTIVATIONS[name]
    n = len(pairs.positions)

    def all_pairs(left, right, both):
        found = [[f(left[p, p], right[q, q], both[p, q]) for q in range(n)] for p in range(n)]
        return np.array(found).reshape(n, n, 2)

    S11, S22 = (all_pairs(S, S, S)[:, :, 0] for S in (pairs.S11, pairs.S22))
    both = all_pairs(pairs.S11, pairs.S22, pairs.S12)
    return Pairs(pairs.positions, S11, S22, both[:, :, 0], both[:, :, 1] * pairs.T12)


def places(shape, size, strides, padding):
    """The new positions, and for each the old positions in its window; None for those outside."""
    axes = []
    for n, k, s in zip(shape, size, strides):
        count = (n - k) // s + 1 if padding == "VALID" else math.ceil(n / s)
        low = 0 if padding == "VALID" else max((count - 1) * s + k - n, 0) // 2
        axes.append([[i * s + q - low for q in range(k)] for i in range(count)])
    windows = {}
    for new in np.ndindex(*map(len, axes)):
        windows[new] = []
        for offset in np.ndindex(*size):
            old = tuple(axis[i][q] for axis, i, q in zip(axes, new, offset))
            if padding == "CIRCULAR":
                old = tuple(i % n for i, n in zip(old, shape))
            windows[new].append(old if all(0 <= i < n for i, n in zip(old, shape)) else None)
    return windows


def convolved(pairs, size, strides, padding, C_b, C_W, lambda_b, lambda_W):
    """K'(p, q) = C_b + C_W/|window| Σ K(p + d, q + d), term by term."""
    shape = tuple(max(p[i] for p in pairs.positions) + 1 for i in range(len(size)))
    windows, index = places(shape, size, strides, padding), {p: i for i, p in enumerate(pairs.positions)}
    new = list(windows)

    def summed(S, p, q):
        both = zip(windows[p], windows[q])
        return sum(S[index[a], index[b]] for a, b in both if a is not None and b is not None) / math.prod(size)

    def of(S):
        return np.array([[summed(S, p, q) for q in new] for p in new])

    T12 = lambda_b + lambda_W * of(pairs.S12) + C_W * of(pairs.T12)
    return Pairs(new, *(C_b + C_W * of(S) for S in (pairs.S11, pairs.S22, pairs.S12)), T12)


def pooled(pairs, size, strides):
    """Means over all pairs of positions of two windows."""
    shape = tuple(max(p[i] for p in pairs.positions) + 1 for i in range(len(size)))
    windows, index = places(shape, size, strides, "VALID"), {p: i for i, p in enumerate(pairs.positions)}
    new = list(windows)

    def of(S):
        return np.array(
            [[np.mean([S[index[a], index[b]] for a in windows[p] for b in windows[q]]) for q in new] for p in new]
        )

    return Pairs(new, *map(of, (pairs.S11, pairs.S22, pairs.S12, pairs.T12)))


def attended(pairs, block):
    """Attention from its definition: weights of each input by itself, or the covariance of random logits."""
    hyper = ("C_b", "C_W", "C_V", "C_K", "lambda_b", "lambda_W", "lambda_V", "lambda_K")
    C_b, C_W, C_V, C_K, lambda_b, lambda_W, lambda_V, lambda_K = (block[name] for name in hyper)
    R = np.array([[encoded(block, p, q) for q in pairs.positions] for p in pairs.positions])

    def of(S, left, right, T=None):
        """K' of ⟨ss⟩ = S, and Θ' where T is given; left and right are S of the two inputs by themselves."""
        values = S + R if block["encode_values"] else S
        if block["tied"]:
            A, B = (weights(block, C_K * (own + R)) for own in (left, right))
            X, more = A @ values @ B.T, 0.0
            before = None if T is None else A @ T @ B.T
        else:
            n = len(S)
            G = np.einsum("pr,qs->pqrs", S + R, S + R)  # of logits (p, q) of one input and (r, s) of the other
            X = C_K**2 * np.einsum("pqrs,qs->pr", G, values)
            more = 2 * C_W * C_V * lambda_K / C_K * X
            if T is not None:
                through = np.einsum("pr,qs->pqrs", T, S + R) + np.einsum("pr,qs->pqrs", S + R, T)
                before = C_K**2 * (np.einsum("pqrs,qs->pr", G, T) + np.einsum("pqrs,qs->pr", through, values))
            assert G.shape == (n, n, n, n)
        K = C_b + C_W * C_V * X
        if T is None:
            return K
        return K, lambda_b + (lambda_W * C_V + C_W * lambda_V) * X + more + C_W * C_V * before

    S11, S22 = (of(S, S, S) for S in (pairs.S11, pairs.S22))
    return Pairs(pairs.positions, S11, S22, *of(pairs.S12, pairs.S11, pairs.S22, pairs.T12))


def weights(block, logits):
    """The softmax of each row, or the logits."""
    if block["weights"] == "linear":
        return logits
    powers = np.exp(logits)
    return powers / powers.sum(1)[:, None]


def encoded(block, p, q):
    """The covariance of encodings, C_e times that of waves of random frequency, which is averaged over here."""
    if block["encoding"] is None:
        return 0.0
    apart = np.subtract(p, q)
    if block["encoding"] == "gaussian":
        return block["C_e"] * math.exp(-(apart @ apart) / (2 * block["length"] ** 2))
    u = (np.arange(20_000) + 0.5) / 20_000
    return block["C_e"] * float(np.mean([np.cos(step * 1e-4**u).mean() for step in apart]))


def flattened(pairs):
    """Means over equal positions."""
    return Pairs([()], *(np.array([[np.trace(S) / len(S)]]) for S in (pairs.S11, pairs.S22, pairs.S12, pairs.T12)))


def globally(pairs):
    """Means over all pairs of positions."""
    return Pairs([()], *(np.array([[S.mean()]]) for S in (pairs.S11, pairs.S22, pairs.S12, pairs.T12)))


def through(record, pairs):
    """The blocks of `Network.to_dict()["blocks"]`, one after the other."""
    for block in record:
        kind = block if isinstance(block, str) else block["type"]
        if isinstance(block, str):
            pairs = activated(pairs, block)
        elif kind in ("Conv", "Dense"):
            n = len(pairs.positions[0])
            where = (
                (block["shape"], block["strides"], block["padding"]) if kind == "Conv" else ([1] * n, [1] * n, "SAME")
            )
            hyper = [block[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W")]
            if n:
                pairs = convolved(pairs, *where, *hyper)
            else:
                C_b, C_W, lambda_b, lambda_W = hyper
                T = lambda_b + lambda_W * pairs.S12 + C_W * pairs.T12
                pairs = Pairs([()], *(C_b + C_W * S for S in (pairs.S11, pairs.S22, pairs.S12)), T)
        elif kind == "Attention":
            pairs = attended(pairs, block)
        elif kind == "AvgPool":
            pairs = pooled(pairs, block["shape"], block["strides"])
        elif kind == "Flatten":
            pairs = flattened(pairs)
        elif kind == "GlobalAvgPool":
            pairs = globally(pairs)
        elif kind == "Residual":
            branch, skip = through(block["branch"], pairs), block["skip"]
            if isinstance(skip, dict):
                along = through([skip], pairs)
            else:
                parts = (pairs.S11, pairs.S22, pairs.S12, pairs.T12)
                along = Pairs(pairs.positions, *(skip**2 * S for S in parts))
            pairs = Pairs(
                branch.positions,
                *(getattr(branch, n) + getattr(along, n) for n in ("S11", "S22", "S12", "T12")),
            )
        else:
            assert kind == "RMSNorm"
            roots = [np.sqrt(np.diag(S) + block["epsilon"]) for S in (pairs.S11, pairs.S22)]
            left, right = roots
            pairs = Pairs(
                pairs.positions,
                pairs.S11 / np.outer(left, left),
                pairs.S22 / np.outer(right, right),
                *(S / np.outer(left, right) for S in (pairs.S12, pairs.T12)),
            )
    return pairs


def kernel(net, x1, x2):
    """K and Θ of two lists of images."""
    blocks = net.to_dict()["blocks"]
    found = [[through(blocks, start(a, b)) for b in x2] for a in x1]
    return tuple(np.array([[getattr(one, n)[0, 0] for one in row] for row in found]) for n in ("S12", "T12"))
