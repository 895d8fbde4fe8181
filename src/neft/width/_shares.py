"""Learning rates that give every layer the same share of the output's NTK (docs/theory/width, eq. 73).

The NTK of the output is a sum over layers, Θ^(L) = Σ_l (λ_b^(l) + λ_W^(l)⟨s²⟩^(l-1)) Π_{l'>l} χ_⊥^(l'), so rates that
undo the last product make all its terms equal, those of biases and of weights alike.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _check
from .._activation import Activation
from .._moments import Powers, pure_moments
from .._precision import float64
from .._public import public
from ..network import MLP, Dense, Means, Network, Nonlinearity, Stage
from ..network.engine import perceptron
from ._known import no_average, stepped


@public
@float64
def equal_shares(net: Network, x: Any) -> MLP:
    """The network with learning rates at which each layer, and in it biases and weights, has the same share of the NTK.

    λ_b^(l) = 1/(2L Π_{l'>l} χ_⊥^(l')) and λ_W^(l) = λ_b^(l)/⟨s²⟩^(l-1), with ⟨s²⟩^(0) = |x|²/n_0: the NTK of the output
    is 1 at infinite width, so one global factor is the step size that remains to be chosen.

    Args:
        net: the specification; its own rates are not used.
        x: one input of shape (n_0,), on which the shares are equal.

    >>> balanced = equal_shares(MLP(widths=(3, 8, 2), activation="relu", C_W=2.0), [1.0, 1.0, 1.0])
    >>> [round(rate, 6) for rate in balanced.lambda_W]
    [0.25, 0.25]
    """
    net = perceptron(net, "equal shares")
    x = _check.array("x", x, shape=(net.widths[0],))
    q = float(x @ x / net.widths[0])
    if q == 0:
        raise ValueError("x is 0, but must not be: no rate gives the weights of the first layer a share of its NTK.")
    square, chi = (np.asarray(values) for values in _compiled(net.activation)(jnp.asarray(q), net.stacked))
    for l in range(1, net.depth):
        if not (np.isfinite([chi[l], square[l]]).all() and min(chi[l], square[l]) > 0):
            raise ValueError(
                f"layer {l + 1} has χ_⊥ = {chi[l]:.3g} and ⟨σ²⟩ = {square[l]:.3g} before it, but both must be positive "
                "and finite for every layer to have a share of the NTK."
            )
    lambda_b, lambda_W = balanced_rates(square, chi)
    return net.replace(lambda_b=tuple(lambda_b.tolist()), lambda_W=tuple(lambda_W.tolist()))


def balanced_rates(square: np.ndarray, chi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """λ_b and λ_W of all L layers from ⟨s²⟩^(l-1) and χ_⊥^(l), l = 1..L; the first χ_⊥ does not enter."""
    logarithm = np.append(np.cumsum(np.log(chi[:0:-1]))[::-1], 0.0)
    if logarithm.min() < -600 or logarithm.max() > 600:
        at, far = int(np.argmax(np.abs(logarithm))) + 1, logarithm[np.argmax(np.abs(logarithm))]
        raise ValueError(
            f"the NTK of layer {at} reaches the output times e^{far:.0f}, so no floating-point rate gives it an equal "
            "share: take C_W nearer to criticality, or fewer layers."
        )
    lambda_b = np.exp(-logarithm) / (2 * len(chi))
    return lambda_b, lambda_b / square


@functools.lru_cache(maxsize=64)
def _compiled(act: Activation):
    def run(q, blocks: Dense):
        def step(K, block):
            square, slope = pure_moments(act, [Powers(s=2), Powers(s1=2)], K)
            means = Means(square, square, square, slope, 0 * square)
            K, _ = stepped((Nonlinearity(act), block), Stage.itself(K, 0 * K), lambda *_: means)
            return K, (square, block.tensors().variance * slope)

        first, later = (jax.tree.map(take, blocks) for take in (lambda values: values[0], lambda values: values[1:]))
        start, _ = stepped((first,), Stage.itself(q, 0 * q, kind="input"), no_average)
        square, chi = lax.scan(step, start, later)[1]
        return jnp.append(q, square), jnp.append(1.0, chi)

    return jax.jit(run)
