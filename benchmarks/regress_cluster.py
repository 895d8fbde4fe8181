"""Kernel regression on a cluster of this machine: two workers of one thread each against one, interleaved.

    python benchmarks/regress_cluster.py [--points 40960] [--memory 16GB] [--rounds 3]

Each worker is bound to one core and its libraries to one thread, as are this program's; all of them listen on 127.0.0.1
alone. With less memory the tiles are not kept, and two workers may have room for another preconditioner than one.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import Ratio

from neft import MLP, training

_BIN = Path(sys.executable).parent
_ONE = {"OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


@contextlib.contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, list[int]]]:
    """The address of a scheduler with so many workers, each on a core of its own, and the ids of these processes."""
    from distributed import Client

    place, file = ["--host", "127.0.0.1", "--no-dashboard"], folder / f"scheduler-{workers}.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | _ONE}
    line = [_BIN / "dask", "scheduler", *place, "--port", "0", "--scheduler-file", file]
    started = [subprocess.Popen(line, **quiet)]  # type: ignore[call-overload]
    one = [_BIN / "dask", "worker", *place, "--scheduler-file", file, "--nthreads", "1", "--no-nanny"]
    cores = sorted(os.sched_getaffinity(0))
    try:
        for i in range(workers):
            bound = ["taskset", "-c", str(cores[i]), *one, "--local-directory", folder]
            started.append(subprocess.Popen(bound, **quiet))  # type: ignore[call-overload]
        with Client(scheduler_file=str(file), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            address = str(client.scheduler.address)  # type: ignore[union-attr]
        yield address, [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def worked(process: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(points: int = 40_960, memory: str = "16GB", rounds: int = 3) -> list[Ratio]:
    """Seconds of the clock of two workers beside those of one, in turns; what each took is printed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the workers end too
    rng = np.random.default_rng(0)
    x = rng.normal(size=(points, 256)).astype(np.float32)
    y = np.sin(x[:, :4])
    net = MLP((256, 512, 512, 4), "relu", C_W=2.0)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        clusters = {count: stack.enter_context(cluster(count, Path(name))) for count in (1, 2)}
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for i in range(rounds + 1):
            for count, (address, processes) in clusters.items():
                every = [os.getpid(), *processes]
                start, before = time.monotonic(), [worked(one) for one in every]
                fit = training.regress(net, x, y, ridge=0.5, memory=memory, scheduler=address)
                seconds[count].append(time.monotonic() - start)
                busy = [f"{worked(one) - was:.1f}" for one, was in zip(every, before)]
                print(
                    f"round {i}, {count} worker{'s'[: count - 1]}: {seconds[count][-1]:.2f} s, {fit.way}, "
                    f"{fit.cost['products']:.0f} products, residual {fit.residual:.1e}; CPU seconds of client, "
                    f"scheduler and workers {', '.join(busy)}",
                    file=sys.stderr,
                    flush=True,
                )
    # The first round compiles.
    one, two = (np.array(seconds[count][1:]) for count in (1, 2))
    return [Ratio.of(f"kernel regression on {points} points: two workers", "one worker", 1.7, two, one)]


if __name__ == "__main__":
    if not _ONE.items() <= os.environ.items():  # libraries read them when they start
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | _ONE)
    parser = argparse.ArgumentParser(description="One worker and two.")
    parser.add_argument("--points", type=int, default=40_960)
    parser.add_argument("--memory", default="16GB")
    parser.add_argument("--rounds", type=int, default=3)
    for row in run(**vars(parser.parse_args())):
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
