"""Draws P and Q of networks of blocks whose activations have kinks; keeps them in `tests/width/kinks.json`.

    .venv/bin/python tools/draw_kinks.py "two inputs, one matrix, relu" …

Without names all are drawn; a network that is drawn replaces its entry. The weights of the readout are averaged over by
hand with probes w, as in `tools/draw_streams.py`. Autodiff does not see the delta of σ'' where σ' jumps. Every second
derivative is linear in σ'' of each neuron, so that a neuron adds jump · p(κ) · E[Y | z = κ]: it is pinned to the kink κ
by moving the row of weights that made it along the one direction on which it depends, and p(κ) is the density of that
sum given the stage before. Y holds the slope of the neuron itself, which takes all values across the jump with equal
weight: it is drawn. Neurons of a stage are alike, so one of them stands for all. What the deltas are of P and Q is kept
beside them. Nothing here is shared with the estimators of perceptrons, nor with a recursion.
"""

import functools
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from draw_streams import X, double, network, of, single, third
from jax.flatten_util import ravel_pytree

from neft import Dense, Network, Residual

FILE = Path(__file__).parents[1] / "tests" / "width" / "kinks.json"
PLAN, MORE = ((8, 48_000), (16, 32_000), (40, 16_000)), ((8, 192_000), (16, 128_000), (40, 64_000))
GROUPS = 20

# By name: the blocks at width n, how many inputs, widths and draws, and the seed.
NETWORKS = {
    "two inputs, one matrix, relu": (
        network(of(single, "relu", 1.0), of(single, "relu", 0.8), end="relu"),
        2,
        PLAN,
        3,
    ),
    # Kinks where the activation is not 0.
    "one input, one matrix, hard tanh": (
        network(*(of(single, "hard_tanh", skip) for skip in (0.8, 1.0, 0.8)), end="hard_tanh"),
        1,
        PLAN,
        3,
    ),
    "two inputs, one and two matrices, relu": (
        network(of(single, "relu", 0.8), of(double, "relu", 1.0), of(third, "relu", 0.8)),
        2,
        MORE,
        4,
    ),
}


class Place(NamedTuple):
    """A kink of the activation at a site, met by one input; on which way across it the slope is."""

    site: Any
    sample: Any
    position: Any
    jump: Any
    value: Any
    left: Any
    way: Any


def deltas(blocks, p, tree, rates, x, w, key):
    """P and Q but for the factor C_W of the readout, [a, b, c, d].

    Args:
        blocks: all but the readout; they have one activation.
        p: their parameters as one vector.
        tree: makes the parameters again from a vector.
        rates: the learning rate of each of them.
        x: the inputs, (N, n_0).
        w: probes, (heads, n).
        key: a JAX key.
    """
    acts, spreads = _sites(blocks, tree(p))
    (act,) = set(acts)
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        kinks = [
            (kink.position, kink.jump, float(act(kink.position)), float(act.derivative(1)(kink.position - 1e-9)))
            for kink in act.kinks
        ]
    where = list(itertools.product(range(len(acts)), range(len(x)), kinks))
    columns = zip(*((site, a, *kink) for site, a, kink in where))
    table = [np.array(column, None if i < 2 else x.dtype) for i, column in enumerate(columns)]
    ways = jax.random.uniform(key, (len(where),), x.dtype)
    places = Place._make([*map(jnp.asarray, table), ways])
    found = jax.lax.map(lambda place: _pinned(blocks, p, tree, rates, x, w, spreads, place), places)
    samples = jax.nn.one_hot(table[1], len(x), dtype=x.dtype)
    return [jnp.einsum("ka,kbcd->abcd", samples, part) for part in found]


