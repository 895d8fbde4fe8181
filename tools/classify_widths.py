"""Accuracy and confidence of classifiers of 30 images against their width, theory beside trained networks.

    .venv/bin/python tools/classify_widths.py simulate NETWORKS
    .venv/bin/python tools/classify_widths.py theory DRAWS FOLDER

keep their numbers in `tests/training/thirty_images.json`. Two classes of the bundled subset of Fashion-MNIST, 30
training and 200 test images, the first 90 of which are asked; one hidden layer of tanh, cross-entropy, batches and
momentum.

The cross-entropy of two classes sees two outputs by their difference alone. (z₁ - z₂)/√2 has the last weights
(w₁ - w₂)/√2, which are drawn and trained as those of a single output are, so theory takes one output z with the loss
ln(1 + e^{-√2 y z}), y = ±1. The simulation has two outputs and knows nothing of it. It takes no image either: the first
layer's preactivations are drawn with the covariance that the inputs' products give them, and move by those products.
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

import neft
from neft.training._finite import output_tensors
from neft.training._fluctuations import at_width, draw, law
from neft.training._function_space import draw_batches, moved
from neft.training._response import TENSORS
from neft.training._sample import trained
from neft.training._schedule import schedule

FILE = Path(__file__).parents[1] / "tests" / "training" / "thirty_images.json"
CLASSES, TRAIN, TEST, ANSWERED = (2, 6), 30, 200, 90
"""Of the test images so many first ones have been through the theory, which takes two minutes for 30 of them."""
HYPER = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 1.0, "lambda_W": 1.0}
TRAINING = {"steps": 30, "learning_rate": 0.03, "momentum": 0.8, "batch": 10}
WIDTHS, EXPANDED = (96, 256, 1024), (96, 128, 256)
SEED, BLOCK, RTOL = 31, 30, 3e-5
OBSERVED = ("accuracy", "confidence", "overconfidence", "nll")


@functools.cache
def images():
    """Training and test images of two classes in turn, and their classes 0 and 1."""
    found = []
    for split, count in (("train", TRAIN), ("test", TEST)):
        whole = neft.data.load("fashion-mnist", split, preprocess="global", full=False, dtype=np.float64)
        chosen = np.stack([np.flatnonzero(whole.y == c)[: count // 2] for c in CLASSES], axis=1).ravel()
        found += [whole.x[chosen], (whole.y[chosen] == CLASSES[1]).astype(int)]
    return found


def network(n, outputs):
    """The network of a width."""
    return neft.MLP((784, n, outputs), "tanh", **HYPER)


def simulated(n, count, block=64):
    """Test logits (count, 200, 2) of trained networks."""
    x, y, at, _ = images()
    every = np.concatenate([x, at])
    products = every @ every.T / every.shape[1]
    first = HYPER["C_b"] + HYPER["C_W"] * products
    l, v = np.linalg.eigh(first)
    root = jnp.asarray(v * np.sqrt(np.maximum(l, 0.0)), jnp.float32)
    rates = jnp.asarray(HYPER["lambda_b"] + HYPER["lambda_W"] * products[:, :TRAIN], jnp.float32)
    target = jnp.asarray(np.eye(2)[y], jnp.float32)

    def one(key):
        keys = jax.random.split(key, 4)
        U = root @ jax.random.normal(keys[0], (len(every), n))
        W = jnp.sqrt(HYPER["C_W"] / n) * jax.random.normal(keys[1], (n, 2))
        b = jnp.sqrt(HYPER["C_b"]) * jax.random.normal(keys[2], (2,))
        orders = jnp.argsort(jax.random.uniform(keys[3], (TRAINING["steps"], TRAIN)), axis=1)
        # What the first layer's weights have moved by is a combination of the training images.
        start = (jnp.zeros((TRAIN, n)), W, b)

        def slope(state, taken):
            C, W, b = state
            s = jnp.tanh(U[:TRAIN] - rates[:TRAIN] @ C)
            g = jax.nn.softmax(s @ W + b) - target
            g = g * TRAIN / TRAINING["batch"] * jnp.zeros(TRAIN).at[taken].set(1.0)[:, None]
            return (g @ W.T) * (1 - s**2), HYPER["lambda_W"] / n * s.T @ g, HYPER["lambda_b"] * g.sum(0)

        def step(now, taken):
            state, velocity = now
            velocity = jax.tree.map(lambda v, g: TRAINING["momentum"] * v + g, velocity, slope(state, taken))
            # C holds the sum of updates, which is taken off; weights lose theirs.
            state = jax.tree.map(lambda p, v, s: p + s * TRAINING["learning_rate"] * v, state, velocity, (1, -1, -1))
            return (state, velocity), None

        zeros = jax.tree.map(jnp.zeros_like, start)
        (C, W, b), _ = jax.lax.scan(step, (start, zeros), orders[:, : TRAINING["batch"]])[0]
        return jnp.tanh(U[TRAIN:] - rates[TRAIN:] @ C) @ W + b

    many = jax.jit(jax.vmap(lambda i: one(jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), n), i))))
    return np.concatenate([np.asarray(many(jnp.arange(b, b + block))) for b in range(0, count, block)])


def answers(z):
    """Of test logits (draws, tests, 2) what is observed of each draw, (draws, 4), as `training.assess` has it."""
    z, y = z[:, :ANSWERED], images()[3][:ANSWERED]
    right = z.argmax(-1) == y
    logs = -np.logaddexp(0.0, -np.abs(z[..., 1] - z[..., 0]))
    sure = np.exp(logs)
    nll = np.where(right, -logs, np.abs(z[..., 1] - z[..., 0]) - logs)
    return np.stack([right.mean(-1), sure.mean(-1), (sure - right).mean(-1), nll.mean(-1)], axis=-1)


def two(z):
    """Two logits whose difference is √2 z."""
    return np.concatenate([-z, z], axis=-1) / np.sqrt(2)


def logistic(z, y):
    """The cross-entropy of two classes y = ±1 whose logits differ by √2 z."""
    return jax.nn.softplus(-np.sqrt(2) * y * z).sum()


def plan():
    """The schedule of training."""
    steps, rate, beta, batch = (TRAINING[name] for name in ("steps", "learning_rate", "momentum", "batch"))
    return schedule(None, steps, rate, beta, False, batch, TRAIN)


def at_infinity(count, first=0):
    """Outputs of infinite width before training (count, 230, 1), test logits after it, and batches."""
    x, _, at, _ = images()
    kernel = neft.width.kernel(network(64, 1), np.concatenate([x, at]), dtype="float64")
    K, Theta = (np.asarray(part) for part in (kernel.K, kernel.Theta))
    l, v = np.linalg.eigh(K)
    key, index = jax.random.key(SEED), np.arange(first, first + count)
    rng = np.random.default_rng([SEED, first])
    z = (v * np.sqrt(np.maximum(l, 0.0))) @ rng.standard_normal((count, len(K), 1))
    batches = np.asarray(draw_batches(key, index, steps=TRAINING["steps"], count=TRAIN, batch=TRAINING["batch"]))
    c = moved(logistic, Theta[:TRAIN, :TRAIN], z[:, :TRAIN], targets(), plan(), batches)[:, 0]
    return z, two(z[:, TRAIN:] - Theta[TRAIN:, :TRAIN] @ c), batches


def targets():
    """±1 for the training images, (30, 1)."""
    return 2.0 * images()[1][:, None] - 1.0


def theory(draws, begin, chunk=32):
    """Of a block of test images from `begin` on: logits of mirrored draws (widths, 2, draws, images, 2), which of them
    got there, of how many the covariance is not positive (widths,), and CPU seconds.
    """
    x, _, at, _ = images()
    z, _, batches = at_infinity(draws)
    size, clocks = min(BLOCK, TEST - begin), [time.process_time()]
    where = np.concatenate([np.arange(TRAIN), TRAIN + begin + np.arange(size)])
    inputs = np.concatenate([x, at[begin : begin + size]])
    tensors = output_tensors(network(64, 1), inputs, (*TENSORS, "V"), rtol=RTOL, first=TRAIN)
    clocks.append(time.process_time())
    base = law(tensors, 1.0, TRAIN, 1, [np.array([i]) for i in range(TRAIN, TRAIN + size)])
    del tensors
    clocks.append(time.process_time())
    found, good = np.empty((len(EXPANDED), 2, draws, size, 2)), np.empty((len(EXPANDED), 2, draws), bool)
    negative = np.zeros(len(EXPANDED), int)
    key = jax.random.fold_in(jax.random.key(SEED), begin)
    for i, n in enumerate(EXPANDED):
        own = at_width(base, n)
        for start in range(0, draws, chunk):
            part = slice(start, min(start + chunk, draws))
            for side, sign in enumerate((1.0, -1.0)):
                one = draw(own, key, np.arange(draws)[part], sign=sign, infinite=z[part][:, where])
                after, good[i, side, part] = trained(own, one, targets(), plan(), logistic, batches[part])
                found[i, side, part] = two(after[:, 0, TRAIN:])
                negative[i] += int((~one.positive).sum())
    clocks.append(time.process_time())
    return {"logits": found, "good": good, "negative": negative, "seconds": np.diff(clocks)}


def keep(**entries: Any) -> None:
    """Put what was found into the file."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps(kept | entries, indent=1, ensure_ascii=False) + "\n")


