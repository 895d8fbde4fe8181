"""Which learning rate is best for RNGD in units, by width, depth and batch; keeps it, `docs/rates.json`.

    .venv/bin/python tools/transfer_rates.py [--runs rates.jsonl] [--plot docs/images/fisher_rates.svg]

MNIST, two epochs with a falling rate, seed 0, one core: networks of three hidden layers of 40 to 640 neurons, of 2 to 8
hidden layers of 80, and batches of 50 to 500, each at rates a factor 2 apart. The best is that of the lowest training
cost at the end. Every training is a line of a file, so that the same command goes on where it was stopped; two CPU
minutes.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from neft import fisher
from neft._files import writing
from neft._progress import track

DOCS = Path(__file__).parents[1] / "docs"
WIDTHS, DEPTHS, BATCHES = (40, 80, 160, 320, 640), (2, 3, 4, 6, 8), (50, 100, 200, 500)
OPTIMIZER, RATES = "rngd-units", (0.005, 0.01, 0.02, 0.04, 0.08)
SEED, EPOCHS = 0, 2


def networks() -> list[tuple[str, int, int, int]]:
    """What is varied, width, depth and batch of every experiment.

    >>> len(networks())
    14
    """
    found = [("width", width, 3, 200) for width in WIDTHS]
    found += [("depth", 80, depth, 200) for depth in DEPTHS]
    return found + [("batch", 80, 3, batch) for batch in BATCHES]


def trained(width: int, depth: int, batch: int, rate: float) -> float:
    """The training cost at the end; NaN where it was not finite on the way."""
    experiment = fisher.Experiment(
        data="mnist",
        full=True,
        hidden=(width,) * depth,
        optimizer=OPTIMIZER,
        batch=batch,
        epochs=EPOCHS,
    )
    try:
        return float(experiment.train(rate, [SEED])["train_cost"][0, -1])
    except ValueError as error:
        if "not finite" not in str(error):
            raise
        return math.nan


def best(costs: Mapping[float, float]) -> float:
    """The rate of the lowest cost.

    >>> best({0.1: 0.3, 0.2: 0.2, 0.4: math.nan})
    0.2
    """
    finite = {rate: cost for rate, cost in costs.items() if math.isfinite(cost)}
    return min(finite, key=lambda rate: finite[rate]) if finite else math.nan


def one_rate(table: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The rate whose largest ratio to a best one is smallest, and that ratio.

    >>> one_rate([{"best": 0.1}, {"best": 0.4}])
    (0.2, 2.0)
    """
    rates = [row["best"] for row in table]
    rate = math.sqrt(min(rates) * max(rates))
    return round(rate, 10), max(rate / min(rates), max(rates) / rate)


def drawn(kept: Mapping[str, Any]) -> Any:
    """Cost over the best cost of its network against the rate, a panel for each thing that is varied."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    panels: Any = figure.subplots(1, 3, sharey=True)
    for axes, varied in zip(panels, ("width", "depth", "batch")):
        for line in (line for line in kept["table"] if line["varied"] == varied):
            points = [(float(rate), cost) for rate, cost in line["costs"].items() if cost is not None]
            lowest = min(cost for _, cost in points)
            axes.plot(*zip(*[(rate, cost / lowest) for rate, cost in points]), marker="o", label=str(line[varied]))
        axes.set(xscale="log", yscale="log", ylim=(0.97, 4), title=varied, xlabel="rate")
        axes.set_xticks(RATES, [f"{rate:g}" for rate in RATES])
        axes.set_yticks([1, 2, 4], ["1", "2", "4"])
        axes.minorticks_off()
        axes.legend(fontsize=7)
    panels[0].set_ylabel("cost / lowest cost")
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Trains what is missing, writes the table, and prints what one rate does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=DOCS / "rates.jsonl")
    parser.add_argument("--out", type=Path, default=DOCS / "rates.json")
    parser.add_argument("--plot", type=Path, default=DOCS / "images" / "fisher_rates.svg")
    args = parser.parse_args(argv)
    known = {}
    if args.runs.exists():
        known = {json.dumps(run): cost for run, cost in map(json.loads, args.runs.read_text().splitlines())}
    table = []
    for varied, width, depth, batch in track(networks(), OPTIMIZER):
        costs = {}
        for rate in RATES:
            run = [OPTIMIZER, width, depth, batch, rate]
            if json.dumps(run) not in known:
                known[json.dumps(run)] = trained(width, depth, batch, rate)
                with args.runs.open("a") as file:
                    file.write(json.dumps([run, known[json.dumps(run)]]) + "\n")
            costs[rate] = known[json.dumps(run)]
        shown = {f"{rate:g}": round(cost, 4) if math.isfinite(cost) else None for rate, cost in costs.items()}
        row = {"varied": varied, "width": width, "depth": depth, "batch": batch, "best": best(costs), "costs": shown}
        table.append(row)
    rate, ratio = one_rate(table)
    print(f"The best rates are within a factor {ratio:.2g} of {rate:g}.")
    made = {"command": "python tools/transfer_rates.py", "optimizer": OPTIMIZER, "data": "mnist"}
    kept = {**made, "seed": SEED, "epochs": EPOCHS, "table": table}
    with writing(args.out) as file:
        json.dump(kept, file, indent=1)
    from neft import plot

    plot.save(drawn(kept), args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
