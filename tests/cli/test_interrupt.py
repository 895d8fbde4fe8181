"""Ctrl-C at any time: one sentence, exit code 130, nothing half written."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import neft
from neft.cli import _emit, _interrupt
from neft.cli._options import Output

SAID = "neft: interrupted.\n"
REPORT = "report --quick --subset --out page.html"
OTHERS = (
    "activation gelu --out a.json --plot a.svg",
    "network --draws 2000 --out a.npz",
    "stats --activation gelu --depth 4 --out a.json --plot a.png",
    "check --widths 3,8,8,2 --draws 8192 --out a.json",
    "critical gelu",
    "phase tanh --plot a.svg",
    "advise gelu --depth 8 --width 256 --plot a.pdf",
    "predict --order 1 --train 6 --test 6 --draws 64 --out a.json",
    "action --subset --hidden 64 --stops 100,1000 --checkpoint fit.npz --out a.npz --plot a.svg",
    "fisher --subsystem softmax --out a.json",
    "train --hidden 40,40 --epochs 20 --checkpoint run.npz --out a.json --plot a.svg",
    "sweep --quick --out sweep",
    "sweep --quick --out sweep --workers 2",
    "data fashion-mnist --out a.json",
    "claims",
)


def moments(line, count, latest):
    """So many random moments, in seconds: one in each part of a logarithmic scale, and the same in every run."""
    return [0.02 * (latest / 0.02) ** ((i + random.Random(f"{line} {i}").random()) / count) for i in range(count)]


SEVERAL = [(line, when) for line in OTHERS for when in moments(line, 2, 10)]
SEVERAL += [(REPORT, when) for when in moments(REPORT, 6, 25)]


def begun(process):
    """Wait for Python, which takes its time to start, to begin with neft: its second thread minds Ctrl-C."""
    threads = Path(f"/proc/{process.pid}/task")
    if not threads.parent.parent.is_dir():
        time.sleep(1)
        return
    while process.poll() is None and len(list(threads.iterdir())) < 2:
        time.sleep(0.001)


def interrupted(folder, line, when, presses=1):
    """The exit code and the streams of a command line that Ctrl-C meets `when` seconds after it began."""
    here, temporary = folder / "here", folder / "temporary"
    here.mkdir()
    temporary.mkdir()
    program = [Path(sys.executable).with_name("neft"), *line.split()]
    # As a terminal does it, Ctrl-C goes to the whole group: to worker processes too.
    process = subprocess.Popen(
        program,
        cwd=here,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    begun(process)
    try:
        process.wait(when)
    except subprocess.TimeoutExpired:
        for _ in range(presses):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.002)
    out, err = process.communicate(timeout=120)
    assert not list(temporary.iterdir())
    return process.returncode, out, err


def assert_whole(folder):
    """What is there was finished before Ctrl-C: files are whole, and no configuration of a sweep is still claimed."""
    for file in (path for path in folder.rglob("*") if path.is_file()):
        assert not file.name.startswith(".") and file.suffix not in (".part", ".lock"), file
        if file.name.startswith("a.") and file.suffix in (".json", ".npz"):
            assert isinstance(neft.load(file), neft.Result)


@pytest.mark.parametrize("when", [0, *(pytest.param(when, marks=pytest.mark.slow) for when in (0.05, 0.5, 2.5))])
def test_one_sentence_and_no_file_from_the_first_moment_on(tmp_path, when):
    code, out, err = interrupted(tmp_path, REPORT, when, presses=2)
    assert (code, out, err) == (130, "", SAID) and not list((tmp_path / "here").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("line", "when"), SEVERAL)
def test_one_sentence_and_nothing_half_written_at_a_random_moment(tmp_path, line, when):
    code, _, err = interrupted(tmp_path, line, when)
    assert (code, err) in [(130, SAID), (0, "")]
    assert_whole(tmp_path / "here")
    assert line != REPORT or code == 0 or not list((tmp_path / "here").iterdir())


DROPPED = "dropped by the program"  # waits until the watcher ends it, as one other does
SENT = "os.kill(os.getpid(), signal.SIGINT)"
MOMENTS = {
    "in Python": f"{SENT}; time.sleep(60)",
    "in compiled code that does not return": f"threading.Timer(0.1, lambda: {SENT}).start(); hash(2**31 - 1)",
    "in a destructor, where Python drops it": f"type('Gone', (), {{'__del__': lambda self: {SENT}}})(); time.sleep(60)",
    "turned into another error": f"try: {SENT}; time.sleep(60)\n    except BaseException: raise RuntimeError('lost')",
    "turned into a sentence": f"try: {SENT}; time.sleep(60)\n    except BaseException: sys.exit('neft: another.')",
    DROPPED: f"try: {SENT}; time.sleep(60)\n    except BaseException: time.sleep(60)",
    "twice": f"try: {SENT}; time.sleep(60)\n    finally: {SENT}; time.sleep(0.1); open('put back', 'x').close()",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", [pytest.param(name, marks=pytest.mark.slow) if name == DROPPED else name for name in MOMENTS]
)
def test_whatever_the_program_is_doing(tmp_path, moment):
    code = f"""
import hashlib, os, signal, sys, threading, time
from neft.cli._interrupt import until_interrupted
def hash(rounds): hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)
def work():
    {MOMENTS[moment]}
until_interrupted(work)
"""
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", SAID)
    assert time.monotonic() - start < 30
    assert (tmp_path / "put back").exists() == (moment == "twice")


@pytest.mark.parametrize(
    "module",
    [
        "typer",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("socket", "numpy", "jax._src.core", "matplotlib.figure")
        ),
    ],
)
def test_while_a_module_is_loaded(tmp_path, module):
    code = """
import os, signal, sys, neft.cli
moment = sys.argv.pop()
class Finder:
    def find_spec(self, name, *_):
        if name == moment: os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
neft.cli.main()
"""
    command = [sys.executable, "-c", code, "activation", "tanh", "--plot", "a.svg", module]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", SAID) and not list(tmp_path.iterdir())


def test_nothing_is_written_after_an_interrupt_that_was_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(_interrupt, "_told", True)
    with pytest.raises(KeyboardInterrupt):
        _emit.emit(neft.Made.by("test"), Output(out=tmp_path / "a.json"))
    assert not list(tmp_path.iterdir())


def test_the_library_leaves_interrupts_alone():
    code = "import signal; s = signal.getsignal(2); import neft.cli; neft.cli.app; print(signal.getsignal(2) is s)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "True\n"
