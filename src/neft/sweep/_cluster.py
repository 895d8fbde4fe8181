"""A sweep on a dask.distributed cluster: its workers compute, this process keeps what comes back.

Workers need neft and the data, and neither see nor write the sweep's folder. Dask gives the work of a worker that is
lost to another one.
"""

from collections.abc import Callable
from typing import Any

from .._dask import connected
from .._result import Made
from ._finished import Finished, Timing, compute
from ._folder import Folder
from ._locks import Claims
from ._specification import Configuration
from ._status import Status, status_of


def on_cluster(
    place: Folder, address: str, *, tls: dict[str, str], timeout: float, callback: Callable[[Status], None] | None
) -> None:
    """Do all that is left on the cluster at `address`, also what other runs give up meanwhile."""
    kind = place.plan.specification.kind
    claims = Claims(place.claims)
    try:
        with connected(address, tls, timeout) as client:
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
