"""Trains advised networks beside others and keeps what they reached, `docs/advice.json`.

    .venv/bin/python tools/contest.py [--widths 64] [--kinds mlp residual] [--optimizers sgd adamw] [--depths 10 20 40]

Fashion-MNIST, pixels standardised, batches of 128, 400 steps, cross-entropy, no warm-up and no schedule. Contenders are
the default of PyTorch and Equinox (uniform ±1/√fan-in, weights and biases), He's variances (relu, gelu) or Xavier's
(tanh), each with one rate, and what neft advises, as it is and with all its rates times one factor. Rates are a factor
2 apart, seven of them and more while the best is at an end, chosen by the mean over two seeds; five other seeds are
then trained at the chosen one. What counts is the loss on the first 10,000 training images after the last step, at most
ln 10 (a diverged run counts as that), and the accuracy on the test images stands beside it.

Residual networks are a dense layer, (depth - 2)/2 branches of two matrices behind a LayerNorm with learned gains and
biases, a last norm and a dense layer. A row replaces its entry; runs are kept in a file beside it, so that the same
command goes on where it was stopped.
"""

import argparse
import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# One thread: small products wait for each other otherwise. Before JAX is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np

import neft
from neft._files import writing
from neft.network.engine import weights_of

FILE = Path(__file__).parents[1] / "docs" / "advice.json"
BATCH, STEPS, SEEN, INPUTS, CLASSES = 128, 400, 10_000, 784, 10
TUNED, FRESH = (100, 101), (0, 1, 2, 3, 4)
WORST = math.log(CLASSES)
ACTIVATIONS = {"relu": jax.nn.relu, "gelu": lambda z: jax.nn.gelu(z, approximate=False), "tanh": jnp.tanh}
START = {"sgd": 0.05, "adamw": 0.001}


class Contender(NamedTuple):
    """How weights are drawn (variances of each layer, and whether uniformly) and rates for a factor of 1."""

    C_W: np.ndarray
    C_b: np.ndarray
    uniform: bool
    rate_W: np.ndarray
    rate_b: np.ndarray
    rate_norm: float
    decay_b: float
    branch: float


@functools.cache
def images(data: str = "fashion-mnist"):
    """Training and test images and labels."""
    sets = [neft.data.load(data, split=split, preprocess="unit+global") for split in ("train", "test")]
    return tuple(jnp.asarray(part) for one in sets for part in (one.x, one.y))


def sizes(depth: int, width: int) -> list[tuple[int, int]]:
    """Inputs and outputs of each layer."""
    return [(INPUTS, width), *[(width, width)] * (depth - 2), (width, CLASSES)]


def drawn(seed: int, depth: int, width: int, of: Contender, kind: str) -> Any:
    """Initial parameters: the first layer, those between stacked, the last, and norms."""
    rng = np.random.default_rng([seed, 77])

    def numbers(shape, variance):
        values = rng.uniform(-1, 1, shape) * math.sqrt(3) if of.uniform else rng.normal(size=shape)
        return values * math.sqrt(variance)

    pairs = [
        (numbers((n, m), C_W / n), numbers((m,), C_b)) for (n, m), C_W, C_b in zip(sizes(depth, width), of.C_W, of.C_b)
    ]
    return arranged(pairs, depth, kind, (np.ones(width), np.zeros(width)))


def arranged(pairs: Any, depth: int, kind: str, norm: Any) -> Any:
    """Pairs of all layers as the tree that `outputs` takes."""
    hidden = tuple(np.array(part) for part in zip(*pairs[1:-1]))
    tree = {"first": pairs[0], "hidden": hidden, "last": pairs[-1]}
    if kind == "residual":
        count = (depth - 2) // 2
        tree["hidden"] = tuple(part.reshape(count, 2, *part.shape[1:]) for part in hidden)
        tree["norm"] = tuple(np.tile(part, (count + 1, *[1] * np.ndim(part))) for part in norm)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def spread(W: np.ndarray, b: np.ndarray, norm: float, depth: int, kind: str) -> Any:
    """Numbers of each layer as a tree that goes with the parameters."""
    pairs = [(np.full((1, 1), one), np.full(1, two)) for one, two in zip(W, b)]
    return arranged(pairs, depth, kind, (np.full(1, norm), np.full(1, norm)))


