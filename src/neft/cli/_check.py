"""`neft check`: the width expansion against simulation."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Network, Output, key_of, list_of
from ._stats import Input, numbers


def check(
    network: Network,
    output: Output,
    input: Input = None,
    draws: Annotated[int, typer.Option("--draws", help="Networks drawn at each width.")] = 4096,
    factors: Annotated[
        str | None,
        typer.Option(
            "--factors",
            help="That multiply the hidden widths, as 1,2,4 (default: 1, 2, 3, 5 times the narrowest).",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    own_width: Annotated[
        bool,
        typer.Option("--own-width", help="Draw the network as it is, without extrapolation and without a verdict."),
    ] = False,
) -> None:
    """Compare every tensor with ensembles of random networks; exit code 1 where they disagree.

    By default they are narrow networks whose hidden widths have the ratios of yours, extrapolated in 1/width.

    Example: neft check --activation tanh --widths 3,8,8,2 --C-b 0.1 --C-W 1.5 --draws 8192 --plot scores.svg

    Example: neft check --activation gelu --widths 3,8,2 --input 1,0,0 --input 0,1,1

    Example: neft check --activation tanh --widths 3,64,64,1 --own-width --draws 1024
    """
    import numpy as np

    from .. import width

    net = network.build()
    key = key_of(network.seed)
    options = {"factors": list_of("--factors", factors), "own_width": own_width, "dtype": np.float32}
    found = width.check(net, numbers(input, net.widths[0]), draws=draws, key=key, **options)
    emit(found, output)
    if found.agrees is False:
        raise typer.Exit(1)
