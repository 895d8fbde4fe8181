"""The action's series along the ray and all its terms, in forward passes, beside jet and nested jvp."""

import time
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import jet
from measure import Ratio, cpu_seconds

from neft import action

ORDER, CLASSES = 12, 10


def problem(count: int, features: int, hidden: int):
    """Parameters of the size that training gives, and standardised inputs."""
    rng = np.random.default_rng(0)
    single = partial(np.asarray, dtype=np.float32)
    params = {
        "U": single(rng.normal(size=(CLASSES, hidden)) / np.sqrt(hidden)),
        "c": single(0.03 * rng.normal(size=CLASSES)),
        "W": single(rng.normal(size=(hidden, features)) / np.sqrt(features)),
        "b": single(0.03 * rng.normal(size=hidden)),
    }
    return params, single(rng.standard_normal(size=(count, features), dtype=np.float32)), np.arange(count) % CLASSES


def loss(params, z, m):
    """Written as a user would."""
    f = jax.nn.silu(z @ params["W"].T + params["b"]) @ params["U"].T + params["c"]
    return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()


def by_jet(order: int):
    """Derivatives along tθ, with jet's own n!-scaled coefficients."""

    def run(params, z, m):
        zero = jax.tree.map(jnp.zeros_like, params)
        series = jax.tree.map(lambda leaf: [leaf, *[jnp.zeros_like(leaf)] * (order - 1)], params)
        leaves, tree = jax.tree.flatten(zero)
        rows = tree.flatten_up_to(series)
        value, terms = jet.jet(lambda *flat: loss(tree.unflatten(flat), z, m), leaves, rows)
        return jnp.stack([value, *terms])

    return jax.jit(run)


def by_nested_jvp(order: int):
    """The highest derivative alone, by jvp of jvp."""

    def run(params, z, m):
        start = lambda t: loss(jax.tree.map(lambda leaf: t * leaf, params), z, m)  # noqa: E731
        nested = reduce(lambda f, _: lambda t: jax.jvp(f, (t,), (1.0,))[1], range(order), start)
        return nested(0.0)

    return jax.jit(run)


def compile_seconds(call) -> float:
    """Wall-clock seconds of a first call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def along_the_ray() -> list[Ratio]:
    """784-512-10, 10,000 samples."""
    params, z, m = problem(10_000, 784, 512)
    device = (jax.tree.map(jnp.asarray, params), jnp.asarray(z), jnp.asarray(m))
    forward = jax.jit(loss)
    once = cpu_seconds(lambda: forward(*device).block_until_ready())
    first = compile_seconds(lambda: action.expand(params, (z, m), ORDER, terms=False))
    ours = cpu_seconds(lambda: action.expand(params, (z, m), ORDER, terms=False))
    what = f"S_0..S_{ORDER} along the ray, 784-512-10, 10,000 samples"
    ratios = [
        Ratio(f"{what}: 1.5 forward passes", "forward pass", f"{ours:.3f} s", f"{once:.3f} s", 1.5 * once / ours, 1),
        Ratio(f"{what}: compiling in 5 s", "5 s", f"{first:.1f} s", "5 s", 5 / first, 1),
    ]
    walk = jax.jit(partial(_walked, order=ORDER))
    walked = cpu_seconds(lambda: walk(*device).block_until_ready(), repeat=3)
    peer = by_jet(ORDER)
    theirs = cpu_seconds(lambda: peer(*device).block_until_ready(), repeat=3)
    low = 6
    nested = by_nested_jvp(low)
    nested_time = cpu_seconds(lambda: nested(*device).block_until_ready(), repeat=3)
    single = action.expand(params, (z, m), 60, terms=False).S
    return [
        *ratios,
        Ratio(what, "jet", f"{ours:.3f} s", f"{theirs:.3f} s", theirs / ours, 2),
        Ratio(f"{what}: any loss", "jet", f"{walked:.3f} s", f"{theirs:.3f} s", theirs / walked, 1),
        Ratio(what, f"nested jvp to order {low}", f"{ours:.3f} s", f"{nested_time:.3f} s", nested_time / ours, 1),
        Ratio(
            "order 60 in float32",
            "finite coefficients",
            str(int(np.isfinite(single).sum())),
            "61",
            float(np.isfinite(single).sum() / 61),
            1,
        ),
    ]


def _walked(params, z, m, *, order):
    return action.taylor(lambda q: loss(q, z, m), order)(None, params)


def all_terms() -> list[Ratio]:
    """Every term of S_2, S_3, S_4 on 60,000 × 784 with H = 2048."""
    params, z, m = problem(60_000, 784, 2048)
    parts = [slice(i, i + 10_000) for i in range(0, len(m), 10_000)]
    forward = jax.jit(loss)
    device = jax.tree.map(jnp.asarray, params)
    once = cpu_seconds(lambda: [forward(device, z[p], m[p]).block_until_ready() for p in parts], repeat=2)
    ours = cpu_seconds(lambda: action.expand(params, (z, m), 4), repeat=2)
    what = "every term of S_2, S_3, S_4, 784-2048-10, 60,000 samples"
    return [Ratio(f"{what}: 3 forward passes", "forward pass", f"{ours:.2f} s", f"{once:.2f} s", 3 * once / ours, 1)]


def run() -> list[Ratio]:
    """Both."""
    return [*along_the_ray(), *all_terms()]
