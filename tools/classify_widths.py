"""Accuracy and confidence of classifiers of 30 images against their width, theory beside trained networks.

    .venv/bin/python tools/classify_widths.py simulate
    .venv/bin/python tools/classify_widths.py theory FOLDER

keep their numbers in `src/neft/plot/classifiers.json`, which `neft.plot.classifiers` draws. Two classes of the bundled
subset of Fashion-MNIST, 30 training and all 200 test images; one hidden layer of tanh, cross-entropy, batches and
momentum. `theory` keeps what it has of each block of test images in the folder and goes on from there.

All that is kept of a width is by how much it changes what infinite width gives.

Simulation: given the hidden layer, outputs z_A at the training images are Gaussian with a covariance k_AA, so that
ξ = (1 + E)^{-1/2} L⁻¹z_A are normal numbers, k_AA = L(1 + E)Lᵀ and K_AA = LLᵀ, and so is, for each test image, the rest
of its output that z_A does not tell, by its own spread. The same normal numbers at infinite width, trained by the same
batches, have just the law of infinite width, and what the network has more is of order n^{-1/2}. The simulation knows
no tensor of finite width. It takes no image either: the first layer's preactivations are drawn with the covariance that
the inputs' products give them, and move by those products.

Theory: n → ∞ of n times the change (docs/theory/training, eq. 62), in two parts. Fluctuations of kernels that stay as
they are need many draws, mirrored, and little time for each. How kernels move is linear in dH and ddH at that order,
and few draws of the initial outputs are enough. Beside it, draws at the widths themselves, as `training.sample` makes
them.

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
from neft.training._sample import trained
from neft.training._schedule import schedule
from neft.training._steps import descend

FILE = Path(__file__).parents[1] / "src" / "neft" / "plot" / "classifiers.json"
CLASSES, TRAIN, TEST = (0, 3), 30, 200
PREPROCESS = "per-image"
HYPER = {"C_b": 0.0, "C_W": 1.0, "lambda_b": 1.0, "lambda_W": 1.0}
TRAINING = {"steps": 20, "learning_rate": 0.01, "momentum": 0.8, "batch": 10}
# Widths that are simulated with how many networks, and those that draws are made at.
WIDTHS = {32: 16384, 64: 16384, 128: 16384, 256: 16384, 512: 8192, 1024: 8192}
EXPANDED = (64, 256)
WIDEST = 1e6
# Draws whose kernels fluctuate, whose kernels move, and at each of those widths.
DRAWS = (768, 128, 32)
SMOOTH = 0.5
SEED, BLOCK, RTOL = 31, 20, 3e-4
OBSERVED = ("accuracy", "confidence", "overconfidence", "nll", "unsmoothed accuracy")


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
    """What is observed of each draw's differences of logits (draws, tests), (draws, 5), as `training.assess` has it."""
    towards = d * (2.0 * images()[3][which] - 1.0)
    t = towards / SMOOTH
    right = scipy.special.ndtr(t) + t * np.exp(-(t**2) / 2) / np.sqrt(8 * np.pi)
    # e^|d|/(1 + e^|d|) is ½ + ½ sgn(d) tanh(d/2).
    sure = 0.5 + np.tanh(towards / 2) * (right - 0.5)
    seen = (right, sure, sure - right, np.logaddexp(0.0, -towards), towards > 0)
    return np.stack([part.mean(-1) for part in seen], axis=-1)


def simulated(n, index):
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
    d = _simulated(n, jnp.asarray(index), given)
    return [np.asarray(one, float) for one in d]


@functools.partial(jax.jit, static_argnums=0)
def _simulated(n, index, given):
    C_b, C_W, l_b, l_W = HYPER.values()
    N, T, eta, beta, b = TRAIN, *(TRAINING[name] for name in ("steps", "learning_rate", "momentum", "batch"))
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


def plan():
    """The schedule of training."""
    steps, rate, beta, batch = (TRAINING[name] for name in ("steps", "learning_rate", "momentum", "batch"))
    return schedule(None, steps, rate, beta, False, batch, TRAIN)


def targets():
    """±1 for the training images, (30, 1)."""
    return 2.0 * images()[1][:, None] - 1.0


