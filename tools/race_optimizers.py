"""Races optimizers on 784-80-80-80-10 and keeps what they reached, `docs/race.json`.

    .venv/bin/python tools/race_optimizers.py [--data mnist fashion-mnist] [--optimizers rngd momentum] [--inputs white]
        [--norms plain batch] [--trials 24] [--seeds 1 2 3 4] [--runs race.jsonl] [--quick] [--estimate]

What is raced for: the fewest CPU seconds to a training cost and to a test accuracy; on MNIST 0.15 and 97.0 %, on
Fashion-MNIST the cost that tuned momentum on centred inputs reaches in 3 epochs and the accuracy that it reaches in 10
(both on the tuning seed, with its 24 trials at that horizon, rounded to the easier side by 0.01 and 0.1 %).

Rules, the same for all:
- 24 trials on the tuning seed, of which the fastest to each level is chosen. The search starts at the optimizer's usual
  rate with momentum in the middle of its list, batches of 200 and a horizon of 3 epochs, and goes from the best so far
  to its neighbours: the rate by a factor 2 (then √2, then the fourth root), the batch among 50, 200, 500, the horizon
  among HORIZONS, the momentum in its list. What it lowers is the sum of ln(CPU seconds) to both levels.
- On the tuning seed the accuracy is that of the validation part, on the others that of the test part.
- The rate falls as a cosine to 0 at the horizon, and there the run ends; schedule-free optimizers keep their rate. Runs
  that do not reach a level are counted, never dropped.
- Cost and accuracy are taken every tenth of an epoch on 10,000 fixed examples each, and interpolated.
- CPU seconds hold the steps and the centring or whitening (moments, axes, product) of the training inputs, not
  compilation and evaluation. One core; on each seed the optimizers take turns.
- Inputs are raw, centred, or white (128 axes, moments from 3,000 inputs), the same arrays for every optimizer.
- "rngd, metrics off" is RNGD without its metrics: what RNGD claims is its gain over that row.

A second table races what was found on MNIST on Fashion-MNIST, unchanged. K-FAC takes part where the variable
KFAC_PYTHON names the Python of its environment (`benchmarks/fisher.py` says how to make one).

Every run is a line of a file beside the table, so that the same command goes on where it was stopped. `--estimate`
prints what is left to do in CPU minutes and ends; `--quick` is two optimizers, 4 trials and two seeds on 6,000 images.
"""

import argparse
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# One thread: small products wait for each other otherwise. Before JAX and NumPy are imported.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from race_run import KFAC, RIVALS, TUNING_SEED, Rival, Row, Setting, reach, train

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from measure import one_core  # type: ignore[import-not-found]

from neft._files import writing
from neft._progress import track

FILE = Path(__file__).parents[1] / "docs" / "race.json"
SEEDS, TRIALS = (1, 2, 3, 4), 24
BATCHES = (50, 200, 500)
HORIZONS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0)
INPUTS = ("raw", "centred", "white")
NORMS = ("plain", "batch")
MNIST_LEVELS = (0.15, 0.97)
UNREACHED = 1e4
"""CPU seconds by which the search counts a level that is not reached."""


def neighbours(setting: Setting, rival: Rival, factor: float, horizons: Sequence[float]) -> list[Setting]:
    """Settings one step away, in a fixed order."""
    found = [setting._replace(rate=setting.rate * by) for by in (factor, 1 / factor)]
    for name, values in (("horizon", horizons), ("batch", BATCHES), ("momentum", rival.momenta)):
        at = values.index(getattr(setting, name))
        found += [setting._replace(**{name: values[i]}) for i in (at + 1, at - 1) if 0 <= i < len(values)]
    return found


