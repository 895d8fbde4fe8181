"""All positions' entries as one vector."""

from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array

from ._block import Averages, Block
from ._positions import flattened
from ._stage import Stage


class Unweighted(Block):
    """What blocks on positions without parameters share."""

    weighs: ClassVar[bool] = False

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> tuple[()]:
        """Nothing."""
        return ()

    def rates(self, fan_in: int) -> tuple[()]:
        """Nothing."""
        return ()

    def resized(self, change: Callable[[int], int]) -> "Unweighted":
        """It has any width."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        return {"type": type(self).__name__}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Flatten(Unweighted):
    """All entries of all positions as one vector, (N, H, W, C) to (N, H·W·C) (docs/theory/positions, eq. 3).

    A network that ends in it has kernels of equal positions only. In kernels the channels before it are infinite, and
    positions are as many as there are. A dense block or a norm follows it; an activation does not, since variances
    differ between positions.

    >>> Flatten()
    Flatten()
    """

    def apply(self, params: Any, x: Array) -> Array:
        """The entries in the order of their positions."""
        refuse_vectors(x)
        return x.reshape(len(x), -1)

    def kernel(self, stage: Stage, average: Averages | None = None) -> Stage:
        """Means over equal positions."""
        return flattened(stage)


def refuse_vectors(x: Array) -> None:
    """Say that there are no positions."""
    if x.ndim < 3:
        raise ValueError("it stands where there are no positions, but must come before Flatten() or GlobalAvgPool().")
