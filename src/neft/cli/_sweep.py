"""`neft sweep`: many configurations, resumable, on one machine or on a cluster."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ._app import FAILS
from ._cluster import certificates, cluster
from ._emit import show

_FORMATS = ("svg", "png", "pdf")


def sweep(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC.toml | status FOLDER | plot FOLDER",
            help="What to run, or a sweep to look at, even while it runs.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The sweep's folder; created, or resumed.", show_default=False)
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="The experiment of Sun, Nielsen 2017 at reduced size, on the bundled Fashion-MNIST."
        ),
    ] = False,
    workers: Annotated[int, typer.Option("--workers", help="Processes on this machine.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed configurations again.")] = False,
    form: Annotated[str, typer.Option("--format", help="Format of the pictures: svg, png or pdf.")] = "svg",
    json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No tables and no progress.")] = False,
    scheduler: Annotated[str | None, cluster("--scheduler", "Address of a dask.distributed scheduler.")] = None,
    tls_ca_file: Annotated[str | None, cluster("--tls-ca-file", "The cluster's certificate authority.")] = None,
    tls_cert: Annotated[str | None, cluster("--tls-cert", "This machine's certificate.")] = None,
    tls_key: Annotated[str | None, cluster("--tls-key", "The key of --tls-cert.")] = None,
    timeout: Annotated[float, cluster("--timeout", "Seconds to wait for the scheduler (default 10).")] = 10.0,
) -> None:
    """Run or resume a sweep; look at one with status, draw it with plot (into FOLDER/figures).

    SPEC.toml may be a name: sun-nielsen is the experiment of Sun, Nielsen 2017 on full MNIST. The exit code is 1 when a
    configuration failed.

    Example: neft sweep --quick --out sweep, then neft sweep plot sweep
    """
    words = words or []
    if words and words[0] in ("status", "plot"):
        if len(words) != 2 or quick or out:
            raise ValueError(f"neft sweep {words[0]} takes the sweep's folder and nothing else.")
        return _status(words[1], json, quiet) if words[0] == "status" else _plot(words[1], form, quiet)
    if out is None:
        raise ValueError("--out is missing, but must name the sweep's folder.")
    if len(words) + quick != 1:
        raise ValueError("what to run must be one specification, or --quick, and not both.")
    from .. import sweep

    ended = sweep.run(
        "quick" if quick else words[0],
        out,
        workers=workers,
        scheduler=scheduler,
        tls=certificates(tls_ca_file, tls_cert, tls_key),
        timeout=timeout,
        retry=retry,
        callback=None if quiet or not sys.stderr.isatty() else lambda status: print(status.line(), file=sys.stderr),
    )
    _status(str(out), json, quiet)
    if ended.failed:
        raise typer.Exit(FAILS)
    return None


def _status(folder: str, as_json: bool, quiet: bool) -> None:
    import json

    from .. import sweep

    status = sweep.status(folder)
    if as_json:
        print(json.dumps(status.to_dict(), allow_nan=False))
    elif not quiet:
        show(status)
        print()
        show(sweep.summary(folder))


def _plot(folder: str, form: str, quiet: bool) -> None:
    from .. import plot, sweep
    from .._check import one_of

    one_of("--format", form, _FORMATS)
    found = sweep.summary(folder)
    target = Path(folder) / "figures"
    pictures = plot.pictures(found)
    target.mkdir(exist_ok=True)
    for name, figure in pictures.items():
        file = target / f"{name}.{form}"
        plot.save(figure, file)
        if not quiet:
            print(file)
