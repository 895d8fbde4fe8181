"""The card of a network."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

import neft

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ._blocks import BlocksCard, blocks_card
from ._draws import OutputDraws, output_draws

if TYPE_CHECKING:
    import jax


@result
class NetworkCard(Result):
    """A network's layers: sizes, variances at initialization, learning rates, and the variance K of a preactivation.

    `K` is that of infinite width for an input of mean square one: K¹ = C_b + C_W, K' = C_b + C_W⟨σ²⟩. `draws` holds
    sampled outputs where they were asked for.
    """

    activation: str
    widths: tuple[int, ...]
    parameters: Int[np.ndarray, " layers"]
    var_b: Float[np.ndarray, " layers"]
    var_W: Float[np.ndarray, " layers"]
    rate_b: Float[np.ndarray, " layers"]
    rate_W: Float[np.ndarray, " layers"]
    K: Float[np.ndarray, " layers"]
    draws: OutputDraws | None
    made: Made


@public
def network(net: "neft.Network", *, draws: int = 0, key: "jax.Array | None" = None) -> NetworkCard | BlocksCard:
    """The card of a network; with `draws` also the outputs of that many (at least two) networks drawn from it.

    `key` is that of the draws (default: key 0). A network that is no multilayer perceptron has a card of its blocks.

    >>> network(neft.MLP(widths=(784, 512, 10))).parameters.tolist()
    [401920, 5130]
    """
    import jax

    from ..network.engine import plain

    draws = _check.integer("draws", draws, at_least=0)
    if draws == 1:
        raise ValueError("draws is 1, but must be at least 2 (or 0 for none): one draw shows no spread.")
    key = (jax.random.key(0) if key is None else key) if draws else None
    chain = plain(net)
    if chain is None:
        return blocks_card(net, draws, key)
    # Only its mean square matters.
    net, x = chain, np.ones(net.inputs)
    K = net.infinite_width(x[None], slopes=False)[0][:, 0, 0]
    variances, rates = net.variances(), net.rates()
    return NetworkCard(
        activation=net.activation.name,
        widths=net.widths,
        parameters=np.array(net.widths[1:]) * (np.array(net.widths[:-1]) + 1),
        var_b=np.array([layer.b for layer in variances]),
        var_W=np.array([layer.W for layer in variances]),
        rate_b=np.array([layer.b for layer in rates]),
        rate_W=np.array([layer.W for layer in rates]),
        K=K,
        draws=None if key is None else output_draws(net, x, draws, key, float(K[-1])),
        made=Made.by("neft.describe.network", specification={"net": net, "draws": draws}, key=key),
    )