def _pinned(blocks, p, tree, rates, x, w, spreads, place):
    # The first neuron of a site, with one input at the kink; axes b, c, d.
    def reached(p):
        return _walk(blocks, tree(p), x, None, None)[0][place.site, place.sample]

    z, towards = jax.value_and_grad(reached)(p)
    spread = spreads[place.site]
    seen = jnp.where(spread > 0, towards, 0)
    variance = jnp.sum(spread * seen**2)
    wanted = seen @ p + place.position - z
    density = jnp.exp(-(wanted**2) / (2 * variance)) / jnp.sqrt(2 * jnp.pi * variance)
    p = p + spread * seen * (place.position - z) / variance
    s, back = jax.vjp(lambda p, more: _walk(blocks, tree(p), x, place, more)[2], p, jnp.zeros((), x.dtype))
    heads = jnp.concatenate([w, s])
    each = jnp.einsum("hn,ab->habn", heads, jnp.eye(len(x), dtype=s.dtype))
    gradients, u = jax.vmap(jax.vmap(back))(each)
    u = u[:, place.sample]
    moved = gradients @ (rates * jax.grad(reached)(p))  # of the neuron, along the gradient of each head at b
    width = jnp.asarray(_walk(blocks, tree(p), x, None, None)[1])[place.site]
    k, scale = len(w), place.jump * density * width
    P = jnp.einsum("d,hb,hc->bcd", u[k:], moved[:k], moved[:k])
    Q = jnp.einsum("h,hb,dc->bcd", u[:k], moved[:k], moved[k:])
    return scale / k * P, scale / k * Q


def _walk(blocks, params, x, place, more):
    """What reaches the first neuron of each site, how many are like it, and the features with one of them replaced."""
    seen, widths = [], []

    def along(blocks, params, z):
        left = iter(params)
        for block in blocks:
            own: Any = next(left) if isinstance(block, Dense | Residual) else ()
            if isinstance(block, Residual):
                z = block.skip * z + along(block.branch, own.branch, z)
            elif isinstance(block, Dense):
                z = block.apply(own, z)
            else:
                out = block.activation(z)
                if place is not None:
                    there = z[:, 0]
                    turned = (place.left + place.way * place.jump) * (there - jax.lax.stop_gradient(there))
                    here = (jnp.arange(len(z)) == place.sample) & (place.site == len(seen))
                    out = out.at[:, 0].set(jnp.where(here, place.value + turned + more, out[:, 0]))
                seen.append(z[:, 0])
                widths.append(z.shape[1])
                z = out
        return z

    features = along(blocks, params, x)
    return jnp.stack(seen), np.array(widths, np.float32), features


def _sites(blocks, params):
    """The activation at each site, and variances of the parameters whose sums it sees, (sites, parameters)."""
    layers = jax.tree.leaves(params, is_leaf=lambda one: hasattr(one, "W"))
    acts, spreads, passed = [], [], []

    def along(blocks):
        for block in blocks:
            if isinstance(block, Residual):
                along(block.branch)
            elif isinstance(block, Dense):
                passed.append(block)
            else:
                last = len(passed) - 1
                spread = [jax.tree.map(jnp.zeros_like, layer) for layer in layers]
                variances = passed[-1].variances(layers[last].W.shape[1])
                spread[last] = jax.tree.map(jnp.full_like, layers[last], variances)
                acts.append(block.activation)
                spreads.append(ravel_pytree(spread)[0])

    along(blocks)
    return acts, jnp.stack(spreads)


