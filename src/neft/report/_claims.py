"""The ledger of claims."""

from .. import claims as ledger
from ._html import paragraph, table
from ._page import Context
from ._tables import Table


def claims(context: Context) -> str:
    """Every registered claim, with the verdict of its kept full test; running them all takes minutes."""
    kept = {outcome.id: outcome for outcome in ledger.full_outcomes()}
    rows = []
    for claim in ledger.ledger():
        outcome = kept.get(claim.id)
        verdict = outcome.verdict if outcome else "not run yet"
        measured = (outcome.correction or outcome.summary) if outcome else f"neft claims {claim.id}"
        rows.append((claim.id, claim.equation, claim.statement, verdict, measured))
    columns = ("claim", "where", "statement", "verdict", "measured, or the command that does it")
    return paragraph(
        "What the seeds claim, and what running the tests said: holds, corrected, refuted or depends. "
        "The command neft claims measures them again."
    ) + table(Table(title="Claims", columns=columns, rows=tuple(rows)))