def search(
    rival: Rival, score: Callable[[Setting], float], trials: int, horizons: Sequence[float] = HORIZONS
) -> list[Setting]:
    """The settings that were tried, `trials` of them, from the best so far to its neighbours.

    >>> rival = Rival(None, 1.0, (0.9,))
    >>> tried = search(rival, lambda s: abs(math.log(s.rate / 4)), 24)
    >>> len(tried), len(set(tried)), min(abs(math.log(s.rate / 4)) for s in tried)
    (24, 24, 0.0)
    """
    momentum = rival.momenta[len(rival.momenta) // 2]
    best = Setting(rival.rate, momentum, 200, 3.0 if 3.0 in horizons else horizons[0])
    scores = {best: score(best)}
    factor = 2.0
    while len(scores) < trials:
        left = [one for one in neighbours(best, rival, factor, horizons) if one not in scores]
        if not left:
            factor = math.sqrt(factor)
            continue
        for one in left:
            scores[one] = score(one)
            if scores[one] < scores[best] or len(scores) == trials:
                break
        best = min(scores, key=lambda setting: scores[setting])
    return list(scores)


class Race:
    """Runs that were made, in a file of lines, and those that are asked for."""

    def __init__(self, path: Path, trials: int, seeds: Sequence[int], count: int | None) -> None:
        self._path, self._trials, self._seeds, self._count = path, trials, seeds, count
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self._known[record["run"]] = record

    def run(self, row: Row, setting: Setting, seed: int, levels: Sequence[float]) -> dict[str, Any]:
        """The curves of a run, from the file if it is there."""
        key = json.dumps([*row, *setting, seed, list(levels), self._count])
        if key not in self._known:
            record = {"run": key, **train(row, setting, seed, levels, self._count)}
            self._known[key] = record
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        return self._known[key]

    def tuned(self, row: Row, levels: Sequence[float]) -> list[tuple[Setting, dict[str, Any]]]:
        """All trials of a row."""

        def score(setting: Setting) -> float:
            record = self.run(row, setting, TUNING_SEED, levels)
            return sum(ranked(record, level, kind) for kind, level in enumerate(levels))

        tried = search(RIVALS[row.optimizer], score, self._trials)
        return [(setting, self.run(row, setting, TUNING_SEED, levels)) for setting in tried]

    def chosen(self, row: Row, levels: Sequence[float]) -> list[Setting]:
        """The fastest trial to each level."""
        tried = self.tuned(row, levels)
        pairs = enumerate(levels)
        return [min(tried, key=lambda one: ranked(one[1], level, kind))[0] for kind, level in pairs]

    def levels(self, data: str) -> tuple[float, float]:
        """Fixed on MNIST; elsewhere what tuned momentum on centred inputs reaches in 3 and 10 epochs."""
        if data == "mnist":
            return MNIST_LEVELS
        row, found = Row(data, "plain", "momentum", "centred"), []
        for kind, horizon in enumerate((3.0, 10.0)):

            def last(setting: Setting, kind: int = kind) -> float:
                # No level ends the run before its horizon.
                record = self.run(row, setting, TUNING_SEED, (-math.inf, math.inf))
                value = (1, -1)[kind] * record[("cost", "accuracy")[kind]][-1]
                return value if math.isfinite(value) else math.inf

            tried = search(RIVALS["momentum"], last, self._trials, (horizon,))
            found.append((1, -1)[kind] * min(map(last, tried)))
        return math.ceil(found[0] * 100) / 100, math.floor(found[1] * 1000) / 1000

    def table(self, rows: Sequence[Row], settings: Mapping[Row, Sequence[Setting]], levels: Mapping[str, Any]) -> list:
        """Epochs and CPU seconds to each level, mean and error over all seeds, which are the outer loop."""
        found: dict[tuple[Row, int], list[Any]] = {(row, kind): [] for row in rows for kind in (0, 1)}
        for seed, row, kind in track(list(itertools.product(self._seeds, rows, (0, 1))), "racing"):
            record = self.run(row, settings[row][kind], seed, levels[row.data])
            found[row, kind].append(reach(record, levels[row.data][kind], kind))
        return [
            entry(row, kind, settings[row][kind], levels[row.data][kind], runs) for (row, kind), runs in found.items()
        ]


def ranked(record: Mapping[str, Any], level: float, kind: int) -> float:
    """ln of the CPU seconds to a level, and more than any of these where it is not reached: the worse, the farther."""
    found = reach(record, level, kind)
    if found is not None:
        return math.log(found[1])
    last = record[("cost", "accuracy")[kind]][-1]
    far = abs(last - level) if math.isfinite(last) else UNREACHED
    return math.log(UNREACHED) + math.log1p(far)


def entry(row: Row, kind: int, setting: Setting, level: float, runs: Sequence[tuple[float, float] | None]) -> dict:
    """A line of the table; means are of those seeds that reached the level, whose number stands beside them."""
    reached = np.array([run for run in runs if run is not None])
    line = {**row._asdict(), "level": ("cost", "accuracy")[kind], "at": level, "setting": setting._asdict()}
    line |= {"seeds": len(runs), "reached": len(reached)}
    if len(reached):
        errors = reached.std(0, ddof=1) / math.sqrt(len(reached)) if len(reached) > 1 else np.full(2, np.nan)
        line |= {"epochs": reached[:, 0].mean(), "seconds": reached[:, 1].mean()}
        line |= {"epochs_error": errors[0], "seconds_error": errors[1]}
    return {name: round(float(v), 4) if isinstance(v, (float, np.floating)) else v for name, v in line.items()}


def place(line: Mapping[str, Any]) -> tuple:
    """Where a line stands: what some seed did not reach comes after what all reached."""
    group = (line["data"], line["norm"], line["level"])
    return *group, line["reached"] < line["seeds"], line.get("seconds", math.inf)


SECONDS = {"raw": 0.25, "centred": 0.25, "white": 0.1}
"""CPU seconds of an epoch of momentum in batches of 200, as measured on one core of 87 GFLOP/s."""
TIMES = {"muon": 3.5, "soap": 3.0, KFAC: 10.0}
"""Times that of momentum; 1.3 for all others."""
EVALUATION, COMPILATION, MEAN_EPOCHS = 0.5, 4.0, 3.0


def minutes(rows: Sequence[Row], trials: int, seeds: int) -> float:
    """CPU minutes of a race from nothing: trials, races to two levels, and compilation for each batch."""
    total = 0.0
    for row in rows:
        look = EVALUATION * (1 if row.inputs != "white" else 0.4)
        epoch = SECONDS[row.inputs] * TIMES.get(row.optimizer, 1.3) + look
        again = 2 * seeds * (2 if row.data != "mnist" else 1)
        total += (trials + again) * MEAN_EPOCHS * epoch + len(BATCHES) * COMPILATION
    return total / 60


def chosen_rows(args: argparse.Namespace) -> list[Row]:
    """All that take part: K-FAC where its Python is named, and without batch normalization, which it is not told of."""
    rows = [Row(*one) for one in itertools.product(args.data, args.norms, args.optimizers, args.inputs)]
    kfac = bool(os.environ.get("KFAC_PYTHON"))
    if KFAC in args.optimizers and not kfac:
        print("K-FAC is left out, because KFAC_PYTHON does not name its Python.", file=sys.stderr)
    return [row for row in rows if row.optimizer != KFAC or (kfac and row.norm == "plain")]


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"], choices=["mnist", "fashion-mnist"])
    parser.add_argument("--optimizers", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--inputs", nargs="+", default=list(INPUTS), choices=INPUTS)
    parser.add_argument("--norms", nargs="+", default=list(NORMS), choices=NORMS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--runs", type=Path, default=FILE.with_suffix(".jsonl"))
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--estimate", action="store_true")
    args = parser.parse_args(argv)
    if args.trials < 1:
        parser.error(f"--trials is {args.trials}, but must be at least 1.")
    if TUNING_SEED in args.seeds:
        parser.error(f"--seeds holds {TUNING_SEED}, which is the tuning seed.")
    if args.quick:
        quick = {
            "data": ["mnist"],
            "optimizers": ["rngd", "rngd, metrics off"],
            "inputs": ["white"],
            "norms": ["plain"],
        }
        for name, value in (quick | {"trials": 4, "seeds": args.seeds[:2]}).items():
            setattr(args, name, value)
    return args


@one_core()
def main(argv: Sequence[str] | None = None) -> int:
    """Tunes, races, prints and writes the tables."""
    args = parsed(argv)
    rows = chosen_rows(args)
    print(f"{len(rows)} rows, about {minutes(rows, args.trials, len(args.seeds)):.0f} CPU minutes from nothing.")
    if args.estimate:
        return 0
    race = Race(args.runs, args.trials, args.seeds, 6000 if args.quick else None)
    levels = {data: race.levels(data) for data in args.data}
    print(f"levels of cost and accuracy: {levels}", flush=True)
    settings = {row: race.chosen(row, levels[row.data]) for row in track(rows, "tuning")}
    table = race.table(rows, settings, levels)
    moved = [row for row in rows if row.data != "mnist" and row._replace(data="mnist") in settings]
    unchanged = race.table(moved, {row: settings[row._replace(data="mnist")] for row in moved}, levels)
    for line in sorted(table, key=place):
        print(json.dumps(line))
    if not args.quick:
        with writing(args.out) as file:
            json.dump({"levels": levels, "tuned": table, "unchanged": unchanged}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
