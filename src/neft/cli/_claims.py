"""`neft claims`: the ledger."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ._app import FAILS
from ._emit import emit
from ._options import Output

if TYPE_CHECKING:
    from ..claims.results import Ledger


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written(Output):
    """Where the ledger goes; with .html as a page with filters."""

    files: ClassVar[tuple[str, ...]] = (".html", *Output.files)


def claims(
    output: Written,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims to test (default: all).")] = None,
    level: Annotated[str, typer.Option("--level", help="quick (seconds) or full (minutes, on full data).")] = "quick",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the outcomes of level full in the package.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Test nothing: show the full tests that were kept.")] = False,
) -> None:
    """Test what the sources of the theories claim, and print the verdicts: holds, corrected, refuted or depends.

    With --out claims.html they are a page with filters, beside the full tests that were kept. The exit code is 1 when
    a test gave no verdict, or another one than the full test did.

    Example: neft claims --level full --out ledger.json

    Example: neft claims --kept --out claims.html
    """
    from .. import claims

    if keep and level != "full":
        raise ValueError(f"--keep goes with --level full, but the level is {level!r}.")
    if kept and (ids or keep or level != "quick"):
        raise ValueError("--kept tests nothing, so neither names nor --level nor --keep can be given with it.")
    ledger = _kept() if kept else claims.check(ids or None, level=level)
    differing = () if kept else claims.contradictions(ledger)
    if keep:
        for outcome in ledger.outcomes:
            if outcome not in ledger.failed:
                claims.save_full(outcome)
    if output.out is not None and output.out.suffix == ".html":
        from ..report import write_claims

        count = write_claims(output.out, None if kept else ledger)
        if not output.quiet:
            typer.echo(f"{output.out}: {count} claims")
        output = dataclasses.replace(output, out=None, quiet=output.quiet or not output.json)
    emit(ledger, output)
    if ledger.failed or differing:
        raise typer.Exit(FAILS)


def _kept() -> "Ledger":
    from .. import Made, claims

    return claims.results.Ledger(
        level="full", outcomes=claims.full_outcomes(), made=Made.by("neft.claims.full_outcomes")
    )
