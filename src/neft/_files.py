"""The one way a file is written: whole, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_unfinished: set[Path] = set()


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file object whose content appears under `path` when the block ends without an error, and not before.

    The content goes to a temporary file in the same folder, is flushed to the disk and renamed, so a reader sees
    the old file or the new one, even after a crash.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with writing(target) as file:
    ...     _ = file.write("whole")
    >>> target.read_text()
    'whole'
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise ValueError(f"cannot write {str(target)!r}: {error.strerror or error}.") from None
    temporary = Path(name)
    _unfinished.add(temporary)
    try:
        with os.fdopen(handle, "wb" if binary else "w", encoding=None if binary else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise ValueError(f"cannot write {str(target)!r}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def discard_unfinished() -> None:
    """Remove what is being written just now; for whoever ends the process at once."""
    for temporary in tuple(_unfinished):
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    # The process's mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
