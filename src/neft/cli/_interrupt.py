"""Ctrl-C at any time: one sentence at once, exit code 130, no traceback and nothing half written.

Little is imported here, and nothing of neft, so that Ctrl-C is handled from the start, before a command is even known.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130
_PATIENCE = 2.0
"""Seconds in which the program may clean up: temporary files, claims of a sweep, worker processes."""

_telling = threading.Lock()
_told = False


def until_interrupted(run: Callable[[], None]) -> None:
    """Run a program; Ctrl-C ends this process."""
    try:
        _mind()
        try:
            run()
        finally:
            # From here on it comes too late to stop anything. One that has come already is raised by this very call.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        _leave()
    except BaseException:
        if _told:
            _leave()
        raise


def raise_if_interrupted() -> None:
    """Raise the interrupt again where compiled code or the test of a claim turned it into another error."""
    if _told:
        raise KeyboardInterrupt


def _mind() -> None:
    signal.signal(signal.SIGINT, _interrupt)
    import socket

    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    signal.set_wakeup_fd(pythons.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours,), name="neft-interrupts", daemon=True).start()
    sys.unraisablehook = _swallowed


def _interrupt(_: int, frame: FrameType | None) -> NoReturn:
    # A second Ctrl-C must not interrupt what the first one made the program put back.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _tell()
    if _importing(frame):
        # Modules of compiled code that are being loaded may abort the process at an exception.
        _leave()
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _watch(signals: Any) -> None:
    # Compiled code may run for minutes before the main thread hears of a signal, so another one listens.
    while signals.recv(1) != bytes([signal.SIGINT]):
        pass
    _tell()
    time.sleep(_PATIENCE)
    _leave()


def _swallowed(lost: Any) -> None:
    # Python drops what is raised in a destructor or in a callback of the garbage collector, and would continue.
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(lost)


def _leave() -> NoReturn:
    _tell()
    if (files := sys.modules.get("neft._files")) is not None:
        files.discard_unfinished()
    # Not sys.exit: threads of compiled code would be waited for, and might print what they think of it.
    os._exit(INTERRUPTED)


def _tell() -> None:
    global _told
    with _telling:
        if _told:
            return
        _told = True
        show_cursor = "\x1b[?25h\n" if os.isatty(2) else ""
        with contextlib.suppress(OSError):  # nobody may listen any more
            os.write(2, f"{show_cursor}neft: interrupted.\n".encode())
        # One sentence, whatever destructors and other threads have to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