def normed(x, gain, bias):
    """LayerNorm."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * gain + bias


def added(name: str, own: Any, z):
    """What a branch of two matrices behind a norm adds to its stream, before its factor."""
    (W, b), norm = own
    return ACTIVATIONS[name](normed(z, *norm) @ W[0] + b[0]) @ W[1] + b[1]


def outputs(name: str, kind: str, params, x, branch):
    """Logits; of a stream that one matrix behind an activation is added to where the kind is "one"."""
    act, (W, b) = ACTIVATIONS[name], params["first"]
    z = x @ W + b

    def layer(z, own):
        W, b = own
        moved = act(z) @ W + b
        return z + branch * moved if kind == "one" else moved, None

    def block(z, own):
        return z + branch * added(name, own, z), None

    if kind == "residual":
        inner = tuple(part[:-1] for part in params["norm"])
        z, _ = jax.lax.scan(block, z, (params["hidden"], inner))
        z = normed(z, *(part[-1] for part in params["norm"]))
    else:
        z, _ = jax.lax.scan(layer, z, params["hidden"])
        z = act(z)
    W, b = params["last"]
    return z @ W + b


def entropy(z, y):
    """Mean cross-entropy."""
    return jnp.mean(jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None], 1)[:, 0])


def descended(params, rates, decay, branch, warm, order, x, y, *, name, kind, optimizer):
    """Parameters after all steps, of which the rate rises from 0 over the first `warm`."""

    def cost(params, rows):
        return entropy(outputs(name, kind, params, x[rows], branch), y[rows])

    def step(carry):
        params, m, v, t, _ = carry
        now, gradient = jax.value_and_grad(cost)(params, order[t])
        t = t + 1
        rise = jnp.minimum(1.0, t / jnp.maximum(warm, 1.0))
        if optimizer == "sgd":
            return jax.tree.map(lambda p, r, g: p - rise * r * g, params, rates, gradient), m, v, t, now
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)

        def moved(p, r, w, m, v):
            r = rise * r
            return p * (1 - r * w) - r * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return jax.tree.map(moved, params, rates, decay, m, v), m, v, t, now

    zeros = None if optimizer == "sgd" else jax.tree.map(jnp.zeros_like, params)
    # What has diverged to no number stays there: the rest of its steps is not worth their time.
    start = (params, zeros, zeros, jnp.int32(0), jnp.float32(0))
    return jax.lax.while_loop(lambda at: (at[3] < len(order)) & jnp.isfinite(at[4]), step, start)[0]


@functools.partial(jax.jit, static_argnames=("name", "kind", "optimizer"))
def trained(params, rates, decay, branch, warm, order, x, y, test_x, test_y, *, name, kind, optimizer):
    """Loss on the first images and accuracy on the test images after all steps."""
    how = {"name": name, "kind": kind, "optimizer": optimizer}
    params = descended(params, rates, decay, branch, warm, order, x, y, **how)
    loss = entropy(outputs(name, kind, params, x[:SEEN], branch), y[:SEEN])
    guess = jnp.argmax(outputs(name, kind, params, test_x, branch), -1)
    return loss, jnp.mean(guess == test_y)


def contenders(kind: str, name: str, depth: int, width: int, optimizer: str) -> dict[str, Contender]:
    """Those of a row by name."""
    fan = np.array(sizes(depth, width), float)
    ones, start = np.ones(depth), START[optimizer]
    one = {"rate_W": start * ones, "rate_b": start * ones, "rate_norm": start, "decay_b": 0.01, "branch": 1.0}
    found = {"default": Contender(ones / 3, ones / (3 * fan[:, 0]), True, **one)}
    if name == "tanh":
        found["Xavier"] = Contender(2 * fan[:, 0] / fan.sum(1), 0 * ones, False, **one)
    else:
        found["He"] = Contender(2 * ones, 0 * ones, False, **one)
    return found | {"advised": advised(kind, name, depth, width, optimizer)}


ENDS: dict[str, int] = {"inputs": INPUTS, "outputs": CLASSES}


def pre_norm(name: str, depth: int, width: int) -> neft.Network:
    """The residual network."""
    norm = neft.LayerNorm(lambda_gain=1.0, lambda_bias=1.0, epsilon=1e-5)
    block = neft.Residual(norm, neft.Dense(width), name, neft.Dense(width))
    blocks = [neft.Dense(width), *[block] * ((depth - 2) // 2), norm, neft.Dense(CLASSES)]
    return neft.Network(INPUTS, blocks)


def advised(kind: str, name: str, depth: int, width: int, optimizer: str) -> Contender:
    """What neft says."""
    ones = np.ones(depth)
    q = float(jnp.mean(images()[0] ** 2))
    if kind == "residual":
        return advised_blocks(name, depth, width, optimizer, q)
    found = neft.width.advise(name, depth, width, inputs=INPUTS, outputs=CLASSES, q=q)
    chosen = found.settings(optimizer)
    rates = {"rate_W": chosen.rate_W, "rate_b": chosen.rate_b, "rate_norm": 0.0}
    C_W = np.append(found.C_W * ones[:-1], found.C_W_last)
    return Contender(C_W, found.C_b * ones, False, **rates, decay_b=0.0, branch=1.0)


def advised_blocks(name: str, depth: int, width: int, optimizer: str, q: float) -> Contender:
    """What neft says of a residual network."""
    found = neft.width.advise(pre_norm(name, depth, width), (depth - 2) // 2 + 2, width, q=q, **ENDS)
    assert isinstance(found, neft.width.results.BlockAdvice)
    each, chosen = weights_of(found.network()), found.settings(optimizer)
    C_W = np.array([layer.variance_W * layer.fan_in for layer in each])
    C_b = np.array([layer.variance_b for layer in each])
    return Contender(C_W, C_b, False, chosen.rate_W, chosen.rate_b, chosen.rate_norm, 0.0, 1.0)


def batches(seed: int, count: int) -> np.ndarray:
    """Rows of the images of each step."""
    return np.random.default_rng([seed, 5]).permutation(count)[: STEPS * BATCH].reshape(STEPS, BATCH)


class Runs:
    """Runs that were done, in a file of lines, and those that are not yet."""

    def __init__(self, path: Path) -> None:
        self.path, self.done = path, {}
        if path.exists():
            self.done = {line["run"]: line for line in map(json.loads, path.read_text().splitlines())}

    def __call__(
        self, row: tuple, who: str, of: Contender, factor: float, seed: int, warm: int = 0, data: str = "fashion-mnist"
    ) -> tuple[float, float]:
        """Loss and accuracy."""
        kind, name, depth, width, optimizer = row
        # What was trained, not what it was called: advice that has changed is trained again.
        settings = hashlib.sha256(repr([np.asarray(part).tolist() for part in of]).encode()).hexdigest()[:8]
        run = f"{row} {who} {settings} {factor:g} {seed}" + (f" warm {warm}" if warm else "")
        run += f" {data}" if data != "fashion-mnist" else ""
        if run not in self.done:
            x, y, *test = images(data)
            order = batches(seed, len(x))
            rates = spread(factor * of.rate_W, factor * of.rate_b, factor * of.rate_norm, depth, kind)
            decay = spread(np.full(depth, 0.01), np.full(depth, of.decay_b), of.decay_b, depth, kind)
            start = drawn(seed, depth, width, of, kind)
            how = {"name": name, "kind": kind, "optimizer": optimizer}
            given = (start, rates, decay, jnp.float32(of.branch), jnp.float32(warm), jnp.asarray(order), x, y, *test)
            loss, accuracy = map(float, trained(*given, **how))
            line = {"run": run, "loss": min(loss, WORST) if math.isfinite(loss) else WORST, "accuracy": accuracy}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.done[run] = line
        return self.done[run]["loss"], self.done[run]["accuracy"]


def row(runs: Runs, key: tuple, only: Sequence[str] = ()) -> dict[str, Any]:
    """What each contender (of those named, if any are) reached at its best factor, and the advice at 1 as well."""
    found: dict[str, Any] = {}
    for who, of in contenders(*key).items():
        if only and who not in only:
            continue
        tried: dict[int, float] = {}
        low, high = -3, 3
        while True:
            # From the middle: what one seed excludes by itself need not be trained on the other.
            for power in sorted(range(low, high + 1), key=abs):
                if power not in tried:
                    tried[power] = tuned(runs, key, who, of, power, min(tried.values(), default=math.inf))
            best = min(tried, key=lambda power: tried[power])
            if low < best < high or abs(best) > 8:
                break
            low, high = (low - 1, high) if best == low else (low, high + 1)
        found[who] = reached(runs, key, who, of, best) | {
            "tried": {f"{of.rate_W[1] * 2.0**power:.4g}": loss for power, loss in sorted(tried.items())}
        }
        if who == "advised":
            found["as given"] = reached(runs, key, who, of, 0)
    return found


def tuned(runs: Runs, key: tuple, who: str, of: Contender, power: int, best: float) -> float:
    """The mean loss over those seeds that rates are chosen on; of the first alone where that excludes it."""
    losses: list[float] = []
    for seed in TUNED:
        losses.append(runs(key, who, of, 2.0**power, seed)[0])
        if sum(losses) / len(TUNED) > best:
            break
    return float(np.mean(losses))


def reached(runs: Runs, key: tuple, who: str, of: Contender, power: int) -> dict[str, Any]:
    """Losses and accuracies of fresh seeds."""
    each = [runs(key, who, of, 2.0**power, seed) for seed in FRESH]
    losses, accuracies = map(list, zip(*each))
    return {"rate": float(of.rate_W[1] * 2.0**power), "losses": losses, "accuracies": accuracies}


def table(kept: Mapping[str, Any], kind: str, width: int) -> list[str]:
    """Lines of the table in docs/advice.md: loss with its error, and accuracy."""
    lines = [
        "| network | default | He or Xavier | advised, best of seven rates | advised, as given |",
        "|---|---|---|---|---|",
    ]
    for optimizer, depth, name in itertools.product(("sgd", "adamw"), (10, 20, 40), ACTIVATIONS):
        found = kept.get(f"{kind}/{name}/{depth}/{width}/{optimizer}")
        if found is None:
            continue
        cells = [found.get(who) or found.get("Xavier" if who == "He" else who) for who in WHO]
        title = f"{name} {depth}, {'SGD' if optimizer == 'sgd' else 'AdamW'}"
        lines.append(f"| {' | '.join([title, *map(cell, cells)])} |")
    return lines


WHO = ("default", "He", "advised", "as given")


def cell(one: Mapping[str, Any] | None) -> str:
    """A contender's mean loss, standard error and accuracy."""
    if one is None:
        return "not run"
    losses = np.array(one["losses"])
    error = losses.std(ddof=1) / math.sqrt(len(losses))
    return f"{losses.mean():.3f} ± {error:.3f}, {100 * np.mean(one['accuracies']):.1f} %"


