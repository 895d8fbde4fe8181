"""The one progress bar: on stderr, only on a terminal, only for work that takes longer than two seconds."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_DELAY = 2.0
_quiet = False
_listener: Callable[[str, int, int | None], None] | None = None


def be_quiet(quiet: bool = True) -> None:
    """Switch the bar off (or on again) for this process, as `--quiet` does."""
    global _quiet
    _quiet = quiet


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No bar within: whoever is around says how far it is.

    >>> with quietly():
    ...     list(track(range(3), "counting"))
    [0, 1, 2]
    """
    before = _quiet
    be_quiet()
    try:
        yield
    finally:
        be_quiet(before)


@contextlib.contextmanager
def heard_by(listener: Callable[[str, int, int | None], None]) -> Iterator[None]:
    """Within it `listener(label, done, total)` is called instead of a bar being shown, of an unknown total with None.

    >>> with heard_by(lambda label, done, total: print(label, done, total)):
    ...     for _ in track(range(2), "counting"):
    ...         pass
    counting 1 2
    counting 2 2
    """
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def track(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The items, one by one, with a bar named `label` once two seconds have passed.

    >>> list(track(range(3), "counting"))
    [0, 1, 2]
    """
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    if _listener is not None:
        for done, item in enumerate(items):
            yield item
            _listener(label, done + 1, total)
        return
    if _quiet or not sys.stderr.isatty():
        yield from items
        return
    start, bar, task = time.monotonic(), None, None
    try:
        for done, item in enumerate(items):
            if bar is None and time.monotonic() - start > _DELAY:
                bar = _bar()
                bar.start()
                task = bar.add_task(label, total=total, completed=done)
            yield item
            if bar is not None and task is not None:
                bar.update(task, completed=done + 1)
    finally:
        if bar is not None:
            bar.stop()


def say(line: str) -> None:
    """A line about work that begins, where a bar would be shown."""
    if not _quiet and sys.stderr.isatty():
        print(line, file=sys.stderr)


def _bar():
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
