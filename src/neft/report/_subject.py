"""What a page is about: one network and one data set."""

import functools
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float

from ..data import Dataset
from ..network import MLP
from ..width import Interpretation, Statistics, interpret, statistics


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A network and the examples it is for; `test` is None where the data has no split of its own."""

    net: MLP
    train: Dataset
    test: Dataset | None
    seed: int

    def __post_init__(self):
        given = (self.net.widths[0], self.net.widths[-1])
        needed = (self.train.features, self.train.classes)
        for i, what in enumerate(("inputs", "outputs")):
            if given[i] != needed[i]:
                raise ValueError(
                    f"the network has {given[i]} {what}, but the data {self.train.name!r} needs {needed[i]}."
                )

    @property
    def key(self) -> Array:
        """The key of all that is drawn for the page."""
        return jax.random.key(self.seed)

    @property
    def title(self) -> str:
        """The network and data in a few words."""
        widths = self.net.widths
        short = "-".join(map(str, widths)) if len(widths) <= 6 else f"{widths[0]}-{widths[1]}-…-{widths[-1]}"
        return f"{self.net.activation.name} {short} on {self.train.name}"

    @property
    def width(self) -> int:
        """The width of the last hidden layer; that of the inputs where there is none."""
        return self.net.widths[-2]

    @functools.cached_property
    def x(self) -> Float[np.ndarray, " n_0"]:
        """The training example whose mean square is the median of all."""
        squares = np.square(self.train.x, dtype=np.float64).mean(axis=1)
        return self.train.x[int(np.argsort(squares, kind="stable")[len(squares) // 2])].astype(np.float64)

    @property
    def q(self) -> float:
        """|x|²/n_0 of that example."""
        return float(np.square(self.x).mean())

    @functools.cached_property
    def stats(self) -> Statistics:
        """The statistics of the network for that example."""
        return statistics(self.net, self.x)

    @functools.cached_property
    def meaning(self) -> Interpretation:
        """What they say."""
        return interpret(self.stats, activation=self.net.activation)

    @property
    def jumps(self) -> bool:
        """Whether the activation itself jumps, so that gradients and susceptibilities do not exist."""
        return any(kink.order == 0 for kink in self.net.activation.kinks)
