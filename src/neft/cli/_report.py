"""`neft report`: the page."""

from pathlib import Path
from typing import Annotated

import typer

from .._progress import be_quiet
from ._app import FAILS
from ._options import writable


def report(
    out: Annotated[Path, typer.Option("--out", help="The file to write.", metavar="FILE")] = Path("report.html"),
    seed: Annotated[int, typer.Option("--seed", help="Seed of what is random.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing when all goes well.")] = False,
) -> None:
    """Write one self-contained HTML page that shows the library at work.

    Example: neft report --out report.html
    """
    writable("--out", out, (".html", ".htm"))
    be_quiet(quiet)
    from .. import report

    written = report.write(out, seed=seed)
    if not quiet:
        typer.echo(f"{out}: {len(written.sections)} sections in {written.seconds:.1f} s")
    for section in written.failed:
        typer.echo(f"neft: the section {section.title!r} failed: {section.failure}", err=True)
    if written.failed:
        raise typer.Exit(FAILS)
