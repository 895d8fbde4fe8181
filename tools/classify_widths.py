"""Accuracy and confidence of classifiers of 30 images against their width, theory beside trained networks.

    .venv/bin/python tools/classify_widths.py simulate short
    .venv/bin/python tools/classify_widths.py theory FOLDER short

keep their numbers in `src/neft/plot/classifiers.json`, which `neft.plot.classifiers` draws. Two classes of the bundled
subset of Fashion-MNIST, 30 training and all 200 test images; one hidden layer of tanh, cross-entropy, batches and
momentum, a training that is short or long. `theory` keeps what it has of each block of test images in the folder and
goes on from there; the tensors are the same for all trainings that are named.

All that is kept of a width is by how much it changes what infinite width gives.

Simulation: given the hidden layer, outputs z_A at the training images are Gaussian with a covariance k_AA, so that
ξ = (1 + E)^{-1/2} L⁻¹z_A are normal numbers, k_AA = L(1 + E)Lᵀ and K_AA = LLᵀ, and so is, for each test image, the rest
of its output that z_A does not tell, by its own spread. The same normal numbers at infinite width, trained by the same
batches, have just the law of infinite width, and what the network has more is of order n^{-1/2}. The simulation knows
no tensor of finite width. It takes no image either: the first layer's preactivations are drawn with the covariance that
the inputs' products give them, and move by those products.

Theory: n → ∞ of n times the change (docs/theory/training, eq. 62), in two parts. Fluctuations of kernels that stay as
they are need many draws, mirrored, and little time for each. How kernels move is linear in dH and ddH at that order,
and few draws of the initial outputs are enough.

The cross-entropy of two classes sees two outputs by their difference alone. (z₁ - z₂)/√2 has the last weights
(w₁ - w₂)/√2, which are drawn and trained as those of a single output are, so theory takes one output z with the loss
ln(1 + e^{-√2 y z}), y = ±1. The simulation has two outputs and knows nothing of it.

Whether an answer is right jumps with the logits, and so does which class is the likelier one, so that few draws at
large n would see nothing of how their means move. Both sides smooth the jump over SMOOTH of the logits' difference d:
Φ(t) + tφ(t)/2 with t = d/SMOOTH, which leaves the mean over every density that is a cubic over that distance as it is.
The simulation keeps unsmoothed shares of right answers beside them.
"""

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

import neft
from neft.training._finite import output_tensors
from neft.training._fluctuations import at_width, draw, law
from neft.training._function_space import draw_batches, moved
from neft.training._hierarchy import Hierarchy
from neft.training._response import TENSORS
from neft.training._schedule import schedule
from neft.training._steps import descend
from neft.training._trained import trained

FILE = Path(__file__).parents[1] / "src" / "neft" / "plot" / "classifiers.json"
CLASSES, TRAIN, TEST = (0, 3), 30, 200
PREPROCESS = "per-image"
HYPER = {"C_b": 0.0, "C_W": 1.0, "lambda_b": 1.0, "lambda_W": 1.0}
TRAININGS = {
    "short": {"steps": 20, "learning_rate": 0.01, "momentum": 0.8, "batch": 10},
    "long": {"steps": 40, "learning_rate": 0.03, "momentum": 0.8, "batch": 10},
}
# Widths that are simulated, and with how many networks.
WIDTHS = {48: 16384, 64: 16384, 128: 16384, 256: 8192, 512: 8192, 1024: 4096}
WIDEST = 1e6
# Draws whose kernels fluctuate, and whose kernels move.
DRAWS = (1024, 192)
SMOOTH = 0.5
PARTS = ("steps", "learning_rate", "momentum", "batch")
SEED, BLOCK, RTOL = 31, 20, 3e-4
KINDS = ("fluctuating", "moving")
OBSERVED = ("accuracy", "confidence", "overconfidence", "nll")


