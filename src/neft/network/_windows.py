"""Windows that slide along positions: where they stand, and sums over them."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import _check
from .._promote import library_of

Padding = Literal["SAME", "VALID", "CIRCULAR"]
PADDINGS = ("SAME", "VALID", "CIRCULAR")


class Window(NamedTuple):
    """A window along one axis, as frameworks have it.

    VALID windows lie inside. SAME ones stand at every stride-th position, with zeros outside the image, and CIRCULAR
    ones the same with the other end of it there.
    """

    size: int
    stride: int
    padding: Padding

    def count(self, n: int) -> int:
        """How many there are along n positions."""
        if self.padding != "VALID":
            return -(-n // self.stride)
        if n < self.size:
            raise ValueError(f"a window of {self.size} positions stands where there are {n}, but must fit in.")
        return (n - self.size) // self.stride + 1

    def pads(self, n: int) -> tuple[int, int]:
        """How many positions are added at the two ends."""
        if self.padding == "VALID":
            return 0, 0
        more = max((self.count(n) - 1) * self.stride + self.size - n, 0)
        return more // 2, more - more // 2

    def padded(self, value: Any, axes: Sequence[int]) -> Any:
        """An array with those added along some axes."""
        pads = [self.pads(n) if axis in axes else (0, 0) for axis, n in enumerate(value.shape)]
        if not any(map(any, pads)):
            return value
        return library_of(value).pad(value, pads, mode="wrap" if self.padding == "CIRCULAR" else "constant")

    def each(self, value: Any, axes: Sequence[int]) -> list[Any]:
        """The entries at the first place of all windows, at the second and so on, along axes that move together."""
        counts = {axis: self.count(value.shape[axis]) for axis in axes}
        value = self.padded(value, axes)
        found = []
        for q in range(self.size):
            cut = [slice(None)] * value.ndim
            for axis, count in counts.items():
                cut[axis] = slice(q, q + (count - 1) * self.stride + 1, self.stride)
            found.append(value[tuple(cut)])
        return found

    def summed(self, value: Any, axes: Sequence[int]) -> Any:
        """The sums over all windows, along axes that move together.

        >>> Window(3, 1, "SAME").summed(np.arange(4.0), (0,)).tolist()
        [1.0, 3.0, 6.0, 5.0]
        """
        total, *rest = self.each(value, axes)
        for one in rest:
            total = total + one
        return total


def sizes(name: str, given: Any, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """One or two positive whole numbers, for one or two dimensions; with a default, one number stands for all of it."""
    if default is not None and given is None:
        return default
    number = isinstance(given, int | np.integer) and not isinstance(given, bool)
    values = (given,) * (1 if default is None else len(default)) if number else given
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) not in (1, 2):
        raise ValueError(f"{name} is {_check.brief(given)}, but must be one or two whole numbers, such as (3, 3).")
    if default is not None and len(values) != len(default):
        raise ValueError(f"{name} is {_check.brief(given)}, but must have {len(default)} numbers, as shape has.")
    return tuple(_check.integer(f"each of {name}", n, at_least=1) for n in values)
