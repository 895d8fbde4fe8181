"""Where user input is checked.

Each function returns the value in the form the code works with, or raises a ValueError of one sentence that
names the argument, the value and what is allowed.
"""

import difflib
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def closest(name: str, allowed: Iterable[str]) -> str:
    """`" (did you mean 'tanh'?)"` when an allowed name is near, else nothing.

    >>> closest("tahn", ["relu", "tanh"])
    " (did you mean 'tanh'?)"
    """
    near = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def one_of(argument: str, value: Any, allowed: Sequence[str]) -> str:
    """`value` if it is among the allowed names."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"{argument} is {value!r}, but must be one of {', '.join(allowed)}{closest(str(value), allowed)}."
        )
    return value


HIGHEST_ORDER = 503
"""Of a power series: exact coefficients of higher orders take minutes."""


def integer(argument: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """`value` as a Python int in the given range (bools and fractions are refused)."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{argument} is {value!r}, but must be a whole number.") from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{argument} is {number}, but must be at least {at_least}.")
    if at_most is not None and number > at_most:
        raise ValueError(f"{argument} is {number}, but must be at most {at_most}.")
    return number


def real(argument: str, value: Any, *, at_least: float | None = None, above: float | None = None) -> float:
    """`value` as a finite Python float, optionally bounded from below."""
    try:
        if isinstance(value, (bool, np.bool_, str)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{argument} is {_brief(value)}, but must be a real number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{argument} is {number}, but must be finite.")
    if at_least is not None and number < at_least:
        raise ValueError(f"{argument} is {number:g}, but must be at least {at_least:g}.")
    if above is not None and number <= above:
        raise ValueError(f"{argument} is {number:g}, but must be greater than {above:g}.")
    return number


def array(
    argument: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...] | None = None,
    shape: tuple[int | None, ...] | None = None,
    at_least: float | None = None,
    dtype: Any = np.float64,
) -> np.ndarray:
    """`value` as a finite NumPy array of the given dtype, number of axes and shape (None: any length)."""
    try:
        result = _as_array(value)
        if result.dtype.kind not in "biuf":
            raise TypeError
        if np.dtype(dtype).kind in "iu" and result.dtype.kind == "f" and not (result == np.round(result)).all():
            raise ValueError(f"{argument} must hold whole numbers, got {_brief(value)}.")
        result = result.astype(dtype, copy=False)
    except (TypeError, OverflowError):
        raise ValueError(f"{argument} must be an array of real numbers, got {_brief(value)}.") from None
    axes = (ndim,) if isinstance(ndim, int) else ndim
    if axes is not None and result.ndim not in axes:
        wanted = " or ".join(str(n) for n in axes)
        raise ValueError(
            f"{argument} has shape {result.shape}, but must have {wanted} {'axis' if axes == (1,) else 'axes'}."
        )
    if shape is not None and (
        result.ndim != len(shape) or any(want not in (None, have) for have, want in zip(result.shape, shape))
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"{argument} has shape {result.shape}, but must have shape {wanted}.")
    if result.dtype.kind == "f" and not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        position = f" at index {where}" if where else ""
        raise ValueError(f"{argument} holds {float(result[where])}{position}, but must be finite.")
    if at_least is not None and result.size and result.min() < at_least:
        raise ValueError(f"{argument} holds {result.min():g}, but must be at least {at_least:g}.")
    return result


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # a ragged list
        raise TypeError from None


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
