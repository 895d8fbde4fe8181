"""Progress of the page: one bar for each section, on stderr, only on a terminal."""

import sys
from collections.abc import Sequence
from typing import Any

from .._progress import be_quiet


class Bars:
    """A bar for each (title, number of parts), for as long as the block lasts; bars of the work inside are silent.

    >>> with Bars([("Width", 2)], quiet=True) as bars:
    ...     bars.advance("Width")
    """

    def __init__(self, sections: Sequence[tuple[str, int]], *, quiet: bool = False):
        self._sections, self._quiet = sections, quiet
        self._shown: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "Bars":
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            # Two displays on one terminal would write over each other.
            be_quiet(True)
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._shown = Progress(*columns, console=Console(stderr=True))
            self._tasks = {title: self._shown.add_task(title, total=n, start=False) for title, n in self._sections}
            self._begin()
            self._shown.start()
        return self

    def advance(self, title: str) -> None:
        """One part of a section is done."""
        if self._shown is not None:
            if not self._shown.tasks[self._tasks[title]].started:
                self._shown.start_task(self._tasks[title])
            self._shown.advance(self._tasks[title])
            self._begin()

    def _begin(self) -> None:
        # The clock of a section runs from when the one before it is done.
        task = next((task for task in self._shown.tasks if not task.finished), None)
        if task is not None and not task.started:
            self._shown.start_task(task.id)

    def __exit__(self, *error: Any) -> None:
        if self._shown is not None:
            self._shown.stop()
            be_quiet(self._quiet)
