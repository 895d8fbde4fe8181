"""A kernel matrix over many inputs that nobody holds whole: its tiles are computed where they are wanted."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Literal, NamedTuple, Protocol

import jax
import numpy as np

from .. import width
from .._progress import quietly, track
from ..network import Network

Which = Literal["ntk", "nngp"]
Place = tuple[slice, slice]

TILE = 1024
"""Inputs on each side of a tile: what a tile costs beside its entries is then a few percent of it."""

_FEW = 256
"""Inputs at once where only the diagonal is wanted."""

_AT_ONCE = 2**19
"""Products of a strip of a tile: with more of them BLAS starts threads of its own, with fewer Python takes longer."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads compute tiles: one more than cores, because a tile is not compiled code from end to end."""
    return cores() + 1


def in_threads(work: Callable[[Any], Any], items: Sequence[Any], label: str | None = None) -> Iterator[Any]:
    """work(item) for all items, in their order, a few of them ahead in threads; with a progress bar named `label`.

    JAX's devices take the items in turn.
    """
    left, waiting = iter(enumerate(items)), []
    devices = jax.local_devices()
    many = max(threads(), len(devices) + 1)

    def on_device(i: int, item: Any) -> Any:
        with jax.default_device(devices[i % len(devices)]):
            return work(item)

    try:
        for _ in track(items, label) if label else items:
            with quietly():  # kernels have bars of their own
                while len(waiting) <= many and (item := next(left, None)) is not None:
                    waiting.append(_pool(many).submit(on_device, *item))
                found = waiting.pop(0).result()
            yield found
    finally:
        for one in waiting:
            one.cancel()
        wait(waiting)


@functools.cache
def _pool(many: int) -> ThreadPoolExecutor:
    # One for the whole process: the allocator keeps some memory for each thread that there ever was.
    return ThreadPoolExecutor(many, thread_name_prefix="neft-tiles")


def cuts(count: int, size: int | None = None) -> list[slice]:
    """Blocks of `size` inputs, the last one shorter."""
    size = size or TILE
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


class Tiles(NamedTuple):
    """The matrix K or Θ of a network over inputs x (N, n_0), plus `ridge` times the unit matrix."""

    net: Network
    x: np.ndarray
    which: Which
    ridge: float = 0.0

    @property
    def points(self) -> int:
        """N."""
        return len(self.x)

    def places(self) -> list[Place]:
        """Rows and columns of the tiles on and below the diagonal, row by row."""
        lines = cuts(self.points)
        return [(rows, columns) for i, rows in enumerate(lines) for columns in lines[: i + 1]]

    def tile(self, rows: slice, columns: slice, dtype: Any) -> np.ndarray:
        """The kernel alone, of these rows and columns, which are the same or have none in common."""
        return self.between(self.x[rows], None if rows == columns else self.x[columns], dtype)

    def between(self, x1: np.ndarray, x2: np.ndarray | None, dtype: Any) -> np.ndarray:
        """The kernel alone, of inputs x1 with x2, or with themselves."""
        found = width.kernel(self.net, x1, x2, dtype=dtype)
        return found.Theta if self.which == "ntk" else found.K

    def diagonal(self) -> np.ndarray:
        """The kernel of each input with itself, without the ridge: (N,)."""
        return np.concatenate(
            [np.diagonal(self.between(self.x[few], None, np.float64)) for few in cuts(self.points, _FEW)]
        )


Kept = dict[tuple[int, int], np.ndarray]
"""Tiles in memory, by their first row and first column."""


class Checkpoint(Protocol):
    """Where a product that takes minutes keeps how far it is."""

    def load(self, empty: np.ndarray) -> tuple[np.ndarray, int]:
        """The sum so far and how many tiles are in it: what was kept, or nothing of none."""
        ...

    def reached(self, out: np.ndarray, done: int) -> None:
        """So many tiles are in the sum."""
        ...


def at_once(size: int) -> int:
    """Rows of a strip whose product with so many numbers BLAS does as it is, without threads of its own."""
    return max(1, min(64, _AT_ONCE // max(1, size)))


def products(entries: np.ndarray, right: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tile times `right`, and its transpose times `left`.

    A few rows at a time, which are read once for both and so few that BLAS does them as they are: of whole tiles it
    makes copies, and in threads that share tiles its own would wait for each other.
    """
    own, mirrored = np.empty((len(entries), right.shape[1])), np.zeros((entries.shape[1], left.shape[1]))
    many = at_once(right.size)
    for start in range(0, len(entries), many):
        strip = slice(start, start + many)
        np.matmul(entries[strip], right, out=own[strip])
        mirrored += entries[strip].T @ left[strip]
    return own, mirrored


@jax.jit
def _once(entries: Any, right: Any) -> Any:
    return entries @ right


def times(entries: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A tile times `right`, by JAX."""
    with jax.enable_x64(True):
        return np.asarray(_once(entries, right))


class Matrix:
    """Products with a matrix of tiles in float64; what is not `kept` is computed again for each of them."""

    def __init__(self, tiles: Tiles, kept: Kept | None = None) -> None:
        self.tiles, self.kept = tiles, kept
        self.checkpoint: Checkpoint | None = None

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """The product with vectors (N, n)."""

        def of_tile(place: Place) -> tuple[np.ndarray, np.ndarray]:
            rows, columns = place
            if self.kept is None:
                return products(self.tiles.tile(rows, columns, np.float64), v[columns], v[rows])
            return products(self.kept[rows.start, columns.start], v[columns], v[rows])

        out, done = self.tiles.ridge * v, 0
        if self.checkpoint is not None:
            out, done = self.checkpoint.load(out)
        places = self.tiles.places()[done:]
        for (rows, columns), (own, mirrored) in zip(places, in_threads(of_tile, places, "products")):
            out[rows] += own
            if rows != columns:
                out[columns] += mirrored
            done += 1
            if self.checkpoint is not None:
                self.checkpoint.reached(out, done)
        return out


def keep(tiles: Tiles, dtype: Any) -> Kept:
    """All tiles on and below the diagonal."""
    places = tiles.places()
    # Copies, because K and Θ of a tile are halves of one array: the other half must not stay with it.
    made = in_threads(lambda place: tiles.tile(place[0], place[1], dtype).copy(), places, "kernel")
    return {(rows.start, columns.start): entries for (rows, columns), entries in zip(places, made)}
