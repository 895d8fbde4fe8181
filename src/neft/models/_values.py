"""What pieces of the graph do to numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._graph import Known, Node
from ._ops import ALONG, ELEMENTWISE, kind_of


def evaluate(nodes: Sequence[Node], start: Node, value: Any) -> Any:
    """What the last of these operations gives where `start` is a NumPy array; in float64."""
    found: dict[int, Any] = {id(start): value}
    for node in nodes:
        args = [np.asarray(arg.value) if isinstance(arg, Known) else found[id(arg)] for arg in node.args]
        args = [arg.astype(np.float64) if kind_of(arg.dtype) == "f" else arg for arg in args]
        found[id(node)] = (ELEMENTWISE | ALONG)[node.op](np, node.params, *args)
    return found[id(nodes[-1])]


def elementwise(nodes: Sequence[Node]) -> bool:
    """Whether each entry of the last of these operations is a function of one entry, the same for all of them."""
    return all(
        node.op in ELEMENTWISE and all(isinstance(arg, Node) or arg.uniform for arg in node.args) for node in nodes
    )


def understood(nodes: Sequence[Node]) -> bool:
    """Whether all of these operations can be evaluated."""
    return all(node.op in ELEMENTWISE or node.op in ALONG for node in nodes)


def function_of(nodes: Sequence[Node], start: Node) -> Callable[[Any], Any]:
    """The function of one entry that elementwise operations are, for JAX and NumPy, in its argument's precision."""
    steps = [(ELEMENTWISE[node.op], dict(node.params), _places(node, nodes, start)) for node in nodes]

    def function(z: Any) -> Any:
        library = jnp if isinstance(z, jax.Array) else np
        found = [z]
        for step, params, places in steps:
            args = [found[place] if isinstance(place, int) else _as(library, place.number, z) for place in places]
            made = step(library, params, *args)
            # What a comparison gives becomes a number of the program's own precision.
            found.append(_as(library, made, z) if made.dtype != z.dtype else made)
        return found[-1]

    return function


class _Number:
    def __init__(self, value: Any) -> None:
        self.number = np.ravel(value)[0]


def _places(node: Node, nodes: Sequence[Node], start: Node) -> list[Any]:
    place = {id(start): 0} | {id(one): i for i, one in enumerate(nodes, start=1)}
    return [_Number(arg.value) if isinstance(arg, Known) else place[id(arg)] for arg in node.args]


def _as(library: Any, number: Any, z: Any) -> Any:
    return library.asarray(number, z.dtype) if kind_of(number.dtype) == "f" else library.asarray(number)