@functools.cache
def images():
    """Training and test images of two classes in turn, and their classes 0 and 1."""
    found = []
    for split, count in (("train", TRAIN), ("test", TEST)):
        whole = neft.data.load("fashion-mnist", split, preprocess=PREPROCESS, full=False, dtype=np.float64)
        chosen = np.stack([np.flatnonzero(whole.y == c)[: count // 2] for c in CLASSES], axis=1).ravel()
        found += [whole.x[chosen], (whole.y[chosen] == CLASSES[1]).astype(int)]
    return found


def network(n, outputs):
    """The network of a width."""
    return neft.MLP((images()[0].shape[1], n, outputs), "tanh", **HYPER)


@functools.cache
def kernels():
    """K and Θ of all images."""
    x, _, at, _ = images()
    kernel = neft.width.kernel(network(64, 1), np.concatenate([x, at]), dtype="float64")
    return np.asarray(kernel.K), np.asarray(kernel.Theta)


def answers(d, which=slice(None)):
    """What is observed of each draw's differences of logits (draws, tests), as `training.assess` has it: (draws, 4)."""
    towards = d * (2.0 * images()[3][which] - 1.0)
    t = towards / SMOOTH
    right = scipy.special.ndtr(t) + t * np.exp(-(t**2) / 2) / np.sqrt(8 * np.pi)
    # e^|d|/(1 + e^|d|) is ½ + ½ sgn(d) tanh(d/2).
    sure = 0.5 + np.tanh(towards / 2) * (right - 0.5)
    seen = (right, sure, sure - right, np.logaddexp(0.0, -towards))
    return np.stack([part.mean(-1) for part in seen], axis=-1)


def right_answers(d):
    """The share of right answers of each draw as it is, (draws,)."""
    return (d * (2.0 * images()[3] - 1.0) > 0).mean(-1)


def simulated(name, n, index):
    """For networks of an index: differences of test logits (networks, tests), trained and at infinite width."""
    x, y, at, _ = images()
    every, N = np.concatenate([x, at]), TRAIN
    products = every @ every.T / every.shape[1]
    C_b, C_W, l_b, l_W = HYPER.values()
    l, v = np.linalg.eigh(C_b + C_W * products)
    K, Theta = kernels()
    k, w = np.linalg.eigh(K[:N, :N])
    r = (K[N:, :N] @ w / k) @ w.T
    given: Any = {
        "U": v * np.sqrt(np.maximum(l, 0.0)),
        "rates": l_b + l_W * products[:, :N],
        "L": w * np.sqrt(k),
        "L_inv": (w / np.sqrt(k)).T,
        "r": r,
        "c": np.sqrt(np.diagonal(K)[N:] - np.einsum("xa,xa->x", r, K[N:, :N])),
        "Theta": Theta[:, :N],
        "target": np.eye(2)[y],
    }
    given = {name: jnp.asarray(value, jnp.float32) for name, value in given.items()}
    d = _simulated(name, n, jnp.asarray(index), given)
    return [np.asarray(one, float) for one in d]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _simulated(name, n, index, given):
    C_b, C_W, l_b, l_W = HYPER.values()
    N, T, eta, beta, b = TRAIN, *(TRAININGS[name][part] for part in PARTS)
    rates, L, L_inv, r, c, Theta = (given[name] for name in ("rates", "L", "L_inv", "r", "c", "Theta"))

    def descended(start, slope, orders):
        def step(now, taken):
            state, velocity = now
            weights = N / b * jnp.zeros(N).at[taken].set(1.0)[:, None]
            velocity = jax.tree.map(lambda v, g: beta * v + g, velocity, slope(state, weights))
            return (jax.tree.map(lambda p, v: p - eta * v, state, velocity), velocity), None

        return jax.lax.scan(step, (start, jax.tree.map(jnp.zeros_like, start)), orders)[0][0]

    def one(i):
        keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), n), i), 4)
        U = given["U"] @ jax.random.normal(keys[0], (len(rates), n))
        W = jnp.sqrt(C_W / n) * jax.random.normal(keys[1], (n, 2))
        bias = jnp.sqrt(C_b) * jax.random.normal(keys[2], (2,))
        orders = jnp.argsort(jax.random.uniform(keys[3], (T, N)), axis=1)[:, :b]

        def slope(state, weights):
            C, W, bias = state
            s = jnp.tanh(U[:N] + rates[:N] @ C)
            g = weights * (jax.nn.softmax(s @ W + bias) - given["target"])
            # What the first layer's weights have moved by is a combination C of the training images.
            return (g @ W.T) * (1 - s**2), l_W / n * s.T @ g, l_b * g.sum(0)

        C, after, shift = descended((jnp.zeros((N, n)), W, bias), slope, orders)
        z = jnp.tanh(U[N:] + rates[N:] @ C) @ after + shift
        s = jnp.tanh(U)
        before = s @ W + bias
        across = C_b + C_W / n * s @ s[:N].T
        ratio, q = jnp.linalg.eigh(L_inv @ across[:N] @ L_inv.T)
        raised, beside = q.T @ (L_inv @ before[:N]), across[N:] @ L_inv.T @ q
        xi = q @ (raised / jnp.sqrt(ratio)[:, None])
        own = C_b + C_W / n * (s[N:] ** 2).sum(1) - (beside**2 / ratio).sum(1)
        rest = (before[N:] - beside @ (raised / ratio[:, None])) / jnp.sqrt(own)[:, None]
        first = L @ xi

        def frozen(coefficients, weights):
            return weights * (jax.nn.softmax(first + Theta[:N] @ coefficients) - given["target"])

        wide = r @ first + c[:, None] * rest + Theta[N:] @ descended(jnp.zeros((N, 2)), frozen, orders)
        return z[:, 1] - z[:, 0], wide[:, 1] - wide[:, 0]

    return jax.vmap(one)(index)


