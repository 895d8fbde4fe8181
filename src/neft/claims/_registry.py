"""The registry of claims, and the one loop that runs them."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import cast

from .. import _check
from .._progress import track
from .._result import Made
from ._claim import FAILED, LEVELS, Claim, Level, Measurement
from ._older import current_id
from ._outcome import Ledger, Outcome

Test = Callable[[Level], Measurement]


class Registry:
    """A set of claims with distinct ids. The package has one; a test makes its own.

    >>> registry = Registry()
    >>> @registry.claim(id="sum", source="a book", equation="1", statement="1 + 1 = 2")
    ... def test(level):
    ...     return Measurement(verdict="holds", summary="Counted.", values={"sum": 1 + 1})
    >>> registry.check().outcomes[0].verdict
    'holds'
    """

    def __init__(self):
        self._claims: dict[str, Claim] = {}

    def claim(self, *, id: str, source: str, equation: str, statement: str) -> Callable[[Test], Test]:
        """Decorator that registers a test function under an id; the function itself comes back unchanged."""

        def register(test: Test) -> Test:
            if id in self._claims:
                raise ValueError(f"id is {_check.brief(id)}, but a claim of that id is registered already.")
            self._claims[id] = Claim(id=id, source=source, equation=equation, statement=statement, test=test)
            return test

        return register

    def ledger(self) -> tuple[Claim, ...]:
        """All claims, sorted by id."""
        return tuple(self._claims[id] for id in sorted(self._claims))

    def check(self, ids: Iterable[str] | None = None, *, level: str = "quick") -> Ledger:
        """The outcomes of the claims named in `ids` (None: of all), tested at the given level.

        A test that raises gives the outcome "failed" with the reason, and the others still run.
        """
        level = cast(Level, _check.one_of("level", level, LEVELS))
        claims = self.ledger() if ids is None else self._named(ids)
        outcomes = tuple(_run(claim, level) for claim in track(claims, "claims"))
        names = [claim.id for claim in claims]
        return Ledger(
            level=level,
            outcomes=outcomes,
            made=Made.by("neft.claims.check", specification={"ids": names, "level": level}),
        )

    def _named(self, ids: Iterable[str]) -> tuple[Claim, ...]:
        ids = tuple(ids)
        for id in ids:
            if not isinstance(id, str):
                raise ValueError(f"ids hold {_check.brief(id)}, but must hold names of claims.")
        wanted = {id if id in self._claims else current_id(id) for id in ids}
        unknown = sorted(wanted - self._claims.keys())
        if unknown:
            known = _check.closest(unknown[0], self._claims) if self._claims else ": the ledger is empty"
            raise ValueError(f"no claim has the id {_check.brief(unknown[0])}{known}.")
        return tuple(self._claims[id] for id in sorted(wanted))


def _run(claim: Claim, level: Level) -> Outcome:
    start = time.perf_counter()
    try:
        measured = claim.test(level)
        if not isinstance(measured, Measurement):
            raise TypeError(f"the test returned a {type(measured).__name__} instead of a Measurement")
        verdict, summary, values = measured.verdict, measured.summary, measured.values
        correction, data = measured.correction, measured.data
    except Exception as error:  # one broken test must not hide the verdicts of the others
        reason = " ".join(str(error).split())
        verdict, summary, values, correction, data = FAILED, f"{type(error).__name__}: {reason}", {}, None, None
    return Outcome(
        id=claim.id,
        source=claim.source,
        equation=claim.equation,
        statement=claim.statement,
        level=level,
        verdict=verdict,  # type: ignore[arg-type]
        summary=summary,
        values=values,
        correction=correction,
        data=data,
        seconds=time.perf_counter() - start,
        command=f"neft claims {claim.id} --level {level}",
        made=Made.by("neft.claims.check", specification={"ids": [claim.id], "level": level}),
        date=datetime.now(UTC).date().isoformat(),
    )
