"""Races optimizers on 784-80-80-80-10 and keeps what they reached, `docs/race.json`.

    .venv/bin/python tools/race_optimizers.py [--data mnist fashion-mnist] [--optimizers rngd momentum] [--inputs white]
        [--norms plain batch] [--trials 24] [--seeds 1 2 3 4] [--runs race.jsonl] [--quick] [--estimate]

What is raced for: the fewest CPU seconds to a training cost and to a test accuracy; on MNIST 0.15 and 97.0 %, on
Fashion-MNIST the cost that tuned momentum on centred inputs reaches in 3 epochs and the accuracy that it reaches in 10
(both on the tuning seed, with its 24 trials at that horizon, rounded to the easier side by 0.01 and 0.1 %).

Rules, the same for all:
- 24 trials on the tuning seed, of which the fastest to each level is chosen. The search starts at the optimizer's usual
  rate with momentum in the middle of its list, batches of 200 and a horizon of 3 epochs, and goes from the best so far
  to its neighbours: the rate by a factor 2 (then √2, the fourth root, …), the batch among 50, 200, 500, the horizon
  among HORIZONS, the momentum in its list. What it lowers is the number of levels that are not reached, then by how
  much they are missed, then the sum of ln(CPU seconds) to both.
- On the tuning seed the accuracy is that of the validation part, on the others that of the test part.
- The rate falls as a cosine to 0 at the horizon, and there the run ends; schedule-free optimizers keep their rate. Runs
  that do not reach a level are counted, never dropped; a level that none of the 24 trials reached is not raced for.
- Cost and accuracy are taken every tenth of an epoch on 10,000 fixed examples each, and interpolated. (In trials at
  every third tenth, and at the two before where a level was reached.)
- A trial is abandoned when its CPU seconds are 1.25 times the best so far of the same optimizer on the same inputs, to
  each level that it has not reached: it cannot be chosen, and counts as one of the 24.
- CPU seconds hold the steps and the centring or whitening (moments, axes, product) of the training inputs, not
  compilation (nor the first call of what was compiled) and evaluation. One core; on each seed the optimizers take
  turns.
- Inputs are raw, centred, or white (64 axes, moments from 2,000 inputs), the same arrays for every optimizer.
- "rngd" is RNGD on eight axes in units of the preactivations with a falling rate, "rngd, averaged" with an average of
  the weights as schedule-free optimizers keep it. "…, metrics off" is the same without metrics: what RNGD claims is its
  gain over that row.

Left out (`takes_part`): K-FAC with batch normalization, which it is not told of. From nothing it takes about three and
a half hours.

A second table races what was found on MNIST on Fashion-MNIST, unchanged. K-FAC takes part where the variable
KFAC_PYTHON names the Python of its environment (`benchmarks/fisher.py` says how to make one).

Every run is a line of a file beside the table, so that the same command goes on where it was stopped. `--kept` takes
levels and settings of the rows that are in the table from there, tunes the others and races all of them anew; rows that
it is not asked for stay. `--own` leaves the second table out, `--moved` the first. `--estimate` prints what is left to
do in CPU minutes and ends; `--quick` is two optimizers, 4 trials and two seeds on 6,000 images.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
QUICK_LEVELS = (0.4, 0.92)
"""What 6,000 images and four trials can reach."""
MARGIN = 1.25
"""A trial is abandoned at this many times the least CPU seconds of its row to every level that it has not reached."""
STRIDE = 3
"""Tenths of an epoch between two looks of a trial, but for those before a level is reached."""


def neighbours(setting: Setting, rival: Rival, factor: float, horizons: Sequence[float]) -> list[Setting]:
    """Settings one step away, in a fixed order."""
    found = [setting._replace(rate=setting.rate * by) for by in (factor, 1 / factor)]
    for name, values in (("horizon", horizons), ("batch", BATCHES), ("momentum", rival.momenta)):
        at = values.index(getattr(setting, name))
        found += [setting._replace(**{name: values[i]}) for i in (at + 1, at - 1) if 0 <= i < len(values)]
    return found


def search(
    rival: Rival, score: Callable[[Setting], Any], trials: int, horizons: Sequence[float] = HORIZONS
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


class Choice(NamedTuple):
    """The setting that reached a level first, None if no trial did, and how many trials reached it."""

    setting: Setting | None
    trials: int
    reached: int


def settled(kept: Mapping[str, Any]) -> dict[Row, list[Choice]]:
    """What was chosen for the rows of a table, to the cost and to the accuracy.

    >>> line = {"data": "mnist", "norm": "plain", "optimizer": "sgd", "inputs": "raw", "setting": None, "trials": 24}
    >>> lines = [line | {"level": level, "trials_reached": 0} for level in ("accuracy", "cost")]
    >>> settled({"tuned": lines})[Row("mnist", "plain", "sgd", "raw")][0]
    Choice(setting=None, trials=24, reached=0)
    """
    found: dict[Row, list[Choice]] = {}
    for line in sorted(kept["tuned"], key=lambda line: line["level"] != "cost"):
        setting = None if line["setting"] is None else Setting(**line["setting"])
        row = Row(*(line[name] for name in Row._fields))
        found.setdefault(row, []).append(Choice(setting, line["trials"], line["trials_reached"]))
    return found


class Race:
    """Runs that were made, in a file of lines, and those that are asked for."""

    def __init__(self, path: Path, trials: int, seeds: Sequence[int], count: int | None) -> None:
        self._path, self._trials, self._seeds, self._count, self.closed = path, trials, seeds, count, False
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self._known[record["run"]] = record

    def run(self, row: Row, setting: Setting, seed: int, levels: Sequence[float | None], **how: Any) -> dict[str, Any]:
        """The curves of a run, from the file if it is there."""
        key = json.dumps([*row, *setting, seed, list(levels), self._count])
        if self.closed and key not in self._known:
            raise LookupError(key)
        if key not in self._known:
            record = {"run": key, **train(row, setting, seed, levels, self._count, **how)}
            self._known[key] = record
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        return self._known[key]

    def tuned(self, row: Row, levels: Sequence[float]) -> list[tuple[Setting, dict[str, Any]]]:
        """All trials of a row."""
        best = [math.inf, math.inf]

        def score(setting: Setting) -> tuple[float, ...]:
            limits = [MARGIN * seconds for seconds in best]
            record = self.run(row, setting, TUNING_SEED, levels, limits=limits, stride=STRIDE)
            for kind, level in enumerate(levels):
                found = reach(record, level, kind)
                best[kind] = best[kind] if found is None else min(best[kind], found[1])
            return tuple(map(sum, zip(*(ranked(record, level, kind) for kind, level in enumerate(levels)))))

        tried = search(RIVALS[row.optimizer], score, self._trials)
        return [(setting, self.run(row, setting, TUNING_SEED, levels)) for setting in tried]

    def chosen(self, row: Row, levels: Sequence[float]) -> list[Choice]:
        """The fastest trial to each level, and how many reached it."""
        tried, found = self.tuned(row, levels), []
        for kind, level in enumerate(levels):
            reached = [one for one in tried if reach(one[1], level, kind) is not None]
            best = min(reached, key=lambda one: ranked(one[1], level, kind), default=(None,))[0]
            found.append(Choice(best, len(tried), len(reached)))
        return found

    def levels(self, data: str) -> tuple[float, float]:
        """Fixed on MNIST; elsewhere what tuned momentum on centred inputs reaches in 3 and 10 epochs."""
        if data == "mnist":
            return MNIST_LEVELS if self._count is None else QUICK_LEVELS
        row, found = Row(data, "plain", "momentum", "centred"), []
        for kind, horizon in enumerate((3.0, 10.0)):

            def last(setting: Setting, kind: int = kind) -> float:
                # No level ends the run before its horizon.
                record = self.run(row, setting, TUNING_SEED, (-math.inf, math.inf), stride=None)
                value = (1, -1)[kind] * record[("cost", "accuracy")[kind]][-1]
                return value if math.isfinite(value) else math.inf

            tried = search(RIVALS["momentum"], last, self._trials, (horizon,))
            found.append((1, -1)[kind] * min(map(last, tried)))
        return math.ceil(found[0] * 100) / 100, math.floor(found[1] * 1000) / 1000

    def table(self, rows: Sequence[Row], found: Mapping[Row, Sequence[Choice]], levels: Mapping[str, Any]) -> list:
        """Epochs and CPU seconds to each level, mean and error over all seeds, which are the outer loop."""
        runs: dict[tuple[Row, int], list[Any]] = {(row, kind): [] for row in rows for kind in (0, 1)}
        for seed, row, kind in track(list(itertools.product(self._seeds, rows, (0, 1))), "racing"):
            setting = found[row][kind].setting
            if setting is None:
                continue
            # One run serves both levels where their settings are the same.
            wanted = levels[row.data]
            if found[row][0].setting != found[row][1].setting:
                wanted = tuple(level if k == kind else None for k, level in enumerate(wanted))
            record = self.run(row, setting, seed, wanted)
            runs[row, kind].append(reach(record, levels[row.data][kind], kind))
        return [entry(row, kind, found[row][kind], levels[row.data][kind], each) for (row, kind), each in runs.items()]


def ranked(record: Mapping[str, Any], level: float, kind: int) -> tuple[int, float, float]:
    """Lower is better: whether the level is not reached, by what ratio it is missed at the end (ln), ln CPU seconds."""
    found = reach(record, level, kind)
    if found is not None:
        return 0, 0.0, math.log(found[1])
    last = record[("cost", "accuracy")[kind]][-1]
    missed = last / level if kind == 0 else (1 - last) / (1 - level)
    return 1, math.log(missed) if math.isfinite(missed) else math.inf, 0.0


def entry(row: Row, kind: int, choice: Choice, level: float, runs: Sequence[tuple[float, float] | None]) -> dict:
    """A line of the table; means are of those seeds that reached the level, whose number stands beside them."""
    reached = np.array([run for run in runs if run is not None])
    line = {**row._asdict(), "level": ("cost", "accuracy")[kind], "at": level}
    line["setting"] = None if choice.setting is None else choice.setting._asdict()
    line |= {"trials": choice.trials, "trials_reached": choice.reached, "seeds": len(runs), "reached": len(reached)}
    if len(reached):
        errors = reached.std(0, ddof=1) / math.sqrt(len(reached)) if len(reached) > 1 else np.full(2, np.nan)
        line |= {"epochs": reached[:, 0].mean(), "seconds": reached[:, 1].mean()}
        line |= {"epochs_error": errors[0], "seconds_error": errors[1]}
    return {name: round(float(v), 4) if isinstance(v, (float, np.floating)) else v for name, v in line.items()}


def stayed(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list:
    """Lines of a table in which those of rows that were raced anew are replaced."""
    raced = {tuple(line[name] for name in Row._fields) for line in new}
    return [line for line in old if tuple(line[name] for name in Row._fields) not in raced] + list(new)


def place(line: Mapping[str, Any]) -> tuple:
    """Where a line stands: what some seed did not reach comes after what all reached."""
    group = (line["data"], line["norm"], line["level"])
    return *group, line["reached"] < max(line["seeds"], 1), line.get("seconds", math.inf)


SECONDS = {"raw": 0.21, "centred": 0.21, "white": 0.075}
"""CPU seconds of an epoch of momentum in batches of 200, as measured on one core of 87 GFLOP/s."""
TIMES = {"muon": 3.5, "soap": 3.0, KFAC: 10.0}
"""Times that of momentum; 1.3 for all others."""
EVALUATION, COMPILATION, MEAN_EPOCHS = 0.25, 3.0, 3.0


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
    return [row for row in rows if takes_part(row) and (row.optimizer != KFAC or kfac)]


def takes_part(row: Row) -> bool:
    """Whether a row is run: K-FAC is not told of batch normalization.

    >>> takes_part(Row("mnist", "plain", KFAC, "raw")), takes_part(Row("mnist", "batch", KFAC, "raw"))
    (True, False)
    """
    return row.norm == "plain" or row.optimizer != KFAC


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
    parser.add_argument("--tune", action="store_true", help="end before the race")
    parser.add_argument("--own", action="store_true", help="without the second table: rows in it stay as they are")
    parser.add_argument("--moved", action="store_true", help="the second table alone: rows in the first stay")
    parser.add_argument("--kept", action="store_true", help="levels and settings of rows that --out holds from there")
    parser.add_argument("--known", action="store_true", help="race those whose trials are all in the file")
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
    kept = json.loads(args.out.read_text()) if args.kept else {"levels": {}, "tuned": [], "unchanged": []}
    levels = {data: kept["levels"].get(data) or race.levels(data) for data in args.data}
    print(f"levels of cost and accuracy: {levels}", flush=True)
    race.closed = args.known
    settings, known = {}, settled(kept)
    for row in track(rows, "tuning"):
        with contextlib.suppress(LookupError):
            settings[row] = known.get(row) or race.chosen(row, levels[row.data])
    race.closed, rows = False, list(settings)
    if args.tune:
        return 0
    table = race.table([] if args.moved else rows, settings, levels)
    moved = [row for row in rows if not args.own and row.data != "mnist" and row._replace(data="mnist") in settings]
    unchanged = race.table(moved, {row: settings[row._replace(data="mnist")] for row in moved}, levels)
    for line in sorted(table, key=place):
        print(json.dumps(line))
    if not args.quick:
        with writing(args.out) as file:
            rule = {"seeds": args.seeds, "tuning_seed": TUNING_SEED, "trials": args.trials, "levels": levels}
            command = "python tools/race_optimizers.py"
            rule["levels"] = kept["levels"] | levels
            tables = {"tuned": stayed(kept["tuned"], table), "unchanged": stayed(kept["unchanged"], unchanged)}
            json.dump({"command": command, **rule, **tables}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
