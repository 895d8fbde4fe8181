"""The sets that have a name, and where they are looked for."""

import os
from dataclasses import dataclass
from pathlib import Path

from ._sources import IdxFolder, is_there

SYSTEM = Path("/usr/share/datasets")
"""Where Debian's dataset packages put their files."""

BUNDLED = Path(__file__).parent

VARIABLE = "NEFT_DATA"


@dataclass(frozen=True)
class Known:
    """What is known of a named set before it is read."""

    classes: int
    shape: tuple[int, int]
    bundled: bool
    package: str | None


KNOWN = {
    "fashion-mnist": Known(classes=10, shape=(28, 28), bundled=True, package="dataset-fashion-mnist"),
    "mnist": Known(classes=10, shape=(28, 28), bundled=False, package=None),
}


def available() -> dict[str, tuple[str, ...]]:
    """For each named set the folders where it was found, the one that `load` uses first; none: it must be provided.

    Full sets come first; the subset that comes with neft is named "bundled subset".

    >>> available()["fashion-mnist"][-1]
    'bundled subset'
    """
    return {
        name: tuple(str(place) for place in _found(name)) + (("bundled subset",) if known.bundled else ())
        for name, known in KNOWN.items()
    }


def find(name: str, full: bool | None) -> IdxFolder:
    """The named set: the full one if it is found (or if `full` demands it), else the bundled subset."""
    known, places = KNOWN[name], _found(name)
    if full is not False and places:
        return IdxFolder(places[0], name, known.classes, known.shape)
    if full is not True and known.bundled:
        return IdxFolder(BUNDLED / name, f"{name} (bundled subset)", known.classes, known.shape)
    if full is False:
        raise ValueError(f"full is False, but no subset of {name!r} is bundled, so full must be True or None.")
    raise ValueError(
        f"the full {name!r} was not found in {' or '.join(repr(str(place)) for place in _places(name))}: put its four "
        f"IDX files into a folder {name!r} inside the folder that the variable {VARIABLE} names, "
        f"or give the path of their folder instead of the name{_package(known)}."
    )


def _found(name: str) -> list[Path]:
    return [place for place in _places(name) if is_there(place.is_dir)]


def _places(name: str) -> list[Path]:
    own = os.environ.get(VARIABLE)
    return [Path(folder) / name for folder in (own, SYSTEM) if folder]


def _package(known: Known) -> str:
    return f", or install the Debian package {known.package}" if known.package else ""
