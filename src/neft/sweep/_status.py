"""How far a sweep is."""

import os
from typing import Any

from .._public import public
from .._result import Result, result
from ._folder import Folder


@result
class Status(Result):
    """How far a sweep is, by the files in its folder.

    Attributes:
        folder: its path.
        kind: of the work.
        total: number of configurations.
        done: finished with a result.
        failed: finished without one; `reasons` says why, by name.
        under_way: names of those that somebody works on now.
        seconds_left: an estimate from those that are finished, None before the first is.
    """

    folder: str
    kind: str
    total: int
    done: int
    failed: int
    under_way: tuple[str, ...]
    seconds_left: float | None
    reasons: dict[str, str]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.done + self.failed == self.total

    def line(self) -> str:
        """All in one line."""
        left = "" if self.finished or self.seconds_left is None else f", about {_duration(self.seconds_left)} left"
        counts = f"{self.done} of {self.total} done, {len(self.under_way)} under way, {self.failed} failed"
        return f"{counts}{left}"


@public
def status(folder: str | os.PathLike[str]) -> Status:
    """How far the sweep in a folder is, even while it runs."""
    return status_of(Folder.open(folder))


def status_of(place: Folder) -> Status:
    """The same for a folder that is open."""
    finished = [c for c in place.configurations if place.finished(c)]
    timings = place.timings()
    # The log shows failures without opening every result; results without a line in the log are opened.
    reasons = {c.name: reason for c in finished if (reason := _reason(place, c, timings)) is not None}
    under_way = place.under_way()
    return Status(
        folder=str(place.path),
        kind=place.plan.specification.kind,
        total=len(place.configurations),
        done=len(finished) - len(reasons),
        failed=len(reasons),
        under_way=under_way,
        seconds_left=_left(place, len(finished), len(under_way), timings),
        reasons=reasons,
    )


def _reason(place: Folder, configuration: Any, timings: dict[str, dict[str, Any]]) -> str | None:
    event = timings.get(configuration.name)
    return place.read(configuration).reason if event is None else event.get("reason")


def _left(place: Folder, finished: int, under_way: int, timings: dict[str, dict[str, Any]]) -> float | None:
    seconds = [float(event.get("seconds", 0.0)) for event in timings.values()]
    if not seconds:
        return None
    return (len(place.configurations) - finished) * sum(seconds) / len(seconds) / max(1, under_way)


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
