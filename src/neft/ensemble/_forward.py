"""What one drawn network says about the kernels, for one or several inputs.

At each layer the weights of that layer are averaged over exactly, which leaves far less noise than the correlators
themselves: given the layer before, outputs are Gaussian with covariance G, and the NTK is known up to those weights
(docs/theory/width, eq. 9).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..network import MLP, Layer, Stage


class Kernels(NamedTuple):
    """Averages over the weights of layer l, given the network before it, for N inputs; l is the first axis.

    G and H are the covariance of a preactivation and the diagonal NTK. FF and BB are the squares that F and B count,
    without their weight variances, with axes in the order of subscripts of docs/theory/width, eqs. 52-53:
    FF[1,3,2,4] = Σ_jk s_j(1) h_jk(3,4) s_k(2) and BB[1,3,2,4] = Σ_jk h_jk(1,2) h_jk(3,4), h_jk = s_j' H_jk s_k'.
    """

    G: Float[Array, "layers N N"]
    H: Float[Array, "layers N N"]
    FF: Float[Array, "layers N N N N"]
    BB: Float[Array, "layers N N N N"]


def kernels(net: MLP, params: tuple[Layer, ...], x: Float[Array, "N n_0"]) -> Kernels:
    """The averages of all layers of one drawn network."""
    sigma, slope = net.activation, net.activation.derivative(1)
    zs = net.preactivations(params, x)
    N = len(x)
    gram = x @ x.T / net.widths[0]
    none = jnp.zeros((N,) * 4, x.dtype)
    stage = net.dense[0].kernel(Stage.of_matrix(gram, 0 * gram, kind="input"))
    rows = [(stage.c, stage.Theta, none, none)]
    # The NTK between the neurons of a layer, axes (sample, sample, neuron, neuron).
    NTK = rows[0][1][:, :, None, None] * _one(net.widths[1], x.dtype)
    for l in range(1, net.depth):
        n, block = net.widths[l], net.dense[l]
        s, d = sigma(zs[l - 1]), slope(zs[l - 1])
        inner = d[:, None, :, None] * NTK * d[None, :, None, :]
        gram = s @ s.T / n
        below = Stage.of_matrix(gram, jnp.trace(inner, axis1=2, axis2=3) / n, kind="activation")
        stage = block.kernel(below)
        moved = jnp.einsum("bdkm,cm->bcdk", inner, s)
        flat = inner.reshape(N * N, -1)
        rows.append(
            (
                stage.c,
                stage.Theta,
                jnp.einsum("ak,bcdk->abcd", s, moved),
                (flat @ flat.T).reshape((N,) * 4).swapaxes(1, 2),
            )
        )
        if l + 1 < net.depth:
            own = block.kernel(below.replace(Theta=0 * gram)).Theta
            NTK = own[:, :, None, None] * _one(net.widths[l + 1], x.dtype) + _sandwiched(params[l].W, inner)
    return Kernels(*(jnp.stack(column) for column in zip(*rows)))


def _one(n: int, dtype: Any) -> Float[Array, "1 1 n n"]:
    return jnp.eye(n, dtype=dtype)[None, None]


def _sandwiched(W: Array, inner: Array) -> Array:
    # W h Wᵀ of every pair of samples; the one below the diagonal is the transpose of the one above.
    N = len(inner)
    rows, columns = np.triu_indices(N)
    upper = W @ inner[rows, columns] @ W.T
    place = np.zeros((N, N), int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    below = np.tril(np.ones((N, N), bool), -1)[:, :, None, None]
    return jnp.where(below, upper.swapaxes(-1, -2)[place], upper[place])
