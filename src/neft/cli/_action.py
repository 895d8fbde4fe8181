"""`neft action`: the loss of a classifier expanded in its parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._emit import emit
from ._options import Full, Output, key_of

if TYPE_CHECKING:
    from ..action.results import Fit
    from ..data import Dataset

_EVALUATED = 1000


def action(
    output: Output,
    data: Annotated[str, typer.Argument(help="Name or path of the data.")] = "fashion-mnist",
    preprocess: Annotated[
        str, typer.Option("--preprocess", help="Steps joined by +, such as pool(49)+global.")
    ] = "per-image",
    full: Full = None,
    activation: Annotated[str, typer.Option("--activation", help="Smooth at 0, or relu.")] = "silu",
    hidden: Annotated[int, typer.Option("--hidden", help="Hidden units of the classifier that is trained.")] = 512,
    epochs: Annotated[int, typer.Option("--epochs", help="Largest number of passes over the data.")] = 20,
    order: Annotated[int, typer.Option("--order", help="Highest order of the terms.")] = 4,
    params: Annotated[
        Path | None,
        typer.Option("--params", help="Expand at these: an .npz of U, c, W, b, or a saved fit.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="An .npz file to resume from, written during training.", show_default=False),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The samples to expand on: train or test.")] = "test",
    stops: Annotated[
        str | None,
        typer.Option(
            "--stops",
            help="Follow ∇S_T·∇S_E in descents on this many samples each, such as 100,1000: where each should stop.",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    stop_steps: Annotated[int, typer.Option("--stop-steps", help="Full-batch steps of each of these descents.")] = 400,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the training and of random parameters.")] = 0,
) -> None:
    """Expand a classifier's loss in its parameters, at θ trained on the data or given: terms, convergence, elements.

    Example: neft action fashion-mnist --subset --hidden 64 --epochs 4 --stops 100,1000 --plot action.svg
    """
    from .. import action
    from .. import data as sets

    sizes = _sizes(stops)
    sample = sets.load(data, split, preprocess=preprocess, full=full)
    key = key_of(seed)
    train = sets.load(data, "train", preprocess=preprocess, full=full) if params is None or sizes else sample
    theta: Any
    if params is None:
        test = sample if sample.split != train.split else None
        options: Any = {
            "hidden": hidden,
            "activation": activation,
            "epochs": epochs,
            "key": key,
            "checkpoint": checkpoint,
        }
        theta = action.fit(train, test, **options)
    else:
        theta = _given(params)
    found = None
    if sizes:
        other = sample.balanced(_evaluated(sample)) if sample.split != train.split else None
        width = theta.U.shape[1] if isinstance(theta, action.results.Fit) else theta["U"].shape[1]
        options = {"hidden": width, "activation": activation, "steps": stop_steps, "key": key}
        found = action.stops_by_size(train, other, sizes, **options)
    emit(action.analyse(theta, sample, activation=activation, order=order, key=key, stops=found), output)


def _sizes(text: str | None) -> tuple[int, ...]:
    try:
        return () if text is None else tuple(int(piece) for piece in text.split(","))
    except ValueError:
        raise ValueError(f"--stops is {text!r}, but must be whole numbers such as 100,1000.") from None


def _evaluated(data: "Dataset") -> int:
    """Samples of each class in an evaluation loss whose gradient is followed."""
    return max(1, min(_EVALUATED // data.classes, int(data.prior.min() * data.count + 0.5)))


def _given(path: Path) -> "Fit | dict[str, Any]":
    import numpy as np

    from .. import load
    from ..action.results import Fit

    try:
        with np.load(path, allow_pickle=False) as archive:
            if {"U", "c", "W", "b"} <= set(archive.files):
                return {name: archive[name] for name in ("U", "c", "W", "b")}
    except (OSError, ValueError):
        pass
    found = load(path)
    if not isinstance(found, Fit):
        raise ValueError(f"--params is {str(path)!r}, which holds a {type(found).__name__} instead of parameters.")
    return found
