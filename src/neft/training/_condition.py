"""How a kernel that cannot be inverted says so."""

from .._warn import warn


class ConditionWarning(UserWarning):
    """A kernel is singular to working precision; the message says what was left out."""


def warn_singular(what: str, left_out: int, total: int, cutoff: float) -> None:
    """Warn that the pseudo-inverse of `what` leaves directions out."""
    message = (
        f"{what} is singular to working precision: {left_out} of its {total} eigenvalues are below {cutoff:.0e} of the "
        "largest, and their directions are left as they were before training."
    )
    warn(message, ConditionWarning)
