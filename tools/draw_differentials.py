"""Draws streams for one input and keeps P to U of their last stage, in `tests/width/drawn_differentials.json`.

    .venv/bin/python tools/draw_differentials.py "one matrix, gelu" …

Without names all are drawn. Derivatives of a draw are autodiff's, of the whole network in all its parameters,
contracted by the definitions of docs/theory/width, eqs. 5-8 and 16-18; a tensor is fitted as a + b/n + c/n² over
several widths n.
"""

import functools
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from neft import Dense, Network, Residual

FILE = Path(__file__).parents[1] / "tests" / "width" / "drawn_differentials.json"
X = np.array([1.0, -0.5, 0.8])
NAMES = ("P", "Q", "R", "S", "T", "U")
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6))
]
PLAN = ((8, 24_000), (12, 12_000), (20, 4_000))


def single(n, skip):
    """One matrix."""
    return Residual("gelu", Dense(n, **HYPER[2]), skip=skip)


def double(n, skip):
    """Two matrices, the inner width that of the stream."""
    return Residual(Dense(n, **HYPER[1]), "gelu", Dense(n, **HYPER[2]), skip=skip)


NETWORKS = {
    "one block of two matrices, gelu": lambda n: [Dense(n, **HYPER[0]), double(n, 0.8)],
    "two matrices, gelu": lambda n: [Dense(n, **HYPER[0]), double(n, 0.8), double(n, 0.8)],
    "one matrix, gelu": lambda n: [Dense(n, **HYPER[0]), single(n, 0.8), single(n, 0.8), single(n, 0.8)],
    "one and two matrices, gelu": lambda n: [Dense(n, **HYPER[0]), single(n, -0.9), double(n, 0.8), single(n, 0.9)],
}


def observed(net, key):
    """Means over pairs of different neurons i, j of what P, Q, R, S, T and U are n times the means of."""
    x, params = jnp.asarray(X, jnp.float32), net.init(key, dtype=jnp.float32)
    p, tree = ravel_pytree(params)
    rates = ravel_pytree(jax.tree.map(lambda rate, leaf: jnp.full_like(leaf, rate), net.rates(), params))[0]

    def f(p):
        return net.apply(tree(p), x)

    z, n = f(p), net.outputs
    v = jax.jacrev(f)(p) * rates[None, :]
    # D²z_i v_k, axes k, i.
    second = jax.vmap(lambda direction: jax.jvp(jax.jacrev(f), (p,), (direction,))[1])(v)
    dH = jnp.einsum("kip,jp->ijk", second, v)

    def twice(p, direction):
        return jax.jvp(lambda q: jax.jvp(f, (q,), (direction,))[1], (p,), (direction,))[1]

    third = jax.vmap(lambda direction: jax.jacrev(twice)(p, direction))(v)
    # Of ddII_ijkl = ⟨D²z_i v_k, λ D²z_j v_l⟩ those with pairs of equal neurons.
    scaled = second * rates[None, None, :]
    own = jnp.einsum("iip->ip", second)
    found = [
        jnp.einsum("ijj,i->ij", dH, z),
        jnp.einsum("iij,j->ij", dH, z),
        jnp.einsum("jip,ip->ij", third, v),
        jnp.einsum("kip,kip->ik", second, scaled),
        jnp.einsum("ip,jp->ij", own, own * rates[None, :]),
        jnp.einsum("jip,ijp->ij", second, scaled),
    ]
    apart = 1 - jnp.eye(n, dtype=z.dtype)
    return jnp.stack([(one * apart).sum() for one in found]) / (n - 1)


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def group(make, key, n, draws):
    """Means over draws."""
    net = Network(3, make(n))
    return jax.lax.map(lambda i: observed(net, jax.random.fold_in(key, i)), jnp.arange(draws), batch_size=64).mean(0)


def drawn(make, plan, seed, groups=16):
    """Tensors of infinite width and their errors by name."""
    values, errors = [], []
    for n, draws in plan:
        key = jax.random.fold_in(jax.random.key(seed), n)
        parts = np.stack([group(make, jax.random.fold_in(key, g), n, draws // groups) for g in range(groups)])
        values.append(parts.mean(0))
        errors.append(parts.std(0, ddof=1) / np.sqrt(groups))
    at, v, e = 1 / np.array([n for n, _ in plan], float), np.stack(values), np.stack(errors)
    found = {}
    for i, name in enumerate(NAMES):
        design = at[:, None] ** np.arange(3) / e[:, i, None]
        covariance = np.linalg.inv(design.T @ design)
        found[name] = [float((covariance @ design.T @ (v[:, i] / e[:, i]))[0]), float(covariance[0, 0] ** 0.5)]
    return found


def main(names):
    """Draw these networks, or all."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or NETWORKS:
        make, start = NETWORKS[name], time.process_time()
        kept[name] = {
            "network": Network(3, make(8)).to_dict(),
            "x": X.tolist(),
            "widths and draws": PLAN,
            "seed": 1,
            "command": f"tools/draw_differentials.py {name!r}",
            "tensors": drawn(make, PLAN, seed=1),
        }
        print(name, f"{time.process_time() - start:.0f} s", flush=True)
        FILE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
