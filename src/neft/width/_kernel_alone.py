"""Inputs by themselves on their way through a network on positions: K, and averages at activations, at each of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._activation import Activation
from .._tilt import tilt_of
from ..network import Means, Stage
from ..network.engine import Layout
from ._kernel_own import Occurrence
from ._kernel_tables import averages_at


class NotYetError(Exception):
    """A pool asks for what nobody has worked out yet."""


class Walk:
    """Averages over single inputs at equal positions, remembered in the order in which blocks ask for them.

    `known` is what pools asked for, in their order; at the first that is not among it the walk ends with `NotYetError`.
    `asked` counts, by segment, activations and pools.
    """

    def __init__(self, known: list[np.ndarray]) -> None:
        self.seen: list[Occurrence] = []
        self.asked: list[list[int]] = [[0, 0]]
        self._known, self._places = list(known), []

    def through(self, segments: Any, x: np.ndarray) -> Stage:
        """The last stage of inputs (H, W, N, C), (N,)."""
        x = x.astype(np.float64)
        q, mean = (x * x).mean(-1), x.mean(-1)
        layout = Layout(x.ndim - 2, False)
        stage = Stage.itself(q, np.zeros_like(q), mean1=mean, mean2=mean, kind="input", layout=layout)
        for n, segment in enumerate(segments):
            if n:
                self.asked.append([0, 0])
            stage = segment.kernel(stage, self)
        return stage

    def pair(self, activation: Activation, stage: Stage) -> Means:
        """See `neft.network.Averages`."""
        square, slope = averages_at(activation, stage.K1)
        self.seen.append(Occurrence(activation, stage.K1, square))
        self._places.append(stage)
        self.asked[-1][0] += 1
        return Means(square, square, square, slope, np.zeros_like(square))

    def mean(self, activation: Activation, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
        """See `neft.network.Averages`."""
        mean = averages_at(activation, stage.K1, means=True)[0]
        self._note(stage, mean=mean)
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> np.ndarray:
        """See `neft.network.Averages`."""
        self._note(stage, tilted=True)
        return averages_at(tilt_of(activation), stage.K1, slopes=False)[0]

    def alone(self, stage: Stage, function: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
        """See `neft.network.Averages`."""
        if not self._known:
            raise NotYetError
        self.asked[-1][1] += 1
        found = self._known.pop(0)
        return found, found

    def _note(self, stage: Stage, **what: Any) -> None:
        i = next(i for i, place in enumerate(self._places) if place is stage)
        self.seen[i] = dataclasses.replace(self.seen[i], **what)
