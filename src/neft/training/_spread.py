"""Products with a kernel matrix whose tiles are computed, and where there is room kept, by dask.distributed workers.

Each worker holds the tiles that it made, this process a few vectors. Everything that a task needs is another task's
result or part of itself, so what a lost worker held is computed again by the others.
"""

import contextlib
import copy
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from .._progress import quietly, track
from ._pivots import Columns, gram
from ._tiles import Checkpoint, Place, Tiles, Which, cuts, products

UNIT = 2048
"""Inputs on each side of what one task computes, and twice as many for many inputs: one or two seconds of work."""

_MANY = 16
"""Times the unit from which on inputs are many; what a task costs beside its work is then felt the least."""

_AHEAD = 4
"""Tasks under way for each thread of the cluster."""

_ROOM = 0.5
"""Part of the workers' memory that tiles may fill."""

_WORKER, _ENTRY = 750e6, 24
"""Bytes of a worker with its programs and what they work on, and of an entry of what a thread of it makes."""


class Spread:
    """Products in float64 with the matrix of `tiles`, by the workers of a client; it stands where `Matrix` does."""

    def __init__(self, client: Any, tiles: Tiles, name: str | None = None) -> None:
        """With a `name` the cluster keeps the tiles until `end`, also if this process is lost meanwhile."""
        self.client, self.tiles, self.name = client, tiles, name
        self.checkpoint: Checkpoint | None = None
        with lost(client):
            workers = list(client.scheduler_info(n_workers=-1)["workers"].values())
        if not workers:
            raise ValueError("the scheduler has no workers: start one with 'dask worker ADDRESS'.")
        own = _addresses()
        self._here = [worker for worker in workers if worker["host"] in own]
        self.threads = sum(worker["nthreads"] for worker in workers)
        self._ahead = _AHEAD * self.threads
        # A matter of the inputs alone, so that a call that goes on after a stop cuts them as before.
        self.unit = 2 * UNIT if tiles.points >= _MANY * UNIT else UNIT
        self._lines = cuts(tiles.points, self.unit)
        self.places = [(rows, columns) for i, rows in enumerate(self._lines) for columns in self._lines[: i + 1]]
        self._rows: list[list[Any]] = [[] for _ in self._lines]  # of the preconditioner, block by block
        room = sum(worker["memory_limit"] or np.inf for worker in workers)
        self.fits = self._whole < _ROOM * room

    @property
    def _whole(self) -> float:
        return 4.0 * self.tiles.points * (self.tiles.points + self.unit)

    def here(self, *, keeps: bool, rank: int = 0) -> float:
        """Bytes that those workers take that run on this machine, with tiles if they keep them and a preconditioner."""
        # Rows of a block, those before it and in float64, and three sums of what they add to the core.
        kept = (self._whole if keeps else 0) / self.threads + 4 * self.tiles.points * rank / self.threads
        kept += 8 * self.unit * rank + 24 * rank**2
        threads = sum(worker["nthreads"] for worker in self._here)
        own = sum(max(_WORKER, worker["metrics"].get("memory", 0)) for worker in self._here)
        return own + threads * (_ENTRY * self.unit**2 + kept)

    def begin(self, *, keeps: bool) -> None:
        """Have the tiles made that are to be kept."""
        with lost(self.client):
            self._x, self._tiles = self._published() or self._made(keeps=keeps)

    def _made(self, *, keeps: bool) -> tuple[list[Any], list[Any]]:
        self._x = [self._held(self.tiles.x[line]) for line in self._lines]
        made = self._x, [self._entries(place) for place in self.places] if keeps else []
        if self.name is not None:
            self.client.publish_dataset(made, name=self.name)
        return made

    def _published(self) -> tuple[list[Any], list[Any]] | None:
        return None if self.name is None else self.client.get_dataset(self.name, default=None)

    def at(self, ridge: float) -> "Spread":
        """The same matrix with another ridge."""
        found = copy.copy(self)
        found._rows = [[] for _ in self._lines]
        found.tiles = self.tiles._replace(ridge=ridge)
        return found

    def end(self) -> None:
        """The cluster may let the tiles go."""
        if self.name is not None:
            with lost(self.client):
                self.client.unpublish_dataset(self.name)

    def columns(self, F: np.ndarray, start: int, block: Columns) -> Iterator[tuple[slice, np.ndarray]]:
        """See `neft.training._pivots.Place`: by the workers, who keep their rows for what follows."""
        net, which = self.tiles.net, self.tiles.which
        with lost(self.client):
            self._know(F, start)
            block = self._held(block)
            made = [
                self.client.submit(more_rows, block, net, which, x, parts, pure=False)
                for x, parts in zip(self._x, self._rows)
            ]
            for line, parts, rows in zip(self._lines, self._rows, made):
                parts.append(rows)
                yield line, rows.result()

    def core(self, F: np.ndarray, delta: float) -> np.ndarray:
        """See `neft.training._pivots.Place`: sums of two at a time, so that nobody holds more than a few."""
        with lost(self.client):
            self._know(F, F.shape[1])
            sums = [self.client.submit(some_gram, parts, delta, pure=False) for parts in self._rows]
            while len(sums) > 1:
                pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
                sums = [self.client.submit(sum_of, pair, pure=False) if len(pair) > 1 else pair[0] for pair in pairs]
            found = sums[0].result() + np.eye(F.shape[1])
        self._rows = [[] for _ in self._lines]
        return found

    def _know(self, F: np.ndarray, start: int) -> None:
        # What a folder had is not with the workers yet.
        for line, parts in zip(self._lines, self._rows):
            if start and not parts:
                parts.append(self._held(F[line, :start]))

    def _held(self, values: Any) -> Any:
        # As a task: the scheduler knows how to make it again, which it would not of scattered data.
        return self.client.submit(_itself, values, pure=False)

    def _entries(self, place: Place) -> Any:
        one, two = (self._x[part.start // self.unit] for part in place)
        return self.client.submit(entries, self.tiles.net, self.tiles.which, one, two, place[0] == place[1], pure=False)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """The product with vectors (N, n)."""
        out, done = self.tiles.ridge * v, 0
        if self.checkpoint is not None:
            out, done = self.checkpoint.load(out)
        with lost(self.client):
            parts = [self._held(v[line]) for line in cuts(len(v), self.unit)]
            for (rows, columns), (own, mirrored) in self._in_order(parts, done):
                out[rows] += own
                if rows != columns:
                    out[columns] += mirrored
                done += 1
                if self.checkpoint is not None:
                    self.checkpoint.reached(out, done)
        return out

    def _in_order(self, parts: list[Any], done: int) -> Iterator[tuple[Place, Any]]:
        waiting: list[Any] = []
        places, nexts = self.places[done:], iter(range(done, len(self.places)))
        for place in track(places, "products"):
            while len(waiting) < self._ahead and (i := next(nexts, None)) is not None:
                rows, columns = (part.start // self.unit for part in self.places[i])
                tile = self._tiles[i] if self._tiles else self._entries(self.places[i])
                work = self.client.submit(product, tile, parts[columns], parts[rows], pure=False)
                waiting.append(work)
            yield place, waiting.pop(0).result()


def _addresses() -> set[str]:
    # All that this machine has; psutil comes with distributed.
    import psutil

    return {one.address for those in psutil.net_if_addrs().values() for one in those}


def _itself(values: Any) -> Any:
    return values


def entries(net: Any, which: Which, one: np.ndarray, two: np.ndarray, same: bool) -> np.ndarray:
    """The kernel of two blocks of inputs, which may be the same, in float64; on a worker."""
    with quietly():
        return Tiles(net, one, which).between(one, None if same else two, np.float64).copy()


def more_rows(block: Columns, net: Any, which: Which, x: np.ndarray, before: list[np.ndarray]) -> np.ndarray:
    """Rows of a block of columns of a preconditioner; on a worker."""
    with quietly():
        return block.rows(net, which, x, np.concatenate([np.empty((len(x), 0), np.float32), *before], axis=1))


def some_gram(parts: list[np.ndarray], delta: float) -> np.ndarray:
    """What some rows of a preconditioner add to its core; on a worker."""
    return gram(np.concatenate(parts, axis=1), delta)


def sum_of(two: list[np.ndarray]) -> np.ndarray:
    """On a worker."""
    return two[0] + two[1]


def product(tile: np.ndarray, right: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tile times a block of vectors, and its transpose times another; on a worker."""
    return products(tile, right, left)


@contextlib.contextmanager
def lost(client: Any) -> Iterator[None]:
    """A sentence where the cluster is lost and not a worker of it."""
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker:
        raise ValueError("every worker that tried a tile was lost: give them more memory, and call again.") from None
    except (OSError, RuntimeError, CancelledError) as error:
        raise ValueError(
            f"the connection to the scheduler was lost ({type(error).__name__}): with a folder the same call goes on."
        ) from None
