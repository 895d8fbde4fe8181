"""Results: what every theory returns, and the one way to print, save and load it.

A result is a frozen dataclass whose fields are arrays, numbers, texts, None, tuples, dictionaries and other results.
It carries what made it (`made`), so that a picture can be drawn again from a file. Files are JSON or .npz, and nothing
in them is ever unpickled.
"""

import dataclasses
import functools
import json
import math
import os
import platform
import types
import typing
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import _check
from ._files import writing
from ._public import public
from ._show import brief, to_frame, to_html
from ._version import __version__

T = TypeVar("T")

FORMAT = 1
"""Version of the file format; a reader refuses what is newer than itself."""

_TYPES: dict[str, type["Result"]] = {}
_ARRAYS = "\0arrays"
_SHAPE = "\0shape"


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def result(cls: type[T]) -> type[T]:
    """Decorator that makes a subclass of `Result` the frozen, keyword-only dataclass that a result is."""
    return dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


@result
class Result:
    """Base of all results. A subclass is decorated with `result` and is known to `load` by its class's name.

    A class that was renamed says `formerly="…"`, one that renamed a field has `_from_older`: older files still load.

    >>> import tempfile
    >>> made = Made.by("example", specification={"width": 3})
    >>> path = Path(tempfile.mkdtemp()) / "made.json"
    >>> made.save(path)
    >>> load(path) == made
    True
    """

    _axis: typing.ClassVar[str] = "entry"
    """What the first axis of the arrays is called whose annotation does not say it; "layers" counts from 1."""

    def __init_subclass__(cls, *, formerly: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _TYPES[cls.__name__] = cls
        if formerly is not None:
            _TYPES[formerly] = cls

    def to_dict(self) -> dict[str, Any]:
        """The result as what JSON can hold; infinities and NaN become the words "inf", "-inf", "nan"."""
        fields = {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {"type": type(self).__name__, **fields}

    @classmethod
    @public
    def from_dict(cls, record: Mapping[str, Any]) -> "Result":
        """The result that `to_dict` described."""
        return _result(dict(record), expected=cls)

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a file with the names of today; a class that renamed one says how."""
        return fields

    @public
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .json file (to read) or an .npz file (compact, for large arrays), whole or not at all."""
        target = Path(path)
        if target.suffix == ".json":
            with writing(target) as file:
                json.dump({"neft": FORMAT, **self.to_dict()}, file, indent=1, allow_nan=False)
        elif target.suffix == ".npz":
            arrays: dict[str, np.ndarray] = {}
            record = _lift_arrays(self, arrays)
            header = json.dumps({"neft": FORMAT, **record}, allow_nan=False)
            with writing(target, binary=True) as file:
                np.savez_compressed(file, neft=np.array(header), **arrays)  # type: ignore[arg-type]
        else:
            raise ValueError(f"path is {str(target)!r}, but must end in .json or .npz.")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._shown())})"

    def __str__(self) -> str:
        shown = list(self._shown())
        pad = max((len(k) for k, _ in shown), default=0)
        return "\n".join([type(self).__name__, *(f"  {k:<{pad}}  {v}" for k, v in shown)])

    def _repr_html_(self) -> str:
        """What a notebook shows: the fields as a table, and arrays of one value per layer side by side as another."""
        return to_html(self)

    def to_pandas(self, rows: str | None = None) -> Any:
        """The result as a pandas data frame; pandas must be installed, neft does not bring it.

        Arrays that have their first axis in common become columns, one row for each layer (counted from 1), point or
        draw; further axes become columns such as "K[0, 1]", unless they are more than 100 numbers per row, which are
        left out. Results within a result (terms, claims, critical points) give one row each. A result without either
        gives one row.

        Args:
            rows: which rows, where a result has several kinds, by the name of the frame's index ("layer", "points");
                by default layers, and where there are none those with the most columns.

        >>> made = Made.by("example", specification={"width": 3})
        >>> made.to_pandas().function[0]  # doctest: +SKIP
        'example'
        """
        return to_frame(self, rows)

    def _shown(self):
        for field in dataclasses.fields(self):
            if field.name != "made":
                yield field.name, brief(getattr(self, field.name))


@result
class Made(Result):
    """What made a result: the function, its specification, key and tolerances, and the versions that ran.

    `key` is the data of the JAX key (a tuple of integers) or None where nothing was random.
    """

    function: str
    specification: dict[str, Any]
    key: tuple[int, ...] | None
    tolerances: dict[str, float]
    versions: dict[str, str]

    @classmethod
    @public
    def by(
        cls,
        function: str,
        *,
        specification: Mapping[str, Any] | None = None,
        key: Any = None,
        tolerances: Mapping[str, float] | None = None,
    ) -> "Made":
        """The record of a call made now; `key` is a JAX key, an integer seed or None."""
        return cls(
            function=function,
            specification=_plain(dict(specification or {})),
            key=_key_data(key),
            tolerances=dict(tolerances or {}),
            versions=dict(_versions()),
        )


