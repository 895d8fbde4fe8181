"""What a sweep found: the curves at the best learning rates, or the headline number of every configuration."""

import os
from typing import Any

import numpy as np
from jaxtyping import Float

from .._public import public
from .._result import Result, result
from ._folder import Folder
from ._registry import KINDS


@result
class Best(Result):
    """One optimizer on one architecture, at its best learning rate by the mean of the last validation accuracies.

    Attributes:
        hidden, batch_norm: the architecture.
        optimizer: its name.
        learning_rate: the best of `rates`.
        rates: all that finished, with the mean validation accuracy of each in `by_rate`.
        epochs: of each point.
        cpu_seconds: for one seed at each point, empty where the log does not say.
        train_cost, validation_accuracy: of every seed at each point.
        test_accuracy: of every seed, at the end; it had no part in the choice.
    """

    hidden: tuple[int, ...]
    batch_norm: bool
    optimizer: str
    learning_rate: float
    rates: tuple[float, ...]
    by_rate: tuple[float, ...]
    epochs: Float[np.ndarray, " points"]
    cpu_seconds: Float[np.ndarray, " any"]
    train_cost: Float[np.ndarray, "seeds points"]
    validation_accuracy: Float[np.ndarray, "seeds points"]
    test_accuracy: Float[np.ndarray, " seeds"]

    @property
    def architecture(self) -> str:
        """Such as "80-80-80, batch norm"."""
        return "-".join(map(str, self.hidden)) + (", batch norm" if self.batch_norm else "")

    @property
    def seconds_per_epoch(self) -> float:
        """CPU seconds of an epoch's steps for one seed, NaN where the log does not say."""
        if len(self.cpu_seconds) < 2:
            return float("nan")
        return float((self.cpu_seconds[-1] - self.cpu_seconds[0]) / (self.epochs[-1] - self.epochs[0]))


@result
class Experiments(Result):
    """The finished part of a sweep of trainings: for each architecture and optimizer its best learning rate."""

    folder: str
    data: str
    best: tuple[Best, ...]

    @property
    def architectures(self) -> tuple[str, ...]:
        """In the order of the sweep."""
        return tuple(dict.fromkeys(one.architecture for one in self.best))


@result
class Headlines(Result):
    """The headline number of every finished configuration of a sweep, with what varied."""

    folder: str
    kind: str
    headline: str
    varied: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Float[np.ndarray, " configurations"]


@public
def summary(folder: str | os.PathLike[str]) -> Experiments | Headlines:
    """What the finished configurations of a sweep found, even while it runs."""
    place = Folder.open(folder)
    spec = place.plan.specification
    found = [(c, place.read(c)) for c in place.configurations if place.finished(c)]
    found = [(c, finished) for c, finished in found if finished.reason is None]
    if spec.kind == "train":
        return _experiments(place, found)
    headline = KINDS[spec.kind].headline if spec.kind in KINDS else ""
    named = [(c, finished.values[headline]) for c, finished in found if headline in finished.values]
    return Headlines(
        folder=str(place.path),
        kind=spec.kind,
        headline=headline,
        varied=spec.varied,
        rows=tuple(tuple(str(c.values.get(name)) for name in spec.varied) for c, _ in named),
        numbers=np.array([float(np.mean(value)) for _, value in named]),
    )


def _experiments(place: Folder, found: list[Any]) -> Experiments:
    timings = place.timings()
    groups: dict[Any, list[Any]] = {}
    for configuration, finished in found:
        values = configuration.values
        key = (tuple(values["hidden"]), values["batch_norm"], values["optimizer"])
        groups.setdefault(key, []).append((configuration, finished.values))
    best = []
    for (hidden, batch_norm, optimizer), members in groups.items():
        final = [float(values["validation_accuracy"][:, -1].mean()) for _, values in members]
        configuration, values = members[int(np.argmax(final))]
        seconds = timings.get(configuration.name, {}).get("cpu_seconds")
        known = isinstance(seconds, list) and len(seconds) == len(values["epochs"])
        best.append(
            Best(
                hidden=hidden,
                batch_norm=batch_norm,
                optimizer=optimizer,
                learning_rate=float(values["learning_rate"]),
                rates=tuple(float(v["learning_rate"]) for _, v in members),
                by_rate=tuple(final),
                epochs=values["epochs"],
                cpu_seconds=np.array(seconds if known else [], float),
                train_cost=values["train_cost"],
                validation_accuracy=values["validation_accuracy"],
                test_accuracy=values["test_accuracy"],
            )
        )
    spec = place.plan.specification
    return Experiments(folder=str(place.path), data=str(spec.fixed.get("data", "")), best=tuple(best))
