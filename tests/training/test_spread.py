"""Kernel regression whose products are done on a cluster, and on several devices of JAX."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, training
from neft.training import _pivots, _spread, _tiles

NET = MLP(widths=(3, 16, 2), activation="relu", C_b=0.1, C_W=1.3)
BIN = Path(sys.executable).parent
SETUP = """
import numpy as np
from neft import MLP, training
from neft.training import _budget, _pivots, _spread
_budget._RANKS, _pivots.BLOCK, _spread.UNIT, _spread._MANY = (16,), 8, 32, 12
net = MLP(widths=(3, 16, 2), activation="relu", C_b=0.1, C_W=1.3)
rng = np.random.default_rng(1)
x, y = rng.normal(size=(400, 3)), rng.normal(size=(400, 2))
"""


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers on loopback: its address and the processes."""
    pytest.importorskip("distributed")
    place, file = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"], tmp_path / "scheduler.json"
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    one = [*place, "--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--local-directory", tmp_path]
    started = [subprocess.Popen([BIN / "dask", "scheduler", *place, "--port", "0", "--scheduler-file", file], **common)]
    try:
        started += [subprocess.Popen([BIN / "dask", "worker", *one], **common) for _ in range(2)]
        from distributed import Client

        with Client(scheduler_file=file, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
            address = client.scheduler.address
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()


def begun(code, **options):
    return subprocess.Popen(
        [sys.executable, "-c", SETUP + textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


@pytest.mark.slow
def test_a_cluster_gives_the_same_and_survives_a_lost_worker_and_a_lost_client(cluster, tmp_path):
    address, (_, worker, _) = cluster
    call = f"""
    from pathlib import Path
    real = _spread.Spread.__call__
    def slowly(self, v):
        print("product", flush=True)
        import time; time.sleep(WAIT)
        return real(self, v)
    _spread.Spread.__call__ = slowly
    more = {{"scheduler": {address!r}, "folder": {str(tmp_path / "kept")!r}}}
    fit = training.regress(net, x, y, ridge=0.05, residual=1e-9, **more)
    np.save({str(tmp_path / "found.npy")!r}, fit.coefficients)
    print(fit.way, int(fit.cost["products"]), flush=True)
    """
    # The client is lost in the middle of a product.
    first = begun(call.replace("WAIT", "0.3"))
    seen = [first.stdout.readline() for _ in range(4)]
    first.kill()
    first.communicate()
    assert seen == [b"product\n"] * 4, first.communicate()
    # Then a worker.
    second = begun(call.replace("WAIT", "0.3"))
    assert second.stdout.readline() == b"product\n"
    worker.kill()
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, err.decode()
    assert b"on a cluster" in out
    products = int(out.split()[-1])
    assert out.count(b"product\n") < products - 1  # what the first client had done was not done again
    exec(SETUP, scope := {})
    whole = training.regress(scope["net"], scope["x"], scope["y"], ridge=0.05, residual=1e-9)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), whole.coefficients, atol=1e-5)


@pytest.mark.slow
def test_a_cluster_that_is_lost_is_one_sentence_and_one_without_workers_too(cluster):
    address, (scheduler, *workers) = cluster
    x, y = np.random.default_rng(0).normal(size=(2, 100, 3))
    for worker in workers:
        worker.kill()
        worker.wait()
    time.sleep(1.0)
    with one_sentence("the scheduler has no workers"):
        training.regress(NET, x, y[:, :2], ridge=0.1, scheduler=address)
    scheduler.kill()
    scheduler.wait()
    with one_sentence("no scheduler answers"):
        training.regress(NET, x, y[:, :2], ridge=0.1, scheduler=address, timeout=0.5)


def test_workers_of_this_machine_count_as_its_memory(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_spread, "UNIT", 2048)  # which SETUP changes
    monkeypatch.setattr(_spread, "_MANY", 16)
    one = {"nthreads": 1, "memory_limit": 8e9, "metrics": {"memory": 1e9}, "host": "127.0.0.1"}

    class Client:
        def scheduler_info(self, n_workers):
            other = one | {"host": "192.0.2.1"}  # an address that nobody has
            return {"workers": {"a": one, "b": other, "c": other | {"nthreads": 2}}}

    spread = _spread.Spread(Client(), _tiles.Tiles(NET, np.ones((10_000, 3)), "ntk"))
    alone = spread.here(keeps=False)
    assert spread.threads == 4 and spread.fits and 1e9 < alone < 1.5e9
    whole = 8 * sum((rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in spread.places)
    np.testing.assert_allclose(spread.here(keeps=True) - alone, whole / 4, rtol=0.05)
    many = _spread.Spread(Client(), _tiles.Tiles(NET, np.ones((40_000, 3)), "ntk"))
    assert len(spread.places) == 15 and len(many.places) == 55  # 5·6/2 of 2048, 10·11/2 of 4096


@pytest.mark.slow
def test_workers_make_the_preconditioner_that_one_process_makes(monkeypatch):
    monkeypatch.setattr(_spread, "UNIT", 32)
    monkeypatch.setattr(_spread, "_MANY", 16)
    monkeypatch.setattr(_pivots, "BLOCK", 8)

    class Done:
        def __init__(self, value):
            self.value = value

        def result(self):
            return self.value

    class Client:  # whose tasks are done at once
        def scheduler_info(self, n_workers):
            return {"workers": {"a": {"nthreads": 1, "memory_limit": 8e9, "metrics": {}, "host": "192.0.2.1"}}}

        def submit(self, function, *args, pure):
            assert not pure
            return Done(function(*jax.tree.map(lambda a: a.value if isinstance(a, Done) else a, list(args))))

    tiles = _tiles.Tiles(NET, np.random.default_rng(0).normal(size=(90, 3)), "ntk", 0.1)
    spread = _spread.Spread(Client(), tiles)
    spread.begin(keeps=False)
    here, there = _pivots.pivoted(tiles, 24), _pivots.pivoted(tiles, 24, place=spread)
    np.testing.assert_allclose(there.F, here.F, atol=1e-6)
    v = np.random.default_rng(1).normal(size=(90, 2))
    np.testing.assert_allclose(there(v), here(v), rtol=1e-5, atol=1e-7)
    # And from columns that a folder had.
    again = spread.at(0.1).core(here.F, here.delta)
    np.testing.assert_allclose(np.tril(again), np.tril(np.eye(24) + here.F.T.astype(float) @ here.F / here.delta))


def test_tls_without_a_scheduler_is_one_sentence():
    with one_sentence("tls is given without a scheduler"):
        training.regress(NET, np.ones((2, 3)), np.ones((2, 2)), tls={"tls_ca_file": "ca.pem"})


@pytest.mark.slow
def test_two_devices_share_the_tiles():
    code = """
    import jax, jax.numpy as jnp
    from neft.training import _tiles
    assert len(jax.local_devices()) == 2
    seen = list(_tiles.in_threads(lambda i: jnp.zeros(()).devices().pop().id, range(6)))
    _tiles.TILE = 64
    real, used = _tiles.Tiles.between, set()
    def between(self, *args):
        used.add(jnp.zeros(()).devices().pop().id)
        return real(self, *args)
    _tiles.Tiles.between = between
    fit = training.regress(net, x, y, ridge=0.05, residual=1e-9)
    print(seen, sorted(used), *fit.coefficients[:2].ravel().round(6))
    """
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    out, err = begun(code, env=os.environ | flags).communicate(timeout=300)
    assert out.startswith(b"[0, 1, 0, 1, 0, 1] [0, 1] "), err.decode()
    exec(SETUP, scope := {})
    whole = training.regress(scope["net"], scope["x"], scope["y"], ridge=0.05, residual=1e-9)
    np.testing.assert_allclose([float(value) for value in out.split()[-4:]], whole.coefficients[:2].ravel(), atol=1e-5)
