"""What is said of draws at order 1/width that do not get to the end of training, and from which width on they would."""

from collections.abc import Callable

import numpy as np

from .._warn import warn
from ._finite import ExpansionWarning

TRIED = 8
"""Lost draws that are tried at other widths."""

_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256)


def warn_lost(negative: int, good: np.ndarray, width: float, reaches: Callable[[float], int] | None) -> None:
    """A warning, or an error where no draw is left.

    `reaches(n)` is how many of the first `TRIED` of the lost draws would get to the end at width n.
    """
    lost = int((~good).sum())
    if lost and reaches is not None:
        advice = _advice(width, min(lost, TRIED), reaches)
        if lost == len(good):
            raise ValueError(
                f"of {lost} draws at width {width:g} none gets to the end of training at order 1, because its kernel "
                f"does not stay positive: {advice}"
            )
        message = (
            f"of {len(good)} draws at width {width:g}, {lost} have a kernel in training that is not positive, so "
            f"corrections of order 1/width are not to be trusted: {advice}"
        )
    elif negative:
        message = (
            f"of {len(good)} draws at width {width:g}, {negative} have an initial covariance that is not positive, so "
            "orders beyond 1/width may matter: compare with wider networks."
        )
    else:
        return
    warn(message, ExpansionWarning)


def _advice(width: float, tried: int, reaches: Callable[[float], int]) -> str:
    for factor in _FACTORS:
        if reaches(factor * width) == tried:
            which = "it does" if tried == 1 else f"{tried} of them do"
            return (
                f"take a width of {factor * width:g}, where {which}, or more, fewer steps or a smaller learning rate."
            )
    return f"not even at {_FACTORS[-1]} times that width do they; take fewer steps or a smaller learning rate."
