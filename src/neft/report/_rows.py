"""Which rows of a long result a table shows, and notes that several tables have."""

SHOWN = 12
"""Rows of a table."""


def spread(count: int, shown: int) -> list[int]:
    # Evenly over an axis, the first and the last included.
    return sorted({round(k * (count - 1) / max(1, shown - 1)) for k in range(shown)})


def which(dense: str | None) -> tuple[str, ...]:
    return () if dense is None else (f"C_b and C_W are those of {dense}.",)
