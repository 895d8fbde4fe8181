"""How results are shown: short texts for a terminal, HTML tables for a notebook, data frames for pandas.

A result is any dataclass with a method `_shown`, which yields names and texts in the order to read them in.
"""

import dataclasses
import html
import math
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from . import _check

_WHOLE = 24
"""Arrays of so many entries are printed whole, larger ones by their ends."""

_ENDS = 3
_ROWS = 40
"""The most rows of a table in a notebook; longer arrays stand there as one line."""

_WIDE = 100
"""The most columns of a data frame that one array makes."""


def brief(value: Any) -> str:
    """A value as a text of bounded length: numbers to five or six digits, long arrays by their ends and their range.

    >>> brief(np.array([1, 1 / 3, np.inf])), brief(np.zeros((2, 1)))
    ('[1, 0.33333, inf]', '[[0], [0]]')
    >>> brief(np.linspace(0, 1, 101))
    '[0, 0.01, 0.02, …, 0.98, 0.99, 1] (101 numbers from 0 to 1)'
    """
    if isinstance(value, np.ndarray) or (hasattr(value, "__array__") and hasattr(value, "shape")):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        return _listed((f"{key}: {brief(item)}" for key, item in value.items()), len(value), "{}")
    if isinstance(value, tuple) and len(value) == 1:
        return f"({brief(value[0])},)"
    if isinstance(value, (list, tuple)):
        return _listed(map(brief, value), len(value), "()" if isinstance(value, tuple) else "[]")
    return _number(value, 6)


def _number(value: Any, digits: int = 5) -> str:
    if isinstance(value, (float, complex, np.floating, np.complexfloating)):
        return f"{value:.{digits}g}"
    return str(value) if isinstance(value, np.generic) else repr(value)


def _listed(items: Iterator[str], length: int, brackets: str) -> str:
    shown = [item for item, _ in zip(items, range(_WHOLE))]
    left = [f"… ({length} in all)"] if length > len(shown) else []
    return brackets[0] + ", ".join(shown + left) + brackets[1]


def _array(value: np.ndarray) -> str:
    if not value.size:
        return f"[] (shape {value.shape})"
    if value.size <= _WHOLE:
        return _nested(value)
    flat = value.reshape(-1)
    ends = [*map(_number, flat[:_ENDS]), "…", *map(_number, flat[-_ENDS:])]
    size = " × ".join(map(str, value.shape))
    return f"[{', '.join(ends)}] ({size} {_range(flat)})"


