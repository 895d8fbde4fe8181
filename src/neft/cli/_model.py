"""Models in a user's own program: `--model FILE.py:NAME`, and the data that they are for."""

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..models.results import Reading


def read_model(text: str, data: str | None, full: bool | None) -> "tuple[Reading, float | None]":
    """What is read of the model, and the mean square of an entry of the data's inputs, None without data."""
    from .. import read

    model, params = _model(text)
    if data is None:
        return read(model, params), None
    x, shape = _inputs(data, full)
    found = _fitting(model, params, x, shape)
    return found, float((x.astype(float) ** 2).mean())


def _model(text: str) -> tuple[Any, Any]:
    """The object that NAME is, or what the function or class NAME gives; and its parameters, of a pair."""
    from .._check import closest, reason

    file, _, name = text.rpartition(":")
    path = Path(file)
    if not file or not name.isidentifier() or path.suffix != ".py":
        raise ValueError(f"--model is {text!r}, but must be FILE.py:NAME, such as train.py:model.")
    if not path.is_file():
        raise ValueError(f"--model is {text!r}, but there is no file {file!r}.")
    program = _run(path)
    if not hasattr(program, name):
        public = [one for one in vars(program) if not one.startswith("_")]
        raise ValueError(f"--model is {text!r}, but {file} defines no {name!r}{closest(name, public)}.")
    value = getattr(program, name)
    if inspect.isfunction(value) or isinstance(value, type):
        try:
            value = value()
        # The program is the user's own: anything may go wrong in it.
        except Exception as error:
            what = f"{type(error).__name__}: {reason(error)}"
            raise ValueError(f"--model is {text!r}, but {name}() without arguments failed ({what}).") from None
    if isinstance(value, tuple) and len(value) == 2:
        return value
    return value, None


def _run(path: Path) -> Any:
    from .._check import reason

    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    # As when Python runs it: its folder is where it imports from, and its classes find their module.
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = program
    try:
        spec.loader.exec_module(program)
    except Exception as error:
        what = f"{type(error).__name__}: {reason(error)}"
        raise ValueError(f"--model is in {str(path)!r}, which failed when it was run ({what}).") from None
    except SystemExit:
        raise ValueError(f"--model is in {str(path)!r}, which ended the program when it was run.") from None
    finally:
        sys.path.pop(0)
    return program


def _inputs(data: str, full: bool | None) -> "tuple[np.ndarray, tuple[int, ...]]":
    from .. import data as sets

    if data.endswith(".npz"):
        from ._predict import npz

        x, _, _ = npz(data, full)
        return x, x.shape[1:]
    found = sets.load(data, full=full)
    return found.x, found.shape or found.x.shape[1:]


def examples_of(data: str, full: bool | None) -> "tuple[np.ndarray, np.ndarray]":
    """Inputs as vectors, and their classes (whole numbers) or targets."""
    if data.endswith(".npz"):
        from ._predict import npz

        x, y, _ = npz(data, full)
        whole = y.ndim == 1 and (y == y.round()).all() and y.min(initial=0) >= 0
        return x, y.astype("int64") if whole else y
    from .. import data as sets

    found = sets.load(data, full=full)
    return found.x, found.y


def _fitting(model: Any, params: Any, x: "np.ndarray", shape: tuple[int, ...]) -> "Reading":
    # One number for each entry, or images, with one channel where they have none, first or last.
    from .. import read

    entries = x.shape[1]
    shapes = [(2, entries), (entries,)]
    if len(shape) > 1:
        height, width, *rest = shape
        channels = rest[0] if rest else 1
        shapes += [(2, channels, height, width), (2, height, width, channels), (channels, height, width)]
    import numpy as np

    first = None
    for one in shapes:
        try:
            return read(model, params, np.empty(one, np.float32))
        except ValueError as error:
            first = first or error
            if not str(error).startswith(("the model cannot be run on inputs", "x has shape")):
                raise
    assert first is not None
    raise first
