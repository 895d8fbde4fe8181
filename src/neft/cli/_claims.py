"""`neft claims`: the ledger."""

from typing import Annotated

import typer

from ._app import FAILS
from ._emit import emit
from ._options import Output


def claims(
    output: Output,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims to test (default: all).")] = None,
    level: Annotated[str, typer.Option("--level", help="quick (seconds) or full (minutes, on full data).")] = "quick",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the outcomes of level full in the package.")] = False,
) -> None:
    """Test what the sources of the theories claim, and print the verdicts: holds, corrected, refuted or depends.

    The exit code is 1 when a test gave no verdict, or another one than the full test did.

    Example: neft claims --level full --out ledger.json
    """
    from .. import claims

    if keep and level != "full":
        raise ValueError(f"--keep goes with --level full, but the level is {level!r}.")
    ledger = claims.check(ids or None, level=level)
    differing = claims.contradictions(ledger)
    if keep:
        for outcome in ledger.outcomes:
            if outcome not in ledger.failed:
                claims.save_full(outcome)
    emit(ledger, output)
    if ledger.failed or differing:
        raise typer.Exit(FAILS)
