import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neft.explore._jobs import Busy, Workers
from neft.explore._settings import Settings
from neft.explore._worker import NO_MEMORY

pytestmark = pytest.mark.slow


def test_a_job_says_how_far_it_is_and_a_stopped_one_ends_its_process():
    with Workers(most=1) as workers:
        small = Settings(activation="relu", C_W=2.0, depth=2, width=4, draws=16).record()
        *progress, last = workers.run("draw", small)
        assert [record["progress"] for record in progress] == sorted(record["progress"] for record in progress)
        assert last["result"]["draws"] == 16 and len(last["result"]["tensors"]["V"]["mean"]) == 2
        assert workers.count == 0
        # The same process, which has its programs by now.
        assert "fields" in list(workers.run("draw", small | {"depth": 0}))[-1]
        job = workers.run("draw", small | {"draws": 20000, "width": 200, "depth": 4})
        with pytest.raises(Busy, match="1 simulations are running already"):
            workers.run("draw", small)
        process = job._process._process
        job.stop()
        assert process.poll() is not None and workers.count == 0
        assert list(job) == [{"error": "its process ended before it was done."}]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only where a process tells its size it has a limit")
def test_a_job_that_takes_too_much_memory_is_told_so():
    program = """
import numpy
from neft.explore import _work, _worker
def much(settings, say):
    numpy.ones(10 << 27)  # 10 GB
def little(settings, say):
    return {"sum": float(numpy.ones(1 << 20).sum())}
_work.JOBS |= {"much": much, "little": little}
_worker.main()
"""
    jobs = "".join(json.dumps({"name": name, "settings": {}}) + "\n" for name in ("much", "little"))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(jobs)
        process.stdin.flush()
        ready, much, little = (json.loads(process.stdout.readline()) for _ in range(3))
        process.stdin.close()
    assert ready["ready"] and much == {"error": NO_MEMORY} and little == {"result": {"sum": 1 << 20}}


def test_a_process_that_aborts_for_want_of_memory_is_told_so():
    with Workers(most=1) as workers:
        job = workers.run("words", Settings(activation="z*tanh(z)").record())
        job._process._process.send_signal(signal.SIGABRT)
        assert list(job) == [{"error": NO_MEMORY}]
