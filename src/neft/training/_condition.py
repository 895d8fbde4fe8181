"""How a kernel that cannot be inverted says so."""

import sys
import warnings


class ConditionWarning(UserWarning):
    """A kernel is singular to working precision; the message says what was left out."""


def warn_singular(what: str, left_out: int, total: int, cutoff: float) -> None:
    """Warn that the pseudo-inverse of `what` leaves directions out."""
    message = (
        f"{what} is singular to working precision: {left_out} of its {total} eigenvalues are below {cutoff:.0e} of the "
        "largest, and their directions are left as they were before training."
    )
    # The warning should point at the user's line, however many of our functions lie between.
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("neft", "jaxtyping"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, ConditionWarning, stacklevel=depth)
