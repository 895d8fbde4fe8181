"""The card of a network made of blocks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._result import Made, Result, result

if TYPE_CHECKING:
    import neft


@result
class BlocksCard(Result):
    """The blocks of a network that hold weights: sizes, parameters, and K and Θ after them at infinite width.

    They are those of an input of entries 1 and -1 in turn, whose mean square is one; None where the network has no
    kernels, of which `absent` tells the reason.
    """

    blocks: tuple[str, ...]
    widths: tuple[int, ...]
    parameters: Int[np.ndarray, " layers"]
    K: Float[np.ndarray, " layers"] | None
    Theta: Float[np.ndarray, " layers"] | None
    absent: str | None = None
    made: Made


def blocks_card(net: "neft.Network") -> BlocksCard:
    """The card of any network."""
    import jax

    from ..network import infinite_width

    kernels, absent = (None, None), None
    try:
        net.check_kernel()
    except ValueError as error:
        absent = str(error)
    else:
        x = np.resize([1.0, -1.0], net.inputs)
        kernels = (found[:, 0, 0] for found in infinite_width(net, x[None]))
    K, Theta = kernels
    counts, left = [0] * net.depth, list(jax.eval_shape(net.init, jax.random.key(0)))
    place = -1
    for block in net.blocks:
        place += block.weighs
        if jax.tree.leaves(block.rates(1)):
            # What stands before the first weights counts with them.
            counts[max(place, 0)] += sum(_size(leaf) for leaf in jax.tree.leaves(left.pop(0)))
    return BlocksCard(
        blocks=tuple(repr(block) for block in net.blocks if block.weighs),
        widths=net.widths,
        parameters=np.array(counts),
        K=K,
        Theta=Theta,
        absent=absent,
        made=Made.by("neft.describe.network", specification={"net": net.to_dict()}),
    )


def _size(leaf: Any) -> int:
    return int(np.prod(leaf.shape))
