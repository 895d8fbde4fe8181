"""Where a kernel goes: an array in memory, or a file from which an interrupted run resumes."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._files import writing


class Destination:
    """Two arrays to fill, row block by row block, and how many blocks of rows are there already."""

    def __init__(self, whole: np.ndarray) -> None:
        self.arrays, self.done, self.result = (whole[0], whole[1]), 0, (whole[0], whole[1])

    def finished(self, rows: int) -> None:
        """Row blocks up to this one are done."""
        self.done = rows


@contextlib.contextmanager
def opened(
    out: str | os.PathLike[str] | None, shape: tuple[int, ...], dtype: np.dtype, identity: tuple[Any, ...]
) -> Iterator[Destination]:
    """The destination; a file gets its name when the block ends, and keeps what was done when it does not.

    Until then it is called "….npy.part", with a note beside it of the job it belongs to and the rows that are done.
    """
    if out is None:
        yield Destination(np.empty(shape, dtype))
        return
    path = Path(out)
    if path.suffix != ".npy":
        raise ValueError(f"out is {str(path)!r}, but must be the name of a file that ends in .npy.")
    if path.exists():
        raise ValueError(f"out is {str(path)!r}, which exists already: remove it or give another name.")
    target = _File(path, shape, dtype, _fingerprint(shape, dtype, identity))
    yield target
    target.complete()


class _File(Destination):
    # The unfinished file, memory-mapped; the note is written after the data are on the disk.

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype, fingerprint: str) -> None:
        self.path, self.part, self.note = path, path.with_name(path.name + ".part"), path.with_name(path.name + ".json")
        self.fingerprint, done = fingerprint, self._noted(fingerprint)
        try:
            mode = "w+" if done is None else "r+"
            self.whole = np.lib.format.open_memmap(self.part, mode=mode, dtype=dtype, shape=shape)
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot write {str(self.part)!r}: {getattr(error, 'strerror', None) or error}.") from None
        super().__init__(self.whole)
        if done is None:
            self.finished(0)
        self.done = done or 0

    def _noted(self, fingerprint: str) -> int | None:
        if not (self.part.exists() and self.note.exists()):
            return None
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            found, done = note["fingerprint"], int(note["rows"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{str(self.note)!r} is not a note of an unfinished kernel: remove it.") from None
        if found != fingerprint:
            raise ValueError(
                f"out is {str(self.path)!r}, which another network or other inputs left unfinished: remove "
                f"{str(self.part)!r} or give another name."
            )
        return done

    def finished(self, rows: int) -> None:
        self.whole.flush()
        with writing(self.note) as file:
            json.dump({"fingerprint": self.fingerprint, "rows": rows}, file)
        self.done = rows

    def complete(self) -> None:
        """The file takes its name."""
        self.whole.flush()
        del self.arrays, self.result, self.whole
        self.part.replace(self.path)
        self.note.unlink(missing_ok=True)
        whole = np.load(self.path, mmap_mode="r")
        self.result = (whole[0], whole[1])


def _fingerprint(shape: tuple[int, ...], dtype: np.dtype, identity: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(json.dumps([shape, str(dtype)]).encode())
    for part in identity:
        if isinstance(part, np.ndarray):
            digest.update(str((part.shape, part.dtype)).encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()
