"""How an average says that it missed its tolerance."""

from ._warn import warn


class AccuracyWarning(UserWarning):
    """An average did not reach the tolerance it was asked for; the message says by how much."""


def warn_missed(what: str, error: float, tolerance: float) -> None:
    """Warn that `what` has an estimated relative error larger than the tolerance."""
    message = f"{what} missed its tolerance: estimated relative error {error:.1e}, asked for {tolerance:.1e}."
    warn(message, AccuracyWarning)
