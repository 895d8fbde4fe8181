"""Seeds of one configuration trained in one program, against as many single runs, in CPU seconds.

Runs are those of the quick sweep: 784-80-80-80-10 on the bundled part of Fashion-MNIST, 10 epochs of 100 steps, batch
50. A single run is the program `neft train`, as a user starts it; it loads JAX and data, compiles and trains. The sweep
does this once for 40 seeds. Beside them, without a promise, the same against `neft.fisher.train` called in one process,
and the training steps alone: those are bound by their matrix products (about 17 million operations, 0.2 ms at a core's
full speed), and stacking cannot make them much faster. Single runs are measured on a few seeds, in turns with the
sweep, and counted forty times.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Ratio

import neft
from neft import fisher, sweep

SEEDS, MEASURED, EPOCHS = 40, 3, 10
OPTIMIZERS = ("sgd", "rngd")


def children(command: list) -> float:
    """CPU seconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def together(optimizer: str) -> tuple[float, float]:
    """CPU seconds of a sweep's program with one configuration, and of the steps of one of its seeds."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.toml"
        fixed = f'full = false\nepochs = {EPOCHS}\nseeds = {SEEDS}\noptimizer = "{optimizer}"'
        spec.write_text(f'kind = "train"\n[fixed]\n{fixed}\n')
        program = Path(sys.executable).with_name("neft")
        seconds = children([program, "sweep", spec, "--out", Path(folder) / "sweep", "--quiet"])
        (timing,) = sweep.Folder.open(Path(folder) / "sweep").timings().values()
        return seconds, timing["cpu_seconds"][-1] - timing["cpu_seconds"][0]


def single(optimizer: str, seed: int) -> float:
    """CPU seconds of `neft train`."""
    program = Path(sys.executable).with_name("neft")
    # The bundled subset, as a folder of its own, whatever else is found on this machine.
    data = Path(neft.data.__file__).parent / "fashion-mnist"
    line = ["train", data, "--optimizer", optimizer, "--epochs", EPOCHS, "--seed", seed, "--quiet"]
    return children([program, *line])


def called(optimizer: str, seed: int) -> tuple[float, float]:
    """CPU seconds of `neft.fisher.train` in this process, and of its steps."""
    sets = [neft.data.load("fashion-mnist", split, full=False) for split in ("train", "test")]
    started = time.process_time()
    curves = fisher.train(*sets, optimizer=optimizer, epochs=EPOCHS, seed=seed).curves
    return time.process_time() - started, float(curves.cpu_seconds[-1] - curves.cpu_seconds[0])


def run() -> list[Ratio]:
    """The ratios; whole programs are promised five times."""
    ratios = []
    for optimizer in OPTIMIZERS:
        called(optimizer, 0)  # so that what is loaded once is not counted
        turns = [(*together(optimizer), single(optimizer, seed), *called(optimizer, seed)) for seed in range(MEASURED)]
        ours, our_steps, program, call, steps = np.array(turns).T
        what = f"{SEEDS} seeds, {optimizer}, {EPOCHS} epochs of the quick sweep"
        called_often = f"{SEEDS} × fisher.train"
        ratios += [
            Ratio.of(what, f"{SEEDS} × neft train", 5.0, ours, SEEDS * program),
            Ratio.of(what, called_often, 0.0, ours, SEEDS * call),
            Ratio.of(f"{what}: the steps alone", called_often, 0.0, SEEDS * our_steps, SEEDS * steps),
        ]
    return ratios


if __name__ == "__main__":
    for row in run():
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
