"""How an average says that it missed its tolerance."""

import sys
import warnings


class AccuracyWarning(UserWarning):
    """An average did not reach the tolerance it was asked for; the message says by how much."""


def warn_missed(what: str, error: float, tolerance: float) -> None:
    """Warn that `what` has an estimated relative error larger than the tolerance."""
    message = f"{what} missed its tolerance: estimated relative error {error:.1e}, asked for {tolerance:.1e}."
    # The warning should point at the user's line, however many of our functions lie between.
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("neft", "jaxtyping"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, AccuracyWarning, stacklevel=depth)
