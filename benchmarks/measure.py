"""What every benchmark shares: CPU seconds, and a ratio with the figure it was promised to reach."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "NEURAL_TANGENTS_PYTHON"
"""Names the Python of the environment that has neural-tangents, which needs an old JAX (`kernels.py` says how)."""


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A measured ratio: how many times better neft is than the named peer, and what was promised."""

    what: str
    peer: str
    ours: str
    theirs: str
    ratio: float
    promised: float

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.ratio >= self.promised


def cpu_seconds(call: Callable[[], Any], repeat: int = 5) -> float:
    """The least CPU time of several calls, after one to compile and warm up."""
    call()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Hold this process and those it starts to one core, so that CPU seconds are work and not threads that wait."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def peer(
    script: str, job: Mapping[str, Any], data: Mapping[str, np.ndarray], variable: str = VARIABLE
) -> dict[str, np.ndarray] | None:
    """What a script of `peers` answers in its own environment; None, and a line that says so, where there is none."""
    python = os.environ.get(variable)
    if not python:
        print(f"{script}: left out, because {variable} does not name the peer's Python.", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        work, arrays, answer = (str(Path(folder) / name) for name in ("job.json", "data.npz", "answer.npz"))
        Path(work).write_text(json.dumps(dict(job)))
        np.savez(arrays, **data)  # type: ignore[arg-type]
        path = str(Path(__file__).parent / "peers" / script)
        done = subprocess.run([python, path, work, arrays, answer], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the peer failed: {done.stderr.strip().splitlines()[-1]}")
        return dict(np.load(answer))
