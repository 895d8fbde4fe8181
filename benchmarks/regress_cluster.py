"""Kernel regression on a cluster of this machine: two workers of one thread each against one, interleaved.

    python benchmarks/regress_cluster.py [--points 16384] [--rounds 3]

Each worker is bound to one core and its libraries to one thread; all of them listen on 127.0.0.1 alone.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from neft import MLP, training

_BIN = Path(sys.executable).parent
_ONE = {"OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


@contextlib.contextmanager
def cluster(workers: int, folder: Path) -> Iterator[str]:
    """The address of a scheduler with so many workers, each on a core of its own."""
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
            yield client.scheduler.address  # type: ignore[union-attr]
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="One worker and two.")
    parser.add_argument("--points", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.points, 256)).astype(np.float32)
    y = np.sin(x[:, :4])
    net = MLP((256, 512, 512, 4), "relu", C_W=2.0)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        addresses = {count: stack.enter_context(cluster(count, Path(name))) for count in (1, 2)}
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(options.rounds + 1):
            for count, address in addresses.items():
                start = time.monotonic()
                fit = training.regress(net, x, y, ridge=0.5, scheduler=address)
                seconds[count].append(time.monotonic() - start)
                print(count, fit.way, f"{seconds[count][-1]:.2f} s, {fit.cost['products']:.0f} products", flush=True)
    one, two = (np.median(seconds[count][1:]) for count in (1, 2))  # the first round compiles
    print(f"one worker {one:.2f} s, two {two:.2f} s: {one / two:.2f} times faster")


if __name__ == "__main__":
    main()
