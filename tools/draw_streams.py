"""Draws networks made of blocks for one or two inputs; keeps all tensors of their outputs, `tests/width/streams.json`.

    .venv/bin/python tools/draw_streams.py "two inputs, one matrix, gelu" …

Without names all are drawn; a network that is drawn replaces its entry. Nothing here knows a recursion. The weights W
of the readout b + Ws(p) are averaged over by hand: with s the last features, a function of all other parameters p, and
probes w, vectors of random signs with the variance of a row of W, every correlator of docs/theory/width, eqs. 13-18, is
a product of derivatives of w·s and s·s in p, which are autodiff's. Means, of which `tools/draw_means.py` makes more
draws, have control variates: numbers of a draw whose means are exactly 0, made of a twin of the network in which every
sum over weights is drawn with its covariance of infinite width. A tensor is fitted as a + b/(n - p) + c/(n - p)² over
several widths n, where p = 4 if there are norms, whose moments have poles there.
"""

import functools
import itertools
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from neft import Dense, LayerNorm, Network, Residual, RMSNorm
from neft.gaussian import pair
from neft.network import Nonlinearity

FILE = Path(__file__).parents[1] / "tests" / "width" / "streams.json"
X = np.array([[1.0, -0.5, 0.8], [0.7, 0.4, 1.2]])
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6), (0.1, 1.1, 0.2, 0.9))
]
SMALL = {"C_b": 0.1, "C_W": 0.6, "lambda_b": 0.1, "lambda_W": 0.2}
ALL = ("P", "Q", "R", "S", "T", "U")
PLAN = ((8, 80_000), (16, 60_000), (40, 30_000))
MORE = ((8, 160_000), (16, 120_000), (40, 60_000))
MOST = ((8, 320_000), (16, 240_000), (40, 120_000))
FEWER = ((8, 40_000), (16, 30_000), (40, 15_000))
NORMED = ((16, 80_000), (28, 60_000), (64, 30_000))


def single(n, act, skip, *norm):
    """One matrix."""
    return Residual(*norm, act, Dense(n, **HYPER[2]), skip=skip)


def double(n, act, skip, *norm, inner=1.5):
    """Two matrices, of another width inside."""
    return Residual(*norm, Dense(round(inner * n), **HYPER[1]), act, Dense(n, **HYPER[2]), skip=skip)


def third(n, act, skip):
    """An activation before each of two matrices."""
    return Residual(act, Dense(2 * n, **HYPER[1]), act, Dense(n, **HYPER[2]), skip=skip)


def network(*middle, start=(), end=None):
    """A stream, before it what `start` gives, after it an activation and a readout."""

    def make(n):
        first = [Dense(2 * n, **HYPER[1]), *start, Dense(n, **HYPER[3])] if start else [Dense(n, **HYPER[0])]
        last = [] if end is None else [end]
        return [*first, *(block(n) for block in middle), *last, Dense(2, **HYPER[3])]

    return make


def of(function, *args, **options):
    """A block that waits for its width."""
    return lambda n: function(n, *args, **options)


