"""Moments in which Ctrl-C is not listened to."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Ctrl-C does nothing, here and in processes that are started in here; in a thread of one's own nothing changes.

    >>> with deaf():
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