@public
def load(path: str | os.PathLike[str]) -> Result:
    """The result that `Result.save` wrote to `path` (.json or .npz)."""
    source = Path(path)
    if source.suffix not in (".json", ".npz"):
        raise ValueError(f"path is {str(source)!r}, but must end in .json or .npz.")
    try:
        record, arrays = _read(source)
    except OSError as error:
        raise ValueError(f"cannot read {str(source)!r}: {error.strerror or error}.") from None
    except Exception as error:  # zipfile, zlib, NumPy and json raise many kinds for a damaged file
        raise ValueError(f"{str(source)!r} is damaged or not a result of neft: {_reason(error)}.") from None
    if record.pop("neft") > FORMAT:
        raise ValueError(f"{str(source)!r} was written by a newer neft than this one ({__version__}).")
    try:
        return _result(_put_back(record, arrays))
    except Exception as error:
        raise ValueError(f"{str(source)!r} cannot be understood: {_reason(error)}.") from None


def _read(source: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    arrays: dict[str, np.ndarray] = {}
    if source.suffix == ".json":
        record = json.loads(source.read_text(encoding="utf-8"))
    else:
        # NumPy leaves a damaged archive open, so the file is ours; and what is no archive it would take for a pickle.
        with source.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is not an archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                record = json.loads(str(archive["neft"]))
                arrays = {name: archive[name] for name in archive.files if name != "neft"}
    if not isinstance(record, dict) or type(record.get("neft")) is not int:
        raise ValueError("it has no format number")
    return record, arrays


def _reason(error: Exception) -> str:
    return _check.reason(error).replace("\0", "")


def _plain(value: Any) -> Any:
    if type(value) is float:  # most values by far, so it comes first
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Result):
        return value.to_dict()
    if hasattr(type(value), "to_dict"):
        # Of its class, because Equinox walks through a whole network to hand out one of its methods.
        return _plain(type(value).to_dict(value))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray) and not value.size:
        return {_SHAPE: list(value.shape)}
    if isinstance(value, (np.ndarray, np.generic)):
        _refuse_objects(value)
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "__array__"):
        return _plain(np.asarray(value).tolist())
    raise TypeError(f"a result cannot hold a {type(value).__name__}")


def _refuse_objects(value: np.ndarray | np.generic) -> None:
    if value.dtype == object:
        raise TypeError("a result cannot hold an array of objects")