def logistic(z, y):
    """The cross-entropy of two classes y = ±1 whose logits differ by √2 z."""
    return jax.nn.softplus(-np.sqrt(2) * y * z).sum()


def plan(name):
    """The schedule of a training."""
    steps, rate, beta, batch = (TRAININGS[name][part] for part in PARTS)
    return schedule(None, steps, rate, beta, False, batch, TRAIN)


def targets():
    """±1 for the training images, (30, 1)."""
    return 2.0 * images()[1][:, None] - 1.0


def at_infinity(name, index):
    """Outputs of infinite width before training (draws, 230, 1), differences of test logits after it, and batches."""
    K, Theta = kernels()
    l, v = np.linalg.eigh(K)
    root = v * np.sqrt(np.maximum(l, 0.0))
    z = np.stack([root @ np.random.default_rng([SEED, i]).standard_normal((len(K), 1)) for i in index])
    training = TRAININGS[name]
    options = {"steps": training["steps"], "count": TRAIN, "batch": training["batch"]}
    batches = np.asarray(draw_batches(jax.random.key(SEED), np.asarray(index), **options))
    c = moved(logistic, Theta[:TRAIN, :TRAIN], z[:, :TRAIN], targets(), plan(name), batches)[:, 0]
    return z, np.sqrt(2) * (z[:, TRAIN:] - Theta[TRAIN:, :TRAIN] @ c)[..., 0], batches


@functools.partial(jax.jit, static_argnums=0)
def _frozen(name, z, H, batches):
    """Outputs of many draws whose kernels stay as they are."""
    parts = plan(name)

    def one(z, H, batches):
        moments = jnp.array([TRAININGS[name]["steps"]])
        options = (moments, parts.learning_rate, batches, parts.momentum.parts)
        return descend(Hierarchy(z, H), jnp.asarray(targets()), *options, loss=logistic, outputs=1).z[0]

    return jax.vmap(one)(z, H, batches)


def theory(begin, names):
    """Of a block of test images from `begin` on, by training and kind, for each draw: n times what fluctuations change
    in what is observed, and what moving kernels do, (draws, 4); and CPU seconds of tensors, law and draws.
    """
    clocks = [time.process_time()]
    base, size = _law(begin, clocks)
    found = {}
    for name in names:
        found |= {f"{name} {kind}": values for kind, values in _drawn(name, base, begin, size).items()}
    clocks.append(time.process_time())
    return found | {"seconds": np.diff(clocks)}


def _drawn(name, base, begin, size, draws=DRAWS, chunk=32):
    which = slice(begin, begin + size)
    where = np.concatenate([np.arange(TRAIN), TRAIN + begin + np.arange(size)])
    own, key = at_width(base, WIDEST), jax.random.fold_in(jax.random.key(SEED), begin)

    def seen(z):
        return answers(np.sqrt(2) * z[:, TRAIN:], which)

    found: dict[str, list] = {kind: [] for kind in KINDS}
    for first in range(0, max(draws), chunk):
        index = np.arange(first, min(first + chunk, max(draws)))
        z, wide, batches = at_infinity(name, index)
        z, still = z[:, where], answers(wide[:, which], which)
        many, few = (np.flatnonzero(index < count) for count in draws)
        if len(many):
            values = []
            for sign in (1.0, -1.0):
                one = draw(own, key, index[many], sign=sign, infinite=z[many], moving=False)
                with jax.enable_x64(True):
                    values.append(seen(np.asarray(_frozen(name, one.z[..., 0], one.H, batches[many]))))
            found["fluctuating"].append(WIDEST * (sum(values) / 2 - still[many]))
        if len(few):
            one = draw(own, key, index[few], infinite=z[few])
            one = one._replace(z=z[few], H=np.broadcast_to(own.Theta, one.H.shape))
            moving, _ = trained(own, one, targets(), plan(name), logistic, batches[few])
            found["moving"].append(WIDEST * (seen(moving[:, 0, :, 0]) - still[few]))
    return {kind: np.concatenate(parts) for kind, parts in found.items()}


