"""Sweeps whose processes are killed: the whole run, a worker process, a worker of a cluster."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neft import load, sweep

from . import toy

BIN = Path(sys.executable).parent
LEAST_KILLS = 24

SPEC = """
kind = "train"
[fixed]
full = false
preprocess = "pool(16)+unit"
hidden = [8]
epochs = 5
seeds = 6
[grid]
optimizer = ["sgd", "rngd"]
learning_rate = [0.02, 0.05, 0.1, 0.2, 0.3]
"""


def results(folder):
    return {path.name: path.read_bytes() for path in (Path(folder) / "results").glob("*.npz")}


def left_behind(folder):
    return [path for path in Path(folder).rglob("*") if path.suffix in (".part", ".lock")]


@pytest.mark.slow
def test_a_sweep_that_is_killed_at_random_moments_ends_with_the_same_files(tmp_path):
    sweep.run(toy.specification(), tmp_path / "whole")
    expected = results(tmp_path / "whole")
    assert len(expected) == 40
    rng = random.Random(0)
    kills, hits, folder = 0, 0, tmp_path / "broken"
    # On a busy machine few are hit in the middle of their work, so more are killed.
    while kills < LEAST_KILLS or (hits < LEAST_KILLS // 3 and kills < 5 * LEAST_KILLS):
        run = subprocess.Popen([sys.executable, toy.__file__, folder], stdout=subprocess.DEVNULL)
        # From the start on, or from the first moment at which the sweep works.
        if rng.random() < 0.8:
            before = len(results(folder))
            while run.poll() is None and len(results(folder)) == before:
                time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.25))
        if run.poll() is None:
            run.send_signal(signal.SIGKILL)
            kills += 1
            hits += bool(left_behind(folder))
        run.wait()
        # Whatever was finished before is there, whole, and the same.
        found = results(folder)
        assert all(expected[name] == content for name, content in found.items())
        if len(found) == 40:
            folder = tmp_path / f"broken-{kills}"
    # Some were in the middle of their work, or nothing was tested.
    assert hits >= LEAST_KILLS // 3
    for path in tmp_path.glob("broken*"):
        assert sweep.run(toy.specification(), path).done == 40
        assert results(path) == expected and not left_behind(path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a run in this one process gives."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "spec.toml").write_text(SPEC)
    sweep.run(folder / "spec.toml", folder / "out")
    found = results(folder / "out")
    assert len(found) == 10
    return found


@pytest.mark.slow
def test_worker_processes_give_the_same_files_and_end_with_their_parent(tmp_path, expected):
    (tmp_path / "spec.toml").write_text(SPEC)
    line = [BIN / "neft", "sweep", tmp_path / "spec.toml", "--out", tmp_path / "two", "--workers", "2", "--quiet"]
    parent = subprocess.Popen(line)
    place = wait_for(lambda: (tmp_path / "two" / "sweep.json").exists()) and sweep.Folder.open(tmp_path / "two")
    wait_for(lambda: len([e for e in place.events() if e["event"] == "started"]) >= 2)
    parent.kill()
    parent.wait()
    pids = {event["pid"] for event in place.events()}
    assert len(pids) == 2
    wait_for(lambda: not any(map(runs, pids)))
    assert subprocess.run(line, timeout=600).returncode == 0
    assert results(tmp_path / "two") == expected
    assert not left_behind(tmp_path / "two")


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return True


pytestmark = pytest.mark.xdist_group("sweep kills")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=neft"]
    subprocess.run([*line, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def cluster(tmp_path, certificates):
    """A scheduler and two workers on loopback, with TLS: its address and their processes."""
    cert, key = certificates
    tls = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    file = tmp_path / "scheduler.json"
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__RETRY__COUNT": "2"}
    common = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    place = ["--host", "tls://127.0.0.1", "--no-dashboard"]
    started = [
        subprocess.Popen([BIN / "dask", "scheduler", *place, "--port", "0", "--scheduler-file", file, *tls], **common)
    ]
    try:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        one = [*place, "--scheduler-file", file, *tls, "--nthreads", "1", "--no-nanny", "--local-directory", tmp_path]
        started += [subprocess.Popen([BIN / "dask", "worker", *one], **common) for _ in range(2)]
        yield json.loads(file.read_text())["address"], *started
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_files(tmp_path, cluster, certificates, expected):
    address, scheduler, *workers = cluster
    cert, key = certificates
    (tmp_path / "spec.toml").write_text(SPEC)
    tls = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    line = [BIN / "neft", "sweep", tmp_path / "spec.toml", "--out", tmp_path / "far", "--scheduler", address, *tls]
    run = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: run.poll() is not None or len(results(tmp_path / "far")) >= 2)
    done, place = [Path(name).stem for name in results(tmp_path / "far")], sweep.Folder.open(tmp_path / "far")
    # One that has done something: the other does the rest, so both take part however fast each is.
    (lost,) = (worker for worker in workers if worker.pid == place.timings()[done[0]]["pid"])
    lost.kill()
    said, complaint = run.communicate(timeout=600)
    assert run.returncode == 0, complaint
    assert len(done) < 10 and "done            10" in said
    assert results(tmp_path / "far") == expected and not left_behind(tmp_path / "far")
    assert {event["pid"] for event in place.timings().values()} == {worker.pid for worker in workers}
    assert load(place.file(place.configurations[0])).values["test_accuracy"].shape == (6,)
    # A cluster that is lost as a whole leaves what was done, and a sentence.
    (tmp_path / "long.toml").write_text(SPEC.replace("epochs = 5", "epochs = 50"))
    line[2], line[4] = tmp_path / "long.toml", tmp_path / "lost"
    run = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: run.poll() is not None or results(tmp_path / "lost"))
    scheduler.kill()
    _, complaint = run.communicate(timeout=300)
    assert run.returncode == 2 and complaint.count("\n") == 1 and "run again to resume" in complaint, complaint
    status = sweep.status(tmp_path / "lost")
    assert 1 <= status.done < 10 and status.failed == 0 and not left_behind(tmp_path / "lost")