def observed(net, x, key):
    """What one draw says of P and Q of the outputs, and what of that the deltas are, (2, N, N, N, N) each."""
    last, n, N = net.blocks[-1], net.fans()[-2], len(x)
    params = net.init(key, dtype=x.dtype)[:-1]
    p, tree = ravel_pytree(params)
    rates = ravel_pytree(jax.tree.map(lambda r, leaf: jnp.full_like(leaf, r), net.rates()[:-1], params))[0]
    below = Network(3, net.blocks[:-1])

    def features(p):
        return below.apply(tree(p), x)

    w = jax.random.rademacher(jax.random.fold_in(key, 1), (2, n), x.dtype) * np.float32(np.sqrt(last.C_W / n))
    s, back = jax.vjp(features, p)
    each = jnp.einsum("hn,ab->habn", jnp.concatenate([w, s]), jnp.eye(N, dtype=s.dtype))
    grads = jax.vmap(jax.vmap(lambda one: back(one)[0]))(each)  # (heads, N, parameters)
    v = grads * rates

    def twice(one, other):
        return jax.jvp(lambda q: jax.jvp(features, (q,), (one,))[1], (p,), (other,))[1]

    def bent(ones, others):
        return jax.vmap(lambda one: jax.vmap(lambda other: twice(one, other))(others))(ones)

    P = sum(jnp.einsum("dn,bcan->abcd", s, bent(v[h], v[h])) for h in (0, 1)) / 2
    heads = v[2:].reshape(N * N, -1)  # of head d at input c
    along = [bent(v[h], heads).reshape(N, N, N, N, -1) for h in (0, 1)]
    Q = sum(jnp.einsum("n,bdcan->abcd", w[h], along[h]) for h in (0, 1)) / 2
    flat = last.lambda_W / n * jnp.einsum("bap,dcp->abcd", grads[2:], v[2:])
    more = jnp.stack(deltas(below.blocks, p, tree, rates, x, w, jax.random.fold_in(key, 2)))
    return last.C_W * (jnp.stack([P, flat + Q]) + more), last.C_W * more


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def group(name, key, x, n, draws):
    """The means over draws of what is observed."""
    net = Network(3, NETWORKS[name][0](n))
    found = jax.lax.map(lambda i: observed(net, x, jax.random.fold_in(key, i)), jnp.arange(draws), batch_size=64)
    return jax.tree.map(lambda values: values.mean(0), found)


def drawn(name):
    """P and Q of infinite width, a + b/n + c/n² over the widths, and what of them the deltas are; with errors."""
    _, N, plan, seed = NETWORKS[name]
    values, errors, hidden = [], [], []
    for n, draws in plan:
        key, x = jax.random.fold_in(jax.random.key(seed), n), jnp.asarray(X[:N], jnp.float32)
        found = [group(name, jax.random.fold_in(key, g), x, n, draws // GROUPS) for g in range(GROUPS)]
        whole, more = (np.stack([np.asarray(one, float) for one in column]) for column in zip(*found))
        values.append(whole.mean(0))
        errors.append(whole.std(0, ddof=1) / np.sqrt(GROUPS))
        hidden.append(more.mean(0))
        print(
            name, n, *(f"{one:.4f}" for part in (values[-1], errors[-1]) for one in part.reshape(2, -1)[0]), flush=True
        )
    powers = np.array([float(n) for n, _ in plan])[:, None] ** -np.arange(3.0)
    first = np.linalg.inv(powers)[0]  # as many widths as coefficients
    limit, more = (np.einsum("w,w...->...", first, np.stack(one)) for one in (values, hidden))
    error = np.sqrt(np.einsum("w,w...->...", first**2, np.stack(errors) ** 2))
    tensors = {one: [limit[i].tolist(), np.maximum(error[i], 2e-5).tolist()] for i, one in enumerate("PQ")}
    return tensors, {one: more[i].tolist() for i, one in enumerate("PQ")}


def main(names):
    """Draw these networks, or all."""
    for name in names or NETWORKS:
        make, N, plan, seed = NETWORKS[name]
        start = time.process_time()
        tensors, more = drawn(name)
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        kept[name] = {
            "network": Network(3, make(8)).to_dict(),
            "x": X[:N].tolist(),
            "widths and draws": plan,
            "seed": seed,
            "command": f"tools/draw_kinks.py {name!r}",
            "tensors": tensors,
            "of the deltas": more,
        }
        print(name, f"{time.process_time() - start:.0f} s", flush=True)
        FILE.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