# By name: the blocks at width n, how many inputs, whether P to U too, widths and draws.
NETWORKS = {
    "one input, one matrix, gelu": (
        network(of(single, "gelu", 0.8), of(single, "gelu", 1.0), of(single, "gelu", 0.8), end="gelu"),
        1,
        True,
        PLAN,
    ),
    "two inputs, one matrix, tanh": (
        network(of(single, "tanh", 1.0), of(single, "tanh", 1.0), end="tanh"),
        2,
        True,
        PLAN,
    ),
    "two inputs, one matrix, gelu": (
        network(of(single, "gelu", 0.8), of(single, "gelu", 1.0), start=("gelu",), end="gelu"),
        2,
        True,
        PLAN,
    ),
    "two inputs, two matrices, gelu": (
        network(of(double, "gelu", 0.8), of(double, "gelu", 1.0), start=("gelu",), end="gelu"),
        2,
        True,
        PLAN,
    ),
    "two inputs, two matrices, relu": (
        network(of(double, "relu", 1.0), of(double, "relu", 0.8), end="relu"),
        2,
        False,
        PLAN,
    ),
    "two inputs, one matrix, relu": (
        network(of(single, "relu", 1.0), of(single, "relu", 0.8), end="relu"),
        2,
        False,
        PLAN,
    ),
    # Both the first and the second derivative jump.
    "two inputs, one matrix, elu(0.5)": (
        network(of(single, "elu(0.5)", 1.0), of(single, "elu(0.5)", 0.8), end="elu(0.5)"),
        2,
        False,
        PLAN,
    ),
    "two inputs, one and two matrices, softplus": (
        network(of(single, "softplus", 0.8), of(double, "softplus", 0.8, inner=0.5), of(single, "softplus", -0.7)),
        2,
        True,
        MORE,
    ),
    # Of a past that is large: what a block of two matrices carries on of it is up to 15 % of a tensor.
    "one input, one and two matrices, gelu": (
        lambda n: [
            Dense(n, C_b=0.1, C_W=0.3, lambda_b=0.4, lambda_W=0.8),
            *[Residual("gelu", Dense(n, C_b=0.1, C_W=1.5, lambda_b=0.2, lambda_W=0.1))] * 2,
            Residual(Dense(n, **SMALL), "gelu", Dense(n, **SMALL)),
            "gelu",
            Dense(2, **HYPER[3]),
        ],
        1,
        True,
        MOST,
    ),
    "one input, activations before both matrices, gelu": (
        network(of(third, "gelu", 0.8), of(third, "gelu", 1.0), end="gelu"),
        1,
        True,
        FEWER,
    ),
    "one input, three matrices, gelu": (
        lambda n: [
            Dense(n, **HYPER[0]),
            Residual(Dense(2 * n, **HYPER[1]), "gelu", Dense(n, **HYPER[3]), "gelu", Dense(n, **HYPER[2]), skip=0.8),
            double(n, "gelu", 0.8),
            "gelu",
            Dense(2, **HYPER[3]),
        ],
        1,
        True,
        FEWER,
    ),
    "one input, one matrix behind an RMS norm, gelu": (
        lambda n: [
            Dense(n, **HYPER[0]),
            *(single(n, "gelu", skip, RMSNorm(epsilon=0.1)) for skip in (0.8, 1.0, 0.8)),
            RMSNorm(epsilon=0.3),
            "gelu",
            Dense(2, **HYPER[3]),
        ],
        1,
        False,
        NORMED,
    ),
    "one input, one matrix behind a layer norm, gelu": (
        lambda n: [
            Dense(n, **HYPER[0]),
            *(single(n, "gelu", skip, LayerNorm(epsilon=0.2)) for skip in (1.0, 0.8)),
            single(n, "gelu", 0.8),
            LayerNorm(epsilon=0.3),
            "gelu",
            Dense(2, **HYPER[3]),
        ],
        1,
        False,
        NORMED,
    ),
    "one input, post-norm RMS, gelu": (
        lambda n: [
            Dense(n, **HYPER[0]),
            double(n, "gelu", 0.8, RMSNorm(epsilon=0.1)),
            double(n, "gelu", 1.0),
            RMSNorm(epsilon=0.3),
            Dense(2, **HYPER[3]),
        ],
        1,
        False,
        NORMED,
    ),
}


def root(k):
    """The Cholesky factor of the covariance of one or two inputs, entry by entry."""
    library = jnp if isinstance(k, jax.Array) else np
    one = library.sqrt(k[0, 0])
    if len(k) == 1:
        return [[one]]
    below = k[1, 0] / one
    return [[one], [below, library.sqrt(library.maximum(k[1, 1] - below * below, 1e-12))]]


def white(L, y):
    """L⁻¹y."""
    first = y[0] / L[0][0]
    return jnp.stack([first] if len(L) == 1 else [first, (y[1] - L[1][0] * first) / L[1][1]])


def coloured(L, g):
    """Lg."""
    return jnp.stack([L[0][0] * g[0]] if len(L) == 1 else [L[0][0] * g[0], L[1][0] * g[0] + L[1][1] * g[1]])


