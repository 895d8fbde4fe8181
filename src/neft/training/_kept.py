"""What a long solution keeps in a folder as it goes: whole files with checksums, from which the same call resumes."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import _check
from .._files import writing
from ._budget import in_words

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
        self._release(sum(values.nbytes for values in arrays.values()))
        # What is there already stays until the note names its successor.
        before = self.files.get(name)
        file = f"{name}.npz" if before is None or before[0] != f"{name}.npz" else f"{name}-again.npz"
        with writing(self.path / file, binary=True) as target:
            np.savez(target, **arrays)  # type: ignore[arg-type]
        self.files[name] = (file, _checksum(self.path / file))
        self._write_note()
        if before is not None:
            (self.path / before[0]).unlink(missing_ok=True)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """The arrays that were kept under a name; None if they were not, or their file was removed."""
        file, checksum = self.files.get(name, ("", ""))
        path = self.path / file
        if not file or not path.exists():
            return None
        if _checksum(path) != checksum:
            raise ValueError(f"{str(path)!r} is damaged: remove it, and the same call computes it again.")
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}

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

    def drop(self) -> None:
        """Let all of it go."""
        self.folder.drop(self.start)


def fingerprint(specification: dict[str, Any]) -> str:
    """What makes a regression this one and no other."""
    return hashlib.sha256(json.dumps(specification, sort_keys=True, default=_check.brief).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
