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
    trains: Annotated[
        int | None,
        typer.Option("--train", help="Training images of a named set (50; 32 at order 1).", show_default=False),
    ] = None,
    tests: Annotated[
        int | None, typer.Option("--test", help="Test images of a named set (20; 8 at order 1).", show_default=False)
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            help="Labels of a named set that are taken, such as 2,4 (all; at order 1 with another "
            "loss or steps the first two).",
            show_default=False,
        ),
    ] = None,
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
        int | None,
        typer.Option(
            "--samples",
            help="Draws that a prediction without a closed form is averaged over (256; 64 at order 1).",
            show_default=False,
        ),
    ] = None,
    hidden_widths: Annotated[
        str | None, typer.Option("--hidden-widths", help="Several widths of the hidden layers, such as 64,256,1024.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", help="Networks to train by simulation, to compare with.")] = 0,
) -> None:
    """Predict the mean and spread of networks trained on half the squared error or the cross-entropy, and train some.

    Labels of a named set become targets 1 - 1/C for the class and -1/C for the others, for the square loss. The numbers
    of inputs and outputs are those of the data.

    Example: neft predict mine.npz --activation gelu --depth 3 --width 256 --draws 32 --plot trained.svg

    Order 1 needs tensors over all sets of four inputs, so that fewer images and classes are its defaults.

    Long training at order 1 wants wide networks.

    Example: neft predict --width 8192 --loss cross_entropy --steps 200 --learning-rate 0.1 --batch 32 --momentum 0.9
    --order 1
    """
    from .. import _check, training

    _check.one_of("--loss", loss, ("square", "cross_entropy"))

    answers = None
    if data.endswith(".npz"):
        if classes is not None:
            raise ValueError(f"--classes goes with a named set, but DATA is {data!r}.")
        x_train, y_train, x_test = npz(data, full)
        if loss == "cross_entropy" and y_train.ndim == 1:
            y_train = _one_hot(y_train)
    else:
        few = order == 1
        sampled = loss != "square" or momentum or batch
        taken = _whole_numbers("--classes", classes) or ([0, 1] if few and sampled else None)
        counts = (32 if few else 50) if trains is None else trains, (8 if few else 20) if tests is None else tests
        x_train, y_train, x_test, labels = _named(data, *counts, taken, preprocess, full, square=loss == "square")
        answers = None if loss == "square" else labels
    found = training.forecast(
        network.sized(x_train, y_train).build(),
        x_train,
        y_train,
        x_test,
        y_test=answers,
        widths=_whole_numbers("--hidden-widths", hidden_widths),
        time=time,
        steps=steps,
        learning_rate=learning_rate,
        momentum=momentum,
        nesterov=nesterov,
        batch=batch,
        loss=loss,
        order=order,
        samples=(64 if order == 1 else 256) if samples is None else samples,
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
    if not len(x_train):
        raise ValueError(
            f"DATA is {path!r}, whose x_train has shape {x_train.shape}, but must hold at least one input."
        )
    return x_train, _check.array("y_train", arrays["y_train"], ndim=(1, 2)), x_test


def _one_hot(labels: "np.ndarray") -> "np.ndarray":
    import numpy as np

    from .. import _check

    labels = _check.array("y_train", labels, at_least=0, dtype=np.int64)
    # Two classes at least: with one there is nothing to tell apart.
    return np.eye(max(2, int(labels.max(initial=0)) + 1))[labels]


def _whole_numbers(option: str, given: str | None) -> list[int] | None:
    if given is None:
        return None
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        raise ValueError(f"{option} is {given!r}, but must be whole numbers joined by commas.") from None


def _named(
    name: str, trains: int, tests: int, classes: list[int] | None, preprocess: str, full: bool | None, *, square: bool
) -> "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]":
    import numpy as np

    from .. import _check
    from .. import data as sets

    options: Any = {"preprocess": preprocess, "full": full, "dtype": np.float64}
    train, test = (sets.load(name, split, **options) for split in ("train", "test"))
    known = range(train.classes) if classes is None else classes
    if len(set(known)) < 2 or not set(known) <= set(range(train.classes)):
        raise ValueError(
            f"--classes is {','.join(map(str, known))}, but must be two labels or more from 0 to {train.classes - 1}."
        )
    where = [np.flatnonzero(np.isin(part.y, list(known))) for part in (train, test)]
    trains = _check.integer("--train", trains, at_least=1, at_most=len(where[0]))
    tests = _check.integer("--test", tests, at_least=1, at_most=len(where[1]))
    first, second = where[0][:trains], where[1][:tests]
    order = np.array(list(known))
    labels, answers = ((part.y[rows][:, None] == order).argmax(1) for part, rows in ((train, first), (test, second)))
    targets = np.eye(len(order))[labels] - (1 / len(order) if square else 0.0)
    return train.x[first], targets, test.x[second], answers