class Known:
    """What the twin is made of at infinite width: the covariance of each sum, averages at each activation."""

    def __init__(self, net, x):
        self.sums, self.averages, self.stages = [], [], []
        K = x @ x.T / x.shape[1]
        for block in net.blocks[:-1]:
            K = self.after(block, K)

    def after(self, block, K):
        """The covariance of the twin after a block."""
        if isinstance(block, Dense):
            self.sums.append(block.C_b + block.C_W * K)
            return self.sums[-1]
        if isinstance(block, Nonlinearity):
            own = np.diagonal(K)
            rho = np.clip(K / np.sqrt(np.outer(own, own)), -1, 1)
            both = [np.asarray(pair(block.activation, own[:, None], own[None, :], rho, order=o)) for o in (0, 1)]
            self.averages.append(both)
            return both[0]
        if isinstance(block, Residual):
            inside = K
            for one in block.branch:
                inside = self.after(one, inside)
            self.stages.append(block.skip**2 * K + inside)
            return self.stages[-1]
        own = np.sqrt(np.diagonal(K) + block.epsilon)
        return K / np.outer(own, own)


class Twin:
    """A walk through a network and its twin, which collects what is 0 on average."""

    def __init__(self, known):
        self.wanted, self.averages, self.stages = iter(known.sums), iter(known.averages), iter(known.stages)
        self.zeros = []

    def see(self, y, wanted):
        """The mean over neurons of products of two inputs, without its mean over draws."""
        for a in range(len(y)):
            for b in range(a + 1):
                self.zeros.append((y[a] * y[b]).mean() - wanted[a, b].astype(np.float32))

    def along(self, blocks, params, z, twin, K):
        """The same after all of these blocks, of which some have parameters."""
        left = itertools.repeat(None) if params is None else iter(params)
        for block in blocks:
            own = next(left) if isinstance(block, Dense | Residual) else ()
            z, twin, K = self.after(block, own, z, twin, K)
        return z, twin, K

    def sums(self, block, params, z, covariance):
        """Sums over weights, and the independent Gaussian numbers that they are made of."""
        y = block.apply(params, z)
        return y, white(root(covariance), y)

    def after(self, block, params, z, twin, K):
        """The stage and its twin, of covariance K, after a block."""
        if isinstance(block, Dense):
            wanted = next(self.wanted)
            y, g = self.sums(block, params, z, block.C_b + block.C_W * (z @ z.T) / z.shape[1])
            twin = coloured(root(wanted.astype(np.float32)), g)
            self.see(twin, wanted)
            return y, twin, wanted
        if isinstance(block, Nonlinearity):
            act, (square, slope) = block.activation, next(self.averages)
            found = act(twin)
            self.see(found, square)
            self.see(jax.vmap(jax.vmap(jax.grad(act.function)))(twin), slope)
            return block.apply((), z), found, square
        if isinstance(block, Residual):
            y, inner, _ = self.along(block.branch, None if params is None else params.branch, z, twin, K)
            z, twin = block.skip * z + y, block.skip * twin + inner
            K = next(self.stages)
            self.see(twin, K)
            return z, twin, K
        scale = 1 / np.sqrt(np.diagonal(K) + block.epsilon)
        return block.apply(params, z), twin * scale[:, None].astype(np.float32), K * np.outer(scale, scale)


