"""How a warning finds the line it is about."""

import sys
import warnings


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, however many of our functions lie between."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("neft", "jaxtyping"):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
