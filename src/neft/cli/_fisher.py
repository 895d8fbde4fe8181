"""`neft fisher`: a metric on a data set."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Full, Output


def fisher(
    output: Output,
    data: Annotated[str, typer.Argument(help="Name or path of the data.")] = "fashion-mnist",
    subsystem: Annotated[
        str, typer.Option("--subsystem", help="neuron, linear, layer, softmax, or two (a layer under a softmax).")
    ] = "neuron",
    activation: Annotated[str, typer.Option("--activation", help="Activation of the neuron or the layer.")] = "tanh",
    neurons: Annotated[int, typer.Option("--neurons", help="How many the layer has.")] = 10,
    count: Annotated[
        int | None, typer.Option("--count", help="Average over this many inputs (default 200).", show_default=False)
    ] = None,
    C_W: Annotated[float, typer.Option("--C-W", help="Variance of a weight times its fan-in.")] = 1.0,
    C_b: Annotated[float, typer.Option("--C-b", help="Variance of a bias.")] = 0.0,
    split: Annotated[str, typer.Option("--split", help="train or test.")] = "train",
    preprocess: Annotated[
        str | None, typer.Option("--preprocess", help="Steps joined by +, such as pool(49)+unit.", show_default=False)
    ] = None,
    full: Full = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the weights and of the choice of inputs.")] = 0,
) -> None:
    """Show the relative Fisher metric of a neuron or layer: rank, spectrum, and the most informative inputs.

    Example: neft fisher fashion-mnist --subsystem softmax --count 100 --preprocess 'pool(49)+unit' --plot metric.svg
    """
    from .. import data as sets
    from .. import fisher

    loaded = sets.load(data, split, preprocess=preprocess, full=full)
    found = fisher.survey(
        loaded, subsystem, activation=activation, neurons=neurons, count=count, C_W=C_W, C_b=C_b, seed=seed
    )
    emit(found, output)
