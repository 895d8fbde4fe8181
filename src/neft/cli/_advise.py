"""`neft advise`: how to initialize and train a network of a given depth and width."""

import dataclasses
from typing import Annotated, Any

import typer

from ._emit import emit
from ._options import Output
from ._repeated import NAME, Repeated


def _network(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Network", show_default=False)


def advise(
    repeated: Repeated,
    output: Output,
    name: Annotated[str | None, NAME] = None,
    depth: Annotated[
        int | None, _network("--depth", "L, the number of layers of weights or blocks (default 3).")
    ] = None,
    width: Annotated[int | None, _network("--width", "Width of every hidden layer (default 128).")] = None,
    inputs: Annotated[int | None, _network("--inputs", "Number of inputs (default: the width).")] = None,
    outputs: Annotated[int, _network("--outputs", "Number of outputs (default 1).")] = 1,
    q: Annotated[float, _network("--q", "Mean square of an input's components (default 1).")] = 1.0,
    C_b: Annotated[float | None, _network("--C-b", "Variance of a bias (default: critical).")] = None,
    C_W: Annotated[
        float | None, _network("--C-W", "Variance of a weight times its fan-in (default: critical).")
    ] = None,
    point: Annotated[int, _network("--point", "Which of several critical points, 0 being the best (default 0).")] = 0,
    code: Annotated[
        str | None,
        typer.Option(
            "--code",
            help="Print a program for jax, flax or torch instead of the table.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    parameterization: Annotated[
        str | None,
        typer.Option(
            "--parameterization",
            help="Show variances, multipliers and rates in this one: standard, ntk or mup.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Advise on initialization and learning rates, say what to expect, and whether the network is too deep.

    Example: neft advise gelu --depth 8 --width 256 --plot advice.svg

    Example: neft advise relu --residual --norm rms --depth 12 --width 256
    """
    from .. import width as theory
    from .._check import one_of

    if code is not None:
        one_of("--code", code, theory.results.Advice.frameworks)
        if output.json or parameterization is not None:
            raise ValueError("--code prints a program, so --json and --parameterization cannot be given with it.")
    block = repeated.build(name, width=width)
    depth, width = repeated.sizes(block, depth, width)
    more: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "q": q, "C_b": C_b, "C_W": C_W, "point": point}
    found = theory.advise(block, depth, width, **more, dense=repeated.dense)
    if isinstance(found, theory.results.BlockAdvice):
        if code is not None or parameterization is not None:
            option = "--code" if code is not None else "--parameterization"
            raise ValueError(f"{option} is for multilayer perceptrons, but {found.activation} is a block.")
        emit(found, output)
        return
    if parameterization is not None:
        emit(found.parameterization(parameterization), output)
    elif code is None:
        emit(found, output)
    else:
        emit(found, dataclasses.replace(output, quiet=True))
        if not output.quiet:
            print(found.code(code), end="")
