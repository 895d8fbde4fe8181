"""A sweep on a dask.distributed cluster: its workers compute, this process keeps what comes back.

Workers need neft and the data, and neither see nor write the sweep's folder. Dask gives the work of a worker that is
lost to another one.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import _check
from .._result import Made
from ._finished import Finished, Timing, compute
from ._folder import Folder
from ._locks import Claims
from ._specification import Configuration
from ._status import Status, status_of

TLS = ("tls_ca_file", "tls_client_cert", "tls_client_key")


def on_cluster(
    place: Folder, address: str, *, tls: dict[str, str], timeout: float, callback: Callable[[Status], None] | None
) -> None:
    """Do all that is left on the cluster at `address`, also what other runs give up meanwhile."""
    kind = place.plan.specification.kind
    claims = Claims(place.claims)
    try:
        with _connected(address, tls, timeout) as client:
            while left := [c for c in place.configurations if not place.finished(c)]:
                mine = [c for c in left if claims.take(c.name)]
                _round(place, client, kind, [c for c in mine if not place.finished(c)], claims, callback)
                for configuration in mine:
                    claims.release(configuration.name)
                if not mine:
                    # Somebody else works on what is left.
                    client.sync(_sleep)
    finally:
        claims.close()


async def _sleep() -> None:
    import asyncio

    await asyncio.sleep(0.5)


def _round(place: Folder, client: Any, kind: str, mine: list[Configuration], claims: Claims, callback: Any) -> None:
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    if not mine:
        return
    futures = {}
    for configuration in mine:
        work = client.submit(
            compute, kind, configuration.values, place.data(configuration), pure=False, key=f"neft-{configuration.name}"
        )
        futures[work] = configuration
        place.note("submitted", configuration=configuration.name)
    waiting = set(futures)
    for work in as_completed(list(futures), loop=client.loop):
        configuration = futures[work]
        waiting.discard(work)
        try:
            finished, timing = work.result()
        except KilledWorker as error:
            finished, timing = _lost(kind, configuration, error), Timing(0.0, None, "", 0)
        except ValueError:
            raise
        except Exception as error:  # cancelled futures and closed connections have many classes
            raise ValueError(
                f"the connection to the scheduler was lost with {len(waiting) + 1} configurations under way "
                f"({type(error).__name__}): run again to resume."
            ) from None
        place.keep(configuration, finished, timing)
        claims.release(configuration.name)
        # The cluster need not keep what is on the disk.
        work.release()
        if callback is not None:
            callback(status_of(place))


def _lost(kind: str, configuration: Configuration, error: Exception) -> Finished:
    reason = f"every worker that tried it was lost ({' '.join(str(error).split()).partition('. ')[0].rstrip('.')})."
    return Finished(
        kind=kind,
        configuration=configuration.values,
        values={},
        reason=reason,
        made=Made.by("neft.sweep.run", specification={"kind": kind, **configuration.values}),
    )


@contextlib.contextmanager
def _connected(address: str, tls: dict[str, str], timeout: float) -> Iterator[Any]:
    try:
        from distributed import Client, Security
    except ImportError:
        raise ValueError(
            "a scheduler needs dask.distributed, which is not installed: pip install 'dask[distributed]' brings it, "
            "as does neft's extra 'cluster'."
        ) from None
    _check_tls(tls)
    security = Security(**tls) if tls else None
    # Dask says much about a connection that fails; one sentence is enough.
    with _quiet_logs():
        try:
            client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split()).partition(". ")[0].rstrip(".") or type(error).__name__
            raise ValueError(f"no scheduler answers at {address!r}: {reason}.") from None
        try:
            yield client
        finally:
            client.close(timeout=timeout)


def _check_tls(tls: dict[str, str]) -> None:
    for name in tls:
        _check.one_of("a key of tls", name, TLS)
    if tls and len(tls) < len(TLS):
        missing = next(name for name in TLS if name not in tls)
        raise ValueError(f"tls lacks {missing}, but needs {', '.join(TLS)}.")
    for name, file in tls.items():
        if not Path(file).is_file():
            raise ValueError(f"{name} is {str(file)!r}, but no such file exists.")


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    # Dask gives several of its loggers levels of their own.
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
