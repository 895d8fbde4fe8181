"""Public functions hold their callers to their signatures: what is no network, no key, no path gets one sentence.

The annotations say what an argument is, so nothing is said twice. Numbers, arrays and names have ranges and shapes,
which the functions check themselves with `_check.py`.
"""

import collections.abc
import functools
import inspect
import os
import types
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from . import _check

P = ParamSpec("P")
R = TypeVar("R")

Checked = Callable[[str, Any], Any]

_EXAMPLES = {
    "Network": "a network such as neft.MLP((3, 8, 1))",
    "MLP": "a network such as neft.MLP((3, 8, 1))",
    "Dataset": "a data set such as neft.data.load gives",
    "Statistics": "what neft.width.statistics gives",
    "Estimates": "what neft.ensemble.estimate gives",
    "PhaseDiagram": "what neft.width.phase gives",
    "Density": "what neft.width.density gives",
    "Metric": "a metric such as neft.fisher.linear_layer gives",
    "Stops": "what neft.action.stops_by_size gives",
    "AveragesCard": "what neft.describe.averages gives",
    "Ledger": "what neft.claims.check gives",
    "GradientTransformation": "an optax optimizer such as optax.adam(0.001)",
    "Figure": "a matplotlib figure",
}


def public(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with one sentence for arguments that are not of the kinds that its annotations name.

    >>> @public
    ... def half(x: float) -> float:
    ...     return x / 2
    >>> half("three")
    Traceback (most recent call last):
    ValueError: x is 'three', but must be a real number.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python says what is missing or unknown
        checks = _checks(function)
        for name, value in bound.arguments.items():
            # A default is what it is, None included.
            if name in checks and value is not signature.parameters[name].default:
                bound.arguments[name] = checks[name](name, value)
        return function(*bound.args, **bound.kwargs)

    return run


@functools.cache
def _checks(function: Callable) -> dict[str, Checked]:
    # On the first call, not before: names in annotations may not be imported yet.
    found = {}
    for name, hint in inspect.get_annotations(function).items():
        if name == "return":
            continue
        if name == "key" and hint is not Any:
            found[name] = _check.key
            continue
        if isinstance(hint, str):
            hint = _resolved(function, hint)
        check = _check.floating if name == "dtype" else _check_of(hint)
        if check is not None:
            found[name] = check
    return found


def _resolved(function: Callable, hint: str) -> Any:
    import neft

    # Annotations in quotes keep JAX out of an import: they name things as "neft.MLP".
    try:
        one = types.SimpleNamespace(__annotations__={"argument": hint})
        return typing.get_type_hints(one, {"neft": neft, **inspect.unwrap(function).__globals__})["argument"]
    except NameError:
        return Any


def _check_of(hint: Any) -> Checked | None:
    """The check of an annotation; None where it says nothing that can be held against a value."""
    if _is_union(hint):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        if len(kinds) > 1:
            return _check_of_several(kinds)
        hint = kinds[0]
    if hint in _NUMBERS:
        return _NUMBERS[hint]
    if getattr(hint, "array_type", None) is np.ndarray:
        axes = hint.dim_str.split()
        fixed = None if any(axis[0] in "*." for axis in axes) else len(axes)
        return functools.partial(_check.array, ndim=fixed, dtype=None)
    return _check_of_several([hint])


def _check_of_several(kinds: list[Any]) -> Checked | None:
    if str in kinds and any(_origin(kind) is collections.abc.Callable for kind in kinds):
        return None  # an activation, which is looked up by its name
    path = any(_origin(kind) is os.PathLike for kind in kinds)
    found = [_kind(kind) for kind in kinds if not (path and kind is str)]
    if any(one is None for one in found):
        return None
    understood = [one for one in found if one is not None]
    words = " or ".join(dict.fromkeys(one[1] for one in understood))

    def check(argument: str, value: Any) -> Any:
        if not any(fits(value) for fits, _ in understood):
            raise ValueError(f"{argument} is {_check.brief(value)}, but must be {words}.")
        return bool(value) if isinstance(value, np.bool_) else value

    return check


def _kind(hint: Any) -> tuple[Callable[[Any], bool], str] | None:
    # What fits an annotation, and how it is called.
    origin = _origin(hint)
    if origin in _KINDS:
        return _KINDS[origin]
    if isinstance(hint, type) and (hint.__module__.startswith("neft.") or hint.__name__ in _EXAMPLES):
        return lambda value: isinstance(value, hint), _EXAMPLES.get(hint.__name__, f"a {hint.__name__}")
    return None


def _origin(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value)) and "\0" not in str(value)


def _is_list(value: Any) -> bool:
    if isinstance(value, (collections.abc.Mapping, collections.abc.Set, bytes)):
        return False
    try:
        len(value), iter(value)
    except TypeError:
        return False
    return True


def _is_iterable(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return True


_LARGEST = 2**32
_NUMBERS: dict[Any, Checked] = {int: functools.partial(_check.integer, at_most=_LARGEST), float: _check.real}
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, (bool, np.bool_)), "True or False"),
    str: (lambda value: isinstance(value, str), "a text"),
    os.PathLike: (_is_path, "the path of a file or folder"),
    collections.abc.Callable: (callable, "a function"),
    collections.abc.Sequence: (_is_list, "a list"),
    tuple: (_is_list, "a list"),
    collections.abc.Iterable: (_is_iterable, "a list"),
    collections.abc.Mapping: (lambda value: isinstance(value, collections.abc.Mapping), "a dictionary"),
    dict: (lambda value: isinstance(value, collections.abc.Mapping), "a dictionary"),
}
