"""K and Θ of the next layer where the averages at its activation are known, or taken for other tensors too."""

from collections.abc import Callable, Sequence
from typing import Any

from .._activation import Activation
from ..network import Block, Means, Stage

Take = Callable[[Activation, Stage], Means]


def stepped(blocks: Sequence[Block], stage: Stage, take: Take) -> tuple[Any, Any]:
    """K and Θ after blocks that are linear but for their activations, at which `take` gives ⟨σσ⟩ and ⟨σ'σ'⟩."""
    average = _Taken(take)
    for block in blocks:
        stage = block.kernel(stage, average)
    return stage.c, stage.Theta


def no_average(activation: Activation, stage: Stage) -> Means:
    """For blocks without activations."""
    raise ValueError(f"it asks for averages of {activation.name}, which a block that is linear does not need.")


class _Taken:
    # Linear blocks ask for nothing else.
    def __init__(self, take: Take) -> None:
        self._take = take

    def pair(self, activation: Activation, stage: Stage) -> Means:
        return self._take(activation, stage)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        return no_average(activation, stage)[:2]

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        return no_average(activation, stage)
