"""Long jobs in processes of their own, some at once, each ended when nobody waits for it any more."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ._limits import MOST_JOBS
from ._worker import ENVIRONMENT, NO_MEMORY

_PROGRAM = "from neft.explore._worker import main; main()"
_MOST_ANSWERS = 40  # jobs of one process: each compiles programs, which hold memory maps
_SPARE = 1


class Busy(ValueError):
    """As many jobs as may run are running."""


class Workers:
    """Processes that run jobs; one waits beside those at work, because to start takes seconds."""

    def __init__(self, most: int = MOST_JOBS) -> None:
        self._most, self._lock = most, threading.Lock()
        self._idle: list[_Process] = []
        self._own: list[_Process] = []
        self._working: set[_Process] = set()
        self._closed = False

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        """Start a process that waits for a job."""
        with self._lock:
            if not self._closed and len(self._idle) < _SPARE:
                self._idle.append(_Process())

    def run(self, name: str, settings: dict[str, Any]) -> "Job":
        """A job under way; `Busy` says when there are too many."""
        with self._lock:
            if self._closed:
                raise Busy("the server is ending.")
            if len(self._working) >= self._most:
                raise Busy(
                    f"{len(self._working)} simulations are running already, which is all that may run at once: "
                    "wait for one of them, or stop one."
                )
            process = self._idle.pop() if self._idle else _Process()
            self._working.add(process)
        return Job(self, process, name, settings)

    def beside(self, name: str, settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What a process says about a job of the server's own, which takes the place of none."""
        with self._lock:
            if self._closed:
                return
            process = _Process()
            self._own.append(process)
        process.ask({"name": name, "settings": settings})
        for record in process.records():
            yield record
            if "progress" not in record:
                break
        process.end()

    def release(self, process: "_Process", *, usable: bool) -> None:
        """Take a process back, or end it."""
        with self._lock:
            self._working.discard(process)
            keep = usable and not self._closed and process.answers < _MOST_ANSWERS and len(self._idle) <= _SPARE
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()
            if not self._closed:
                self.prepare()

    @property
    def count(self) -> int:
        """Jobs that are running."""
        return len(self._working)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed, everybody = True, [*self._idle, *self._working, *self._own]
            self._idle = []
        for process in everybody:
            process.end()


class Job:
    """What a process says about one job; `stop` ends it at any time."""

    def __init__(self, workers: Workers, process: "_Process", name: str, settings: dict[str, Any]) -> None:
        self._workers, self._process, self._released = workers, process, threading.Lock()
        try:
            process.ask({"name": name, "settings": settings})
        except OSError:
            self._end(usable=False)
            raise Busy("the process for it could not be started.") from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Records with `progress` (and perhaps what is `found` so far), then one with `result`, `error` or `fields`."""
        finished = False
        try:
            for record in self._process.records():
                finished = "progress" not in record
                yield record
                if finished:
                    return
            yield {"error": self._process.epitaph()}
        finally:
            self._end(usable=finished)

    def stop(self) -> None:
        """End it."""
        self._end(usable=False)

    def _end(self, *, usable: bool) -> None:
        if self._released.acquire(blocking=False):
            self._workers.release(self._process, usable=usable)


class _Process:
    def __init__(self) -> None:
        self.answers = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is answered by the server alone
        )

    def ask(self, job: dict[str, Any]) -> None:
        self.answers += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def records(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        while line := self._line():
            record = json.loads(line)
            if "ready" not in record:
                yield record

    def _line(self) -> str:
        assert self._process.stdout is not None
        try:
            return self._process.stdout.readline()
        except ValueError:  # closed by who ended it
            return ""

    def epitaph(self) -> str:
        """What is said of a process that ended before its job did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Libraries that find no memory abort.
            if self._process.wait(timeout=5) in (-signal.SIGABRT, -signal.SIGSEGV):
                return NO_MEMORY
        return "its process ended before it was done."

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()
