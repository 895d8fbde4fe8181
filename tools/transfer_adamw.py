"""Which rate is best for AdamW when a network is made wider or deeper; kept in `docs/transfer.json`.

    .venv/bin/python tools/transfer_adamw.py [--runs transfer.jsonl] [--plot docs/images/transfer.svg] [--only NAME …]

Networks and training are those of `tools/contest.py`: Fashion-MNIST, batches of 128, 400 steps of AdamW with weight
decay 0.01, no warm-up and no schedule; what counts is the loss on 10,000 training images, mean of three seeds. All
groups of parameters have one rate at the smallest size, and what `neft.scaling.transfer` says at the others. Rates are
a factor 2 apart, from the best of the smaller size outwards until two on either side are worse. Every training is a
line of a file, so that the same command goes on where it was stopped; about 40 CPU minutes. `--branches` measures
instead what training did to the branches of two matrices, at one rate, and takes 5.

Two more sweeps (6 minutes) are of branches that start small and of what trains them: MNIST, matrices of branches drawn
with an eighth of the standard deviation, the rate of blocks and norms varied while the first and the last layer keep
theirs.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from contest import Contender, Runs, added, batches, descended, drawn, images, spread

from neft._files import writing
from neft.scaling import transfer

DOCS = Path(__file__).parents[1] / "docs"
SEEDS = (0, 1, 2)
WIDTHS, DEPTHS = (64, 128, 256, 512, 1024), (4, 8, 16, 32, 64)
START = -10
"""The power of 2 of the first rate."""
OUTSIDE = -8
"""The power of 2 of the rate outside of blocks where that of blocks alone is varied: the best for all at 4 blocks."""


class Sweep(NamedTuple):
    """A parameterization, what is varied, and the form of the network; of branches that start `small` the rate of the
    blocks alone is varied.
    """

    kind: str
    varied: str
    form: str
    sizes: tuple[int, ...]
    small: float | None = None
    data: str = "fashion-mnist"


SWEEPS = {
    "standard, width": Sweep("standard", "width", "mlp", WIDTHS),
    "mup, width": Sweep("mup", "width", "mlp", WIDTHS),
    "depth-mup, one matrix": Sweep("depth-mup", "depth", "one", DEPTHS),
    "depth-mup, two matrices": Sweep("depth-mup", "depth", "residual", DEPTHS),
    "completep, two matrices": Sweep("completep", "depth", "residual", DEPTHS),
    "depth-mup, small branches": Sweep("depth-mup", "depth", "residual", DEPTHS, 1 / 8, "mnist"),
    "completep, small branches": Sweep("completep", "depth", "residual", DEPTHS, 1 / 8, "mnist"),
}
LAYERS = 4
"""Dense layers of the perceptrons."""


def network(sweep: Sweep, size: int) -> tuple[int, int, Contender]:
    """Dense layers, width, and how weights are drawn and trained at a rate of 1 at the smallest size.

    >>> depth, width, of = network(SWEEPS["mup, width"], 512)
    >>> depth, width, of.rate_W.tolist(), of.C_W.tolist()
    (4, 512, [1.0, 0.125, 0.125, 0.125], [2.0, 2.0, 2.0, 0.25])
    """
    low = sweep.sizes[0]
    deeper = sweep.varied == "depth"
    given: dict[str, Any] = {"depth": (low, size), "width": (low, low)} if deeper else {"width": (low, size)}
    found = transfer(sweep.kind, optimizer="adamw", **given)
    matrices = {"mlp": LAYERS - 2, "one": size, "residual": 2 * size}[sweep.form]
    width = 64 if deeper else size
    # A multiplier of the last layer is the same as weights and rates times it (neft.scaling).
    out = found.multiplier[found.groups.index("output weights")]
    wider = 1.0 if deeper else size / low

    def of(values: np.ndarray, what: str) -> np.ndarray:
        at = [found.groups.index(f"{part} {what}") for part in ("input", "hidden", "output")]
        first, hidden, last = (float(values[i]) for i in at)
        return np.array([first, *[hidden] * matrices, last])

    rate_W, decay = of(found.rate, "weights"), of(found.decay, "weights")
    variance = of(found.variance, "weights") * np.array([1.0, *[wider] * (matrices + 1)])
    rate_W[-1] *= out
    decay[-1] /= out
    variance[-1] *= out**2
    assert np.allclose(decay * rate_W, decay[0] * rate_W[0]) or sweep.kind == "standard" or deeper
    norms = float(found.rate[found.groups.index("hidden norms")])
    rates = {"rate_W": rate_W, "rate_b": of(found.rate, "biases"), "rate_norm": norms}
    C_W, C_b = 2 * variance, 0 * variance
    C_W[1:-1] *= 1 if sweep.small is None else sweep.small**2
    return matrices + 2, width, Contender(C_W, C_b, False, **rates, decay_b=0.0, branch=found.branch)


def blocks_alone(of: Contender, rate: float) -> Contender:
    """The same, with rates outside of blocks and norms that are `OUTSIDE` once all are multiplied by a rate."""
    outside = np.array([2.0**OUTSIDE / rate, *np.ones(len(of.rate_W) - 2), 2.0**OUTSIDE / rate])
    return of._replace(rate_W=of.rate_W * outside, rate_b=of.rate_b * outside)


def swept(runs: Runs, sweep: Sweep) -> dict[str, Any]:
    """Losses by size and rate, and the best rate of each size."""
    start = first = START if sweep.small is None else OUTSIDE
    found: dict[str, Any] = {}
    for size in sweep.sizes:
        depth, width, of = network(sweep, size)
        key = (sweep.form, "relu", depth, width, "adamw")
        losses: dict[int, list[float]] = {}
        # Small branches: from the same rate for all sizes, to see what a rate below the best does.
        best, low, high = start, (start if sweep.small is None else first) - 2, start + 2
        while True:
            for power in sorted(range(low, high + 1), key=lambda p: abs(p - best)):
                if power not in losses:
                    rate, data = 2.0**power, sweep.data
                    at = of if sweep.small is None else blocks_alone(of, rate)
                    losses[power] = [runs(key, sweep.kind, at, rate, seed, data=data)[0] for seed in SEEDS]
            best = min(losses, key=lambda power: float(np.mean(losses[power])))
            if low + 2 <= best <= high - 2 or abs(best - first) > 9:
                break
            low, high = min(low, best - 2), max(high, best + 2)
        found[str(size)] = {"best": 2.0**best, "losses": {f"{2.0**p:.6g}": losses[p] for p in sorted(losses)}}
        print(sweep.kind, sweep.form, size, f"best {2.0**best:.3g}, loss {np.mean(losses[best]):.4f}", flush=True)
        start = best
    return found


def moved(sweep: Sweep, size: int, rate: float, seed: int) -> tuple[float, float]:
    """Of what a branch adds to its stream: the change by training, linear in its parameters, over the start, and the
    rest of the change over the linear part. Sizes are root mean squares over 512 images and neurons, ratios means over
    branches, streams those of the trained network.
    """
    depth, width, of = network(sweep, size)
    (x, y, *_), start = images(), drawn(seed, depth, width, of, "residual")
    rates = spread(rate * of.rate_W, rate * of.rate_b, rate * of.rate_norm, depth, "residual")
    decay = spread(np.full(depth, 0.01), np.zeros(depth), 0.0, depth, "residual")
    how: Any = {"name": "relu", "kind": "residual", "optimizer": "adamw"}
    order = jnp.asarray(batches(seed, len(x)))

    def size_of(values: Any) -> Any:
        return jnp.sqrt(jnp.mean(values**2))

    @jax.jit
    def measured(start: Any) -> Any:
        end = descended(start, rates, decay, jnp.float32(of.branch), jnp.float32(0), order, x, y, **how)
        W, b = end["first"]

        def block(z: Any, both: Any) -> Any:
            then, now = both
            before, linear = jax.jvp(
                lambda own: added("relu", own, z), (then,), (jax.tree.map(jnp.subtract, now, then),)
            )
            after = added("relu", now, z)
            rest = after - before - linear
            return z + of.branch * after, (size_of(linear) / size_of(before), size_of(rest) / size_of(linear))

        own = [(params["hidden"], tuple(part[:-1] for part in params["norm"])) for params in (start, end)]
        return jax.lax.scan(block, x[:512] @ W + b, tuple(own))[1]

    linear, rest = measured(start)
    return float(linear.mean()), float(rest.mean())


def branches() -> dict[str, Any]:
    """By parameterization and number of blocks: change and rest of each seed."""
    found: dict[str, Any] = {}
    for name in ("depth-mup, two matrices", "completep, two matrices"):
        for size in DEPTHS:
            each = [moved(SWEEPS[name], size, 2.0**START, seed) for seed in SEEDS]
            found.setdefault(name, {})[str(size)] = dict(zip(("change", "rest"), map(list, zip(*each))))
            print(name, size, np.mean(each, 0).round(3).tolist(), flush=True)
    return found


def draw(kept: dict[str, Any], path: Path, small: bool) -> None:
    """A panel for each sweep, of small branches or of all others: loss against the rate, a curve for each size, its
    best marked.
    """
    import matplotlib
    from matplotlib.figure import Figure

    from neft import plot

    names = [name for name, sweep in SWEEPS.items() if name in kept and (sweep.small is not None) == small]
    figure = Figure(figsize=(3.1 * len(names), 3.4), layout="constrained")
    panels: Any = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(panels, names):
        sizes = kept[name]
        colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.88, len(sizes)))
        for colour, (size, one) in zip(colours, sizes.items()):
            rates = np.array([float(rate) for rate in one["losses"]])
            means = np.array([np.mean(values) for values in one["losses"].values()])
            ax.plot(rates, means, color=colour, lw=1.3, label=size)
            at = int(np.argmin(means))
            ax.plot(rates[at], means[at], "o", color=colour, ms=6)
        best = [math.log2(one["best"]) for one in sizes.values()]
        ax.set_xscale("log", base=2)
        lowest = min(np.mean(values) for one in sizes.values() for values in one["losses"].values())
        ax.set_ylim(0.96 * lowest, 1.45 * lowest)
        span = 2 ** (max(best) - min(best))
        ax.set_title(f"{name}\n{'one best rate' if span == 1 else f'best rates span a factor {span:g}'}", fontsize=9)
        ax.set_xlabel("rate of the blocks" if small else "rate" if name[0] == "s" else "rate at the smallest size")
        ax.legend(title=SWEEPS[name].varied, fontsize=7, title_fontsize=8, frameon=False)
    panels[0].set_ylabel("training loss")
    plot.save(figure, path)


def main() -> None:
    """Sweeps one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("transfer.jsonl"))
    parser.add_argument("--plot", type=Path, default=DOCS / "images" / "transfer.svg")
    parser.add_argument("--plot-small", type=Path, default=DOCS / "images" / "transfer_small.svg")
    parser.add_argument("--only", nargs="+", default=list(SWEEPS), choices=list(SWEEPS))
    parser.add_argument("--branches", action="store_true")
    args = parser.parse_args()
    runs, file = Runs(args.runs), DOCS / "transfer.json"
    if args.branches:
        kept = json.loads(file.read_text()) | {"branches": {"rate": 2.0**START, **branches()}}
        with writing(file) as out:
            out.write(json.dumps(kept, indent=1) + "\n")
        return
    for name in args.only:
        kept = json.loads(file.read_text()) if file.exists() else {}
        kept[name] = swept(runs, SWEEPS[name])
        with writing(file) as out:
            out.write(json.dumps(kept, indent=1) + "\n")
        small = SWEEPS[name].small is not None
        draw(kept, args.plot_small if small else args.plot, small)


if __name__ == "__main__":
    main()
