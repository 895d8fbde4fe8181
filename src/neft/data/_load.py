"""The one way to get data: by name, from a path, or from arrays."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _check
from .._public import public
from . import _named, _preprocess
from ._dataset import Dataset
from ._sources import SPLITS, WHOLE, IdxFolder, Npz, Pair, Source, is_there, of
from ._steps import Global


@public
def load(
    source: str | os.PathLike[str] | Sequence[Any],
    split: str = "train",
    *,
    preprocess: str | None = None,
    full: bool | None = None,
    dtype: DTypeLike = np.float32,
) -> Dataset:
    """The `Dataset` of a source, preprocessed.

    Args:
        source: "fashion-mnist" or "mnist"; the path of a folder of IDX files or of an .npz file (x and y, or x_train,
            y_train, x_test and y_test); or a pair (x, y), x count × features or count × height × width, y labels
            0, 1, 2, …
        split: "train" or "test"; data without splits is taken whole.
        preprocess: steps joined by "+" and done from left to right. "unit" is x/255; "global" standardises by the
            training split's mean and standard deviation, "per-image" each image by its own; "pad" puts zeros around
            images to 32×32; "pool(49)" averages to 49 inputs; "none" is none. By default "unit" for images of type
            uint8, else "none".
        full: of a named set, True for the full one, False for the bundled subset, None for the full one where it is
            found. It is looked for in $NEFT_DATA/<name> and in the system's dataset folder.
        dtype: float32 or float64, the type of x.

    >>> data = load("fashion-mnist", split="test", preprocess="pool(49)+global", full=False)
    >>> data.x.shape, data.classes, data.preprocessing
    ((1000, 49), 10, 'pool(49)+global')
    """
    _check.one_of("split", split, SPLITS)
    kind = _floating(dtype)
    origin = _origin(source, full)
    split = _split(origin, split)
    steps = None if preprocess is None else _preprocess.parse(preprocess)
    y = _labels(origin, split)
    raw = _images(origin, split, len(y))
    if steps is None:
        steps = _preprocess.parse(_default(raw))
    shape = _preprocess.shapes(steps, raw)[-1]
    if any(isinstance(step, Global) for step in steps):
        steps = _preprocess.fit(steps, *_training(origin, split, raw))
    x = _preprocess.run(steps, raw, split, kind)
    for values in (x, y):
        values.setflags(write=False)
    return Dataset(
        x=x,
        y=y,
        name=origin.name,
        split=split,
        shape=(shape[0], shape[1]) if len(shape) == 2 else None,
        preprocessing=_preprocess.canonical(steps),
        statistics=next(({"mean": s.mean, "std": s.std} for s in steps if isinstance(s, Global)), {}),
    )


@public
def load_splits(
    source: str | os.PathLike[str] | Sequence[Any],
    *,
    preprocess: str | None = None,
    full: bool | None = None,
    dtype: DTypeLike = np.float32,
) -> tuple[Dataset, Dataset | None]:
    """The training and the test split of a source, as `load` gives them; None for the second where there are no splits.

    >>> train, test = load_splits("fashion-mnist", full=False)
    >>> train.count, test.count
    (6000, 1000)
    """
    train = load(source, preprocess=preprocess, full=full, dtype=dtype)
    if train.split == WHOLE:
        return train, None
    return train, load(source, "test", preprocess=preprocess, full=full, dtype=dtype)


def _floating(dtype: Any) -> np.dtype:
    for allowed in (np.dtype(np.float32), np.dtype(np.float64)):
        try:
            if dtype is not None and np.dtype(dtype) == allowed:
                return allowed
        except TypeError:
            break
    raise ValueError(f"dtype is {_check.brief(dtype)}, but must be float32 or float64.")


def _origin(source: Any, full: bool | None) -> Source:
    if full is not None and not isinstance(full, bool):
        raise ValueError(f"full is {_check.brief(full)}, but must be True, False or None.")
    if isinstance(source, str) and source in _named.KNOWN:
        return _named.find(source, full)
    if isinstance(source, (str, os.PathLike)):
        found = _path(source)
    elif isinstance(source, (tuple, list)) and len(source) == 2:
        found = Pair(_asarray("x", source[0]), _asarray("y", source[1]))
    else:
        raise ValueError(f"source is of type {type(source).__name__}, but must be a name, a path or a pair (x, y).")
    if full is not None:
        raise ValueError(f"full is {full}, but only named sets ({', '.join(_named.KNOWN)}) have a subset.")
    return found


def _path(source: str | os.PathLike[str]) -> Source:
    path = Path(source)
    if is_there(path.is_dir):
        return IdxFolder(path, path.resolve().name)
    if is_there(path.is_file):
        if path.suffix == ".npz":
            return Npz(path, path.stem)
        raise ValueError(f"source is {str(path)!r}, but must be a folder of IDX files or an .npz file.")
    if isinstance(source, str) and path.name == source and not path.suffix:
        names = ", ".join(_named.KNOWN)
        raise ValueError(
            f"source is {_check.brief(source)}, but must be one of {names}, a path that exists, or a pair (x, y)"
            f"{_check.closest(source, _named.KNOWN)}."
        )
    raise ValueError(f"source is {str(path)!r}, but no such file or folder exists.")


def _asarray(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, but its rows differ in length.") from None


def _split(origin: Source, split: str) -> str:
    if origin.splits() != (WHOLE,):
        if isinstance(origin, Npz) and split not in origin.splits():
            raise ValueError(
                f"split is {_check.brief(split)}, but {str(origin.path)!r} has no x_{split} and y_{split}."
            )
        return split
    if split != SPLITS[0]:
        raise ValueError(
            f"split is {_check.brief(split)}, but this data has no splits (only x and y): leave split out."
        )
    return WHOLE


def _labels(origin: Source, split: str) -> np.ndarray:
    y = _checked_labels(origin, split)
    # Training and test must agree on the number of classes, so both have a say.
    others = [_checked_labels(origin, other) for other in origin.splits() if other != split]
    classes = origin.classes or 1 + max(int(labels.max()) for labels in (y, *others))
    present = np.unique(y)
    if len(present) < classes:
        gaps = np.flatnonzero(present != np.arange(len(present)))
        missing = int(gaps[0]) if gaps.size else len(present)
        raise ValueError(
            f"class {missing} is empty, but each label from 0 to {classes - 1} must occur in y{of(split)}."
        )
    return y


def _checked_labels(origin: Source, split: str) -> np.ndarray:
    y = origin.labels(split)
    if y.ndim != 1 or not y.size or y.dtype.kind not in "iu":
        raise ValueError(f"y{of(split)} has shape {y.shape} and type {y.dtype}, but must be a vector of whole numbers.")
    largest = (origin.classes or np.iinfo(np.int64).max) - 1
    if y.min() < 0 or y.max() > largest:
        wrong = int(y.min() if y.min() < 0 else y.max())
        allowed = f"be from 0 to {largest}" if origin.classes else "be 0, 1, 2, …"
        raise ValueError(f"y{of(split)} holds the label {wrong}, but labels must {allowed}.")
    return y.astype(np.int64)


def _images(origin: Source, split: str, count: int) -> np.ndarray:
    x = origin.images(split)
    if x.dtype.kind not in "buif":
        raise ValueError(f"x{of(split)} is of type {x.dtype}, but must hold real numbers.")
    x = _check.array(f"x{of(split)}", x, ndim=(2, 3), dtype=x.dtype)
    if not x.size:
        raise ValueError(f"x{of(split)} has shape {x.shape}, but must hold at least one value.")
    if len(x) != count:
        raise ValueError(f"x{of(split)} has {len(x)} examples and y has {count} labels, but both must have as many.")
    return x


def _default(raw: np.ndarray) -> str:
    return "unit" if raw.dtype == np.uint8 and raw.ndim == 3 else "none"


def _training(origin: Source, split: str, raw: np.ndarray) -> tuple[np.ndarray, str]:
    # Whoever standardises test data must not look at it: the numbers are the training split's.
    if split in (WHOLE, SPLITS[0]):
        return raw, split
    if SPLITS[0] not in origin.splits():
        raise ValueError(f"preprocess contains global, which needs the train split, but {origin.name!r} has none.")
    training = _images(origin, SPLITS[0], len(origin.labels(SPLITS[0])))
    if training.shape[1:] != raw.shape[1:] or training.dtype != raw.dtype:
        raise ValueError(
            f"the train split has examples of {training.dtype} {training.shape[1:]}, but the test split of "
            f"{raw.dtype} {raw.shape[1:]}, and must have the same."
        )
    return training, SPLITS[0]
