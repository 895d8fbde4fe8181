"""`neft network`: what a network is."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Network, Output, key_of


def network(
    network: Network,
    output: Output,
    draws: Annotated[int, typer.Option("--draws", help="Sample the outputs of this many networks.")] = 0,
) -> None:
    """Show a network layer by layer: sizes, variances, learning rates, and its outputs at initialization.

    Example: neft network --activation gelu --depth 4 --width 256 --C-W 1.5 --draws 2000 --plot outputs.svg
    """
    from .. import describe

    emit(describe.network(network.build(), draws=draws, key=key_of(network.seed)), output)
