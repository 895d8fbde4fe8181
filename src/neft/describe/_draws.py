"""The outputs of many draws of a network, against the Gaussian of infinite width."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._blocks import blocks
from .._result import Result, result

if TYPE_CHECKING:
    import neft

_BLOCK = 256


@result
class OutputDraws(Result):
    """Outputs of many networks drawn from one specification, against the Gaussian of infinite width.

    `variance` is the mean square of all outputs, `stderr` its standard error over draws, and `z_score` counts how many
    of those lie between it and `K`.
    """

    outputs: Float[np.ndarray, "draws n_L"]
    K: float
    variance: float
    stderr: float
    z_score: float


def drawn(net: "neft.Network", x: np.ndarray, draws: int, key: Any, K: float) -> OutputDraws:
    """The outputs of that many networks at one input, whose variance at infinite width is K."""
    import jax

    single = x.astype(np.float32)

    @jax.jit
    def outputs(keys):
        # One network at a time: it compiles much faster than a batch of them, and memory holds one.
        return jax.lax.map(lambda key: net.apply(net.init(key), single), keys)

    # Blocks of one size compile once; what is drawn too much is dropped.
    size = min(draws, _BLOCK)
    keys = jax.random.split(key, -(-draws // size) * size)
    z = np.concatenate([np.asarray(outputs(keys[part]), float) for part in blocks(len(keys), size, label="draws")])[
        :draws
    ]
    if not np.isfinite(z).all():
        raise ValueError(f"outputs of drawn networks overflow float32, their variance is {K:g}: take a smaller C_W.")
    # Outputs of one draw share their hidden layers, so a draw counts once.
    squares = (z**2).mean(axis=1)
    variance, stderr = float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(draws))
    z_score = (variance - K) / stderr if stderr > 0 else 0.0
    return OutputDraws(outputs=z, K=K, variance=variance, stderr=stderr, z_score=z_score)
