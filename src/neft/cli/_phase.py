"""`neft phase`: the phase diagram of an activation or a block."""

from typing import TYPE_CHECKING, Annotated

import typer

from ._emit import emit
from ._options import Output
from ._repeated import NAME, Repeated

if TYPE_CHECKING:
    import numpy as np


def phase(
    repeated: Repeated,
    output: Output,
    name: Annotated[str | None, NAME] = None,
    C_b: Annotated[str, typer.Option("--C-b", help="Lowest and highest variance of a bias.", metavar="RANGE")] = "0,1",
    C_W: Annotated[
        str, typer.Option("--C-W", help="Lowest and highest variance of a weight times its fan-in.", metavar="RANGE")
    ] = "0.5,4",
    points: Annotated[int, typer.Option("--points", help="Points on each axis.")] = 71,
) -> None:
    """Map the phases of deep networks in (C_b, C_W): ordered, chaotic, critical or diverging, with depth scales.

    Example: neft phase tanh --C-W 0.5,3 --plot tanh.svg

    Example: neft phase tanh --residual --skip 0.8 --C-W 0.1,2
    """
    from .. import width
    from .._check import integer

    count = integer("--points", points, at_least=2, at_most=10_000)
    block = repeated.build(name)
    biases, weights = _axis("--C-b", C_b, count), _axis("--C-W", C_W, count)
    emit(width.phase(block, C_b=biases, C_W=weights, dense=repeated.dense), output)


def _axis(option: str, text: str, count: int) -> "np.ndarray":
    import numpy as np

    try:
        low, high = (float(piece) for piece in text.split(","))
        if not 0 <= low < high < np.inf:
            raise ValueError
    except ValueError:
        raise ValueError(f"{option} is {text!r}, but must be two increasing numbers from 0 on, such as 0,1.") from None
    return np.linspace(low, high, count)
