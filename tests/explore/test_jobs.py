import pytest

from neft.explore._jobs import Busy, Workers
from neft.explore._settings import Settings

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
