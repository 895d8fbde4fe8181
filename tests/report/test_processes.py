"""Parts of the page in a second process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from neft.report._processes import shared


def where(wait: float) -> int:
    """The process that this runs in, after a while."""
    time.sleep(wait)
    return os.getpid()


def die_elsewhere(parent: int) -> int:
    """Kills a process that is not the parent; the result is the parent."""
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return parent


def test_one_worker_is_this_process():
    done = []
    assert shared([(where, (0.0,))] * 3, done.append, 1) == [os.getpid()] * 3 and done == [0, 1, 2]


@pytest.mark.slow
def test_two_workers_share_and_leave_nothing_behind():
    done = []
    found = shared([(where, (3.0,))] * 6, done.append, 2)
    assert len(set(found)) == 2 and found[0] == os.getpid() and sorted(done) == list(range(6))
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_what_a_dying_process_does_not_bring_back_is_done_here():
    me = os.getpid()
    assert shared([(where, (6.0,)), (die_elsewhere, (me,))], lambda i: None, 2) == [me, me]


def test_what_cannot_be_sent_is_done_here():
    assert shared([(lambda: os.getpid(), ())] * 2, lambda i: None, 2) == [os.getpid()] * 2


@pytest.mark.slow
def test_the_second_process_ends_with_the_first(tmp_path):
    # Killed without a chance to say anything.
    script = tmp_path / "first.py"
    script.write_text(
        "import os, time\nfrom neft.report._processes import shared\n\n"
        "def slow(path):\n    open(path + str(os.getpid()), 'w').close()\n    time.sleep(120)\n\n"
        f"if __name__ == '__main__':\n    shared([(slow, ({str(tmp_path / 'pid-')!r},))] * 2, print, 2)\n"
    )
    first = subprocess.Popen([sys.executable, str(script)])
    try:
        deadline = time.monotonic() + 60
        while len(found := list(tmp_path.glob("pid-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        first.kill()
        first.wait()
    (second,) = {int(path.name[4:]) for path in found} - {first.pid}
    while time.monotonic() < deadline:
        try:
            os.kill(second, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the second process lives on")
