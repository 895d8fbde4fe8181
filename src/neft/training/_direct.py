"""The direct way: the factor of a kernel matrix in float32, from tiles that go straight into its panels."""

import time

import numpy as np

from .._progress import track
from ._kept import EVERY, Part
from ._panels import finish, solve, subtract
from ._tiles import Kept, Place, Tiles, cuts, in_threads
from ._where import Panels

_PART = "under-way"


def factor(tiles: Tiles, panels: Panels, group: int = 1, kept: Kept | None = None) -> Panels:
    """The panels of the Cholesky factor; tiles come from `kept` or are computed in float32, once each.

    As many panels as are in a `group` are made together, so that each earlier one is looked at once for all of them,
    which is what counts where it is read from a file. Those that are there already stay as they are.
    """
    lines = panels.cuts
    for first in track(range(0, len(lines), group), "factorization"):
        end = min(first + group, len(lines))
        todo = {k: np.empty((0, 0), np.float32) for k in range(first, end) if not panels.has(k)}
        if not todo:
            continue
        under_way = _UnderWay(panels.folder, todo)
        begin = under_way.load()
        if not begin:
            for k in todo:
                todo[k] = columns(tiles, lines[k], kept)
        top = lines[min(todo)].start
        for k in range(begin, max(todo) + 1):
            if k in todo:
                finish(todo[k], lines[k].start)
                panels.put(k, todo[k])
                left = todo.pop(k)
            else:
                left = panels.rows(k, max(0, top - lines[k].start))
            for later, panel in todo.items():
                if later > k:
                    subtract(panel, left[len(left) - len(panel) :])
            under_way.reached(k + 1)
        under_way.end()
    return panels


class _UnderWay:
    # Panels from which a part of the earlier ones is taken: where that takes minutes, they are kept once a minute.
    def __init__(self, folder: Part | None, todo: dict[int, np.ndarray]) -> None:
        self.folder, self.todo, self.last = folder, todo, time.monotonic()

    def load(self) -> int:
        """How many panels are taken from those in the file, if it holds those that are to be made."""
        found = None if self.folder is None else self.folder.load(_PART)
        if found is None or not set(self.todo) <= set(found["which"].tolist()):
            return 0
        for k in self.todo:
            self.todo[k] = found[f"panel{k}"]
        return int(found["done"])

    def reached(self, done: int) -> None:
        if self.folder is None or not self.todo or time.monotonic() - self.last < EVERY:
            return
        panels = {f"panel{k}": panel for k, panel in self.todo.items()}
        self.folder.save(_PART, which=np.array(list(self.todo)), done=np.array(done), **panels)
        self.last = time.monotonic()

    def end(self) -> None:
        if self.folder is not None:
            self.folder.drop(_PART)


def columns(tiles: Tiles, cut: slice, kept: Kept | None) -> np.ndarray:
    """The panel of the matrix with these columns, and the rows from there on."""
    panel = np.empty((tiles.points - cut.start, cut.stop - cut.start), np.float32)
    places = [(slice(rows.start + cut.start, rows.stop + cut.start), cut) for rows in cuts(len(panel))]

    def entries(place: Place) -> np.ndarray:
        return tiles.tile(*place, np.float32) if kept is None else kept[place[0].start, cut.start]

    made = in_threads(entries, places) if kept is None else map(entries, places)
    for (rows, _), found in zip(places, made):
        panel[rows.start - cut.start : rows.stop - cut.start] = found
    np.einsum("ii->i", panel[: panel.shape[1]])[:] += np.float32(tiles.ridge)
    return panel


class Factor:
    """The inverse of a matrix by its factor, good to a few digits."""

    def __init__(self, panels: Panels) -> None:
        self.panels = panels

    def __call__(self, right: np.ndarray) -> np.ndarray:
        """What solves the system for right sides (N, n)."""
        return solve(self.panels, right)
