"""The machinery: specifications, folders, resuming, failing, sharing. Most of it with the toy kind, without JAX."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import one_sentence

from neft import _files, load, sweep
from neft._dask import TLS
from neft.sweep import _locks, _registry
from neft.sweep._specification import SPECS

from . import toy

TOY = Path(toy.__file__)


def small(count=4, **fixed):
    return sweep.Specification(kind="toy", fixed=fixed, grid={"number": list(range(count))})


def results(folder):
    """The bytes of every result, by name."""
    return {path.name: path.read_bytes() for path in (Path(folder) / "results").iterdir()}


def write(path, text):
    path.write_text(text)
    return path


def test_grids_are_combined_and_cases_follow_each_other():
    spec = sweep.Specification(
        kind="train",
        fixed={"epochs": 3},
        grid={"hidden": [[8], [9]]},
        cases=(
            {"optimizer": ["sgd"], "learning_rate": [0.1, 0.2]},
            {"optimizer": ["adam"], "learning_rate": [0.01], "epochs": [7]},
        ),
    ).complete()
    found = [c.values for c in spec.configurations()]
    keys = [(v["hidden"], v["optimizer"], v["learning_rate"], v["epochs"]) for v in found]
    assert keys[:3] == [([8], "sgd", 0.1, 3), ([8], "sgd", 0.2, 3), ([8], "adam", 0.01, 7)]
    assert len(keys) == 6 and found[0]["l2"] == 1e-3 and found[0]["batch_norm"] is False
    names = [c.name for c in spec.configurations()]
    assert len(set(names)) == 6 and names[0].startswith("8-sgd-0.1-3-")


def test_a_name_changes_with_every_value_and_not_with_the_order():
    one, two = small(1).complete(), small(1, size=11).complete()
    assert one.configurations()[0].name != two.configurations()[0].name
    swapped = sweep.Specification(kind="toy", fixed=dict(reversed(one.fixed.items())), grid=one.grid)
    assert swapped.configurations()[0].name == one.configurations()[0].name


def test_equal_configurations_are_run_once():
    spec = sweep.Specification(kind="toy", fixed={}, grid={}, cases=({"number": [1, 2]}, {"number": [2, 3]}))
    assert [c.values["number"] for c in spec.complete().configurations()] == [1, 2, 3]


def test_a_file_is_read(tmp_path):
    text = 'kind = "toy"\n[fixed]\nsize = 3\n[grid]\nnumber = [1, 2]\n[[cases]]\nseconds = [0.0]\n'
    spec = sweep.Specification.read(write(tmp_path / "a.toml", text))
    assert [c.values for c in spec.configurations()] == [
        {"seconds": 0.0, "size": 3, "fails": False, "number": n} for n in (1, 2)
    ]
    spec.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json") == spec


def test_a_name_of_before_still_names_its_specification(tmp_path, monkeypatch):
    assert "seed003" not in SPECS and sweep.Specification.read("seed003") == sweep.Specification.read("sun-nielsen")
    # Begun under one name and resumed under the other, as `neft sweep` does it; the work itself needs data.
    monkeypatch.setattr("neft.sweep._run.here", lambda place, callback: None)
    monkeypatch.setattr("neft.sweep._folder.checksum", lambda values: None)
    for name in ("seed003", "sun-nielsen"):
        sweep.run(name, tmp_path)
    assert sweep.Folder.open(tmp_path).plan.specification == sweep.Specification.read("sun-nielsen")


@pytest.mark.parametrize("name", SPECS)
def test_the_specifications_inside_the_package_are_complete(name):
    configurations = sweep.Specification.read(name).configurations()
    assert len(configurations) >= 8 and {c.values["optimizer"] for c in configurations} >= {"sgd", "adam", "rngd"}
    assert {(tuple(c.values["hidden"]), c.values["batch_norm"]) for c in configurations} == {
        ((n,) * 3, normed) for n in ((80,) if name == "quick" else (80, 100)) for normed in (False, True)
    }


def test_the_quick_specification_stays_a_matter_of_a_minute():
    # 58 CPU seconds were measured, most of them the compiler's, which comes once for each configuration.
    configurations = sweep.Specification.read("quick").configurations()
    assert len(configurations) <= 18
    assert sum(c.values["epochs"] * c.values["seeds"] for c in configurations) <= 340


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "toys"', ("kind", "'toys'", "did you mean 'toy'")),
        ("[grid]\nnumber = [1]", ("kind is missing",)),
        ('kind = "toy"\ngrids = 1', ("'grids'", "did you mean 'grid'")),
        ('kind = "toy"\ngrid = 1', ("grid", "[grid]")),
        ('kind = "toy"\n[cases]\nnumber = [1]', ("[[cases]]",)),
        ('kind = "toy"\n[grid]\nnumbr = [1]', ("key of grid", "'numbr'", "did you mean 'number'")),
        ('kind = "toy"\n[fixed]\nx = 1\n[grid]\nnumber = [1]', ("key of fixed", "'x'")),
        ('kind = "toy"\n[grid]\nnumber = []', ("number", "empty")),
        ('kind = "toy"\n[grid]\nnumber = 3', ("number in grid is 3", "list")),
        ('kind = "toy"\n[grid]\nsize = [3]', ("number is not set",)),
        ('kind = "toy"\n[fixed]\nnumber = 1\n[grid]\nnumber = [1]', ("number stands in grid and in fixed",)),
        ('kind = "toy"\n[grid]\nnumber = [1979-05-27]', ("number is", "finite number")),
        ('kind = "toy"\n[grid]\nnumber = [nan]', ("number is nan", "finite")),
        ('kind = "toy', ("not a TOML file",)),
        ('kind = "train"\n[grid]\noptimizer = ["adm"]', ("optimizer is 'adm'", "did you mean 'adam'")),
        ('kind = "train"\n[grid]\nlearning_rate = [-1.0]', ("learning_rate is -1",)),
    ],
)
def test_a_bad_specification_is_told_in_one_sentence(tmp_path, text, words):
    with one_sentence(*words):
        sweep.run(write(tmp_path / "bad.toml", text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_told(tmp_path):
    with one_sentence("cannot read", "nowhere.toml"):
        sweep.run(tmp_path / "nowhere.toml", tmp_path / "out")


def test_results_are_kept_and_a_second_run_does_nothing(tmp_path):
    seen = []
    first = sweep.run(small(), tmp_path, callback=seen.append)
    assert (first.total, first.done, first.failed, first.under_way) == (4, 4, 0, ()) and first.finished
    assert [status.done for status in seen] == [1, 2, 3, 4] and seen[0].line().startswith("1 of 4 done")
    before, lines = results(tmp_path), (tmp_path / "log.jsonl").read_text()
    assert sweep.run(small(), tmp_path) == first
    assert results(tmp_path) == before and (tmp_path / "log.jsonl").read_text() == lines
    place = sweep.Folder.open(tmp_path)
    for configuration in place.configurations:
        found = place.read(configuration)
        expected = np.random.default_rng(configuration.values["number"]).normal(size=10)
        np.testing.assert_array_equal(found.values["values"], expected)
        assert found.reason is None and "cpu_seconds" not in found.values
        assert place.timings()[configuration.name]["cpu_seconds"] > 0


def test_results_depend_on_the_configuration_alone(tmp_path):
    sweep.run(small(), tmp_path / "a")
    backwards = sweep.Specification(kind="toy", fixed={}, grid={"number": [3, 2, 1, 0]})
    sweep.run(backwards, tmp_path / "b")
    assert results(tmp_path / "a") == results(tmp_path / "b") and len(results(tmp_path / "a")) == 4


def test_a_failure_is_recorded_and_the_rest_goes_on(tmp_path):
    spec = sweep.Specification(kind="toy", fixed={"number": 1}, grid={"fails": [True, False]})
    ended = sweep.run(spec, tmp_path)
    assert (ended.done, ended.failed) == (1, 1) and ended.finished
    (reason,) = ended.reasons.values()
    assert reason == "RuntimeError: number 1 was asked to fail"
    count = len((tmp_path / "log.jsonl").read_text().splitlines())
    sweep.run(spec, tmp_path)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == count
    again = sweep.run(spec, tmp_path, retry=True)
    assert again.failed == 1 and len((tmp_path / "log.jsonl").read_text().splitlines()) == count + 2
    # Also without the log, which a user may delete.
    (tmp_path / "log.jsonl").unlink()
    assert sweep.status(tmp_path).reasons == ended.reasons


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"y": float("nan")}, "returned nan for y"),
        ({"y": np.array([1.0, np.inf])}, "returned inf for y"),
        ({"y": {"a": 1}}, "returned dict for y"),
        ({"y": None}, "returned NoneType for y"),
        ({"y": [[1], [1, 2]]}, "returned list for y"),
        (3.0, "returned float"),
        (None, "returned NoneType"),
    ],
)
def test_what_is_no_number_is_a_failure_with_a_reason(tmp_path, monkeypatch, returned, words):
    monkeypatch.setitem(_registry.KINDS, "odd", _registry.Kind("odd", lambda *, x: returned, "y"))
    ended = sweep.run(sweep.Specification(kind="odd", fixed={}, grid={"x": [1]}), tmp_path)
    (reason,) = ended.reasons.values()
    assert (ended.done, ended.failed) == (0, 1) and words in reason and "'odd'" in reason


def test_an_interruption_loses_one_configuration(tmp_path, monkeypatch):
    whole = sweep.run(small(), tmp_path / "whole")
    rng, calls = np.random.default_rng, []

    def interrupted(seed):
        calls.append(seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return rng(seed)

    monkeypatch.setattr(np.random, "default_rng", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(small(), tmp_path / "broken")
    assert sweep.status(tmp_path / "broken").done == 2 and not list((tmp_path / "broken" / "claims").iterdir())
    assert sweep.run(small(), tmp_path / "broken").done == whole.done
    assert len(calls) == 5 and results(tmp_path / "broken") == results(tmp_path / "whole")


def test_what_a_killed_run_leaves_is_taken_over(tmp_path):
    place = sweep.Folder.begin(tmp_path, small())
    place.prepare()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = [c.name for c in place.configurations]
    host = os.uname().nodename
    (place.claims / f"{names[0]}.lock").write_text(json.dumps({"host": host, "pid": gone.pid}))
    old = place.claims / f"{names[1]}.lock"
    old.write_text(json.dumps({"host": "elsewhere", "pid": 1}))
    os.utime(old, (time.time() - 2 * _locks.STALE,) * 2)
    (place.results / f".{names[2]}.npz.abc.part").write_bytes(b"half")
    place.log.write_text('{"event": "started", "configur')
    assert place.under_way() == ()
    assert sweep.run(small(), tmp_path).done == 4
    assert len(results(tmp_path)) == 4 and not list(place.claims.iterdir())
    assert len(place.timings()) == 4 and len(place.log.read_text().splitlines()) == 9


def test_a_living_claim_is_respected(tmp_path):
    place = sweep.Folder.begin(tmp_path, small())
    place.prepare()
    mine, other = _locks.Claims(place.claims), _locks.Claims(place.claims)
    name = place.configurations[0].name
    assert mine.take(name) and not other.take(name)
    assert place.under_way() == (name,) and sweep.status(tmp_path).under_way == (name,)
    mine.close()
    assert other.take(name)
    other.close()
    assert place.under_way() == ()


def test_a_claim_elsewhere_counts_while_it_is_touched(tmp_path):
    file = write(tmp_path / "a.lock", json.dumps({"host": "elsewhere", "pid": 1}))
    assert _locks.alive(file) and _locks.living(tmp_path) == ("a",)
    write(file, "")
    assert _locks.alive(file)


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    make, calls = _files.tempfile.mkstemp, []

    def full(*args, **more):
        calls.append(args)
        if len(calls) == 4:  # the specification and two results fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*args, **more)

    monkeypatch.setattr(_files.tempfile, "mkstemp", full)
    with one_sentence("cannot write", "No space left on device"):
        sweep.run(small(), tmp_path)
    monkeypatch.undo()
    assert sweep.status(tmp_path).done == 2 and sweep.status(tmp_path).failed == 0
    assert sweep.run(small(), tmp_path).done == 4


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "log.jsonl").mkdir()
    sweep.Folder.begin(tmp_path / "x", small()).path.joinpath("log.jsonl").mkdir()
    with one_sentence("cannot write", "log.jsonl"):
        sweep.run(small(), tmp_path / "x")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ("is not a sweep", "no such folder")),
        (lambda path: path.mkdir(), ("is not a sweep", "sweep.json")),
        (lambda path: path.write_text(""), ("is not a sweep",)),
        (lambda path: (path.mkdir(), write(path / "sweep.json", "{")), ("damaged",)),
    ],
)
@pytest.mark.parametrize("look", [sweep.status, sweep.summary])
def test_a_folder_that_is_no_sweep_is_told(tmp_path, make, words, look):
    make(tmp_path / "x")
    with one_sentence(*words):
        look(tmp_path / "x")


def test_other_folders_and_other_sweeps_are_left_alone(tmp_path):
    write(tmp_path / "letter.txt", "dear")
    with one_sentence("is not a sweep and not empty"):
        sweep.run(small(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with one_sentence("is a file"):
        sweep.run(small(), tmp_path / "letter.txt")
    sweep.run(small(), tmp_path / "a")
    with one_sentence("another sweep", "size in fixed is 10 instead of 12"):
        sweep.run(small(size=12), tmp_path / "a")
    with one_sentence("another sweep", "number in grid"):
        sweep.run(small(5), tmp_path / "a")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("workers is 0", "at least 1"), {"workers": 0}),
        (("workers is 2", "scheduler"), {"workers": 2, "scheduler": "tcp://127.0.0.1:1"}),
        (("tls", "without a scheduler"), {"tls": {"tls_ca_file": "ca.pem"}}),
        (("tls lacks tls_client_cert",), {"scheduler": "tls://127.0.0.1:1", "tls": {"tls_ca_file": "ca.pem"}}),
        (("tls_ca_file is 'x'", "no such file"), {"scheduler": "tls://127.0.0.1:1", "tls": dict.fromkeys(TLS, "x")}),
        (("a key of tls is 'ca'",), {"scheduler": "tls://127.0.0.1:1", "tls": {"ca": "x"}}),
        (("no scheduler answers at 'tcp://127.0.0.1:1'",), {"scheduler": "tcp://127.0.0.1:1", "timeout": 0.5}),
        (("no scheduler answers at 'nonsense://x'",), {"scheduler": "nonsense://x", "timeout": 0.5}),
    ],
)
def test_bad_ways_to_run_are_told_in_one_sentence(tmp_path, words, options):
    with one_sentence(*words):
        sweep.run(small(), tmp_path, **options)


def test_a_scheduler_without_dask_is_one_sentence_that_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with one_sentence("dask.distributed", "not installed", "pip install 'dask[distributed]'", "extra 'cluster'"):
        sweep.run(small(), tmp_path, scheduler="tcp://127.0.0.1:1")


def test_headlines_of_any_kind(tmp_path):
    sweep.run(small(), tmp_path)
    found = sweep.summary(tmp_path)
    assert found.varied == ("number",) and found.rows == (("0",), ("1",), ("2",), ("3",))
    means = [np.random.default_rng(n).normal(size=10).mean() for n in range(4)]
    np.testing.assert_array_equal(found.numbers, means)


@pytest.mark.slow
def test_two_runs_share_a_folder(tmp_path):
    program = [sys.executable, TOY, tmp_path / "shared"]
    runs = [subprocess.Popen(program, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate(timeout=60)[0].strip() for run in runs] == ["40 of 40 done, 0 under way, 0 failed"] * 2
    place = sweep.Folder.open(tmp_path / "shared")
    events = [event for event in place.events() if event["event"] == "done"]
    # Each configuration once, and both took part.
    assert sorted(e["configuration"] for e in events) == sorted(c.name for c in place.configurations)
    assert {event["pid"] for event in events} == {run.pid for run in runs}
    sweep.run(toy.specification(), tmp_path / "alone")
    assert results(tmp_path / "shared") == results(tmp_path / "alone")
