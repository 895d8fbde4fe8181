"""What a long solution keeps in a folder as it goes: whole files with checksums, from which the same call resumes."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import _check
from .._files import writing
from ._budget import in_words

EVERY = 60.0
"""Seconds after which what is under way is kept."""

_NOTE, _RESERVED = "regression.json", "reserved"


class Folder:
    """A folder that belongs to one regression; its note says which one, and the checksums of the files that are whole.

    `plan` is how an earlier call went about it, or None.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path, self.fingerprint = Path(path), fingerprint
        self.plan: dict[str, Any] | None = None
        self.files: dict[str, tuple[str, str]] = {}  # by name: the file that holds it now, and its checksum
        where = f"folder is {str(self.path)!r}, which"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            note = json.loads((self.path / _NOTE).read_text(encoding="utf-8"))
            found, self.plan = note["fingerprint"], dict(note["plan"])
            self.files = {name: (file, checksum) for name, (file, checksum) in note["files"].items()}
        except FileNotFoundError:
            found = fingerprint
            if any(self.path.iterdir()):
                raise ValueError(f"{where} holds other files: give a new or an empty folder.") from None
        except OSError as error:
            raise ValueError(f"{where} cannot be used: {error.strerror or error}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{str(self.path / _NOTE)!r} is not the note of a regression: remove it.") from None
        if found != fingerprint:
            raise ValueError(
                f"{where} belongs to a regression of another network, other data or another ridge: give another folder."
            )

    def begin(self, plan: dict[str, Any], size: float) -> None:
        """Claim the bytes that are still to be written: a disk that is too small is found before the work is done."""
        self.plan = plan
        there = [self.path / file for file, _ in self.files.values()]
        left = int(size) - sum(path.stat().st_size for path in there if path.exists())
        reserved = self.path / _RESERVED
        reserved.unlink(missing_ok=True)
        free = shutil.disk_usage(self.path).free
        try:
            if left > free:
                raise OSError
            with reserved.open("wb") as file:
                if hasattr(os, "posix_fallocate") and left > 0:
                    os.posix_fallocate(file.fileno(), 0, left)
        except OSError:
            reserved.unlink(missing_ok=True)
            raise ValueError(
                f"folder is {str(self.path)!r}, which needs {in_words(left)} more, but its disk has {in_words(free)}."
            ) from None
        self._write_note()

    def end(self) -> None:
        """Nothing more will be written."""
        (self.path / _RESERVED).unlink(missing_ok=True)

    def save(self, name: str, **arrays: Any) -> None:
        """Keep arrays under a name, whole or not at all."""
        size = sum(values.nbytes for values in arrays.values())
        self._save(name, "npz", size, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    def save_array(self, name: str, array: np.ndarray) -> None:
        """The same with one array, whose entries are the end of its file."""
        self._save(name, "npy", array.nbytes, lambda file: np.save(file, array))

    def _save(self, name: str, kind: str, size: int, write: Callable[[Any], None]) -> None:
        self._release(size)
        # What is there already stays until the note names its successor.
        before = self.files.get(name)
        file = f"{name}.{kind}" if before is None or before[0] != f"{name}.{kind}" else f"{name}-again.{kind}"
        with writing(self.path / file, binary=True) as target:
            write(target)
        self.files[name] = (file, _checksum(self.path / file))
        self._write_note()
        if before is not None:
            (self.path / before[0]).unlink(missing_ok=True)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """What was kept under a name, one array alone as "array"; None if nothing was, or its file is gone.

        What is damaged is said.
        """
        if not self.whole(name):
            return None
        found = np.load(self.where(name), allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {"array": found}
        with found as archive:
            return {key: archive[key] for key in archive.files}

    def whole(self, name: str) -> bool:
        """Whether there is a file for a name, with the right checksum; a sentence where that is wrong."""
        if name not in self.files or not self.where(name).exists():
            return False
        if _checksum(self.where(name)) != self.files[name][1]:
            raise ValueError(f"{str(self.where(name))!r} is damaged: remove it, and the same call computes it again.")
        return True

    def where(self, name: str) -> Path:
        """The file that holds what was kept under a name."""
        return self.path / self.files[name][0]

    def drop(self, start: str) -> None:
        """Let go what was kept under names that begin like this."""
        gone = [name for name in self.files if name.startswith(start)]
        files = [self.files.pop(name)[0] for name in gone]
        if files:
            self._write_note()
        for file in files:
            (self.path / file).unlink(missing_ok=True)

    def within(self, start: str) -> "Part":
        """The same folder, whose names all begin like this."""
        return Part(self, start)

    def _release(self, size: int) -> None:
        reserved = self.path / _RESERVED
        if reserved.exists():
            os.truncate(reserved, max(0, reserved.stat().st_size - size - 4096))

    def _write_note(self) -> None:
        note = {"fingerprint": self.fingerprint, "plan": self.plan, "files": self.files}
        with writing(self.path / _NOTE) as file:
            json.dump(note, file, indent=1)


class Part(NamedTuple):
    """What of a folder belongs to one of several regressions."""

    folder: Folder
    start: str

    def save(self, name: str, **arrays: Any) -> None:
        """As `Folder.save`."""
        self.folder.save(self.start + name, **arrays)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """As `Folder.load`."""
        return self.folder.load(self.start + name)

    def save_array(self, name: str, array: np.ndarray) -> None:
        """As `Folder.save_array`."""
        self.folder.save_array(self.start + name, array)

    def whole(self, name: str) -> bool:
        """As `Folder.whole`."""
        return self.folder.whole(self.start + name)

    def where(self, name: str) -> Path:
        """As `Folder.where`."""
        return self.folder.where(self.start + name)

    def drop(self, start: str = "") -> None:
        """Let go what begins like this, or all of it."""
        self.folder.drop(self.start + start)


def fingerprint(specification: dict[str, Any]) -> str:
    """What makes a regression this one and no other."""
    return hashlib.sha256(json.dumps(specification, sort_keys=True, default=_check.brief).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