def observed(net, known, x, key, second):
    """What one draw says of the outputs, with means that are tensors, and numbers whose means are 0."""
    last, n, N = net.blocks[-1], net.fans()[-2], len(x)
    C, rate = last.C_W, last.lambda_W
    params = net.init(key, dtype=jnp.float32)[:-1]
    p, tree = ravel_pytree(params)
    rates = ravel_pytree(jax.tree.map(lambda r, leaf: jnp.full_like(leaf, r), net.rates()[:-1], params))[0]
    walk, below = Twin(known), Network(3, net.blocks[:-1])
    walk.along(below.blocks, params, x, x, None)

    def features(p):
        return below.apply(tree(p), x)

    s = features(p)
    signs = jax.random.rademacher(jax.random.fold_in(key, 1), (2, n), jnp.float32)
    w = signs * np.float32(np.sqrt(C / n))
    heads = jnp.concatenate([w, s])  # two probes and the features themselves, as constants

    def gradients(p):
        # Of every head at every input: (heads, N, parameters).
        _, back = jax.vjp(features, p)
        each = jnp.einsum("hn,ab->habn", heads, jnp.eye(N, dtype=s.dtype))
        return jax.vmap(jax.vmap(lambda one: back(one)[0]))(each)

    grads = gradients(p)
    scaled = grads * rates
    H = jnp.einsum("hap,gbp->hagb", grads, scaled)
    square = s @ s.T / n
    own = [last.lambda_b + rate * square + H[i, :, i, :] for i in (0, 1)]
    found = {
        "K": last.C_b + C * square,
        "H1": own[0],
        "H2": own[1],
        "F": C**2 / n * jnp.einsum("acbd->acbd", H[2:, :, 2:, :]),
        "B": n * jnp.einsum("ab,cd->acbd", H[0, :, 1, :], H[0, :, 1, :]),
    }
    if not second:
        return found, jnp.stack(walk.zeros)
    v = scaled[:2]
    bent = jax.vmap(jax.vmap(lambda one: jax.jvp(lambda q: gradients(q)[:2], (p,), (one,))[1]))(v)
    bent = jnp.einsum("jbiap->ijabp", bent)  # D²(w_i·s(a)) v_j(b)

    def along(q, *directions):
        # The derivative of the features along each of these.
        if not directions:
            return features(q)
        return jax.jvp(lambda r: along(r, *directions[1:]), (q,), directions[:1])[1]

    once = jax.vmap(jax.vmap(lambda one: along(p, one)))(v)  # (j, b, a, n)
    pairs = jax.vmap(lambda u: jax.vmap(lambda b: jax.vmap(lambda c: along(p, b, c))(u))(u))(v)  # (j, b, c, a, n)
    thrice = jax.vmap(  # along v_i(b), v_j(c), v_j(d): (b, c, d, a, n)
        lambda b: jax.vmap(lambda c: jax.vmap(lambda d: along(p, b, c, d))(v[1]))(v[1])
    )(v[0])
    P = jnp.einsum("dn,jbcan->abcd", s, pairs) / 2
    FF = H[2:, :, 2:, :]  # [b, a, d, c] = ⟨∇(s_b·s(a)), λ∇(s_d·s(c))⟩
    flat = rate / n * jnp.einsum("cap->acp", grads[2:])
    q = [flat + bent[i, i] for i in (0, 1)]
    X12, X21 = bent[0, 1], bent[1, 0]
    Q = jnp.einsum("iabp,dcp->abcd", jnp.stack([bent[0, 0], bent[1, 1]]), scaled[2:]) / 2
    found |= {
        "P": C * P,
        "Q": C * (rate / n * jnp.einsum("badc->abcd", FF) + Q),
        "R": rate * jnp.einsum("acdb->abcd", P) + n * jnp.einsum("n,bcdan->abcd", w[0], thrice),
        "S": rate * jnp.einsum("can,dbn->abcd", once[1], once[1]) + n * jnp.einsum("acp,bdp->abcd", X12, X12 * rates),
        "T": n * jnp.einsum("acp,bdp->acbd", q[0], q[1] * rates),
        "U": n * jnp.einsum("acp,bdp->adbc", X12, X21 * rates),
    }
    return found, jnp.stack(walk.zeros)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def group(name, key, x, n, draws):
    """Means over draws of what is observed, of the products that covariances need, and of products with zeros."""
    make, _, second, _ = NETWORKS[name]
    net, known, centre = Network(3, make(n)), *context(name)
    K0, T0 = (one.astype(np.float32) for one in centre)

    def one(i):
        found, zeros = observed(net, known, x, jax.random.fold_in(key, i), second)
        dK, d1, d2 = found.pop("K") - K0, found.pop("H1") - T0, found.pop("H2") - T0
        means = {"K1": dK, "Theta1": (d1 + d2) / 2} | found
        flat = jnp.concatenate([value.ravel() for value in means.values()])
        products = [jnp.einsum("ab,cd->abcd", *two) for two in ((dK, dK), (dK, (d1 + d2) / 2))]
        both = jnp.einsum("ab,cd->abcd", d1, d2)
        products.append((both + both.transpose(2, 3, 0, 1)) / 2)
        return flat, jnp.stack(products), zeros, zeros[:, None] * zeros[None], zeros[:, None] * flat[None]

    return jax.tree.map(lambda v: v.mean(0), jax.lax.map(one, jnp.arange(draws), batch_size=64))