def mean(values):
    """Mean and standard error over the first axis, as lists."""
    return [values.mean(0).tolist(), (values.std(0, ddof=1) / np.sqrt(len(values))).tolist()]


def simulate(count):
    """Keep what trained networks of each width answer, and infinitely wide ones."""
    clock, found = time.process_time(), {}
    for n in WIDTHS:
        found[str(n)] = mean(answers(simulated(n, count)))
        print(n, *(f"{v:.4f}±{e:.4f}" for v, e in zip(*found[str(n)])), flush=True)
    infinite = np.concatenate([answers(at_infinity(1024, first)[1]) for first in range(0, 8192, 1024)])
    keep(
        observed=OBSERVED,
        training=TRAINING,
        images=[TRAIN, ANSWERED],
        infinite=mean(infinite),
        simulation={
            "command": f"python tools/classify_widths.py simulate {count}",
            "networks": count,
            "seed": SEED,
            "found": found,
            "cpu_seconds": round(time.process_time() - clock),
        },
    )
    print("infinite", *(f"{v:.4f}±{e:.4f}" for v, e in zip(*mean(infinite))), flush=True)


def predict(draws, folder):
    """Keep what mirrored draws of order 1/n add to infinite width; blocks that the folder has are not made again."""
    parts = []
    for begin in range(0, ANSWERED, BLOCK):
        path = Path(folder) / f"{draws}-{begin}.npz"
        if not path.exists():
            np.savez(path, **theory(draws, begin))
        parts.append(np.load(path))
        print(begin, parts[-1]["seconds"].round(), parts[-1]["negative"], flush=True)
    logits = np.concatenate([part["logits"] for part in parts], axis=3)
    good = np.all([part["good"].all(1) for part in parts], axis=0)
    before, changes = answers(at_infinity(draws)[1]), {}
    for n, (first, second), reached in zip(EXPANDED, logits, good):
        change = (answers(first[reached]) + answers(second[reached])) / 2 - before[reached]
        changes[str(n)] = mean(change)
        print(n, f"{reached.sum()} of {draws}", *(f"{v:+.4f}±{e:.4f}" for v, e in zip(*changes[str(n)])), flush=True)
    seconds = np.sum([part["seconds"] for part in parts], axis=0).round().tolist()
    keep(
        theory={
            "command": f"python tools/classify_widths.py theory {draws} FOLDER",
            "draws": draws,
            "seed": SEED,
            "changes": changes,
            "lost": {str(n): int((~each).sum()) for n, each in zip(EXPANDED, good)},
            "negative": {str(n): int(each) for n, each in zip(EXPANDED, parts[0]["negative"])},
            "cpu_seconds": dict(zip(("tensors", "law", "draws and training"), seconds)),
        }
    )


if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        simulate(int(sys.argv[2]))
    else:
        predict(int(sys.argv[2]), sys.argv[3])
