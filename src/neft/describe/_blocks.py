"""The card of a network made of blocks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._result import Made, Result, result
from ._draws import OutputDraws, drawn

if TYPE_CHECKING:
    import neft


@result
class BlocksCard(Result):
    """The blocks of a network that hold weights: sizes, parameters, and K and Θ after them at infinite width.

    They are those of an input of entries 1 and -1 in turn, whose mean square is one. `draws` holds sampled outputs
    where they were asked for.
    """

    blocks: tuple[str, ...]
    widths: tuple[int, ...]
    parameters: Int[np.ndarray, " layers"]
    K: Float[np.ndarray, " layers"]
    Theta: Float[np.ndarray, " layers"]
    draws: OutputDraws | None
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"draws": None} | fields


def blocks_card(net: "neft.Network", draws: int, key: Any) -> BlocksCard:
    """The card of any network; with a key also the outputs of draws."""
    import jax

    x = np.resize([1.0, -1.0], net.inputs)
    K, Theta = net.infinite_width(x[None])
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
        K=K[:, 0, 0],
        Theta=Theta[:, 0, 0],
        draws=None if key is None else drawn(net, x, draws, key, float(K[-1, 0, 0])),
        made=Made.by("neft.describe.network", specification={"net": net.to_dict(), "draws": draws}, key=key),
    )


def _size(leaf: Any) -> int:
    return int(np.prod(leaf.shape))
