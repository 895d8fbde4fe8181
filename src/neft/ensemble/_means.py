"""The means at infinite width, and what one drawn network tells about their corrections.

Given layers 1..l-1, layer l+1 has the mean variance f(G) = C_b + C_W⟨s²⟩ over z ~ N(0, G), where G is the variance that
layer l has in this network, and its NTK has the mean θ(G, H, F) = λ_b + λ_W⟨s²⟩ + C_W(H⟨s'²⟩ + 2F d⟨s'²⟩/dG). Both are
known functions, so their linear parts in G - K and H - Θ, which are nearly all of the noise, need not be sampled: their
means are those of the layer before. What is left is of second order in the fluctuations, as the corrections are.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._activation import Activation
from .._network import MLP
from ..gaussian import Powers, moment, pair, rule

Averages = tuple[Array, Array, Array, Array]


def infinite_width(net: MLP, x: np.ndarray, *, slopes: bool) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of all layers, (L, N, N), for inputs (N, n_0); without `slopes` Θ is not that of the network."""
    gram = x @ x.T / net.widths[0]
    Ks, Thetas = [net.C_b[0] + net.C_W[0] * gram], [net.lambda_b[0] + net.lambda_W[0] * gram]
    for l in range(1, net.depth):
        K = Ks[-1]
        # Beyond this, squares and fourth powers of preactivations leave the range of numbers.
        if not (np.abs(K) < 1e70).all():
            raise ValueError(
                f"K overflows at layer {l}, so nothing beyond it is defined: lower C_W or C_b, or the depth."
            )
        square = _pairs(net.activation, K, 0)
        slope = _pairs(net.activation, K, 1) if slopes else 0.0
        Thetas.append(net.lambda_b[l] + net.lambda_W[l] * square + net.C_W[l] * Thetas[-1] * slope)
        Ks.append(net.C_b[l] + net.C_W[l] * square)
    return np.stack(Ks), np.stack(Thetas)


def _pairs(act: Activation, K: np.ndarray, order: int) -> np.ndarray:
    # ⟨σσ⟩ or ⟨σ'σ'⟩ of all samples: one variable on the diagonal, two of them off it.
    variance, (rows, columns) = np.diagonal(K), np.triu_indices(len(K), 1)
    found = np.diag(np.asarray(moment(act, Powers(s1=2) if order else Powers(s=2), variance)))
    if len(rows):
        scale = np.sqrt(variance[rows] * variance[columns])
        rho = np.divide(K[rows, columns], scale, out=np.zeros_like(scale), where=scale > 0)
        found[rows, columns] = pair(act, variance[rows], variance[columns], np.clip(rho, -1, 1), order=order)
        found[columns, rows] = found[rows, columns]
    return found


def corrections(
    net: MLP,
    G: Float[Array, "layers *batch"],
    H: Float[Array, "layers *batch"],
    FF: Float[Array, "layers *batch"],
    K: Float[Array, "layers *batch"],
    Theta: Float[Array, "layers *batch"],
    known: Averages,
) -> tuple[Float[Array, "layers *batch"], Float[Array, "layers *batch"]]:
    """Quantities of one draw whose means are E[G] - K and E[H] - Θ, one input at a time.

    G, H and FF are the draw's averages over the last weights, FF = Σ_jk s_j h_jk s_k; K, Θ
    and `known`, the averages of its layers 2..L-1, belong to infinite width.
    """
    # All layers at once, which is one quadrature to compile.
    drawn = averages(net.activation, G[1:-1])
    # The kernels of the first layer do not fluctuate, so the means of the second are those of infinite width.
    none = jnp.zeros_like(G[0])
    means_G, means_H = [none] * min(net.depth, 2), [none] * min(net.depth, 2)
    for l in range(2, net.depth):
        below = l - 1
        C_W, lambda_W = net.C_W[l], net.lambda_W[l]
        F = (net.C_W[below] / net.widths[below]) ** 2 * FF[below]
        ss, a, _, m = (value[below - 1] for value in drawn)
        ss_K, a_K, g_K, m_K = (value[below - 1] for value in known)
        dG, dH = G[below] - K[below] - means_G[-1], H[below] - Theta[below] - means_H[-1]
        means_G.append(C_W * (ss - ss_K - g_K * dG))
        theta = lambda_W * (ss - ss_K) + C_W * (H[below] * a + jnp.where(F == 0, 0.0, 2 * F * m) - Theta[below] * a_K)
        means_H.append(theta - (lambda_W * g_K + C_W * Theta[below] * m_K) * dG - C_W * a_K * dH)
    return jnp.stack(means_G), jnp.stack(means_H)


def averages(act: Activation, G: Array) -> Averages:
    """⟨s²⟩, ⟨s'²⟩ and their derivatives in G, in forms without s'', which may hold deltas."""
    if G.size == 0:  # up to two layers there is nothing between the first and the last
        return G, G, G, G
    # A network may die, and then every average is that of a point.
    G = jnp.maximum(G, 1e-100)
    z, w = rule(G, kinks=[kink.position for kink in act.kinks], length=act.length, oscillates=act.oscillates)
    tilt = w * (z * z - G[..., None]) / (2 * G[..., None] ** 2)
    square, slope = act(z) ** 2, act.derivative(1)(z) ** 2
    ss, a, g, m = ((weight * value).sum(-1) for weight in (w, tilt) for value in (square, slope))
    return ss, a, g, m
