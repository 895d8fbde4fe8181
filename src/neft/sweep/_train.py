"""The kind `train`: the experiment of Sun, Nielsen 2017, all seeds of a configuration in one program."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _check
from ._registry import kind


def _checked(configuration: Mapping[str, Any]) -> None:
    from ..fisher._optimizers import OPTIMIZERS, SCHEDULES
    from ..fisher._task import INPUTS

    _check.one_of("optimizer", configuration["optimizer"], tuple(OPTIMIZERS))
    _check.one_of("schedule", configuration["schedule"], SCHEDULES)
    if configuration["inputs"] is not None:
        _check.one_of("inputs", configuration["inputs"], INPUTS)
    if configuration["learning_rate"] is not None:
        _check.real("learning_rate", configuration["learning_rate"], above=0.0)
    for name in ("epochs", "seeds", "batch"):
        _check.integer(name, configuration[name], at_least=1)
    for name in ("first_seed", "split"):
        _check.integer(name, configuration[name], at_least=0)
    _check.real("l2", configuration["l2"], at_least=0.0)
    for width in configuration["hidden"]:
        _check.integer("each of hidden", width, at_least=1)


@kind("train", headline="validation_accuracy", check=_checked)
def train(
    *,
    data: str = "fashion-mnist",
    full: bool | None = None,
    preprocess: str | None = None,
    hidden: Sequence[int] = (80, 80, 80),
    activation: str = "relu",
    batch_norm: bool = False,
    optimizer: str = "rngd",
    learning_rate: float | None = None,
    schedule: str = "constant",
    inputs: str | None = None,
    epochs: int = 5,
    batch: int = 50,
    l2: float = 1e-3,
    seeds: int = 40,
    first_seed: int = 0,
    split: int = 0,
) -> dict[str, Any]:
    """Curves of `seeds` trainings (Sun, Nielsen 2017, section 4) that differ in initial weights and order of the data.

    The arguments are those of `neft.fisher.train`; `split` is the seed by which the data is cut 5:1:1, the same for
    all. Returns `epochs` of shape (points,), costs and accuracies on the training and validation part of shape
    (seeds, points), cost and accuracy on the test part at the end of shape (seeds,), and the CPU seconds of the steps
    for one seed at each point.
    """
    # JAX comes with the first work, so that a folder is looked at without it.
    from ._vectorized import Experiment

    experiment = Experiment(
        data=data,
        full=full,
        preprocess=preprocess,
        hidden=tuple(hidden),
        activation=activation,
        batch_norm=batch_norm,
        optimizer=optimizer,
        schedule=schedule,
        inputs=inputs,
        epochs=epochs,
        batch=batch,
        l2=l2,
        split=split,
    )
    return experiment.train(learning_rate, range(first_seed, first_seed + seeds))
