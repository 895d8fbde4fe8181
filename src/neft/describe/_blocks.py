"""The card of a network made of blocks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from .._result import Made, Result, result
from ._draws import OutputDraws, output_draws

if TYPE_CHECKING:
    import neft


@result
class BlocksCard(Result):
    """The blocks of a network that hold weights: sizes, parameters, and K and Θ after them at infinite width.

    They are those of an input of entries 1 and -1 in turn, whose mean square is one; None where the network has no
    kernels, of which `absent` tells the reason. A block is named with what stands before it and holds no weights.
    `draws` holds sampled outputs for that input where they were asked for.
    """

    blocks: tuple[str, ...]
    widths: tuple[int, ...]
    parameters: Int[np.ndarray, " layers"]
    K: Float[np.ndarray, " layers"] | None
    Theta: Float[np.ndarray, " layers"] | None
    absent: str | None = None
    draws: OutputDraws | None = None
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"absent": None, "draws": None} | fields


def blocks_card(net: "neft.Network", draws: int = 0, key: Any = None) -> BlocksCard:
    """The card of any network; with a key also the outputs of that many draws."""
    # Of mean square one, and of mean zero, which LayerNorm may subtract.
    x = np.resize([1.0, -1.0], net.inputs)
    try:
        net.check_kernel()
        (K, Theta), absent = (found[:, 0, 0] for found in net.infinite_width(x[None])), None
    except ValueError as error:
        if key is not None:
            raise
        K, Theta, absent = None, None, str(error)
    return BlocksCard(
        blocks=tuple(", ".join(map(repr, part)) for part in net.parts()),
        widths=net.widths,
        parameters=np.array(net.parameters_of_parts()),
        K=K,
        Theta=Theta,
        absent=absent,
        draws=None if key is None or K is None else output_draws(net, x, draws, key, float(K[-1])),
        made=Made.by("neft.describe.network", specification={"net": net.to_dict(), "draws": draws}, key=key),
    )