def main() -> None:
    """Rows one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[64])
    parser.add_argument("--depths", type=int, nargs="+", default=[10, 20, 40])
    parser.add_argument("--activations", nargs="+", default=list(ACTIVATIONS), choices=list(ACTIVATIONS))
    parser.add_argument("--kinds", nargs="+", default=["mlp"], choices=["mlp", "residual"])
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "adamw"], choices=["sgd", "adamw"])
    parser.add_argument("--only", nargs="+", default=[], help="Contenders to train; the others of a row stay as kept.")
    parser.add_argument("--runs", type=Path, default=Path("contest.jsonl"), help="Where runs are kept.")
    parser.add_argument("--table", action="store_true", help="Print what is kept and end.")
    args = parser.parse_args()
    if args.table:
        for kind, width in itertools.product(args.kinds, args.widths):
            print("\n".join([f"{kind}, width {width}", "", *table(json.loads(FILE.read_text()), kind, width), ""]))
        return
    runs = Runs(args.runs)
    for key in itertools.product(args.kinds, args.activations, args.depths, args.widths, args.optimizers):
        found, name = row(runs, key, args.only), "/".join(map(str, key))
        # Read when the row is done: another command may have added rows of its own meanwhile.
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        found = kept[name] = (kept.get(name, {}) if args.only else {}) | found
        with writing(FILE) as file:
            file.write(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
        print(*key, {who: round(float(np.mean(one["losses"])), 3) for who, one in found.items()}, flush=True)


if __name__ == "__main__":
    main()
