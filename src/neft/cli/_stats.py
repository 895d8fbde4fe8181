"""`neft stats`: the statistics of a network in powers of 1/width."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Network, Output

Input = Annotated[
    str | None,
    typer.Option("--input", help="The input: one number, or one per input, as 1,0.5,2 (default 1).", metavar="LIST"),
]


def stats(
    network: Network,
    output: Output,
    input: Input = None,
    interpret: Annotated[bool, typer.Option("--interpret", help="Show what the numbers mean instead.")] = False,
) -> None:
    """Show every tensor of the width expansion, layer by layer, for one input.

    Example: neft stats --activation gelu --depth 4 --width 64 --C-W 1.98 --C-b 0.17 --plot flow.svg
    """
    from .. import width

    net = network.build()
    found = width.statistics(net, numbers(input, net.widths[0]))
    emit(width.interpret(found) if interpret else found, output)


def numbers(text: str | None, count: int) -> list[float]:
    """The input that the option gives."""
    if text is None:
        return [1.0] * count
    try:
        values = [float(piece) for piece in text.split(",")]
    except ValueError:
        raise ValueError(f"--input is {text!r}, but must be numbers separated by commas.") from None
    return values * count if len(values) == 1 else values
