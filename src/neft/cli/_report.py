"""`neft report`: the page about one network and one data set."""

import dataclasses
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .._progress import be_quiet
from ._app import FAILS
from ._options import Full, Network, writable


def report(
    network: Network,
    data: Annotated[
        str, typer.Option("--data", help="Name or path of the data, as neft data takes it.", metavar="DATA")
    ] = "fashion-mnist",
    preprocess: Annotated[
        str | None,
        typer.Option(
            "--preprocess",
            help="Steps joined by + (default: pool(49)+global for a named set, else global).",
            show_default=False,
        ),
    ] = None,
    full: Full = None,
    loss: Annotated[
        str, typer.Option("--loss", help="What networks are trained on: square or cross_entropy.")
    ] = "square",
    batch: Annotated[int | None, typer.Option("--batch", help="Training examples that a step takes.")] = None,
    momentum: Annotated[float, typer.Option("--momentum", help="Of the steps, at least 0 and below 1.")] = 0.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer draws, and without what takes long: under a minute.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="The file to write.", metavar="FILE")] = Path("report.html"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars, and no output when all goes well.")] = False,
) -> None:
    """Write one self-contained page about a network on a data set: what theory says, what simulation shows, what to do.

    The numbers of inputs and outputs are those of the data. Without options for a network it is a critical one of gelu,
    three layers, width 32. The exit code is 1 when a section failed.

    Example: neft report --out report.html

    Example: neft report --activation gelu --depth 4 --width 64 --C-W 1.98 --C-b 0.17 --data fashion-mnist --quick

    Example: neft report --network net.toml --quick

    Example: neft report --loss cross_entropy --batch 4 --momentum 0.9
    """
    writable("--out", out, (".html", ".htm"))
    be_quiet(quiet)
    chosen: dict[str, str | bool | float | None] = {
        "data": data,
        "preprocess": preprocess,
        "full": full is True,
        "subset": full is False,
        "quick": quick,
    }
    chosen |= {"loss": None if loss == "square" else loss, "batch": batch, "momentum": momentum or None}
    command = _command(network, chosen, out)
    if quick and "jax" not in sys.modules:
        # Most of a quick page's time is compilation. The compiler reads this when it starts.
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
    from .. import report

    net = None
    if network.file is not None or network.widths is not None:
        net = network.build()
    wanted = network.inputs if net is None else net.inputs
    train, test = report.examples(data, preprocess=preprocess, full=full, inputs=wanted)
    if net is None and network == Network(seed=network.seed):
        net = report.default(train.features, train.classes)
    if net is None:
        sizes = {"inputs": network.inputs or train.features, "outputs": network.outputs or train.classes}
        net = dataclasses.replace(network, **sizes).build()
    written = report.write(
        out,
        net,
        train,
        test,
        quick=quick,
        seed=network.seed,
        command=command,
        quiet=quiet,
        workers=min(2, os.cpu_count() or 1),
        loss=loss,
        batch=batch,
        momentum=momentum,
    )
    if not quiet:
        typer.echo(f"{out}: {len(written.sections)} sections in {written.seconds:.1f} s")
    for section in written.failed:
        typer.echo(f"neft: the section {section.title!r} failed: {section.failure}", err=True)
    if written.failed:
        raise typer.Exit(FAILS)


def _command(network: Network, chosen: dict[str, str | bool | float | None], out: Path) -> str:
    """The line that makes the page again, without the options that are at their defaults."""
    words = ["neft", "report"]
    options = {field.name: getattr(network, field.name) for field in dataclasses.fields(Network)}
    # Of a path the page tells the name alone.
    options["network"] = None if network.file is None else options.pop("file").name
    defaults = {field.name: field.default for field in dataclasses.fields(Network)} | {"data": "fashion-mnist"}
    for name, value in (options | chosen).items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False and value != defaults.get(name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--out", out.name])
