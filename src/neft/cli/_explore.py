"""`neft explore`: the page to play with."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ._options import writable


def explore(
    port: Annotated[
        int | None,
        typer.Option("--port", help="Where to listen on 127.0.0.1 (default: a free one).", show_default=False),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    static: Annotated[
        Path | None,
        typer.Option(
            "--static", help="Write one file that needs no server instead.", metavar="FILE", show_default=False
        ),
    ] = None,
) -> None:
    """Open a page to play with: sliders for a network, and what finite width does to it, at once.

    The server listens on this machine alone and answers only the address that it prints. Ctrl-C ends it.

    Example: neft explore

    Example: neft explore --static lecture.html
    """
    writable("--static", static, (".html", ".htm"))
    if "jax" not in sys.modules:
        # Most of what a new activation takes is compilation. The compiler reads this when it starts.
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
    from .. import explore

    if static is not None:
        written = explore.write(static)
        typer.echo(f"{static}: {written / 1e6:.1f} MB")
        return
    explore.serve(port=port, browser=browser, say=lambda line: print(line, flush=True))
