"""What every benchmark shares: CPU seconds of calls that take turns, and a ratio with the figure it was promised."""

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
from typing import Any, NamedTuple

import numpy as np

VARIABLE = "NEURAL_TANGENTS_PYTHON"
"""Names the Python of the environment that has neural-tangents, which needs an old JAX (`kernels.py` says how)."""


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A measured ratio: how many times better neft is than the named peer, and what was promised.

    `low` and `high` are quartiles where it was measured several times, else the ratio itself.
    """

    what: str
    peer: str
    ours: str
    theirs: str
    ratio: float
    promised: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, what: str, peer: str, promised: float, ours: np.ndarray, theirs: Any, *, scale: float = 1) -> "Ratio":
        """The median of scale·theirs/ours turn by turn, from seconds of calls that took turns (`in_turns`)."""
        low, ratio, high = map(float, np.quantile(scale * theirs / ours, (0.25, 0.5, 0.75)))
        mine, others = (f"{np.median(seconds):.3g} s" for seconds in (ours, theirs))
        return cls(what, peer, mine, others, ratio, promised, low, high)

    @property
    def holds(self) -> bool:
        """Whether the promise is kept, in three turns of four at least."""
        return (self.ratio if self.low is None else self.low) >= self.promised

    def __str__(self) -> str:
        return f"{self.ratio:.3g}" + ("" if self.low is None else f" ({self.low:.3g}-{self.high:.3g})")


Seconds = Callable[[], float]
"""Does its work once and says how many CPU seconds that took."""


def timed(call: Callable[[], Any]) -> Seconds:
    """The call as one that says its CPU seconds."""

    def seconds() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return seconds


def in_turns(*calls: Seconds, repeat: int = 7) -> list[np.ndarray]:
    """The CPU seconds of each call, turn by turn (a, b, a, b, …), so that all of them meet the same machine.

    A turn before the first is for compiling and warming up.
    """
    return list(np.array([[call() for call in calls] for _ in range(repeat + 1)])[1:].T)


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


class Peer(NamedTuple):
    """A script of `peers` in its own environment: what it found, and its own CPU seconds of doing it once more."""

    answer: dict[str, np.ndarray]
    seconds: Seconds


@contextlib.contextmanager
def peer(
    script: str, job: Mapping[str, Any], data: Mapping[str, np.ndarray], variable: str = VARIABLE
) -> Iterator[Peer | None]:
    """The peer, which waits for its turns while the block runs; None, and a line that says so, where there is none."""
    python = os.environ.get(variable)
    if not python:
        print(f"{script}: left out, because {variable} does not name the peer's Python.", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        work, arrays, answer, errors = (Path(folder) / name for name in ("job.json", "data.npz", "answer.npz", "log"))
        work.write_text(json.dumps(dict(job)))
        np.savez(arrays, **data)  # type: ignore[arg-type]
        command = [python, str(Path(__file__).parent / "peers" / script), str(work), str(arrays), str(answer)]
        with (
            errors.open("w") as log,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            asked, said = process.stdin, process.stdout

            def heard() -> str:
                line = said.readline()
                if not line:
                    raise RuntimeError(f"the peer failed: {errors.read_text().strip().splitlines()[-1]}")
                return line

            def seconds() -> float:
                asked.write("again\n")
                asked.flush()
                return float(heard())

            heard()
            yield Peer(dict(np.load(answer)), seconds)
