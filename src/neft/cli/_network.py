"""`neft network`: what a network is."""

import dataclasses
from typing import Annotated, ClassVar

import typer

from ._emit import emit
from ._options import Network, Output, key_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written(Output):
    """Where the card goes; with .toml the network itself, for `--network`."""

    files: ClassVar[tuple[str, ...]] = (".toml", *Output.files)


def network(
    network: Network,
    output: Written,
    draws: Annotated[int, typer.Option("--draws", help="Sample the outputs of this many networks.")] = 0,
) -> None:
    """Show a network layer by layer: sizes, variances, learning rates, and its outputs at initialization.

    Example: neft network --activation gelu --depth 4 --width 256 --C-W 1.5 --draws 2000 --plot outputs.svg

    Example: neft network --activation relu --depth 6 --residual --norm rms --out net.toml
    """
    from .. import describe

    net = network.build()
    if output.out is not None and output.out.suffix == ".toml":
        from .._files import writing
        from ._specification import text_of

        with writing(output.out) as file:
            file.write(text_of(net))
        output = dataclasses.replace(output, out=None)
    emit(describe.network(net, draws=draws, key=key_of(network.seed)), output)
