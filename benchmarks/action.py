"""The action's series along the ray and all its terms, in forward passes, beside jet and nested jvp."""

import time
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import jet
from measure import Ratio, in_turns, one_core, timed

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
    first = compile_seconds(lambda: action.expand(params, (z, m), ORDER, terms=False))
    low = 6
    programs = [jax.jit(loss), jax.jit(partial(_walked, order=ORDER)), by_jet(ORDER), by_nested_jvp(low)]
    ours, once, walked, jets, nested = in_turns(
        timed(lambda: action.expand(params, (z, m), ORDER, terms=False)),
        *(timed(lambda program=program: program(*device).block_until_ready()) for program in programs),
    )
    what = f"S_0..S_{ORDER} along the ray, 784-512-10, 10,000 samples"
    finite = int(np.isfinite(action.expand(params, (z, m), 60, terms=False).S).sum())
    return [
        Ratio.of(f"{what}: 1.5 forward passes", "forward pass", 1, ours, once, scale=1.5),
        Ratio(f"{what}: compiling in 5 s", "5 s", f"{first:.1f} s", "5 s", 5 / first, 1),
        Ratio.of(what, "the same for any loss", 1, ours, walked),
        Ratio.of(what, "jet", 2, ours, jets),
        Ratio.of(f"{what}: any loss", "jet", 1, walked, jets),
        Ratio.of(what, f"nested jvp to order {low}", 1, ours, nested),
        Ratio("order 60 in float32", "finite coefficients", str(finite), "61", finite / 61, 1),
    ]


def _walked(params, z, m, *, order):
    return action.taylor(lambda q: loss(q, z, m), order)(None, params)


def all_terms() -> list[Ratio]:
    """Every term of S_2, S_3, S_4 on 60,000 × 784 with H = 2048."""
    params, z, m = problem(60_000, 784, 2048)
    parts = [slice(i, i + 10_000) for i in range(0, len(m), 10_000)]
    forward = jax.jit(loss)
    device = jax.tree.map(jnp.asarray, params)
    ours, once = in_turns(
        timed(lambda: action.expand(params, (z, m), 4)),
        timed(lambda: [forward(device, z[p], m[p]).block_until_ready() for p in parts]),
        repeat=3,
    )
    what = "every term of S_2, S_3, S_4, 784-2048-10, 60,000 samples"
    return [Ratio.of(f"{what}: 3 forward passes", "forward pass", 1, ours, once, scale=3)]


@one_core()
def run() -> list[Ratio]:
    """Both."""
    return [*along_the_ray(), *all_terms()]
