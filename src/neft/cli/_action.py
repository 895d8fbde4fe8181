"""`neft action`: the loss of a classifier expanded in its parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._emit import emit
from ._options import Output

if TYPE_CHECKING:
    from ..action import Fit


def action(
    output: Output,
    data: Annotated[str, typer.Argument(help="Name or path of the data.")] = "fashion-mnist",
    preprocess: Annotated[
        str, typer.Option("--preprocess", help="Steps joined by +, such as pool(49)+global.")
    ] = "per-image",
    subset: Annotated[
        bool, typer.Option("--subset", help="The bundled subset, also where the full set is found.")
    ] = False,
    activation: Annotated[str, typer.Option("--activation", help="Smooth at 0, or relu.")] = "silu",
    hidden: Annotated[int, typer.Option("--hidden", help="Hidden units of the classifier that is trained.")] = 512,
    epochs: Annotated[int, typer.Option("--epochs", help="At most so many passes over the data.")] = 20,
    order: Annotated[int, typer.Option("--order", help="Highest order of the terms.")] = 4,
    params: Annotated[
        Path | None,
        typer.Option("--params", help="Expand at these: an .npz of U, c, W, b, or a saved fit.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="An .npz file to train on from.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The samples to expand on: train or test.")] = "test",
    seed: Annotated[int, typer.Option("--seed", help="Of the training and of random parameters.")] = 0,
) -> None:
    """Expand a classifier's loss in its parameters, at θ trained on the data or given: terms, convergence, elements.

    Example: neft action fashion-mnist --subset --hidden 64 --epochs 4 --plot action.svg
    """
    import jax

    from .. import action
    from .. import data as sets

    full = False if subset else None
    sample = sets.load(data, split, preprocess=preprocess, full=full)
    theta: Any
    if params is None:
        train = sets.load(data, "train", preprocess=preprocess, full=full)
        test = sample if sample.split != train.split else None
        key = jax.random.key(seed)
        options: Any = {"hidden": hidden, "activation": activation, "epochs": epochs, "key": key, "resume": resume}
        theta = action.fit(train, test, **options)
    else:
        theta = _given(params)
    emit(action.analyse(theta, sample, activation=activation, order=order, key=jax.random.key(seed)), output)


def _given(path: Path) -> "Fit | dict[str, Any]":
    import numpy as np

    from .. import load
    from ..action import Fit

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
