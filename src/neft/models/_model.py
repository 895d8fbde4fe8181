"""What a framework says about a model: a function of its parameters and an input, and what else is known of it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of any framework as a JAX function.

    Attributes:
        framework: its name.
        function: `function(params, x)`, params being arrays by name.
        params: the arrays.
        axes: of the inputs, by how many they have: "N" the inputs, "C" entries or channels, "H" and "W" positions.
        default: the framework's own initializer, as `initializer` takes it.
        notes: what a reader should know; tracing may add to them.
    """

    framework: str
    function: Callable[[Mapping[str, Any], Any], Any]
    params: Mapping[str, np.ndarray]
    axes: Mapping[int, tuple[str, ...]]
    default: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)

    def sizes(self) -> Iterator[int]:
        """Numbers of inputs that may fit: the sizes of its matrices, in their order."""
        found = (size for value in self.params.values() if np.ndim(value) == 2 for size in np.shape(value))
        yield from dict.fromkeys(found)

    @property
    def dtype(self) -> Any:
        """That of its parameters."""
        kinds = [np.asarray(value).dtype for value in self.params.values()]
        return next((dtype for dtype in kinds if dtype.kind == "f"), np.dtype(np.float32))


DROPOUT = "Dropout is left out: it is the identity when the network is used, and noise while it trains."

IMAGES_LAST = {1: ("C",), 2: ("N", "C"), 3: ("N", "H", "C"), 4: ("N", "H", "W", "C")}
"""Axes where channels come last."""

IMAGES_FIRST = {1: ("C",), 2: ("N", "C"), 3: ("N", "C", "H"), 4: ("N", "C", "H", "W")}
"""Axes where channels come first."""


def by_name(tree: Any) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays of a tree, copied, by their names in it, and how to make the tree again."""
    found, structure = jax.tree_util.tree_flatten_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): np.array(leaf) for path, leaf in found}
    return named, structure
