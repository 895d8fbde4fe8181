"""`neft activation`: what an activation is."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Output


def activation(
    name: Annotated[
        str, typer.Argument(help="Name, with parameters in parentheses where it has some.", show_default=False)
    ],
    output: Output,
    order: Annotated[int, typer.Option("--order", help="Highest Taylor coefficient.")] = 10,
) -> None:
    """Show an activation: Taylor coefficients, kinks, nearest singularity, symmetry.

    Example: neft activation 'leaky_relu(0.1)' --plot leaky.svg
    """
    from .. import describe

    emit(describe.activation(name, order=order), output)
