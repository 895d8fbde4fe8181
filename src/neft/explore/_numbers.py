"""Numbers on their way to the page: plain, short, and nothing that JSON does not know."""

import math
from typing import Any

import numpy as np


def short(values: Any, digits: int = 7) -> Any:
    """An array as lists of numbers with that many digits, None for what is not finite.

    >>> short(np.array([1 / 3, np.inf]))
    [0.3333333, None]
    """
    if isinstance(values, np.ndarray):
        return short(values.tolist(), digits)
    if isinstance(values, list | tuple):
        return [short(value, digits) for value in values]
    if isinstance(values, float):
        return float(f"{values:.{digits}g}") if math.isfinite(values) else None
    return values
