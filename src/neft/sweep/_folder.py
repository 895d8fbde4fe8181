"""A sweep on the disk: `sweep.json`, `results/NAME.npz` for each finished configuration, `log.jsonl`, and claims.

Files of results are the truth: what has one is finished. The log is for people and for times.
"""

import contextlib
import datetime
import json
import os
from pathlib import Path
from typing import Any

from .._result import Made, Result, load, result
from . import _locks
from ._data import checksum
from ._finished import Finished, Timing
from ._specification import Configuration, Specification

_PLAN = "sweep.json"


@result
class Plan(Result):
    """What the file `sweep.json` holds: the specification, and the checksums of the data it began with."""

    specification: Specification
    data: dict[str, str]
    made: Made


class Folder:
    """A sweep's folder, made by `begin` or found by `open`."""

    def __init__(self, path: Path, plan: Plan):
        self.path = path
        self.plan = plan
        self.configurations = plan.specification.configurations()
        self.results = path / "results"
        self.claims = path / "claims"
        self.log = path / "log.jsonl"

    @classmethod
    def begin(cls, path: str | os.PathLike[str], specification: Specification) -> "Folder":
        """The folder of this sweep, made if it is not there; a ValueError where something else is."""
        path = Path(path)
        specification = specification.complete()
        if (path / _PLAN).exists():
            folder = cls.open(path)
            _same(path, folder.plan.specification, specification)
            return folder
        if path.exists() and not path.is_dir():
            raise ValueError(f"{str(path)!r} is a file, but a sweep needs a folder.")
        if path.exists() and any(not file.name.startswith(f".{_PLAN}.") for file in path.iterdir()):
            # Another run may have made the sweep between the two looks.
            if (path / _PLAN).exists():
                return cls.begin(path, specification)
            raise ValueError(f"{str(path)!r} is not a sweep and not empty: name another folder.")
        data = {_source(c.values): text for c in specification.configurations() if (text := checksum(c.values))}
        plan = Plan(specification=specification, data=data, made=Made.by("neft.sweep.run"))
        _make(path)
        plan.save(path / _PLAN)
        return cls(path, plan)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Folder":
        """The sweep in a folder, or a ValueError of one sentence."""
        path = Path(path)
        if not path.is_dir():
            raise ValueError(f"{str(path)!r} is not a sweep: there is no such folder.")
        if not (path / _PLAN).is_file():
            raise ValueError(f"{str(path)!r} is not a sweep: it has no {_PLAN}.")
        plan = load(path / _PLAN)
        if not isinstance(plan, Plan):
            raise ValueError(f"{str(path)!r} is not a sweep: its {_PLAN} holds a {type(plan).__name__}.")
        return cls(path, plan)

    def file(self, configuration: Configuration) -> Path:
        """Where the result of a configuration is, once it is finished."""
        return self.results / f"{configuration.name}.npz"

    def data(self, configuration: Configuration) -> str | None:
        """The checksum of a configuration's data when the sweep began."""
        return self.plan.data.get(_source(configuration.values))

    def finished(self, configuration: Configuration) -> bool:
        """Whether its result is there."""
        return self.file(configuration).exists()

    def read(self, configuration: Configuration) -> Finished:
        """Its result."""
        found = load(self.file(configuration))
        if not isinstance(found, Finished):
            raise ValueError(f"{str(self.file(configuration))!r} holds a {type(found).__name__}, but no result.")
        return found

    def prepare(self) -> None:
        """Make what a run needs inside the folder."""
        for path in (self.results, self.claims):
            _make(path)

    def keep(self, configuration: Configuration, finished: Finished, timing: Timing) -> None:
        """Write the times to the log, and then the result, which makes it finished."""
        self.note(
            "failed" if finished.reason else "done",
            configuration=configuration.name,
            **timing._asdict(),
            **({"reason": finished.reason} if finished.reason else {}),
        )
        finished.save(self.file(configuration))

    def note(self, event: str, **more: Any) -> None:
        """One more line in the log."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "pid": os.getpid(), **more}) + "\n"
        try:
            with self.log.open("ab") as file:
                # After a crash in the middle of a line, the next one begins on a new line.
                start = b"" if file.tell() == 0 or _last_byte(self.log) == b"\n" else b"\n"
                file.write(start + line.encode())
        except OSError as error:
            raise ValueError(f"cannot write {str(self.log)!r}: {error.strerror or error}.") from None

    def events(self) -> list[dict[str, Any]]:
        """The log, without lines that were cut off."""
        if not self.log.exists():
            return []
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    found.append(event)
        return found

    def timings(self) -> dict[str, dict[str, Any]]:
        """The last log line of each configuration that was computed."""
        return {e["configuration"]: e for e in self.events() if e["event"] in ("done", "failed")}

    def under_way(self) -> tuple[str, ...]:
        """The names of configurations that somebody works on."""
        finished = {c.name for c in self.configurations if self.finished(c)}
        return tuple(name for name in _locks.living(self.claims) if name not in finished)

    def tidy(self) -> None:
        """Once all is finished and nobody works here: remove what killed runs left behind."""
        if self.under_way() or not all(map(self.finished, self.configurations)):
            return
        for file in (*self.results.glob(".*.part"), *self.claims.glob("*.lock")):
            with contextlib.suppress(OSError):
                file.unlink()


def _source(values: dict[str, Any]) -> str:
    return json.dumps([values.get(name) for name in ("data", "preprocess", "full")])


def _same(path: Path, old: Specification, new: Specification) -> None:
    if old == new:
        return
    for table in ("kind", "fixed", "grid", "cases"):
        before, after = getattr(old, table), getattr(new, table)
        if before == after:
            continue
        if isinstance(before, dict):
            name = next(n for n in (*before, *after) if before.get(n, ...) != after.get(n, ...))
            before, after, table = before.get(name), after.get(name), f"{name} in {table}"
        raise ValueError(
            f"{str(path)!r} holds another sweep, whose {table} is {_short(before)} instead of {_short(after)}: "
            "name another folder, or run the same."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make the folder {str(path)!r}: {error.strerror or error}.") from None


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
