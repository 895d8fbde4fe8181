"""`neft stats`: the statistics of a network in powers of 1/width."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Network, Output

Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="An input: one number for all its entries, or one each, as 1,0.5,2 (default 1). Repeat it for several.",
        metavar="LIST",
    ),
]


def stats(
    network: Network,
    output: Output,
    input: Input = None,
    interpret: Annotated[bool, typer.Option("--interpret", help="Show what the numbers mean instead.")] = False,
) -> None:
    """Show every tensor of the width expansion, layer by layer, for one input or several.

    Example: neft stats --activation gelu --depth 4 --width 64 --C-W 1.98 --C-b 0.17 --plot flow.svg

    Example: neft stats --activation tanh --widths 3,64,64,1 --input 1,0,0 --input 0,1,1
    """
    from .. import width

    net = network.build()
    found = width.statistics(net, numbers(input, net.widths[0]))
    emit(width.interpret(found) if interpret else found, output)


def numbers(texts: list[str] | None, count: int) -> list[float] | list[list[float]]:
    """The input that the option gives, or the inputs when it is repeated."""
    if not texts:
        return [1.0] * count
    inputs = [_numbers(text, count) for text in texts]
    return inputs[0] if len(inputs) == 1 else inputs


def _numbers(text: str, count: int) -> list[float]:
    try:
        values = [float(piece) for piece in text.split(",")]
    except ValueError:
        raise ValueError(f"--input is {text!r}, but must be numbers separated by commas.") from None
    if len(values) not in (1, count):
        raise ValueError(f"--input is {text!r}, which are {len(values)} numbers, but must be one or {count}.")
    return values * count if len(values) == 1 else values
