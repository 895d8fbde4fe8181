"""Trains advised networks of many depths and widths and keeps what they reached, `docs/headway.json`.

    .venv/bin/python tools/try_depths.py [--runs depths.jsonl] [--plot docs/images/headway.svg]

Training is that of `tools/contest.py`, at the advised rate, on three seeds that the contest does not use; what counts
is the mean loss after 400 steps. The headway of each network (neft.width.advise) stands beside it. Every training is a
line of a file, so that the same command goes on where it was stopped; about ten CPU minutes.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from contest import CLASSES, INPUTS, Runs, advised

import neft
from neft._files import writing

FILE = Path(__file__).parents[1] / "docs" / "headway.json"
SEEDS = (200, 201, 202)
SIZES = {
    "relu": ((10, 16), (20, 16), (20, 32), (10, 64), (20, 64), (40, 64), (80, 64), (40, 128), (80, 128)),
    "gelu": ((20, 16), (20, 32), (10, 64), (20, 64), (40, 64), (80, 64), (80, 128)),
    "tanh": ((20, 16), (40, 16), (40, 32), (80, 32), (10, 64), (20, 64), (40, 64), (80, 64), (160, 64)),
}
DEEPER = {"relu": ((160, 64),), "gelu": ((160, 64),), "tanh": ()}
"""Tried with AdamW alone, which trains deeper ones."""


def reached(runs: Runs, name: str, depth: int, width: int, optimizer: str) -> dict[str, Any]:
    """Losses of all seeds, and the headway of gradient descent."""
    key = ("mlp", name, depth, width, optimizer)
    of = advised(*key)
    found = neft.width.advise(name, depth, width, inputs=INPUTS, outputs=CLASSES)
    losses = [runs(key, "pilot", of, 1.0, seed)[0] for seed in SEEDS]
    print(*key, f"headway {found.headway:.3f}, {found.verdict}, loss {np.mean(losses):.3f}", flush=True)
    return {"headway": round(found.headway, 4), "losses": losses}


def draw(kept: dict[str, Any], path: Path) -> None:
    """Loss against headway, gradient descent and AdamW."""
    from matplotlib.figure import Figure

    from neft import plot

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for ax, (optimizer, title) in zip(panels, (("sgd", "gradient descent"), ("adamw", "AdamW"))):
        for name, marker in (("relu", "o"), ("gelu", "s"), ("tanh", "^")):
            rows = [one for row, one in kept.items() if row.startswith(name) and row.endswith(optimizer)]
            x, y = [one["headway"] for one in rows], [np.mean(one["losses"]) for one in rows]
            error = [np.std(one["losses"], ddof=1) / math.sqrt(len(SEEDS)) for one in rows]
            ax.errorbar(x, y, error, fmt=marker, ms=5, label=name, capsize=2)
        ax.axhline(math.log(CLASSES) / 2, color="0.6", lw=0.8, ls="--")
        if optimizer == "sgd":
            ax.axvline(0.6, color="0.6", lw=0.8, ls="--")
        ax.set(xscale="log", xlabel="headway of gradient descent", title=title)
    panels[0].set_ylabel("training loss after 400 steps")
    panels[0].legend(frameon=False)
    plot.save(figure, path)


def main() -> None:
    """Networks one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("depths.jsonl"))
    parser.add_argument("--plot", type=Path, default=FILE.parent / "images" / "headway.svg")
    args = parser.parse_args()
    runs, kept = Runs(args.runs), {}
    for name, sizes in SIZES.items():
        for depth, width in (*sizes, *DEEPER[name]):
            for optimizer in ("sgd", "adamw") if (depth, width) in sizes else ("adamw",):
                kept[f"{name}/{depth}/{width}/{optimizer}"] = reached(runs, name, depth, width, optimizer)
    with writing(FILE) as file:
        file.write(json.dumps(kept, indent=1) + "\n")
    draw(kept, args.plot)


if __name__ == "__main__":
    main()