def at_infinity(index):
    """Outputs of infinite width before training (draws, 230, 1), differences of test logits after it, and batches."""
    K, Theta = kernels()
    l, v = np.linalg.eigh(K)
    root = v * np.sqrt(np.maximum(l, 0.0))
    z = np.stack([root @ np.random.default_rng([SEED, i]).standard_normal((len(K), 1)) for i in index])
    options = {"steps": TRAINING["steps"], "count": TRAIN, "batch": TRAINING["batch"]}
    batches = np.asarray(draw_batches(jax.random.key(SEED), np.asarray(index), **options))
    c = moved(logistic, Theta[:TRAIN, :TRAIN], z[:, :TRAIN], targets(), plan(), batches)[:, 0]
    return z, np.sqrt(2) * (z[:, TRAIN:] - Theta[TRAIN:, :TRAIN] @ c)[..., 0], batches


@jax.jit
def _frozen(z, H, batches):
    """Outputs of many draws whose kernels stay as they are."""
    parts = plan()

    def one(z, H, batches):
        moments = jnp.array([TRAINING["steps"]])
        options = (moments, parts.learning_rate, batches, parts.momentum.parts)
        return descend(Hierarchy(z, H), jnp.asarray(targets()), *options, loss=logistic, outputs=1).z[0]

    return jax.vmap(one)(z, H, batches)


def theory(begin, draws=DRAWS, widths=EXPANDED, chunk=32):
    """Of a block of test images from `begin` on, of each draw: n times what fluctuations change in what is observed,
    and what moving kernels do; what the widths change in mirrored draws (widths, draws, 5), and which of them got to
    the end; and CPU seconds of tensors, law and draws.
    """
    clocks = [time.process_time()]
    base, size = _law(begin, clocks)
    which = slice(begin, begin + size)
    where = np.concatenate([np.arange(TRAIN), TRAIN + begin + np.arange(size)])
    own, key = at_width(base, WIDEST), jax.random.fold_in(jax.random.key(SEED), begin)

    def seen(z):
        return answers(np.sqrt(2) * z[:, TRAIN:], which)

    found: dict[str, list] = {"fluctuating": [], "moving": [], "at widths": [], "good": []}
    for first in range(0, max(draws), chunk):
        index = np.arange(first, min(first + chunk, max(draws)))
        z, wide, batches = at_infinity(index)
        z, still = z[:, where], answers(wide[:, which], which)

        def after(law_, few, sign):
            one = draw(law_, key, index[few], sign=sign, infinite=z[few])  # noqa: B023
            return trained(law_, one, targets(), plan(), logistic, batches[few])  # noqa: B023

        many, fewer, fewest = (np.flatnonzero(index < count) for count in draws)
        if len(many):
            values = []
            for sign in (1.0, -1.0):
                one = draw(own, key, index[many], sign=sign, infinite=z[many], moving=False)
                with jax.enable_x64(True):
                    values.append(seen(np.asarray(_frozen(one.z[..., 0], one.H, batches[many]))))
            found["fluctuating"].append(WIDEST * (sum(values) / 2 - still[many]))
        if len(fewer):
            one = draw(own, key, index[fewer], infinite=z[fewer])
            one = one._replace(z=z[fewer], H=np.broadcast_to(own.Theta, one.H.shape))
            moving, _ = trained(own, one, targets(), plan(), logistic, batches[fewer])
            found["moving"].append(WIDEST * (seen(moving[:, 0, :, 0]) - still[fewer]))
        if len(fewest):
            pairs = [[after(at_width(base, n), fewest, sign) for sign in (1.0, -1.0)] for n in widths]
            found["at widths"].append([sum(seen(z[:, 0, :, 0]) for z, _ in pair) / 2 - still[fewest] for pair in pairs])
            found["good"].append([pair[0][1] & pair[1][1] for pair in pairs])
    clocks.append(time.process_time())
    draws_at = {"fluctuating": 0, "moving": 0, "at widths": 1, "good": 1}
    joined = {name: np.concatenate(parts, axis=draws_at[name]) for name, parts in found.items() if parts}
    return joined | {"seconds": np.diff(clocks)}


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


