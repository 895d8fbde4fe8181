"""The ledger of claims."""

from .. import claims as ledger
from ._html import paragraph, table
from ._page import Context
from ._tables import tables


def claims(context: Context) -> str:
    """Every registered claim, tested at the quick level."""
    return paragraph(
        "What the theory claims, and what running the tests says: holds, corrected, refuted or depends."
    ) + ("".join(table(content) for content in tables(ledger.check(level="quick"))))
