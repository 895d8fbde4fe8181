"""Draws networks made of blocks for one input and keeps what their tensors are, in `tests/width/drawn.json`.

    .venv/bin/python tools/draw_blocks.py "pre-norm, relu" …

Without names all are drawn, which takes hours; a network that is drawn replaces its entry. Nothing here knows a
recursion: of every draw the stage z and its NTK H are propagated by the chain rule, and a tensor is fitted as
a + b/(n - p) + c/(n - p)² over several widths n, where p = 4 if there are norms, whose moments have poles there.
"""

import functools
import itertools
import json
import math
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from neft import Dense, LayerNorm, Network, Residual, RMSNorm
from neft.network import Nonlinearity

FILE = Path(__file__).parents[1] / "tests" / "width" / "drawn.json"
X = np.array([1.0, -0.5, 0.8])
NAMES = ("V", "D", "A", "F", "B", "K1", "Theta1")
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6), (0.1, 1.1, 0.2, 0.9))
]
NORMS = ((24, 96_000), (32, 64_000), (48, 40_000), (72, 20_000))
PLAIN = ((12, 96_000), (16, 64_000), (24, 32_000), (40, 8_000))
FEWER = ((24, 40_000), (32, 24_000), (48, 12_000), (72, 6_000))


def branch(n, act, inner=0.5, norm=None, skip=0.8):
    """A two-matrix block of a stream of width n."""
    before = () if norm is None else (norm,)
    return Residual(*before, Dense(int(inner * n), **HYPER[1]), act, Dense(n, **HYPER[2]), skip=skip)


def two(n, act, norm=None, skip=0.8, blocks=2):
    """A stream of two-matrix blocks and a readout of activations."""
    return [Dense(n, **HYPER[0]), *[branch(n, act, norm=norm, skip=skip)] * blocks, act, Dense(2, **HYPER[3])]


def post(n, act, norm, *, linear=False):
    """Norms after the sums, and a readout of them."""
    block = (branch(n, act), norm)
    end = () if linear else (act,)
    return [Dense(n, **HYPER[0]), *block, *block, *end, Dense(2, **HYPER[3])]


def one(n, act, skip=0.8, blocks=3):
    """A stream of one-matrix blocks and a readout of activations."""
    block = Residual(act, Dense(n, **HYPER[2]), skip=skip)
    return [Dense(n, **HYPER[0]), *[block] * blocks, act, Dense(2, **HYPER[3])]


def mixed(n, act, norm=None):
    """A layer of another width, a one-matrix block, one of two matrices, again one of one, and a readout."""
    single = Residual(act, Dense(n, **HYPER[2]), skip=0.9)
    start = [Dense(2 * n, **HYPER[0]), act, Dense(n, **HYPER[3])]
    return [*start, single, branch(n, act, norm=norm), single, act, Dense(2, **HYPER[3])]


NETWORKS = {
    "one matrix, tanh": (functools.partial(one, act="tanh", skip=1.0), PLAIN),
    "one matrix, gelu": (functools.partial(one, act="gelu", skip=-0.8), PLAIN),
    "one matrix, relu": (functools.partial(one, act="relu", skip=1.0, blocks=2), PLAIN),
    "one matrix, skip 1, gelu": (functools.partial(one, act="gelu", skip=1.0, blocks=2), PLAIN),
    "one and two matrices, gelu": (functools.partial(mixed, act="gelu"), PLAIN),
    "two matrices, tanh": (functools.partial(two, act="tanh"), PLAIN),
    "two matrices, gelu": (functools.partial(two, act="gelu", skip=1.0), PLAIN),
    "pre-norm RMS, gelu": (functools.partial(two, act="gelu", norm=RMSNorm(epsilon=0.0)), NORMS),
    "pre-norm RMS with epsilon and gain, gelu": (
        functools.partial(two, act="gelu", norm=RMSNorm(epsilon=0.5, lambda_gain=0.6)),
        NORMS,
    ),
    "pre-norm layer with epsilon and bias, tanh": (
        functools.partial(two, act="tanh", norm=LayerNorm(epsilon=0.4, lambda_bias=0.5)),
        NORMS,
    ),
    "pre-norm layer, relu": (functools.partial(two, act="relu", norm=LayerNorm(epsilon=0.0), skip=1.0), NORMS),
    "post-norm RMS with epsilon, gelu": (functools.partial(post, act="gelu", norm=RMSNorm(epsilon=0.5)), FEWER),
    "post-norm layer, gelu": (functools.partial(post, act="gelu", norm=LayerNorm(epsilon=0.3)), FEWER),
    "post-norm layer, relu": (functools.partial(post, act="relu", norm=LayerNorm(epsilon=0.0)), FEWER),
    "norm before a linear readout, gelu": (
        lambda n: [
            Dense(n, **HYPER[0]),
            branch(n, "gelu"),
            LayerNorm(epsilon=0.4, lambda_gain=0.7, lambda_bias=0.3),
            Dense(2, **HYPER[3]),
        ],
        FEWER,
    ),
}


