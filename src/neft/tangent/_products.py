"""NTK, dNTK and ddNTK contracted with vectors of function space: a few passes through the model, whatever its size."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import _check
from .._flat import Model, directional_derivative, flat, samples
from .._public import public
from ..network import Network


@public
def products(
    f: Model | Network, params: Any, x: Any, vectors: Sequence[Any], *, at: Any = None, rates: Any = None
) -> Float[Array, "M O"]:
    """Hε₁, dHε₁ε₂ or the first ddNTK ε₁ε₂ε₃, for one, two or three vectors ε of shape (N, O) over the inputs x.

    With ε the derivative of a loss by the outputs, a step of size η changes the outputs by -ηHε + η²dHεε/2 - η³ddHεεε/6
    (docs/theory/width, eq. 10).

    Args:
        f: the model, as in `ntk`.
        params: its parameters.
        x: inputs, shape (N, …).
        vectors: one to three arrays of shape (N, O).
        at: inputs at which the result is wanted, shape (M, …); x by default.
        rates: learning rates, as in `ntk`.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 4, 1))
    >>> products(net, net.init(jax.random.key(0)), jnp.ones((3, 2)), [jnp.ones((3, 1))]).shape
    (3, 1)
    """
    model, x = flat(f, params, rates), samples("x", x)
    at = x if at is None else samples("at", at)
    if not 1 <= len(vectors) <= 3:
        raise ValueError(f"vectors hold {len(vectors)} arrays, but must hold one, two or three.")
    outputs = jax.eval_shape(model.z, model.theta, x).shape
    for vector in vectors:
        if (shape := _check.array("each of vectors", vector).shape) != outputs:
            raise ValueError(f"vectors hold an array of shape {shape}, but must have shape {outputs}.")

    @jax.jit
    def contracted(theta, rates, x, at, vectors):
        pull = jax.vjp(lambda t: model.z(t, x), theta)[1]
        directions = tuple(rates * pull(vector.astype(theta.dtype))[0] for vector in vectors)
        return directional_derivative(lambda t: model.z(t, at), theta, directions)

    found = contracted(model.theta, model.rates, x, at, [jnp.asarray(v) for v in vectors])
    _check.finite("the product", found)
    return found
