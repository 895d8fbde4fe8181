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

_ZEROS = 2**24  # bytes written at once where a file cannot be reserved


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
            if done is None:
                _reserve(self.part, shape, dtype)
            self.whole = np.lib.format.open_memmap(self.part, mode="r+")
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot write {str(self.part)!r}: {getattr(error, 'strerror', None) or error}.") from None
        if self.whole.shape != shape or self.whole.dtype != dtype:
            raise ValueError(
                f"{str(self.part)!r} holds {self.whole.dtype} {self.whole.shape}, but this kernel is {dtype} {shape}: "
                "remove it."
            )
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
        _refuse_cut_off(self.part)
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


def _reserve(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
    # A file with holes would find out that the disk is full when a page is written, which ends the process: all of it
    # is claimed first, where an error is still an error.
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        start, size = file.tell(), int(np.prod(shape)) * dtype.itemsize
        try:
            if hasattr(os, "posix_fallocate") and size:
                os.posix_fallocate(file.fileno(), start, size)
            else:
                for done in range(0, size, _ZEROS):
                    file.write(bytes(min(_ZEROS, size - done)))
        except OSError:
            path.unlink()
            raise


def _refuse_cut_off(path: Path) -> None:
    # A memory map would fill up what is missing with zeros and say nothing.
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            wanted = file.tell() + int(np.prod(shape)) * dtype.itemsize
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not an unfinished kernel ({error}): remove it.") from None
    if path.stat().st_size != wanted:
        raise ValueError(
            f"{str(path)!r} has {path.stat().st_size} bytes, but an unfinished kernel of shape {shape} has {wanted}: "
            "remove it."
        )


def _fingerprint(shape: tuple[int, ...], dtype: np.dtype, identity: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(json.dumps([shape, str(dtype)]).encode())
    for part in identity:
        if isinstance(part, np.ndarray):
            digest.update(str((part.shape, part.dtype)).encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()