def _nested(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return _number(value)
    return f"[{', '.join(map(_nested, value))}]" if value.ndim else _number(value[()])


def _range(flat: np.ndarray) -> str:
    if flat.dtype.kind not in "iuf":
        return "numbers" if flat.dtype.kind == "c" else "entries"
    finite = flat[np.isfinite(flat)]
    odd = f", {flat.size - finite.size} not finite" if finite.size < flat.size else ""
    return f"numbers from {_number(finite.min())} to {_number(finite.max())}{odd}" if finite.size else f"numbers{odd}"


class _Leaf(typing.NamedTuple):
    """An array somewhere in a result: the way to it, whether a dictionary holds it, and the name of its first axis."""

    path: tuple[str, ...]
    keyed: bool
    axis: str
    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Columns that have their rows in common: arrays with the same first axis, or the results in a tuple."""

    axis: str
    index: Sequence[Any]
    columns: dict[str, Any]


def _leaves(of: Any, path: tuple[str, ...] = (), keyed: bool = False) -> Iterator[_Leaf]:
    hints = typing.get_type_hints(type(of))
    for field in dataclasses.fields(of):
        if field.name != "made":
            yield from _below((*path, field.name), keyed, getattr(of, field.name), hints[field.name])


def _below(path: tuple[str, ...], keyed: bool, value: Any, hint: Any) -> Iterator[_Leaf]:
    if isinstance(value, Mapping):
        inner = next((typing.get_args(h)[1] for h in _kinds(hint) if typing.get_origin(h) is dict), None)
        for key, item in value.items():
            yield from _below((*path, str(key)), True, item, inner)
    elif is_result(value):
        yield from _leaves(value, path, keyed)
    elif isinstance(value, np.ndarray) and value.ndim:
        yield _Leaf(path, keyed, _first_axis(hint, value.ndim), value)


def _kinds(hint: Any) -> tuple[Any, ...]:
    return (hint, *typing.get_args(hint))


def is_result(value: Any) -> bool:
    """Whether a value is a result: a dataclass, not its type, that knows what to show."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(type(value), "_shown")


def _first_axis(hint: Any, ndim: int) -> str:
    # jaxtyping's annotations name the axes; one with a star stands for any number of them, also for none.
    dims = next((h.dim_str.split() for h in _kinds(hint) if hasattr(h, "dim_str")), [])
    starred = [dim for dim in dims if dim.startswith(("*", "..."))]
    if starred and ndim == len(dims) - 1:
        dims = [dim for dim in dims if dim not in starred]
    name = dims[0].lstrip("*") if dims else ""
    return name if name.isidentifier() and name != "shape" else ""


def _across(of: Any, leaves: Sequence[_Leaf], limit: int) -> list[_Rows]:
    """The arrays, those of one first axis together; those with more than `limit` numbers in a row are left out."""
    short = Counter(" ".join(leaf.path[leaf.keyed :]) for leaf in leaves)
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for leaf in leaves:
        size = math.prod(leaf.value.shape[1:])
        if not 0 < size <= limit:
            continue
        name = " ".join(leaf.path[leaf.keyed :])
        if short[name] > 1:
            name = " ".join(leaf.path)
        columns = found.setdefault((leaf.axis or of._axis, len(leaf.value)), {})
        if leaf.value.ndim == 1:
            columns[name] = leaf.value
            continue
        for place in np.ndindex(leaf.value.shape[1:]):
            columns[f"{name}[{', '.join(map(str, place))}]"] = leaf.value[(slice(None), *place)]
    return [_rows(axis, length, columns) for (axis, length), columns in found.items()]


def _rows(axis: str, length: int, columns: dict[str, Any]) -> _Rows:
    # Layers are counted from 1, as everywhere; anything else as Python counts.
    first = int(axis == "layers")
    return _Rows("layer" if first else axis, range(first, first + length), columns)


def _records(name: str, value: Any) -> _Rows | None:
    """Results in a tuple, a list or a dictionary, one to a row, if they are of one type."""
    items = list(value.values() if isinstance(value, Mapping) else value) if _is_container(value) else []
    if not items or not is_result(items[0]) or len(set(map(type, items))) > 1:
        return None
    fields = [field.name for field in dataclasses.fields(items[0]) if field.name != "made"]
    columns = {field: [getattr(item, field) for item in items] for field in fields}
    if any(isinstance(cell, np.ndarray) or is_result(cell) for column in columns.values() for cell in column):
        return None
    return _Rows(name, list(value) if isinstance(value, Mapping) else range(len(items)), columns)


def _is_container(value: Any) -> bool:
    return isinstance(value, (Mapping, tuple, list))


def to_html(of: Any) -> str:
    """The result as HTML: a table of what it shows, and one of the arrays that belong side by side."""
    shown = dict(of._shown())
    leaves = [leaf for leaf in _leaves(of) if leaf.path[0] in shown or " ".join(leaf.path[leaf.keyed :]) in shown]
    beside = [rows for rows in _across(of, leaves, 1) if len(rows.columns) > 1 and 1 < len(rows.index) <= _ROWS]
    placed = {name.partition("[")[0] for rows in beside for name in rows.columns}
    values = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
    lines = [
        f"<tr>{_cell(name, 'th')}{_value(text, values.get(name))}</tr>"
        for name, text in shown.items()
        if name not in placed and not _is_placed(name, values.get(name), placed)
    ]
    first = [f"<table><tbody>{''.join(lines)}</tbody></table>"] if lines else []
    title = f"<strong>{html.escape(type(of).__name__)}</strong>"
    return "".join(["<div>", title, *first, *map(_grid, beside), "</div>"])


def _is_placed(name: str, value: Any, placed: set[str]) -> bool:
    keyed = isinstance(value, Mapping) and bool(value)
    return keyed and all(placed & {str(key), f"{name} {key}"} for key in value)


def _value(text: str, value: Any) -> str:
    # A result may have its own words for a field; only what it leaves to us is laid out further.
    if value is None or text != brief(value):
        return _cell(text)
    if isinstance(value, str):
        return _cell(value)
    if is_result(value):
        return f"<td>{to_html(value)}</td>"
    rows = _records("", value)
    return f"<td>{_grid(rows)}</td>" if rows and len(rows.index) <= _ROWS else _cell(text)


def _grid(rows: _Rows) -> str:
    head = "".join(_cell(name, "th") for name in (rows.axis, *rows.columns))
    body = "".join(
        f"<tr>{_cell(str(index), 'th')}{''.join(_cell(_entry(column[i])) for column in rows.columns.values())}</tr>"
        for i, index in enumerate(rows.index)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _entry(value: Any) -> str:
    return value if isinstance(value, str) else brief(value)


def _cell(text: str, tag: str = "td") -> str:
    return f'<{tag} style="text-align: left">{html.escape(text)}</{tag}>'


def to_frame(of: Any, rows: str | None) -> Any:
    """The pandas data frame of `Result.to_pandas`."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas.") from None
    fields = {field.name: getattr(of, field.name) for field in dataclasses.fields(of) if field.name != "made"}
    records = (_records(name, value) for name, value in fields.items())
    found = [*_across(of, list(_leaves(of)), _WIDE), *filter(None, records)]
    if not found and rows is None:
        return pandas.DataFrame([{name: value for name, value in fields.items() if not is_result(value)}])
    names = [table.axis for table in found]
    if rows is None:
        chosen = max(found, key=lambda table: (table.axis == "layer", len(table.columns)))
    elif rows in names:
        chosen = found[names.index(rows)]
    else:
        raise ValueError(
            f"rows is {_check.brief(rows)}, but must be one of {', '.join(names) or 'none: it has no arrays'}."
        )
    return pandas.DataFrame(chosen.columns, index=pandas.Index(chosen.index, name=chosen.axis or None))
