"""The process that runs long jobs: it reads one after the other from its input and writes progress and results.

It is started with `python -c`, ends with the process that started it, and gives way to the page's own computations.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ._limits import MOST_MEMORY

NO_MEMORY = "there is not enough memory for this: take smaller widths, fewer draws or a simpler activation."

_FLAGS = "--xla_backend_optimization_level=1 --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
ENVIRONMENT = {"XLA_FLAGS": _FLAGS, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
"""One thread, so that the page keeps a core; and half of the compiler's time."""


def main() -> None:
    """Answer jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(5)
    # Whatever prints must not print between the answers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    _say(out, {"ready": _import()})
    _bounded()  # libraries reserve more than they use when they are loaded
    while True:
        job = jobs.get()
        _say(out, _answer(job, out))


def _import() -> bool:
    from . import _work

    return bool(_work.JOBS)


def _listen(jobs: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


def _say(out: Any, record: dict[str, Any]) -> None:
    out.write(json.dumps(record, allow_nan=False) + "\n")
    out.flush()


def _answer(job: dict[str, Any], out: Any) -> dict[str, Any]:
    from ._settings import Refused, Settings
    from ._work import JOBS

    def say(part: float, found: dict[str, Any] | None) -> None:
        _say(out, {"progress": round(part, 4)} | ({} if found is None else {"found": found}))

    try:
        return {"result": JOBS[job["name"]](Settings.of(job["settings"]), say)}
    except Refused as refused:
        return {"fields": refused.fields}
    except Exception as error:
        return {"error": failure(error)}


def failure(error: Exception) -> str:
    """The sentence about what was not meant to happen; a ValueError brings its own.

    >>> failure(OverflowError("too large"))
    'this could not be computed (OverflowError): too large.'
    """
    said = str(error)
    # XLA has an error of its own for memory.
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in said:
        return NO_MEMORY
    if isinstance(error, ValueError) and said:
        return said
    first = (said.splitlines() or [""])[0][:200].rstrip(".")
    return f"this could not be computed ({type(error).__name__})" + (f": {first}." if first else ".")


def _bounded() -> None:
    """Limit the memory of this process, where its size is known, so that the machine keeps what it needs."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MOST_MEMORY
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