def through(block, key, z, H, cross):
    """Preactivations or activations, their NTK, and its cross term with the stream's, after a block of a branch."""
    n = z.shape[0]
    if isinstance(block, Dense):
        key_W, key_b = jax.random.split(key)
        W = jax.random.normal(key_W, (block.width, n), z.dtype) * math.sqrt(block.C_W / n)
        b = jax.random.normal(key_b, (block.width,), z.dtype) * math.sqrt(block.C_b)
        own = block.lambda_b + block.lambda_W * (z @ z) / n
        return W @ z + b, W @ H @ W.T + own * jnp.eye(block.width, dtype=z.dtype), W @ cross
    if isinstance(block, Nonlinearity):
        slope = jax.vmap(jax.grad(block.activation.function))(z)
        return block.activation(z), slope[:, None] * H * slope[None, :], slope[:, None] * cross
    assert isinstance(block, RMSNorm | LayerNorm)
    norm = type(block)(epsilon=block.epsilon)
    slope = jax.jacfwd(lambda z: norm.apply((), z))(z)
    z = norm.apply((), z)
    own = (block.lambda_bias or 0.0) + (block.lambda_gain or 0.0) * z * z
    return z, slope @ H @ slope.T + jnp.diag(own * jnp.ones_like(z)), slope @ cross


def residual(block, key, z, H):
    """The stream and its NTK after a residual block, and numbers of this draw whose means are exactly 0."""
    new, inner, cross, zeros = z, H, H, []
    before, new_H, expected = z, H, (0.0, 0.0)
    for i, (one, after) in enumerate(zip(block.branch, (*block.branch[1:], None))):
        before, new_H = new, inner
        new, inner, cross = through(one, jax.random.fold_in(key, i), new, inner, cross)
        if isinstance(one, Dense) and isinstance(after, Nonlinearity):
            expected = of_next_activations(after.activation, one, before, new_H)
        elif isinstance(one, Nonlinearity) and i > 0:
            square, trace, _, _ = invariants(new, inner)
            zeros += [square - expected[0], trace - expected[1]]
    square, trace, _, _ = invariants(before, new_H)
    last, skip = block.branch[-1], block.skip
    own = invariants(z, H)
    found = skip * z + new, skip**2 * H + skip * (cross + cross.T) + inner
    mean = skip**2 * own[0] + last.C_b + last.C_W * square
    mean_H = skip**2 * own[1] + last.lambda_b + last.lambda_W * square + last.C_W * trace
    noise = new / jnp.sqrt(last.C_b + last.C_W * square)
    square, trace, _, _ = invariants(*found)
    return *found, [*zeros, square - mean, trace - mean_H], noise


def of_polynomials(gaussians, most=4):
    """Means over neurons of products of Hermite polynomials of independent Gaussian numbers: their means are 0."""
    orders = [one for one in itertools.product(range(most + 1), repeat=len(gaussians)) if 0 < sum(one) <= most]
    each = []
    for x in gaussians:
        rows = [jnp.ones_like(x), x]
        for k in range(1, most):
            rows.append((x * rows[k] - math.sqrt(k) * rows[k - 1]) / math.sqrt(k + 1))
        each.append(rows)
    return [functools.reduce(jnp.multiply, (each[i][k] for i, k in enumerate(one))).mean() for one in orders]


def of_next_activations(act, dense, z, H):
    """The means of σ² and of the NTK of σ after a dense block, over its weights, by their definition."""
    n = z.shape[0]
    square, trace, F, _ = invariants(z, H)
    K, own = dense.C_b + dense.C_W * square, dense.lambda_b + dense.lambda_W * square
    if act.name == "relu":
        ss, dd, second = K / 2, 0.5, 0.0
    else:
        x = jnp.linspace(-9, 9, 361, dtype=z.dtype)
        w = jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi) * 0.05
        values, slopes = act(jnp.sqrt(K) * x), jax.vmap(jax.grad(act.function))(jnp.sqrt(K) * x)
        ss, dd, second = w @ values**2, w @ slopes**2, w @ (slopes**2 * (x * x - 1)) / K
    return ss, own * dd + dense.C_W * trace * dd + dense.C_W**2 * F / n * second


def observed(net, key):
    """What one draw says of every stage, (stages, 4), the readout's weights integrated; and numbers with means 0."""
    first, *middle, last = net.blocks
    x = jnp.asarray(X, jnp.float32)
    nothing = jnp.zeros((3, 3), x.dtype)
    z, H, _ = through(first, jax.random.fold_in(key, 0), x, nothing, nothing)
    rows = [invariants(z, H)]
    variance = first.C_b + first.C_W * (x @ x) / 3
    zeros, gaussians = [rows[0][0] - variance], [z / jnp.sqrt(variance)]
    for i, block in enumerate(middle, start=1):
        if isinstance(block, Residual):
            z, H, more, noise = residual(block, jax.random.fold_in(key, i), z, H)
            zeros += more
            gaussians.append(noise)
        else:
            z, H, _ = through(block, jax.random.fold_in(key, i), z, H, H)
        if block.weighs:
            rows.append(invariants(z, H))
    square, trace, F, B = invariants(z, H)
    C, rate = last.C_W, last.lambda_W
    rows.append(jnp.stack([last.C_b + C * square, last.lambda_b + rate * square + C * trace, C**2 * F, C**2 * B]))
    if all(isinstance(block, Residual) and len(block.branch) == 2 for block in middle[:-1]):
        zeros += of_polynomials(gaussians)
    return jnp.stack(rows), jnp.stack(zeros)


