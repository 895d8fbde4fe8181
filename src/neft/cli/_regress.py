"""`neft regress`: kernel regression on as many points as there are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._cluster import certificates, cluster
from ._emit import emit
from ._options import Full, Network, Output
from ._predict import npz

if TYPE_CHECKING:
    import numpy as np


def regress(
    network: Network,
    output: Output,
    data: Annotated[
        str,
        typer.Argument(help="An .npz file of x_train, y_train and x_test, or the name of a data set.", metavar="DATA"),
    ] = "fashion-mnist",
    trains: Annotated[
        int | None, typer.Option("--train", help="Number of training images, for a named set (default: all).")
    ] = None,
    tests: Annotated[
        int | None, typer.Option("--test", help="Number of test images, for a named set (default: all).")
    ] = None,
    preprocess: Annotated[
        str, typer.Option("--preprocess", help="For a named set, steps joined by +, such as pool(49)+global.")
    ] = "unit",
    full: Full = None,
    ridge: Annotated[
        list[float] | None,
        typer.Option("--ridge", help="What is added to the kernel's diagonal (default 0); of several the best."),
    ] = None,
    kernel: Annotated[str, typer.Option("--kernel", help="ntk or nngp.")] = "ntk",
    memory: Annotated[str, typer.Option("--memory", help="The most that may be held, such as 8GB or 2GiB.")] = "8GB",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Keep what is done in this folder; the same line resumes.", show_default=False),
    ] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", help="The relative residual that is wanted.")] = 1e-6,
    scheduler: Annotated[str | None, cluster("--scheduler", "Address of a dask.distributed scheduler.")] = None,
    tls_ca_file: Annotated[str | None, cluster("--tls-ca-file", "The cluster's certificate authority.")] = None,
    tls_cert: Annotated[str | None, cluster("--tls-cert", "This machine's certificate.")] = None,
    tls_key: Annotated[str | None, cluster("--tls-key", "The key of --tls-cert.")] = None,
    timeout: Annotated[float, cluster("--timeout", "Seconds to wait for the scheduler (default 10).")] = 10.0,
) -> None:
    """Fit the mean of infinitely wide trained networks to many points, and predict test inputs.

    Labels of a named set become targets 1 - 1/C for the class and -1/C for the others. The numbers of inputs and
    outputs are those of the data.

    Example: neft regress mnist --activation relu --C-W 2 --memory 8GB --folder mnist
    """
    from .. import training

    if data.endswith(".npz"):
        (x, y, x_test), labels = npz(data, full), None
    else:
        x, y, x_test, labels = _named(data, trains, tests, preprocess, full)
    fit = training.regress(
        network.sized(x, y).build(),
        x,
        y,
        ridge=0.0 if not ridge else ridge[0] if len(ridge) == 1 else ridge,
        kernel=kernel,
        memory=memory,
        folder=folder,
        residual=tolerance,
        scheduler=scheduler,
        tls=certificates(tls_ca_file, tls_cert, tls_key),
        timeout=timeout,
    )
    emit(fit.test(x_test, labels), output)


def _named(
    name: str, trains: int | None, tests: int | None, preprocess: str, full: bool | None
) -> "tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]":
    import numpy as np

    from .. import _check
    from .. import data as sets

    # In float32, which is what images need and half of the memory.
    train, test = (sets.load(name, split, preprocess=preprocess, full=full) for split in ("train", "test"))
    trains, tests = (
        whole.count if count is None else _check.integer(option, count, at_least=1, at_most=whole.count)
        for option, count, whole in (("--train", trains, train), ("--test", tests, test))
    )
    targets = np.eye(train.classes)[train.y[:trains]] - 1 / train.classes
    return train.x[:trains], targets, test.x[:tests], test.y[:tests]
