"""Running a sweep: on this machine, or on a cluster."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any

from .. import _check
from .._public import public
from ._finished import compute
from ._folder import Folder
from ._locks import Claims
from ._registry import known
from ._specification import Specification
from ._status import Status, status_of

_WAIT = 0.5
"""Seconds between two looks at the configurations that others work on."""

Callback = Callable[[Status], None]


@public
def run(
    specification: Specification | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    tls: dict[str, str] | None = None,
    timeout: float = 10.0,
    retry: bool = False,
    callback: Callback | None = None,
) -> Status:
    """Run a sweep, or what is left of it, and return how it ended.

    However it is stopped, it loses only the configurations under way; the same call resumes it. Several runs may
    share a folder. Results depend on the configuration alone.

    Args:
        specification: a `Specification`, the path of a TOML file, or "quick" or "sun-nielsen", which come with neft.
        folder: where the sweep is kept; made if it is not there.
        workers: processes on this machine; 1 is this process itself.
        scheduler: the address of a dask.distributed scheduler, such as "tcp://10.0.0.1:8786", whose workers do the
            work instead. They need neft and the data, nothing of this folder.
        tls: for a scheduler at "tls://…", the arguments of `distributed.Security`: tls_ca_file, tls_client_cert,
            tls_client_key.
        timeout: seconds to wait for the scheduler.
        retry: whether configurations that failed are run again.
        callback: called with the status each time that a configuration is finished.

    >>> import tempfile
    >>> from neft import sweep
    >>> work = sweep.kind("double", headline="y")(lambda *, x: {"y": 2 * x})
    >>> run(Specification(kind="double", fixed={}, grid={"x": [1, 2]}), tempfile.mkdtemp()).done
    2
    >>> del sweep._registry.KINDS["double"]
    """
    workers = _check.integer("workers", workers, at_least=1)
    if scheduler is not None and workers > 1:
        raise ValueError(f"workers is {workers}, but with a scheduler its own workers do the work.")
    if tls and scheduler is None:
        raise ValueError("tls is given without a scheduler, but belongs to one.")
    place = Folder.begin(folder, _read(specification))
    place.prepare()
    if retry:
        _forget_failures(place)
    if scheduler is not None:
        from ._cluster import on_cluster

        on_cluster(place, scheduler, tls=tls or {}, timeout=timeout, callback=callback)
    elif workers > 1:
        _processes(place, workers, callback)
    else:
        here(place, callback)
    place.tidy()
    return status_of(place)


def here(place: Folder, callback: Callback | None = None) -> None:
    """Do all that nobody else does, in this process, and wait for the rest."""
    claims = Claims(place.claims)
    try:
        while True:
            left = [c for c in place.configurations if not place.finished(c)]
            if not left:
                return
            taken = 0
            for configuration in left:
                if place.finished(configuration) or not claims.take(configuration.name):
                    continue
                try:
                    # Its last owner may have finished it between the two looks.
                    if place.finished(configuration):
                        continue
                    taken += 1
                    place.note("started", configuration=configuration.name)
                    kind = place.plan.specification.kind
                    place.keep(configuration, *compute(kind, configuration.values, place.data(configuration)))
                finally:
                    claims.release(configuration.name)
                if callback is not None:
                    callback(status_of(place))
            if not taken:
                time.sleep(_WAIT)
    finally:
        claims.close()


def _processes(place: Folder, count: int, callback: Callback | None) -> None:
    module = known(place.plan.specification.kind).work.__module__
    if module == "__main__":
        raise ValueError(f"kind {place.plan.specification.kind!r} is defined in a script: put it into a module.")
    command = [sys.executable, "-m", "neft.sweep._worker", str(place.path), module]
    # Workers end when their standard input does, which is when this process ends in whatever way.
    workers, said, seen = [], [], -1
    try:
        for _ in range(count):
            said.append(tempfile.TemporaryFile())  # noqa: SIM115 - closed below, with its worker
            workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said[-1]))
        while any(worker.poll() is None for worker in workers):
            time.sleep(_WAIT)
            done = sum(map(place.finished, place.configurations))
            if callback is not None and done != seen:
                seen = done
                callback(status_of(place))
            if any(worker.poll() for worker in workers):
                break
        for worker, file in zip(workers, said):
            if worker.poll():
                raise ValueError(_last_words(worker.returncode, file))
    finally:
        for worker, file in zip(workers, said):
            worker.terminate()
            worker.communicate()
            file.close()


def _last_words(code: int, file: IO[bytes]) -> str:
    file.seek(0)
    text = file.read().decode(errors="replace").strip()
    said = text.splitlines()[-1] if text else f"it ended with code {code}"
    return said if said.endswith(".") else f"a worker process ended early: {said}."


def _forget_failures(place: Folder) -> None:
    for configuration in place.configurations:
        if place.finished(configuration) and place.read(configuration).reason is not None:
            place.file(configuration).unlink(missing_ok=True)


def _read(specification: Any) -> Specification:
    if isinstance(specification, Specification):
        return specification
    return Specification.read(specification)
