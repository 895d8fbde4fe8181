"""`neft phase`: the phase diagram of an activation."""

from typing import TYPE_CHECKING, Annotated

import typer

from ._emit import emit
from ._options import Output

if TYPE_CHECKING:
    import numpy as np


def phase(
    name: Annotated[
        str, typer.Argument(help="Name, with parameters in parentheses where it has some.", show_default=False)
    ],
    output: Output,
    C_b: Annotated[str, typer.Option("--C-b", help="Lowest and highest variance of a bias.", metavar="RANGE")] = "0,1",
    C_W: Annotated[
        str, typer.Option("--C-W", help="Lowest and highest variance of a weight times its fan-in.", metavar="RANGE")
    ] = "0.5,4",
    points: Annotated[int, typer.Option("--points", help="Points on each axis.")] = 71,
) -> None:
    """Map the phases of deep networks in (C_b, C_W): ordered, chaotic, critical or diverging, with depth scales.

    Example: neft phase tanh --C-W 0.5,3 --plot tanh.svg
    """
    from .. import width
    from .._check import integer

    count = integer("--points", points, at_least=2, at_most=10_000)
    emit(width.phase(name, C_b=_axis("--C-b", C_b, count), C_W=_axis("--C-W", C_W, count)), output)


def _axis(option: str, text: str, count: int) -> "np.ndarray":
    import numpy as np

    try:
        low, high = (float(piece) for piece in text.split(","))
        if not 0 <= low < high < np.inf:
            raise ValueError
    except ValueError:
        raise ValueError(f"{option} is {text!r}, but must be two increasing numbers from 0 on, such as 0,1.") from None
    return np.linspace(low, high, count)
