"""Where the panels of a factor are: in memory, in a file of their own that nobody else sees, or in a folder's files.

From files they are read into one buffer, a panel at a time. Mapped memory would count as the process's own.
"""

import contextlib
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from .. import _check
from ._kept import Part
from ._panels import panel_bytes
from ._tiles import cuts

_TRIED = 32 * 2**20
"""Bytes with which a disk's speed is tried."""


class Panels:
    """The panels of a factor of `count` rows, in memory; with a folder each is kept in a file of it too."""

    def __init__(self, count: int, folder: Part | None = None) -> None:
        self.points, self.folder, self.cuts = count, folder, cuts(count)
        self._held: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, k: int) -> np.ndarray:
        """Panel k; what comes from a file stands only until the next one is asked for."""
        return self.rows(range(len(self))[k], 0)

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.__getitem__, range(len(self)))

    def __reversed__(self) -> Iterator[np.ndarray]:
        return map(self.__getitem__, reversed(range(len(self))))

    def has(self, k: int) -> bool:
        """Whether panel k is there already, whole."""
        if k not in self._held and self.folder is not None:
            found = self.folder.load(_name(k))
            if found is not None:
                self._held[k] = found["array"]
        return k in self._held

    def put(self, k: int, panel: np.ndarray) -> None:
        """Panel k is done."""
        self._held[k] = panel
        if self.folder is not None:
            self.folder.save_array(_name(k), panel)

    def rows(self, k: int, start: int) -> np.ndarray:
        """The rows of panel k from its row `start` on."""
        return self._held[k][start:]


class InFiles(Panels):
    """The same, in files alone: those of a folder, or one without a name that is gone with this object."""

    def __init__(self, count: int, folder: Part | None = None) -> None:
        super().__init__(count, folder)
        self._there: set[int] = set()
        self._buffer = np.empty(count * (self.cuts[0].stop if self.cuts else 0), np.float32)
        self._own = None
        if folder is None:
            self._own = _claimed(panel_bytes(count))
            weakref.finalize(self, self._own.close)
        sizes = [4 * (count - cut.start) * (cut.stop - cut.start) for cut in self.cuts]
        self._places = np.cumsum([0, *sizes]).tolist()

    def has(self, k: int) -> bool:
        if k not in self._there and self.folder is not None and self.folder.whole(_name(k)):
            self._there.add(k)
        return k in self._there

    def put(self, k: int, panel: np.ndarray) -> None:
        if self.folder is not None:
            self.folder.save_array(_name(k), panel)
        else:
            assert self._own is not None
            try:
                _write(self._own, self._places[k], panel)
            except OSError as error:
                raise ValueError(f"cannot write a temporary file in {str(spare())!r}: {error.strerror}.") from None
        self._there.add(k)

    def rows(self, k: int, start: int) -> np.ndarray:
        cut = self.cuts[k]
        width, height = cut.stop - cut.start, self.points - cut.start - start
        found = self._buffer[: height * width].reshape(height, width)
        if self.folder is not None:
            path = self.folder.where(_name(k))
            try:
                with path.open("rb", buffering=0) as file:
                    # The entries are at the end of the file.
                    _read(file, path.stat().st_size - found.nbytes, found)
            except OSError as error:
                raise ValueError(f"cannot read {str(path)!r}: {error.strerror}.") from None
        else:
            assert self._own is not None
            _read(self._own, self._places[k + 1] - found.nbytes, found)
        return found


def _name(k: int) -> str:
    return f"panel-{k:05d}"


def _read(file: IO[bytes], place: int, into: np.ndarray) -> None:
    file.seek(place)
    left = into.data.cast("B")
    while len(left):  # one call reads 2 GB at most
        got = file.readinto(left)  # type: ignore[attr-defined]
        if not got:
            raise OSError(0, "it ends too early")
        left = left[got:]


def _write(file: IO[bytes], place: int, values: np.ndarray) -> None:
    file.seek(place)
    left = values.data.cast("B")
    while len(left):
        left = left[file.write(left) :]


def spare() -> Path:
    """The folder for large temporary files: what TMPDIR says, else /var/tmp, since /tmp may itself be memory."""
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK):
        return Path("/var/tmp")
    return Path(tempfile.gettempdir())


def _claimed(size: int) -> IO[bytes]:
    # A file that has no name, so that it is gone however this process ends; its space is taken at once.
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile(dir=spare(), buffering=0))
            if hasattr(os, "posix_fallocate") and size:
                os.posix_fallocate(file.fileno(), 0, size)
            stack.pop_all()
    except OSError as error:
        raise ValueError(
            f"a temporary file of {size / 1e9:.3g} GB in {str(spare())!r} is refused ({error.strerror}): give a folder "
            "on another disk, or more memory."
        ) from None
    return file


def free(path: Path) -> float:
    """Bytes that the disk of a folder has left."""
    try:
        return float(shutil.disk_usage(path).free)
    except OSError:
        return 0.0


def speeds(path: Path, size: float) -> tuple[float, float]:
    """Seconds to read a byte of the disk of a folder, and to write one; infinite where it cannot be written.

    Files of less than half the machine's memory, `size` being their bytes, count as read from what the system remembers
    of them. The better of two tries, because other work on the machine should not count.
    """
    try:
        with tempfile.TemporaryFile(dir=path, buffering=0) as file:
            tries = np.array([_tried(file, size < _check.machine_memory() / 2) for _ in range(2)])
    except OSError:
        return np.inf, np.inf
    read, written = (tries.min(axis=0) / _TRIED).tolist()
    return read, written


def _tried(file: IO[bytes], remembered: bool) -> tuple[float, float]:
    values = np.ones(_TRIED // 4, np.float32)
    start = time.monotonic()
    _write(file, 0, values)
    if not remembered:
        os.fsync(file.fileno())
    written = time.monotonic()
    if hasattr(os, "posix_fadvise") and not remembered:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    between = time.monotonic()
    _read(file, 0, values)
    return time.monotonic() - between, written - start