@functools.lru_cache
def context(name):
    """The twin at infinite width, and K and Θ of the outputs."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        make, N, _, _ = NETWORKS[name]
        net = Network(3, make(8))
        K, Theta = net.infinite_width(X[:N])
        return Known(net, X[:N]), (np.asarray(K[-1]), np.asarray(Theta[-1]))


def without_zeros(flat, zeros, squares, mixed):
    """The means without what the zeros explain of them."""
    mixed = mixed - zeros[:, None] * flat
    return flat - zeros @ np.linalg.lstsq(squares, mixed, rcond=1e-6)[0]


def tensors(parts, n, name):
    """The tensors at width n from the means."""
    _, N, second, _ = NETWORKS[name]
    flat, products, *known = parts
    better = without_zeros(flat, *known)
    found, at = {}, 0
    for one in ("K1", "Theta1", "F", "B", *(ALL if second else ())):
        size = N**2 if one in ("K1", "Theta1") else N**4
        shape = (N,) * (2 if size == N**2 else 4)
        found[one] = better[at : at + size].reshape(shape)
        at += size
    dK, dT = (flat[i * N**2 : (i + 1) * N**2].reshape(N, N) for i in (0, 1))
    for one, value, (a, b) in zip("VDA", products, ((dK, dK), (dK, dT), (dT, dT))):
        found[one] = n * (value - a[:, :, None, None] * b)
    return found | {"K1": n * found["K1"], "Theta1": n * found["Theta1"]}


def drawn(name, seed, groups=20):
    """Tensors of infinite width and their errors by name."""
    _, N, _, plan = NETWORKS[name]
    values, errors = [], []
    for n, draws in plan:
        key = jax.random.fold_in(jax.random.key(seed), n)
        x = jnp.asarray(X[:N], jnp.float32)
        found = [group(name, jax.random.fold_in(key, g), x, n, draws // groups) for g in range(groups)]
        found = [np.stack([np.asarray(one, float) for one in column]) for column in zip(*found)]
        whole = tensors([part.mean(0) for part in found], n, name)
        without = [tensors([np.delete(part, g, 0).mean(0) for part in found], n, name) for g in range(groups)]
        values.append(whole)
        errors.append({k: np.sqrt((groups - 1) * np.stack([one[k] for one in without]).var(0)) for k in whole})
    return fitted(name, values, errors)


def fitted(name, values, errors):
    """The limits of tensors by name from those at the widths of the plan, and their errors."""
    plan = NETWORKS[name][3]
    at = 1 / (np.array([n for n, _ in plan], float) - (4 if "norm" in name else 0))
    found = {}
    for one in values[0]:
        v, e = (np.stack([row[one] for row in many]) for many in (values, errors))
        e = np.maximum(e, 2e-5)
        design = at[:, None] ** np.arange(3) / e.reshape(len(plan), -1).T[:, :, None]
        covariance = np.linalg.inv(np.swapaxes(design, 1, 2) @ design)
        limit = np.einsum("ep,efp,fe->e", covariance[:, 0], design, (v / e).reshape(len(plan), -1))
        found[one] = [limit.reshape(v.shape[1:]).tolist(), np.sqrt(covariance[:, 0, 0]).reshape(v.shape[1:]).tolist()]
    return found


def main(names):
    """Draw these networks, or all."""
    for name in names or NETWORKS:
        make, N, _, plan = NETWORKS[name]
        start, seed = time.process_time(), 1
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        kept[name] = kept.get(name, {}) | {
            "network": Network(3, make(8)).to_dict(),
            "x": X[:N].tolist(),
            "widths and draws": plan,
            "seed": seed,
            "command": f"tools/draw_streams.py {name!r}",
            "tensors": drawn(name, seed),
        }
        print(name, f"{time.process_time() - start:.0f} s", flush=True)
        FILE.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
