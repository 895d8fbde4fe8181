"""The results of the full tests, kept as one file per claim inside the package."""

import os
from pathlib import Path

from .._public import public
from .._result import load
from ._claim import FAILED
from ._outcome import Ledger, Outcome

_FOLDER = Path(__file__).parent / "results"


@public
def save_full(outcome: Outcome, *, folder: str | os.PathLike[str] = _FOLDER) -> Path:
    """The file that now holds `outcome`, in place of the claim's earlier full result.

    The file carries the command, the checksum of the data and the versions. A quick or failed outcome is refused.
    """
    if outcome.level != "full" or outcome.verdict == FAILED:
        raise ValueError(
            f"the outcome of {outcome.id!r} is {outcome.verdict!r} at level {outcome.level!r}, "
            "but only a verdict at level 'full' is kept."
        )
    target = Path(folder) / f"{outcome.id}.json"
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise ValueError(f"folder is {str(folder)!r}, which cannot be made: {error.strerror or error}.") from None
    outcome.save(target)
    return target


@public
def full_outcomes(*, folder: str | os.PathLike[str] = _FOLDER) -> tuple[Outcome, ...]:
    """The kept full results, sorted by id.

    >>> all(outcome.level == "full" for outcome in full_outcomes())
    True
    """
    outcomes = []
    for path in sorted(Path(folder).glob("*.json")):
        outcome = load(path)
        if not isinstance(outcome, Outcome) or outcome.id != path.stem:
            raise ValueError(f"{str(path)!r} is not the outcome of the claim {path.stem!r}.")
        outcomes.append(outcome)
    return tuple(outcomes)


@public
def contradictions(ledger: Ledger, *, folder: str | os.PathLike[str] = _FOLDER) -> tuple[Outcome, ...]:
    """The outcomes of `ledger` whose verdict is not that of the claim's kept full result (failed ones left out)."""
    kept = {outcome.id: outcome.verdict for outcome in full_outcomes(folder=folder)}
    given = [outcome for outcome in ledger.outcomes if outcome.verdict != FAILED]
    return tuple(outcome for outcome in given if kept.get(outcome.id, outcome.verdict) != outcome.verdict)