def _law(begin, clocks):
    x, _, at, _ = images()
    size = min(BLOCK, TEST - begin)
    tensors = output_tensors(
        network(64, 1), np.concatenate([x, at[begin : begin + size]]), (*TENSORS, "V"), rtol=RTOL, first=TRAIN
    )
    clocks.append(time.process_time())
    base = law(tensors, 1.0, TRAIN, 1, [np.array([i]) for i in range(TRAIN, TRAIN + size)])
    clocks.append(time.process_time())
    return base, size


def keep(name, **entries: Any) -> None:
    """Put what was found of a training into the file."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    kept |= {
        "classes": CLASSES,
        "images": [TRAIN, TEST],
        "preprocess": PREPROCESS,
        "network": {"activation": "tanh", "hidden layers": 1} | HYPER,
        "smoothed over": SMOOTH,
        "seed": SEED,
    }
    kept[name] = kept.get(name, {}) | {"observed": OBSERVED, "training": TRAININGS[name]} | entries
    FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def mean(values):
    """Mean and standard error over the first axis, as lists."""
    return [values.mean(0).tolist(), (values.std(0, ddof=1) / np.sqrt(len(values))).tolist()]


def shown(name, found):
    """One line of what was found."""
    print(name, *(f"{value:+.4f}±{error:.4f}" for value, error in zip(*found)), flush=True)


def simulate(name, block=64):
    """Keep what each width changes in trained networks."""
    begin, changes, unsmoothed = time.process_time(), {}, {}
    for n, count in WIDTHS.items():
        parts = [simulated(name, n, np.arange(first, first + block)) for first in range(0, count, block)]
        changes[str(n)] = mean(np.concatenate([answers(narrow) - answers(wide) for narrow, wide in parts]))
        unsmoothed[str(n)] = mean(np.concatenate([right_answers(z) - right_answers(wide) for z, wide in parts]))
        shown(f"{name} {n:5d} {time.process_time() - begin:.0f} s, n times", n * np.array(changes[str(n)]))
    keep(
        name,
        simulation={
            "command": f"python tools/classify_widths.py simulate {name}",
            "networks": {str(n): count for n, count in WIDTHS.items()},
            "changes": changes,
            "accuracy without smoothing": unsmoothed,
            "cpu_seconds": round(time.process_time() - begin),
        },
    )


def predict(folder, names):
    """Keep what theory says of order 1/n; blocks that the folder has are not made again."""
    blocks = []
    for begin in range(0, TEST, BLOCK):
        path = Path(folder) / f"{begin}.npz"
        if not path.exists():
            found = theory(begin, names)
            with path.with_suffix(".new").open("wb") as file:
                np.savez(file, **found)  # type: ignore[arg-type]
            path.with_suffix(".new").rename(path)
        blocks.append(np.load(path))
        print(begin, *(f"{s:.0f}" for s in blocks[-1]["seconds"]), "CPU s of tensors, law, draws", flush=True)
    seconds = np.sum([block["seconds"] for block in blocks], axis=0).round().tolist()
    for name in names:
        taken = dict(zip(("tensors", "law", "draws and training"), seconds))
        first = range(0, 8192, 512)
        infinite = np.concatenate([answers(at_infinity(name, np.arange(k, k + 512))[1]) for k in first])
        keep(name, infinite=mean(infinite), theory=joined(name, blocks) | {"cpu_seconds": taken})


def joined(name, blocks):
    """What theory says of a training at all test images."""
    # Each draw is at all test images: the blocks are parts of its mean over them.
    shares = np.array([min(BLOCK, TEST - begin) for begin in range(0, TEST, BLOCK)]) / TEST
    whole: Any = {kind: sum(s * block[f"{name} {kind}"] for s, block in zip(shares, blocks)) for kind in KINDS}
    (a, error), (b, other) = (np.array(mean(whole[kind])) for kind in KINDS)
    shown(f"{name}: n times, n → ∞:", (a + b, np.hypot(error, other)))
    return {
        "command": f"python tools/classify_widths.py theory FOLDER {name}",
        "draws": dict(zip(KINDS, DRAWS)),
        "times n": [(a + b).tolist(), np.hypot(error, other).tolist()],
        "of moving kernels": [b.tolist(), other.tolist()],
    }


if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        for one in sys.argv[2:]:
            simulate(one)
    else:
        predict(sys.argv[2], sys.argv[3:])
