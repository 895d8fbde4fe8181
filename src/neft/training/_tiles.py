"""A kernel matrix over many inputs that nobody holds whole: its tiles are computed where they are wanted."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol

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


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads compute tiles: one more than cores, because a tile is not compiled code from end to end."""
    return cores() + 1


def in_threads(work: Callable[[Any], Any], items: Sequence[Any], label: str | None = None) -> Iterator[Any]:
    """work(item) for all items, in their order, a few of them ahead in threads; with a progress bar named `label`."""
    left, waiting = iter(items), []
    with ThreadPoolExecutor(threads()) as pool:
        try:
            for _ in track(items, label) if label else items:
                with quietly():  # kernels have bars of their own
                    while len(waiting) <= threads() and (item := next(left, None)) is not None:
                        waiting.append(pool.submit(work, item))
                    found = waiting.pop(0).result()
                yield found
        finally:
            for one in waiting:
                one.cancel()


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
        """The entries of these rows and columns, which are the same or have none in common."""
        if rows != columns:
            return self.between(self.x[rows], self.x[columns], dtype)
        entries = self.between(self.x[rows], None, dtype)
        return entries + np.asarray(self.ridge, dtype) * np.eye(len(entries), dtype=dtype)

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


class Matrix:
    """Products with a matrix of tiles in float64; what is not `kept` is computed again for each of them."""

    def __init__(self, tiles: Tiles, kept: Kept | None = None) -> None:
        self.tiles, self.kept = tiles, kept
        self.checkpoint: Checkpoint | None = None

    def tile(self, place: Place) -> np.ndarray:
        """A tile on or below the diagonal."""
        rows, columns = place
        return self.tiles.tile(rows, columns, np.float64) if self.kept is None else self.kept[rows.start, columns.start]

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """The product with vectors (N, n)."""

        def products(place: Place) -> tuple[np.ndarray, np.ndarray | None]:
            rows, columns = place
            entries = self.tile(place)
            return entries @ v[columns], None if rows == columns else entries.T @ v[rows]

        out, done = np.zeros_like(v), 0
        if self.checkpoint is not None:
            out, done = self.checkpoint.load(out)
        places = self.tiles.places()[done:]
        for (rows, columns), (own, mirrored) in zip(places, in_threads(products, places, "products")):
            out[rows] += own
            if mirrored is not None:
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
