"""Moments in which Ctrl-C is ignored."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ctrl-C does nothing, here and in processes that are started in here; outside the main thread nothing changes.

    >>> with ignore_interrupts():
    ...     signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
