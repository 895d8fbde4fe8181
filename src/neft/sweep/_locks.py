"""Claims: which configuration somebody works on, as files that go stale when their owner is gone.

A claim saves work and no more: results depend on the configuration alone and appear whole, so two owners of one
configuration would write the same file twice. A claim is stale when its process on this host has ended, or when its
file was not touched for a minute.
"""

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path

STALE = 60.0
_BEAT = 10.0


class Claims:
    """The claims of one run in the folder `path`; a thread touches them until `close`."""

    def __init__(self, path: Path):
        self._path = path
        self._mine: set[Path] = set()
        self._end = threading.Event()
        self._beat = threading.Thread(target=self._touch, name="neft-sweep-claims", daemon=True)
        self._beat.start()

    def take(self, name: str) -> bool:
        """Whether the configuration is ours from now on."""
        file = _file(self._path, name)
        if file.exists() and alive(file):
            return False
        with contextlib.suppress(FileNotFoundError):
            if not alive(file):
                file.unlink()
        try:
            handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        except OSError as error:
            raise ValueError(f"cannot write {str(file)!r}: {error.strerror or error}.") from None
        # An owner that a full disk keeps from being named is only found stale later.
        with contextlib.suppress(OSError), os.fdopen(handle, "w") as lock:
            lock.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
        self._mine.add(file)
        return True

    def release(self, name: str) -> None:
        """Give a configuration back."""
        file = _file(self._path, name)
        self._mine.discard(file)
        file.unlink(missing_ok=True)

    def close(self) -> None:
        """Give all back."""
        self._end.set()
        for file in list(self._mine):
            self.release(file.stem)

    def _touch(self) -> None:
        while not self._end.wait(_BEAT):
            for file in list(self._mine):
                with contextlib.suppress(OSError):
                    file.touch()


def alive(file: Path) -> bool:
    """Whether the owner of a claim still works; a FileNotFoundError if there is no claim."""
    age = time.time() - file.stat().st_mtime
    if age > STALE:
        return False
    try:
        owner = json.loads(file.read_text())
        host, pid = owner["host"], int(owner["pid"])
    except (ValueError, KeyError, TypeError):
        return True  # being written just now
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def living(path: Path) -> tuple[str, ...]:
    """The names of all configurations that somebody works on."""
    names = []
    for file in sorted(path.glob("*.lock")):
        with contextlib.suppress(FileNotFoundError):
            if alive(file):
                names.append(file.stem)
    return tuple(names)


def _file(path: Path, name: str) -> Path:
    return path / f"{name}.lock"
