"""A network with batch normalization after each hidden layer, and the initializer of the paper's experiment."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from ..network import MLP, Layer

Inputs = Float[Array, "batch n_0"] | Float[np.ndarray, "batch n_0"]

_EPSILON = 1e-5


class Norm(NamedTuple):
    """Scale and shift of one batch normalization, each of shape (n_l,)."""

    scale: Any
    shift: Any


class Moments(NamedTuple):
    """Mean and variance by which one batch normalization divides, each of shape (n_l,)."""

    mean: Any
    variance: Any


@public
def glorot(net: MLP, key: Array, *, dtype: Any = jnp.float32) -> tuple[Layer, ...]:
    """Glorot's uniform initialization: |W| ≤ √(6/(n_{l-1}+n_l)), zero biases (Glorot, Bengio 2010).

    >>> glorot(MLP(widths=(3, 3)), jax.random.key(0))[0].b.tolist()
    [0.0, 0.0, 0.0]
    """
    net.check_memory(dtype)
    sizes = zip(net.widths, net.widths[1:], jax.random.split(key, net.depth))
    return tuple(
        Layer(
            jax.random.uniform(k, (n, m), dtype, -1.0, 1.0) * math.sqrt(6 / (m + n)),
            jnp.zeros(n, dtype),
        )
        for m, n, k in sizes
    )


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class BatchNormalized:
    """A network whose hidden outputs σ(z) are normalized over the batch (Sun, Nielsen 2017, figures 2 and 4).

    Its parameters are (Layer, Norm, Layer, Norm, …, Layer). `preactivations` in training takes the batch's own
    moments; a prediction takes the moments that `moments` finds on a large part of the training set.
    """

    net: MLP

    def __post_init__(self) -> None:
        if not isinstance(self.net, MLP):
            raise ValueError(f"net is {_check.brief(self.net)}, but must be a network such as neft.MLP((3, 8, 1)).")

    def init(self, key: Array, *, dtype: Any = jnp.float32) -> tuple[Layer | Norm, ...]:
        """Glorot's layers, scales 1 and shifts 0."""
        params: list[Layer | Norm] = []
        for layer in glorot(self.net, key, dtype=dtype):
            params += [layer, Norm(jnp.ones_like(layer.b), jnp.zeros_like(layer.b))]
        return tuple(params[:-1])

    def forward(
        self, params: Sequence[Any], x: Inputs, moments: Sequence[Moments] | None = None
    ) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Moments, ...]]:
        """The inputs of each layer, its preactivations, and the moments used (the batch's own by default)."""
        inputs, zs, used = [jnp.asarray(x)], [], []
        for l, layer in enumerate(params[::2]):
            zs.append(inputs[-1] @ layer.W.T + layer.b[None, :])
            if l < self.net.depth - 1:
                h = self.net.activation(zs[-1])
                used.append(Moments(h.mean(0), h.var(0)) if moments is None else moments[l])
                norm = params[2 * l + 1]
                scale = norm.scale * jax.lax.rsqrt(used[-1].variance + _EPSILON)
                inputs.append((h - used[-1].mean[None, :]) * scale[None, :] + norm.shift[None, :])
        return tuple(inputs), tuple(zs), tuple(used)

    def moments(self, params: Sequence[Any], x: Inputs) -> tuple[Moments, ...]:
        """The moments that the inputs x give, for `apply`."""
        return self.forward(params, x)[2]

    def apply(
        self, params: Sequence[Any], x: Inputs, moments: Sequence[Moments] | None = None
    ) -> Float[Array, "batch n_L"]:
        """The outputs, by the given moments (None: the batch's own, as in training)."""
        return self.forward(params, x, moments)[1][-1]