def keep(**entries: Any) -> None:
    """Put what was found into the file."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    about = {
        "observed": OBSERVED,
        "classes": CLASSES,
        "images": [TRAIN, TEST],
        "preprocess": PREPROCESS,
        "network": {"activation": "tanh", "hidden layers": 1} | HYPER,
        "training": TRAINING,
        "smoothed over": SMOOTH,
        "seed": SEED,
    }
    FILE.write_text(json.dumps(kept | about | entries, indent=1, ensure_ascii=False) + "\n")


def mean(values):
    """Mean and standard error over the first axis, as lists."""
    return [values.mean(0).tolist(), (values.std(0, ddof=1) / np.sqrt(len(values))).tolist()]


def shown(name, found):
    """One line of what was found."""
    print(name, *(f"{value:+.4f}±{error:.4f}" for value, error in zip(*found)), flush=True)


def simulate(block=64):
    """Keep what each width changes in trained networks."""
    begin, changes = time.process_time(), {}
    for n, count in WIDTHS.items():
        parts = [simulated(n, np.arange(first, first + block)) for first in range(0, count, block)]
        changes[str(n)] = mean(np.concatenate([answers(narrow) - answers(wide) for narrow, wide in parts]))
        shown(f"{n:5d} {time.process_time() - begin:.0f} s, n times", n * np.array(changes[str(n)]))
    keep(
        simulation={
            "command": "python tools/classify_widths.py simulate",
            "networks": {str(n): count for n, count in WIDTHS.items()},
            "changes": changes,
            "cpu_seconds": round(time.process_time() - begin),
        }
    )


def predict(folder):
    """Keep what theory says of order 1/n, and draws at some widths; blocks that the folder has are not made again."""
    parts = []
    for begin in range(0, TEST, BLOCK):
        path = Path(folder) / f"{begin}.npz"
        if not path.exists():
            found = theory(begin)
            with path.with_suffix(".new").open("wb") as file:
                np.savez(file, **found)
            path.with_suffix(".new").rename(path)
        parts.append(np.load(path))
        print(begin, *(f"{s:.0f}" for s in parts[-1]["seconds"]), "CPU s of tensors, law, draws", flush=True)
        for name in ("fluctuating", "moving"):
            shown(f"  {name}", mean(parts[-1][name]))
    # Each draw is at all test images: the blocks are parts of its mean over them.
    shares = np.array([min(BLOCK, TEST - begin) for begin in range(0, TEST, BLOCK)]) / TEST
    names = ("fluctuating", "moving", "at widths")
    whole = {name: sum(s * part[name] for s, part in zip(shares, parts)) for name in names}
    (a, error), (b, other) = (np.array(mean(whole[name])) for name in names[:2])
    shown("n times, n → ∞:", (a + b, np.hypot(error, other)))
    good, few = np.all([part["good"] for part in parts], axis=0), DRAWS[2]
    beyond = {}
    for n, values, reached in zip(EXPANDED, whole["at widths"], good):
        # Beside the same draws at order 1/n alone.
        beyond[str(n)] = mean((n * values - whole["fluctuating"][:few] - whole["moving"][:few])[reached])
        shown(f"{n:>5}, n times, beyond that", beyond[str(n)])
    infinite = answers(np.concatenate([at_infinity(np.arange(k, k + 512))[1] for k in range(0, 8192, 512)]))
    seconds = np.sum([part["seconds"] for part in parts], axis=0).round().tolist()
    keep(
        infinite=mean(infinite),
        theory={
            "command": "python tools/classify_widths.py theory FOLDER",
            "draws": dict(zip(("fluctuating", "moving", "at widths"), DRAWS)),
            "times n": [(a + b).tolist(), np.hypot(error, other).tolist()],
            "of moving kernels": [b.tolist(), other.tolist()],
            "beyond": beyond,
            "lost": {str(n): int((~each).sum()) for n, each in zip(EXPANDED, good)},
            "cpu_seconds": dict(zip(("tensors", "law", "draws and training"), seconds)),
        },
    )


if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        simulate()
    else:
        predict(sys.argv[2])
