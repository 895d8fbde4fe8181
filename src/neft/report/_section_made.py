"""How the page was made."""

from datetime import UTC, datetime

from .._result import Made
from ..claims import VERDICTS, full_outcomes
from ._html import code, folded, paragraph, table
from ._page import Context
from ._tables import Table


def made(context: Context) -> str:
    """The command that repeats the page, keys, data, versions, and how long each section took."""
    versions = Made.by("neft.report.write", key=context.seed).versions
    facts = [
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("seed", str(context.seed)),
        ("keys", "jax.random.key(seed), and fold_in of it by 1 (draws), 2, 3 and 5 (training), 4 (action)"),
    ]
    if context.subject is not None:
        of = context.of
        facts += [
            ("network", repr(of.net)),
            ("data", f"{of.train.name}, {of.train.preprocessing}"),
            ("checksum of the training examples", of.train.checksum),
        ]
    facts += list(versions.items())
    times = [(section.title, f"{section.seconds:.1f}") for section in context.before]
    times.append(("all", f"{sum(section.seconds for section in context.before):.1f}"))
    return (
        paragraph("This command makes the page again:")
        + code(context.command)
        + _claims()
        + folded(
            "What was used", table(Table(title="What was used", columns=("", ""), rows=tuple(facts)), kind="records")
        )
        + folded("Time", table(Table(title="Time", columns=("section", "seconds"), rows=tuple(times))))
    )


def _claims() -> str:
    # The ledger is about the theories, not about this network: a page of its own, which stands beside this one.
    outcomes = full_outcomes()
    counted = [f"{sum(o.verdict == name for o in outcomes)} {name}" for name in VERDICTS]
    return (
        f"<p>What the sources of these theories state was tested, {len(outcomes)} claims ({', '.join(counted)}): "
        '<a href="claims.html">claims.html</a>, which <code>neft claims --kept --out claims.html</code> writes.</p>'
    )
