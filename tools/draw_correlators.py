"""Correlators of a small network, from explicit derivatives of many draws: `tests/ensemble/correlators.json`.

    .venv/bin/python tools/draw_correlators.py

Two minutes. Nothing here knows an estimator: derivatives in all parameters by autodiff, products of outputs, tangent
kernels and their differentials, and averages of those over draws (docs/theory/width, eqs. 13-18).
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from neft import MLP

FILE = Path(__file__).parents[1] / "tests" / "ensemble" / "correlators.json"
NET = MLP((2, 2, 3, 2), "sin", C_b=0.2, C_W=1.6, lambda_b=(0.5, 0.4, 0.6), lambda_W=(0.7, 0.8, 1.2))
X = np.array([[0.9, -1.0], [0.8, 0.7]])
DRAWS, BLOCK, SEED = 40_000, 1000, 1


def _derivatives(key):
    vector, back = ravel_pytree(NET.init(key))
    trees = (jax.tree.map(lambda r, v: jnp.full_like(v, r), r, v) for r, v in zip(NET.rates(), back(vector)))
    rate = ravel_pytree(tuple(trees))[0]

    def outputs(v):
        return NET.apply(back(v), jnp.asarray(X)).T  # (neuron, sample)

    J, second = jax.jacfwd(outputs)(vector), jax.jacfwd(jax.jacfwd(outputs))(vector)
    v = rate[None, None, :] * J
    along = jnp.einsum("iaxy,jby->iajbx", second, v)

    def third(direction):  # D³z_i(a)[v, v', ·] contracted, by one more derivative
        bent = jax.jvp(lambda w: jax.jacfwd(jax.jacfwd(outputs))(w), (vector,), (direction,))[1]
        return jnp.einsum("iaxy,kcx,ldy->iakcld", bent, v, v)

    ddI = jax.vmap(jax.vmap(third))(v)  # (j, b, i, a, k, c, l, d)
    return {
        "z": outputs(vector),
        "H": jnp.einsum("iax,jbx->iajb", J, v),
        "dH": jnp.einsum("iajbx,kcx->iajbkc", along, v),
        "ddI": jnp.moveaxis(ddI, (0, 1), (2, 3)),
        "ddII": jnp.einsum("iakcx,x,jbldx->iajbkcld", along, rate, along),
    }


def _correlators(d, i, j):
    """Per draw and for neurons i ≠ j: what averages to each tensor over n, axes in the order of docs/theory/width."""
    z, H, dH, ddI, ddII = (d[name] for name in ("z", "H", "dH", "ddI", "ddII"))
    zi, zj, Hij = z[i], z[j], H[i, :, j]
    return {
        "F": jnp.einsum("a,c,bd->abcd", zi, zj, Hij),
        "B": jnp.einsum("ac,bd->abcd", Hij, Hij),
        "P": jnp.einsum("abc,d->abcd", dH[i, :, j, :, j], zi),
        "Q": jnp.einsum("abc,d->abcd", dH[i, :, i, :, j], zj),
        "R": ddI[i, :, i, :, j, :, j],
        "S": ddII[i, :, i, :, j, :, j],
        "T": jnp.einsum("acbd->abcd", ddII[i, :, j, :, i, :, j]),
        "U": jnp.einsum("acdb->abcd", ddII[i, :, j, :, j, :, i]),
        "zz": jnp.einsum("a,b->ab", zi, zi),
        "H": H[i, :, i],
        "zzzz": jnp.einsum("a,b,c,d->abcd", zi, zi, zj, zj),
        "zzH": jnp.einsum("a,b,cd->abcd", zi, zi, H[j, :, j]),
        "HH": jnp.einsum("ab,cd->abcd", H[i, :, i], H[j, :, j]),
    }


def drawn() -> dict[str, np.ndarray]:
    """Means of blocks of draws, by name."""
    with jax.enable_x64(True):

        @jax.jit
        def block(keys):
            def both(key):
                d = _derivatives(key)
                return jax.tree.map(lambda a, b: (a + b) / 2, _correlators(d, 0, 1), _correlators(d, 1, 0))

            return jax.tree.map(lambda v: v.mean(0), jax.vmap(both)(keys))

        keys = jax.random.split(jax.random.key(SEED), (DRAWS // BLOCK, BLOCK))
        blocks = [jax.tree.map(np.asarray, block(part)) for part in keys]
    return {name: np.stack([b[name] for b in blocks]) for name in blocks[0]}


def main() -> None:
    """Draw, and keep the mean and the standard error of every tensor."""
    n, means = NET.widths[-2], drawn()
    # Products of means are taken from all blocks, which adds little to the spread of one.
    whole = {"zz": means["zz"].mean(0), "H": means["H"].mean(0)}
    linear = {"V": ("zz", "zz", "zzzz"), "D": ("zz", "H", "zzH"), "A": ("H", "H", "HH")}
    for name, (first, second, product) in linear.items():
        a, b = whole[first], whole[second]
        moved = np.einsum("kab,cd->kabcd", means[first] - a, b) + np.einsum("ab,kcd->kabcd", a, means[second] - b)
        means[name] = means[product] - np.einsum("ab,cd->abcd", a, b) - moved
    kept = {}
    for name, pair in (("K", "zz"), ("Theta", "H"), *((name, name) for name in "VABDFPQRSTU")):
        values = means[pair] * (1 if pair in ("zz", "H") else n)
        stderr = values.std(0, ddof=1) / np.sqrt(len(values))
        kept[name] = {"mean": values.mean(0).tolist(), "stderr": stderr.tolist()}
    made = {"command": "python tools/draw_correlators.py", "draws": DRAWS, "seed": SEED}
    FILE.write_text(json.dumps({"made": made, "tensors": kept}) + "\n")


if __name__ == "__main__":
    main()
