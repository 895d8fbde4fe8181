"""The direct way: the factor of a kernel matrix in float32, from tiles that go straight into its panels."""

import numpy as np

from .._progress import track
from ._kept import Part
from ._panels import factorize, solve
from ._tiles import Kept, Place, Tiles, cuts, in_threads


def factor(tiles: Tiles, kept: Kept | None = None, folder: Part | None = None) -> list[np.ndarray]:
    """The panels of the Cholesky factor; tiles come from `kept` or are computed in float32, once each.

    With a folder each panel is kept in a file, and those that are there already are read.
    """
    panels: list[np.ndarray] = []
    for k, cut in enumerate(track(cuts(tiles.points), "factorization")):
        name = f"panel-{k:05d}"
        found = None if folder is None else folder.load(name)
        if found is not None:
            panels.append(found["panel"])
            continue
        panel = columns(tiles, cut, kept)
        factorize(panel, (before[len(before) - len(panel) :] for before in panels), cut.start)
        panels.append(panel)
        if folder is not None:
            folder.save(name, panel=panel)
    return panels


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

    def __init__(self, panels: list[np.ndarray]) -> None:
        self.panels = panels

    def __call__(self, right: np.ndarray) -> np.ndarray:
        """What solves the system for right sides (N, n)."""
        return solve(self.panels, right)
