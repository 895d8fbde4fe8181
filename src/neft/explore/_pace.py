"""How fast a typed activation may change: averages of one that changes too fast take all memory, or come out wrong."""

import functools
import re

import numpy as np

from .. import activation
from .._kinks import derivatives
from ._limits import FINEST, LARGEST, MOST_CHANGES

_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_REACH, _PLACES = 10.0, 4001
_ROUNDING = 1e-9  # of the largest value: below it a sign is an accident


def refuse_large_numbers(name: str, text: str) -> None:
    """Refuse a name or an expression that holds a number which is too large; nothing is computed for it.

    >>> refuse_large_numbers("activation", "sin(1e9*z)")
    Traceback (most recent call last):
    ValueError: activation is 'sin(1e9*z)', but the number 1e9 in it must be at most 1000.
    """
    for number in _NUMBER.findall(text):
        if float(number) > LARGEST:
            raise ValueError(f"{name} is {_short(text)}, but the number {number[:20]} in it must be at most {LARGEST}.")


def refuse_fast_changes(name: str, text: str) -> None:
    """Refuse an activation whose averages cannot be resolved in the memory and time of a page."""
    changes, length = _pace(text)
    if changes > MOST_CHANGES:
        raise ValueError(
            f"{name} is {_short(text)}, but it or one of its derivatives changes sign {changes} times or more in "
            f"|z| ≤ {_REACH:g}, where at most {MOST_CHANGES} changes can be resolved."
        )
    if length < FINEST:
        raise ValueError(
            f"{name} is {_short(text)}, but it changes within {length:.1g} of z, and must take at least {FINEST:g} to "
            "be resolved."
        )


@functools.lru_cache(maxsize=256)
def _pace(text: str) -> tuple[int, float]:
    """How often signs change, and over which distance the function changes its shape."""
    found = activation(text)
    # Uneven places, so that no frequency is in step with them.
    step = 2 * _REACH / (_PLACES - 1)
    uneven = np.random.default_rng(0).uniform(-0.5, 0.5, _PLACES)
    with np.errstate(all="ignore"):
        at = derivatives(found.function, np.linspace(-_REACH, _REACH, _PLACES) + step * uneven)[:3]
    size = np.abs(at[np.isfinite(at)]).max(initial=0.0)
    kept = [row[np.isfinite(row) & (np.abs(row) > _ROUNDING * size)] for row in at]
    return max(int(np.count_nonzero(np.diff(np.sign(row)))) for row in kept), found.length


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
