"""`neft predict`: what trained networks give."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._emit import emit
from ._options import Full, Network, Output, key_of

if TYPE_CHECKING:
    import numpy as np


def predict(
    network: Network,
    output: Output,
    data: Annotated[
        str,
        typer.Argument(help="An .npz file of x_train, y_train and x_test, or the name of a data set.", metavar="DATA"),
    ] = "fashion-mnist",
    trains: Annotated[int, typer.Option("--train", help="Number of training images, for a named set.")] = 50,
    tests: Annotated[int, typer.Option("--test", help="Number of test images, for a named set.")] = 20,
    preprocess: Annotated[
        str, typer.Option("--preprocess", help="For a named set, steps joined by +, such as pool(49)+global.")
    ] = "pool(49)+global",
    full: Full = None,
    time: Annotated[
        float | None, typer.Option("--time", help="How long gradient flow lasts (default: to its end).")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Steps of gradient descent instead.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="The size of a step.")] = None,
    momentum: Annotated[float, typer.Option("--momentum", help="Of the steps, at least 0 and below 1.")] = 0.0,
    nesterov: Annotated[
        bool, typer.Option("--nesterov", help="Nesterov's momentum instead of the heavy ball.")
    ] = False,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Training inputs that a step takes (default: all of them).")
    ] = None,
    loss: Annotated[str, typer.Option("--loss", help="square or cross_entropy.")] = "square",
    order: Annotated[int, typer.Option("--order", help="0: infinite width; 1: with corrections in 1/width.")] = 0,
    samples: Annotated[
        int, typer.Option("--samples", help="Draws that a prediction is averaged over which has no closed form.")
    ] = 256,
    draws: Annotated[int, typer.Option("--draws", help="Networks to train by simulation, to compare with.")] = 0,
) -> None:
    """Predict the mean and spread of networks trained on half the squared error or the cross-entropy, and train some.

    Labels of a named set become targets 1 - 1/C for the class and -1/C for the others, for the square loss. The numbers
    of inputs and outputs are those of the data.

    Example: neft predict mine.npz --activation gelu --depth 3 --width 256 --draws 32 --plot trained.svg

    Example: neft predict --loss cross_entropy --steps 200 --learning-rate 0.1 --batch 32 --momentum 0.9
    """
    from .. import _check, training

    _check.one_of("--loss", loss, ("square", "cross_entropy"))

    if data.endswith(".npz"):
        x_train, y_train, x_test = npz(data, full)
        if loss == "cross_entropy" and y_train.ndim == 1:
            y_train = _one_hot(y_train)
    else:
        x_train, y_train, x_test = _named(data, trains, tests, preprocess, full, square=loss == "square")
    found = training.forecast(
        network.sized(x_train, y_train).build(),
        x_train,
        y_train,
        x_test,
        time=time,
        steps=steps,
        learning_rate=learning_rate,
        momentum=momentum,
        nesterov=nesterov,
        batch=batch,
        loss=loss,
        order=order,
        samples=samples,
        draws=draws,
        key=key_of(network.seed),
    )
    emit(found, output)


def npz(path: str, full: bool | None) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    """x_train, y_train and x_test of a file, of which there is one size only."""
    import numpy as np

    from .. import _check

    if full is not None:
        raise ValueError(f"--{'full' if full else 'subset'} goes with a named set, but DATA is {path!r}.")

    names = ("x_train", "y_train", "x_test")
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in names if name in archive.files}
    except OSError as error:
        raise ValueError(f"DATA is {path!r}, which cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged file
        raise ValueError(f"DATA is {path!r}, which is damaged: {type(error).__name__}.") from None
    for name in names:
        if name not in arrays:
            raise ValueError(f"DATA is {path!r}, which holds no {name}, but must hold {', '.join(names)}.")
    # One number per input may be written without an axis of its own.
    x_train, x_test = (_check.array(name, arrays[name], ndim=(1, 2)) for name in ("x_train", "x_test"))
    x_train, x_test = (x[:, None] if x.ndim == 1 else x for x in (x_train, x_test))
    return x_train, _check.array("y_train", arrays["y_train"], ndim=(1, 2)), x_test


def _one_hot(labels: "np.ndarray") -> "np.ndarray":
    import numpy as np

    from .. import _check

    labels = _check.array("y_train", labels, at_least=0, dtype=np.int64)
    # Two classes at least: with one there is nothing to tell apart.
    return np.eye(max(2, int(labels.max(initial=0)) + 1))[labels]


def _named(
    name: str, trains: int, tests: int, preprocess: str, full: bool | None, *, square: bool
) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    import numpy as np

    from .. import _check
    from .. import data as sets

    options: Any = {"preprocess": preprocess, "full": full, "dtype": np.float64}
    train, test = (sets.load(name, split, **options) for split in ("train", "test"))
    trains = _check.integer("--train", trains, at_least=1, at_most=train.count)
    tests = _check.integer("--test", tests, at_least=1, at_most=test.count)
    targets = np.eye(train.classes)[train.y[:trains]] - (1 / train.classes if square else 0.0)
    return train.x[:trains], targets, test.x[:tests]