def _lift_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    # Arrays leave the record for the archive; what stays in their place is a name.
    if isinstance(value, np.ndarray):
        _refuse_objects(value)
        name = f"array_{len(arrays)}"
        arrays[name] = value
        return {_ARRAYS: name}
    if isinstance(value, Result):
        fields = {f.name: _lift_arrays(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(k): _lift_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_lift_arrays(v, arrays) for v in value]
    return _plain(value)


def _put_back(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAYS}:
            if value[_ARRAYS] not in arrays:
                raise ValueError(f"the array {_check.brief(value[_ARRAYS])} is missing")
            return arrays[value[_ARRAYS]]
        return {k: _put_back(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_put_back(v, arrays) for v in value]
    return value


def _result(record: dict[str, Any], expected: type[Result] | None = None) -> Any:
    name = str(record.pop("type", None))
    if name not in _TYPES:
        _load_all_types()
    if name not in _TYPES:
        raise ValueError(f"result type is {name!r}, which this neft does not know{_check.closest(name, _TYPES)}.")
    kind = _TYPES[name]
    if expected is not None and not issubclass(kind, expected):
        raise ValueError(f"result type is {name!r}, but must be {expected.__name__!r}.")
    record = kind._from_older(record)
    hints = typing.get_type_hints(kind)
    wanted = {f.name for f in dataclasses.fields(kind)}
    if set(record) != wanted:
        odd = ", ".join(sorted(set(record) ^ wanted))
        raise ValueError(f"a saved {name} does not have the fields of this neft's {name} (see {odd})")
    lengths: dict[str, tuple[int, str]] = {}
    return kind(**{k: _field(k, v, hints[k], lengths) for k, v in record.items()})


def _field(name: str, value: Any, hint: Any, lengths: dict[str, tuple[int, str]]) -> Any:
    # A file may have been edited: what stands in it must be what the annotation says, and axes of one name as long.
    try:
        found = _typed(value, hint)
    except (TypeError, ValueError, OverflowError) as error:
        if "\0" in str(error):
            raise ValueError(str(error).replace("\0", f"{name}.", 1)) from None
        raise ValueError(f"\0{name}: {_check.reason(error)}") from None
    _compare_lengths(name, found, hint, lengths)
    return found


def _typed(value: Any, hint: Any) -> Any:
    # JSON knows neither tuples nor arrays nor infinities: the field's annotation says what a value was.
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _typed(value, next(h for h in inner if h is not type(None)))
    if is_array(hint):
        return _array(value, hint)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(hint, type) and issubclass(hint, Result):
        if not isinstance(value, dict):
            raise ValueError(f"{_check.brief(value)} stands where a {hint.__name__} should")
        return _result(dict(value), expected=hint)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError(f"{_check.brief(value)} stands where a number should")
        return _number(value)
    if hint in (int, bool, str) and type(value) is not hint:
        raise ValueError(f"{_check.brief(value)} stands where a {hint.__name__} should")
    for kind, stored in ((tuple, list), (list, list), (dict, dict)):
        if (origin or hint) is kind and not isinstance(value, stored):
            raise ValueError(f"{_check.brief(value)} stands where a {stored.__name__} should")
    return _typed_parts(value, origin, inner)


def _typed_parts(value: Any, origin: Any, inner: tuple[Any, ...]) -> Any:
    if origin is tuple:
        hints = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is ... else inner
        if len(hints) != len(value):
            raise ValueError(f"{_check.brief(value)} has {len(value)} entries, but must have {len(hints)}")
        return tuple(_typed(v, h) for v, h in zip(value, hints, strict=True))
    if origin is list:
        return [_typed(v, inner[0]) for v in value]
    if origin is dict:
        return {k: _typed(v, inner[1]) for k, v in value.items()}
    return value


def _number(text: Any) -> float:
    try:
        return float(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{_check.brief(text)} stands where a number should") from None


def _array(value: Any, hint: Any) -> np.ndarray:
    if isinstance(value, dict) and set(value) == {_SHAPE}:
        found = np.empty(value[_SHAPE], dtype=_dtype(hint))
    elif isinstance(value, np.ndarray):
        found = value
    elif isinstance(value, dict) or value is None or (isinstance(value, str) and value not in ("inf", "-inf", "nan")):
        raise ValueError(f"{_check.brief(value)} stands where an array should")
    else:
        try:
            found = np.asarray(value, dtype=_dtype(hint))
            # Infinities were written as words.
            found = found.astype(np.float64) if found.dtype.kind == "U" else found
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{_check.brief(value)} stands where an array of numbers should") from None
    if found.dtype.kind not in "biufcS":
        raise ValueError(f"{_check.brief(value)} stands where an array of numbers should")
    return found


def is_array(hint: Any) -> bool:
    """Whether an annotation is an array's; jaxtyping's are classes that name the type they stand for."""
    return hint is np.ndarray or getattr(hint, "array_type", None) is np.ndarray


def _compare_lengths(name: str, value: Any, hint: Any, lengths: dict[str, tuple[int, str]]) -> None:
    # `lengths` are those of the axes seen so far, and where.
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next((h for h in typing.get_args(hint) if h is not type(None)), None)
    if isinstance(value, dict) and typing.get_origin(hint) is dict:
        for key, part in value.items():
            _compare_lengths(f"{name} {key}", part, typing.get_args(hint)[1], lengths)
    if not isinstance(value, np.ndarray) or not getattr(hint, "dim_str", ""):
        return
    axes = hint.dim_str.split()
    variadic = next((i for i, axis in enumerate(axes) if axis[0] in "*."), None)
    after = 0 if variadic is None else len(axes) - variadic - 1
    if value.ndim < len(axes) - (variadic is not None) or (variadic is None and value.ndim != len(axes)):
        raise ValueError(f"\0{name}: it has shape {value.shape}, but must have axes ({hint.dim_str})")
    head = axes if variadic is None else axes[:variadic]
    pairs = [*zip(head, value.shape), *zip(axes[len(axes) - after :], value.shape[value.ndim - after :])]
    for axis, length in pairs:
        if axis.isidentifier() and axis != "_" and lengths.setdefault(axis, (length, name))[0] != length:
            known, where = lengths[axis]
            raise ValueError(f"\0{name}: it has {length} {axis}, but {where} has {known}")


def _dtype(hint: Any) -> Any:
    dtypes = getattr(hint, "dtypes", ())
    if isinstance(dtypes, (list, tuple)):
        if any("float" in str(d) for d in dtypes):
            return np.float64
        if any("int" in str(d) for d in dtypes):
            return np.int64
    return None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


def _key_data(key: Any) -> tuple[int, ...] | None:
    if key is None:
        return None
    if isinstance(key, int | np.integer):
        return (int(key),)
    import jax
    import jax.numpy as jnp

    if not isinstance(key, jax.Array | np.ndarray):
        raise ValueError(f"key is {_check.brief(key)}, but must be a JAX key or a whole number.")
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return tuple(_check.array("key", data, dtype=np.int64).ravel().tolist())


@functools.cache
def _versions() -> Mapping[str, str]:
    packages = {name: metadata.version(name) for name in ("jax", "numpy", "scipy")}
    return {"neft": __version__, "python": platform.python_version(), **packages}


def _load_all_types() -> None:
    # A type is known once its module is imported, and the front door imports lazily.
    import neft

    for name in neft.__all__:
        getattr(neft, name)
