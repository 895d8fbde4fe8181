"""`neft check`: the width expansion against simulation."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Network, Output
from ._stats import Input, numbers


def check(
    network: Network,
    output: Output,
    input: Input = None,
    draws: Annotated[int, typer.Option("--draws", help="Networks drawn at each width.")] = 4096,
) -> None:
    """Compare every tensor with an ensemble of random networks; exit code 1 where they disagree.

    Example: neft check --activation tanh --widths 3,8,8,2 --C-b 0.1 --C-W 1.5 --draws 8192 --plot scores.svg

    Example: neft check --activation gelu --widths 3,8,2 --input 1,0,0 --input 0,1,1
    """
    import jax
    import numpy as np

    from .. import width

    net = network.build()
    key = jax.random.key(network.seed)
    found = width.check(net, numbers(input, net.widths[0]), draws=draws, key=key, dtype=np.float32)
    emit(found, output)
    if not found.agrees:
        raise typer.Exit(1)
