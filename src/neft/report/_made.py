"""How the page was made."""

from .._result import Made
from ._html import table
from ._page import Context
from ._tables import Table


def made(context: Context) -> str:
    """Command, seed, versions, and how long each section took."""
    versions = Made.by("neft.report.write", key=context.seed).versions
    facts = (("command", context.command), ("seed", str(context.seed)), *versions.items())
    times = tuple((section.title, f"{section.seconds:.2f}") for section in context.before)
    return table(Table(title="Command and versions", columns=("", ""), rows=facts)) + table(
        Table(title="Time", columns=("section", "seconds"), rows=times)
    )