def invariants(z, H):
    """|z|²/n, tr H/n, zᵀHz/n and tr H²/n."""
    n = z.shape[0]
    return jnp.stack([z @ z, jnp.trace(H), z @ H @ z, (H * H).sum()]) / n


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def group(make, key, n, draws):
    """Means over draws: of what is observed and the products that covariances need, (stages, 7), and with the zeros."""
    net = Network(3, make(n))

    def one(i):
        rows, zeros = observed(net, jax.random.fold_in(key, i))
        K, T = rows[:, 0] - centre(make)[0], rows[:, 1] - centre(make)[1]
        seen = jnp.concatenate([jnp.stack([K, T], 1), rows[:, 2:], jnp.stack([K * K, K * T, T * T], 1)], 1)
        return seen, zeros, zeros[:, None] * zeros[None, :], zeros[:, None, None] * seen[None, :, :2]

    return jax.tree.map(lambda v: v.mean(0), jax.lax.map(one, jnp.arange(draws), batch_size=256))


@functools.lru_cache
def centre(make):
    """K and Θ at infinite width."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        K, Theta = Network(3, make(8)).infinite_width(X[None])
    return np.asarray(K[:, 0, 0], np.float32), np.asarray(Theta[:, 0, 0], np.float32)


def tensors(means, n, make):
    """The tensors of every stage at width n, in units of the stream's width, from the means."""
    K0, T0 = (one.astype(float) for one in centre(make))
    seen, zeros, products, mixed = means
    dK, dT, F, B, KK, KT, TT = seen.T
    # Control variates: what the mean of numbers whose means are 0 says of the noise of K and Θ.
    weights = np.linalg.lstsq(products, mixed.reshape(len(zeros), -1), rcond=1e-9)[0].reshape(mixed.shape)
    better = seen[:, :2] - np.einsum("z,zst->st", zeros, weights)
    found = {
        "V": n * (KK - dK**2),
        "D": n * (KT - dK * dT),
        "A": n * (TT - dT**2),
        "F": F,
        "B": B,
        "K1": n * better[:, 0],
        "Theta1": n * better[:, 1],
    }
    # Of a stream, without what two Gaussian vectors have in common.
    found["V"][:-1] -= 2 * (K0 + dK)[:-1] ** 2
    found["F"][:-1] -= ((K0 + dK) * (T0 + dT))[:-1]
    found["B"][:-1] -= ((T0 + dT) ** 2)[:-1]
    # In units of the width before each block.
    net = Network(3, make(n))
    units = np.array([width for block, width in zip(net.blocks, net.fans()) if block.weighs], float)
    return {name: value * units / n for name, value in found.items()}


def drawn(make, plan, seed, groups=32):
    """Tensors of infinite width and their errors by name."""
    values, errors = [], []
    for n, draws in plan:
        key = jax.random.fold_in(jax.random.key(seed), n)
        parts = [group(make, jax.random.fold_in(key, g), n, draws // groups) for g in range(groups)]
        parts = [np.stack([np.asarray(one, float) for one in column]) for column in zip(*parts)]
        whole = tensors([part.mean(0) for part in parts], n, make)
        without = [tensors([np.delete(part, g, 0).mean(0) for part in parts], n, make) for g in range(groups)]
        values.append(whole)
        errors.append({k: np.sqrt((groups - 1) * np.stack([one[k] for one in without]).var(0)) for k in whole})
    normed = "Norm" in repr(Network(3, make(8)))
    at = 1 / (np.array([n for n, _ in plan], float) - (4 if normed else 0))
    found = {}
    for name in NAMES:
        v, e = (np.stack([one[name] for one in many]) for many in (values, errors))
        rows = []
        for stage in range(v.shape[1]):
            # What does not differ from draw to draw is known to the rounding of float32, times n.
            e[:, stage] = np.maximum(e[:, stage], 2e-4)
            design = at[:, None] ** np.arange(3) / e[:, stage, None]
            covariance = np.linalg.inv(design.T @ design)
            rows.append(
                [float((covariance @ design.T @ (v[:, stage] / e[:, stage]))[0]), float(covariance[0, 0] ** 0.5)]
            )
        found[name] = rows[1:]
    return found


def main(names):
    """Draw these networks, or all."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or NETWORKS:
        make, plan = NETWORKS[name]
        start = time.process_time()
        found = drawn(make, plan, seed=1)
        kept[name] = {
            "network": Network(3, make(8)).to_dict(),
            "x": X.tolist(),
            "widths and draws": plan,
            "seed": 1,
            "command": f"tools/draw_blocks.py {name!r}",
            "tensors": found,
        }
        print(name, f"{time.process_time() - start:.0f} s", flush=True)
        FILE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
