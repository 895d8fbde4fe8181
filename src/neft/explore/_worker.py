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
from typing import Any

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
    except ValueError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "there is not enough memory for this: take smaller widths or fewer draws."}
    except Exception as error:
        return {"error": f"this could not be computed ({type(error).__name__}): {str(error).splitlines()[0][:200]}."}
