"""Where raw data comes from: a folder of IDX files, an .npz archive, or a pair of arrays.

A source has a name, its splits, and for each split `images` (count × features, or count × height × width) and
`labels` (count), as they were stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import _idx

SPLITS = ("train", "test")
WHOLE = "all"
"""The one split of data that came without splits."""

_PREFIX = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class IdxFolder:
    """The four files of MNIST's kind, compressed or not; `shape` and `classes` where they are known beforehand."""

    path: Path
    name: str
    classes: int | None = None
    shape: tuple[int, int] | None = None

    def splits(self) -> tuple[str, ...]:
        """The splits whose labels are in the folder."""
        return tuple(split for split in SPLITS if self._find(split, "labels-idx1-ubyte"))

    def labels(self, split: str) -> np.ndarray:
        """The labels of a split."""
        return _idx.read(self._file(split, "labels-idx1-ubyte"), 1)

    def images(self, split: str) -> np.ndarray:
        """The images of a split."""
        file = self._file(split, "images-idx3-ubyte")
        images = _idx.read(file, 3)
        if self.shape not in (None, images.shape[1:]):
            raise ValueError(f"{str(file)!r} holds images of shape {images.shape[1:]}, but must hold {self.shape}.")
        return images

    def _file(self, split: str, kind: str) -> Path:
        found = self._find(split, kind)
        if found is None:
            raise ValueError(f"{str(self.path)!r} has no file {_PREFIX[split]}-{kind}.gz (or without .gz).")
        return found

    def _find(self, split: str, kind: str) -> Path | None:
        stem = f"{_PREFIX[split]}-{kind}"
        return next((file for file in (self.path / f"{stem}.gz", self.path / stem) if is_there(file.is_file)), None)


@dataclass(frozen=True)
class Npz:
    """An .npz archive with x and y, or with x_train, y_train and x_test, y_test; nothing in it is unpickled."""

    path: Path
    name: str
    classes: None = None
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "keys", tuple(self._open(lambda archive: archive.files)))
        if not self.splits():
            raise ValueError(
                f"{str(self.path)!r} holds {', '.join(self.keys) or 'nothing'}, but must hold x and y, or x_train, "
                f"y_train, x_test and y_test."
            )

    def splits(self) -> tuple[str, ...]:
        """The splits of which the archive has both arrays."""
        found = tuple(s for s in SPLITS if {f"x_{s}", f"y_{s}"} <= set(self.keys))
        return found or ((WHOLE,) if {"x", "y"} <= set(self.keys) else ())

    def labels(self, split: str) -> np.ndarray:
        """The labels of a split."""
        return self._array("y", split)

    def images(self, split: str) -> np.ndarray:
        """The images or features of a split."""
        return self._array("x", split)

    def _array(self, letter: str, split: str) -> np.ndarray:
        key = letter if split == WHOLE else f"{letter}_{split}"
        return self._open(lambda archive: archive[key])

    def _open(self, ask: Callable[[Any], Any]) -> Any:
        try:
            # The file is opened here because NumPy leaves it open when it meets a damaged archive.
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return ask(archive)
        except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged archive
            if isinstance(error, (FileNotFoundError, PermissionError)):
                raise ValueError(f"cannot read {str(self.path)!r}: {error.strerror}.") from None
            if "pickle" in str(error):
                raise ValueError(
                    f"{str(self.path)!r} holds pickled objects or is not an .npz file, but must hold plain arrays "
                    f"(unpickling could run foreign code)."
                ) from None
            raise ValueError(f"{str(self.path)!r} is truncated, damaged or not an .npz file.") from None


@dataclass(frozen=True, eq=False)
class Pair:
    """A user's own arrays."""

    x: np.ndarray
    y: np.ndarray
    name: str = "arrays"
    classes: None = None

    def splits(self) -> tuple[str, ...]:
        """One split, all of it."""
        return (WHOLE,)

    def labels(self, split: str) -> np.ndarray:
        """The user's y."""
        return self.y

    def images(self, split: str) -> np.ndarray:
        """The user's x."""
        return self.x


Source = IdxFolder | Npz | Pair


def is_there(test: Callable[[], bool]) -> bool:
    """What a path's `is_file` or `is_dir` says, and False where it may not be asked (no permission, too long)."""
    try:
        return test()
    except OSError:
        return False


def of(split: str) -> str:
    """How a message names the split after "x", "y" or an example.

    >>> of("train"), of(WHOLE)
    (' of the train split', '')
    """
    return "" if split == WHOLE else f" of the {split} split"
