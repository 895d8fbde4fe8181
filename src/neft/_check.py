"""Where user input is checked.

Each function returns the value in the form the code works with, or raises a ValueError of one sentence that
names the argument, the value and what is allowed.
"""

import difflib
import functools
import inspect
import math
import operator
import os
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
            f"{argument} is {brief(value)}, but must be one of {', '.join(allowed)}{closest(brief(value), allowed)}."
        )
    return value


HIGHEST_ORDER = 503
"""Of a power series: exact coefficients of higher orders take minutes."""


def integer(argument: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """`value` as a Python int in the given range (bools, fractions and lists are refused)."""
    try:
        if isinstance(value, (bool, np.bool_)) or getattr(value, "shape", ()) != ():
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{argument} is {brief(value)}, but must be a whole number.") from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{argument} is {brief(number)}, but must be at least {at_least}.")
    if at_most is not None and number > at_most:
        raise ValueError(f"{argument} is {brief(number)}, but must be at most {at_most}.")
    return number


def real(argument: str, value: Any, *, at_least: float | None = None, above: float | None = None) -> float:
    """`value` as a finite Python float, optionally bounded from below."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or getattr(value, "shape", ()) != ():
            raise TypeError
        number = float(value)
    except Exception:  # whatever its __float__ raises
        raise ValueError(f"{argument} is {brief(value)}, but must be a real number.") from None
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
    """`value` as a finite NumPy array of the given dtype (None: its own), axes and shape (None: any length)."""
    try:
        result = as_array(argument, value)
        if result.dtype.kind not in "biuf":
            raise TypeError
        dtype = result.dtype if dtype is None else dtype
        if np.dtype(dtype).kind in "iu" and result.dtype.kind == "f" and not (result == np.round(result)).all():
            raise ValueError(f"{argument} must hold whole numbers, got {brief(value)}.")
        result = result.astype(dtype, copy=False)
    except (TypeError, OverflowError):
        raise ValueError(f"{argument} must be an array of real numbers, got {brief(value)}.") from None
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


def function(argument: str, value: Any, *given: str) -> None:
    """Refuse what cannot be called with these arguments, as far as that can be known without a call."""
    try:
        inspect.signature(value).bind(*given)
    except TypeError:
        raise ValueError(f"{argument} is {brief(value)}, but must be a function of {' and '.join(given)}.") from None
    except ValueError:  # its signature is not known
        if isinstance(value, type):
            raise ValueError(f"{argument} is {brief(value)}, a class, but must be a function.") from None


def finite(what: str, values: Any) -> None:
    """Refuse a result that left the range of numbers on the way, from arguments that are finite themselves."""
    if not np.isfinite(values).all():
        raise ValueError(f"{what} is not finite: some of the arguments are too large.")


def key(argument: str, value: Any) -> Any:
    """`value` if it is one JAX key, of either kind, or a traced one; a whole number is a seed and no key."""
    import jax

    kind, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if isinstance(value, jax.Array | np.ndarray) and kind is not None:
        if jax.numpy.issubdtype(kind, jax.dtypes.prng_key) and shape == ():
            return value
        if kind == np.uint32 and shape == (2,):
            return value
    number = value if type(value) is int and 0 <= value < 2**32 else 0
    raise ValueError(f"{argument} is {brief(value)}, but must be one JAX key such as jax.random.key({number}).")


def floating(argument: str, value: Any) -> np.dtype:
    """The type that `value` names, float32 or float64."""
    try:
        # JAX's types, such as jnp.float32, are neither types nor NumPy's.
        if isinstance(value, (type, str, np.dtype)) or (hasattr(value, "dtype") and not hasattr(value, "shape")):
            found = np.dtype(value)
            if found in (np.dtype(np.float32), np.dtype(np.float64)):
                return found
    except TypeError:
        pass
    raise ValueError(f"{argument} is {brief(value)}, but must be float32 or float64.")


def memory(what: str, count: int, *, itemsize: int = 8) -> None:
    """Refuse what would not fit into this machine's memory, before the system ends the process over it."""
    have, need = machine_memory(), count * itemsize
    if need > have:
        raise ValueError(
            f"{what} would take {need:.2e} bytes, but this machine has {have:.2e} bytes of memory: take smaller ones."
        )


@functools.cache
def machine_memory() -> float:
    """Bytes of memory that this machine has, as far as that is known."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return math.inf


def as_array(argument: str, value: Any) -> np.ndarray:
    """`value` as a NumPy array of whatever it holds."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError):  # a ragged list
        raise ValueError(f"{argument} must be an array of real numbers, got {brief(value)}.") from None
    except Exception as error:  # what another library thinks of being read
        raise ValueError(f"{argument} cannot be read as an array: {reason(error)}.") from None


def reason(error: BaseException) -> str:
    """What an exception of another library says, as a part of a sentence: the first one of its first line."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".:")


def brief(value: Any) -> str:
    """How a value looks, on one short line.

    >>> brief(np.ones((30, 30)))
    'an array of shape (30, 30)'
    """
    if isinstance(value, int) and abs(value) >= 10**60:
        return f"{'-' * (value < 0)}1e{math.log10(abs(value)):.0f}"
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) > 60 and hasattr(value, "dtype") and (shape := getattr(value, "shape", ())) != ():
        return f"an array of shape {tuple(shape)}"
    return text if len(text) <= 60 else text[:57] + "..."
