"""What running a claim gives."""

from typing import Any, Literal

from .._result import Made, Result, result
from ._claim import FAILED
from ._older import current_outcome


@result
class Outcome(Result):
    """One claim, run once: what it states, what was measured, and the verdict.

    `verdict` is one of `VERDICTS`, or "failed" when the test raised; then `summary` is the reason. `data` is the
    checksum of the data set that was used, `command` runs the same test again, and `date` is the day of the test (UTC).
    """

    id: str
    source: str
    equation: str
    statement: str
    level: Literal["quick", "full"]
    verdict: Literal["holds", "corrected", "refuted", "depends", "failed"]
    summary: str
    values: dict[str, float]
    correction: str | None
    data: str | None
    seconds: float
    command: str
    made: Made
    date: str | None = None

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return current_outcome(fields)


@result
class Ledger(Result):
    """The outcomes of one `check`, in the order of their ids."""

    level: Literal["quick", "full"]
    outcomes: tuple[Outcome, ...]
    made: Made

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes whose test gave no verdict."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict == FAILED)
