"""The largest learning rate with which gradient descent converges."""

from typing import Any

import numpy as np

from .. import _check, width
from .._public import public
from ..network import Network
from ._kernels import inputs, square
from ._linear import largest_eigenvalue
from ._momentum import momentum as momentum_of


@public
def max_learning_rate(net: Any, x_train: Any = None, *, momentum: float = 0.0, nesterov: bool = False) -> float:
    """2/λ_max(Θ_AA): the largest η with which gradient descent on L = ½Σ(z-y)² does not diverge.

    It multiplies the learning rates λ of the network (docs/theory/training, eq. 4). With momentum β it is 1 + β times
    as much, and Nesterov's (1+β)/(1+2β) times as much (eq. 42 there). A loss that is a mean over N samples allows N
    times as much.

    Args:
        net: a network, whose kernel at infinite width is taken; or the NTK of any model on its training inputs,
            shape (N, N) or, as `tangent.ntk` gives it, (N, N, O, O).
        x_train: with a network, its training inputs, shape (N, n_0).
        momentum: β, at least 0 and below 1.
        nesterov: whether the step looks ahead, as in `predict`.

    >>> max_learning_rate([[2.0, 0.0], [0.0, 0.5]])
    1.0
    """
    reach = momentum_of(momentum, nesterov).reach
    if isinstance(net, Network):
        if x_train is None:
            raise ValueError("x_train is missing, but a network's kernel needs its training inputs.")
        Theta = width.kernel(net, inputs(net, "x_train", x_train))[1]
    else:
        if x_train is not None:
            raise ValueError("x_train is given, but goes with a network and not with its NTK.")
        kept = np.float32 if getattr(net, "dtype", None) == np.float32 else np.float64
        Theta = _check.array("net", net, ndim=(2, 4), dtype=kept)
        if Theta.ndim == 4:
            N, M, O, P = Theta.shape
            Theta = Theta.transpose(0, 2, 1, 3).reshape(N * O, M * P)
        Theta = square("net", Theta, 1)
    largest = largest_eigenvalue(Theta)
    return reach / largest if largest > 0 else np.inf
