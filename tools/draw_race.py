"""Tables in Markdown and the figure of a race that was kept, `docs/race.json` (`race_optimizers.py`).

    .venv/bin/python tools/draw_race.py [--kept docs/race.json] [--plot docs/images/fisher_race.svg]

A cell is CPU seconds with their standard error over seeds, and epochs; "2 of 4" says how many seeds reached the level
where not all did, and "0 of 24" that no trial did.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
ORDER = ("white", "centred", "raw")


def cell(line: Mapping[str, Any] | None) -> str:
    """What stands in the table.

    >>> cell({"setting": {}, "seeds": 4, "reached": 4, "seconds": 0.3, "seconds_error": 0.01, "epochs": 2.25})
    '0.300 ± 0.010 (2.2)'
    >>> cell({"setting": None, "trials": 24})
    '0 of 24'
    """
    if line is None:
        return ""
    if line["setting"] is None:
        return f"0 of {line['trials']}"
    if not line["reached"]:
        return f"0 of {line['seeds']} seeds"
    share = "" if line["reached"] == line["seeds"] else f", {line['reached']} of {line['seeds']}"
    # One seed has no error.
    error = "" if line["seconds_error"] != line["seconds_error"] else f" ± {line['seconds_error']:.3f}"
    return f"{line['seconds']:.3f}{error} ({line['epochs']:.1f}{share})"


def complete(line: Mapping[str, Any]) -> bool:
    """Whether every seed reached the level.

    >>> complete({"reached": 0, "seeds": 0})
    False
    """
    return 0 < line["seeds"] == line["reached"]


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """One row for each optimizer on its inputs, the fastest to the cost first; the fastest of each column is bold.

    Behind those whose seeds all reached the cost stand the others, by how many did and how fast.
    """
    found = {(line["optimizer"], line["inputs"], line["level"]): line for line in lines}
    levels = {line["level"]: line["at"] for line in lines}
    fastest = {
        level: min((x for x in lines if x["level"] == level and complete(x)), key=lambda x: x["seconds"], default=None)
        for level in levels
    }

    def place(key: tuple[str, str]) -> tuple:
        line = found.get((*key, "cost"), {"seeds": 0, "reached": 0})
        return not complete(line), -line["reached"], line.get("seconds", math.inf), key

    heads = [f"to cost {levels['cost']:g}", f"to accuracy {100 * levels['accuracy']:.1f} %"]
    out = [f"| optimizer, inputs | {heads[0]} | {heads[1]} |", "| --- | --- | --- |"]
    for key in sorted({(line["optimizer"], line["inputs"]) for line in lines}, key=place):
        cells = []
        for level in ("cost", "accuracy"):
            line = found.get((*key, level))
            text = cell(line)
            cells.append(f"**{text}**" if line is not None and line is fastest[level] else text)
        out.append(f"| {key[0]}, {key[1]} | {cells[0]} | {cells[1]} |")
    return "\n".join(out)


def drawn(kept: Mapping[str, Any]) -> Any:
    """CPU seconds of every optimizer on its best inputs, to the levels of MNIST without batch normalization."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    panels: Any = figure.subplots(1, 2)
    for axes, level in zip(panels, ("cost", "accuracy")):
        lines = [x for x in kept["tuned"] if (x["data"], x["norm"], x["level"]) == ("mnist", "plain", level)]
        names = dict.fromkeys(line["optimizer"] for line in lines)
        groups = [[line for line in lines if line["optimizer"] == name and complete(line)] for name in names]
        best = [min(group, key=lambda line: line["seconds"]) for group in groups if group]
        best.sort(key=lambda line: -line["seconds"])
        ours = ["#b2182b" if line["optimizer"].startswith("rngd") else "#4d4d4d" for line in best]
        labels = [f"{line['optimizer']}, {line['inputs']}" for line in best]
        errors = [line["seconds_error"] for line in best]
        axes.barh(labels, [line["seconds"] for line in best], xerr=errors, color=ours, height=0.7)
        at = f"{lines[0]['at']:g}" if level == "cost" else f"{100 * lines[0]['at']:.1f} %"
        axes.set(xlabel="CPU seconds", title=f"MNIST, to {level} {at}")
        axes.tick_params(axis="y", labelsize=7)
    return figure


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables and writes the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kept", type=Path, default=DOCS / "race.json")
    parser.add_argument("--plot", type=Path, default=DOCS / "images" / "fisher_race.svg")
    args = parser.parse_args(argv)
    kept = json.loads(args.kept.read_text())
    for name in ("tuned", "unchanged"):
        groups = dict.fromkeys((line["data"], line["norm"]) for line in kept[name])
        for data, norm in groups:
            print(f"\n{name}, {data}, {norm}\n")
            print(table([line for line in kept[name] if (line["data"], line["norm"]) == (data, norm)]))
    from neft import plot

    plot.save(drawn(kept), args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
