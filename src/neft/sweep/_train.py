"""The kind `train`: the experiment of Sun, Nielsen 2017, all seeds of a configuration in one program."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _check
from ._registry import kind

_BESIDE = ("learning_rate", "seeds", "first_seed")
"""What an experiment is run for, all else being its fields."""


def _checked(configuration: Mapping[str, Any]) -> None:
    # JAX comes with the first work, so that a folder is looked at without it.
    from ..fisher import Experiment

    Experiment(**{name: value for name, value in configuration.items() if name not in _BESIDE})
    if configuration["learning_rate"] is not None:
        _check.real("learning_rate", configuration["learning_rate"], above=0.0)
    _check.integer("seeds", configuration["seeds"], at_least=1)
    _check.integer("first_seed", configuration["first_seed"], at_least=0)


@kind("train", headline="validation_accuracy", check=_checked)
def train(
    *,
    data: str = "fashion-mnist",
    full: bool | None = None,
    preprocess: str | None = None,
    hidden: Sequence[int] = (80, 80, 80),
    activation: str = "relu",
    batch_norm: bool = False,
    optimizer: str = "rngd-units",
    learning_rate: float | None = None,
    schedule: str | None = None,
    inputs: str | None = None,
    epochs: int = 5,
    batch: int = 50,
    l2: float = 1e-3,
    seeds: int = 40,
    first_seed: int = 0,
    split: int = 0,
) -> dict[str, Any]:
    """Curves of `seeds` trainings (Sun, Nielsen 2017, section 4) that differ in initial weights and order of the data.

    The arguments are those of `neft.fisher.Experiment`, whose `train` says what comes back.
    """
    from ..fisher import Experiment

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
