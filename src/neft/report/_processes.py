"""A second process that writes sections of the page beside the first, where functions and data can be handed to it."""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from ._interrupts import ignore_interrupts

T = TypeVar("T")

_Job = tuple[Callable[..., Any], tuple[Any, ...]]


def shared(jobs: Sequence[_Job], finished: Callable[[int], None], workers: int) -> list[Any]:
    """function(*arguments) of every job, in their order; `finished` is called with the number of each when it is done.

    This process takes jobs from the front. With two workers another process takes them from the back, and this one does
    again what that one cannot bring back.

    >>> shared([(max, (1, 2)), (min, (1, 2))], lambda i: None, 1)
    [2, 1]
    """
    left, results = collections.deque(enumerate(jobs)), {}

    def done(i: int, value: Any) -> None:
        results[i] = value
        finished(i)

    with _helper(jobs) if workers > 1 else contextlib.nullcontext() as helper:
        # A thread waits for the other process.
        waiting = threading.Thread(target=_hand_out, args=(helper, left, done), daemon=True)
        if helper is not None:
            waiting.start()
        while (job := _next(left.popleft)) is not None:
            i, (function, arguments) = job
            done(i, function(*arguments))
        if helper is not None:
            waiting.join()
    for i, (function, arguments) in enumerate(jobs):
        if i not in results:
            done(i, function(*arguments))
    return [results[i] for i in range(len(jobs))]


def _next(take: Callable[[], T]) -> T | None:
    try:
        return take()
    except IndexError:
        return None


def _hand_out(helper: Any, left: collections.deque, done: Callable[[int, Any], None]) -> None:
    while (job := _next(left.pop)) is not None:
        i, (function, arguments) = job
        try:
            value = helper.submit(function, *arguments).result()
        except Exception:  # it died, or could not send its result: the first process does that job itself
            return
        done(i, value)


@contextlib.contextmanager
def _helper(jobs: Sequence[_Job]) -> Iterator[concurrent.futures.ProcessPoolExecutor | None]:
    try:
        ForkingPickler.dumps(jobs)
    except Exception:  # a function of a notebook, or an activation of one's own
        yield None
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with _quiet_tracker():
        pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=_leave_with_the_parent)
    try:
        # Ctrl-C reaches both processes, and the first one answers it. The other ignores it from its first moment on,
        # when a traceback would be all it has to say.
        with ignore_interrupts():
            pool.submit(int)  # which starts it
        yield pool
    finally:
        # Whatever ended the block, nothing of what is under way there is wanted any more.
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _quiet_tracker() -> Iterator[None]:
    # multiprocessing starts a process that frees semaphores, and that complains when it has to, after Ctrl-C.
    name, mine = "PYTHONWARNINGS", "ignore::UserWarning:multiprocessing.resource_tracker"
    before = os.environ.get(name)
    os.environ[name] = f"{before},{mine}" if before else mine
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _leave_with_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for one that was not started by the main thread
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
