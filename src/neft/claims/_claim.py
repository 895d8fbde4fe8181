"""What a claim is, and what its test returns."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .. import _check

Level = Literal["quick", "full"]

LEVELS = ("quick", "full")
"""Seconds on a subset; minutes on the full data."""

VERDICTS = ("holds", "corrected", "refuted", "depends")

FAILED = "failed"
"""Stands where a verdict would, when the test could not give one."""

# An id names a file, on any system.
_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a test measured: one verdict, one sentence, and the numbers behind them.

    `correction` is the statement that does hold, and goes with the verdict "corrected"; `data` is the checksum of
    the data set that was used, if one was.

    >>> Measurement(verdict="holds", summary="Both sides agree.", values={"error": 1e-12}).verdict
    'holds'
    """

    verdict: str
    summary: str
    values: dict[str, float] = field(default_factory=dict)
    correction: str | None = None
    data: str | None = None

    def __post_init__(self):
        _check.one_of("verdict", self.verdict, VERDICTS)
        for name in ("summary", "correction", "data"):
            if not isinstance(value := getattr(self, name), str) and (value is not None or name == "summary"):
                raise ValueError(f"{name} is {_check.brief(value)}, but must be a text.")
        if not isinstance(self.values, Mapping):
            raise ValueError(f"values is {_check.brief(self.values)}, but must be a dictionary of numbers.")
        if not self.summary.strip():
            raise ValueError("summary is empty, but must be a sentence that says what was measured.")
        if (self.verdict == "corrected") != (self.correction is not None):
            raise ValueError(
                f"verdict is {_check.brief(self.verdict)} and correction is {self.correction!r}, "
                "but a correction goes with the verdict 'corrected' and only with it."
            )
        object.__setattr__(self, "values", {str(name): _number(name, value) for name, value in self.values.items()})
        wrong = [name for name, value in self.values.items() if math.isnan(value)]
        if wrong:
            raise ValueError(f"values holds NaN for {', '.join(wrong)}, which measures nothing.")


def _number(name: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"values hold {_check.brief(value)} for {name}, but must hold numbers.") from None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a source and the function that tests it.

    `source` is what states it ("action note A", "Sun, Nielsen 2017", "lecture"; docs/theory has what they say),
    `equation` says where in it, and `test` takes the level and returns a `Measurement`.
    """

    id: str
    source: str
    equation: str
    statement: str
    test: Callable[[Level], Measurement]

    def __post_init__(self):
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ValueError(
                f"id is {_check.brief(self.id)}, but must be small letters and digits joined by '.' or '-'."
            )
        for name in ("source", "equation", "statement"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise ValueError(f"{name} of the claim {self.id!r} is empty, but must be a text.")
