"""`neft train`: one configuration, by any optimizer."""

from pathlib import Path
from typing import Annotated

import typer

from ._emit import emit
from ._options import Full, Output, writable


def train(
    output: Output,
    data: Annotated[str, typer.Argument(help="Name or path of the data.")] = "fashion-mnist",
    optimizer: Annotated[
        str,
        typer.Option("--optimizer", help="sgd, momentum, adam, muon, soap, …, rngd-units, rngd-published."),
    ] = "rngd-units",
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Default: the optimizer's usual one.", show_default=False)
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="constant, or cosine down to 0 (default: what suits it).", show_default=False),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network",
            help="A .toml or .json file, as `neft network --out net.toml` writes it, instead of --hidden, --activation "
            "and --batch-norm.",
            show_default=False,
            metavar="FILE",
        ),
    ] = None,
    hidden: Annotated[str, typer.Option("--hidden", help="Hidden widths.", metavar="LIST")] = "80,80,80",
    activation: Annotated[str, typer.Option("--activation", help="Activation of the hidden layers.")] = "relu",
    batch_norm: Annotated[
        bool, typer.Option("--batch-norm", help="Batch normalization after each hidden layer.")
    ] = False,
    inputs: Annotated[
        str | None,
        typer.Option("--inputs", help="raw, centred, white or axes (default: what suits it).", show_default=False),
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over the training part.")] = 5,
    points: Annotated[int, typer.Option("--points", help="Points of the curves in each epoch.")] = 1,
    batch: Annotated[int, typer.Option("--batch", help="Examples in a step.")] = 50,
    l2: Annotated[float, typer.Option("--l2", help="Weight of ½|W|² in the cost.")] = 1e-3,
    preprocess: Annotated[
        str | None, typer.Option("--preprocess", help="Steps joined by +, such as pool(49)+unit.", show_default=False)
    ] = None,
    full: Full = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of split, weights and order.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="An .npz file to resume from, written during training.",
            show_default=False,
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Train one network and write its curves; with --checkpoint, resume an interrupted run.

    Example: neft train mnist --optimizer adam --epochs 4 --checkpoint run.npz --out curves.json --plot curves.svg
    """
    writable("--checkpoint", checkpoint, (".npz",))
    widths = _widths(hidden)
    from .. import data as sets
    from .. import fisher

    net = None
    if network is not None:
        from ._specification import read

        net = read(network)
    loaded = sets.load(data, preprocess=preprocess, full=full)
    # Data without splits is taken whole.
    test = None if loaded.split == "all" else sets.load(data, "test", preprocess=preprocess, full=full)
    done = fisher.train(
        loaded,
        test,
        net=net,
        hidden=widths,
        activation=activation,
        batch_norm=batch_norm,
        optimizer=optimizer,
        learning_rate=learning_rate,
        schedule=schedule,
        inputs=inputs,
        epochs=epochs,
        points=points,
        batch=batch,
        l2=l2,
        seed=seed,
        checkpoint=checkpoint,
    )
    emit(done.curves, output)


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(piece) for piece in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"--hidden is {text!r}, but must be whole numbers such as 80,80,80.") from None
