"""The means at infinite width, and what one drawn network says about their corrections.

Given layers 1..l-1, layer l+1 has the mean variance f(G) = C_b + C_W⟨s²⟩ over z ~ N(0, G), where G is the variance that
layer l has in this network, and its NTK has the mean θ(G, H, F) = λ_b + λ_W⟨s²⟩ + C_W(H⟨s'²⟩ + 2F d⟨s'²⟩/dG). Both are
known functions, so their linear parts in G - K and H - Θ, which are nearly all of the noise, need not be sampled: their
means are those of the layer before. What is left is of second order in the fluctuations, as the corrections are.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._activation import Activation
from .._quadrature import rule
from ..network import MLP, Linear


class Averages(NamedTuple):
    """⟨ss⟩, ⟨s's'⟩ and their derivatives in the covariance, which have one axis more for its entries."""

    ss: Array
    a: Array
    g: Array
    m: Array


class Known(NamedTuple):
    """Averages of each sample and of each pair of different ones."""

    single: Averages
    pairs: Averages


def corrections(
    net: MLP,
    G: Float[Array, "layers N N"],
    H: Float[Array, "layers N N"],
    FF: Float[Array, "layers N N N N"],
    K: Float[Array, "layers N N"],
    Theta: Float[Array, "layers N N"],
    known: "Known",
) -> tuple[Float[Array, "layers N N"], Float[Array, "layers N N"]]:
    """Quantities of one draw whose means are E[G] - K and E[H] - Θ.

    G, H and FF are the draw's averages over the last weights, FF_manb = Σ_jk s_jm h_jk,ab s_kn; K, Θ
    and `known`, the averages of its layers 2..L-1, belong to infinite width.
    """
    act, every = net.activation, jnp.arange(G.shape[1])
    first, second = np.triu_indices(G.shape[1], 1)
    # All layers at once, which is one quadrature to compile.
    drawn = known_averages(act, G[1:-1])
    # The kernels of the first layer do not fluctuate, so the means of the second are those of infinite width.
    none = jnp.zeros_like(G[0])
    means_G, means_H = [none] * min(net.depth, 2), [none] * min(net.depth, 2)
    for l in range(2, net.depth):
        below = l - 1
        F = net.variances()[below].W ** 2 * FF[below]
        dG, dH = G[below] - K[below] - means_G[-1], H[below] - Theta[below] - means_H[-1]
        change = functools.partial(_change, net.dense[l].tensors())
        now, at_K = (Averages(*(v[below - 1] for v in values)) for values in (drawn.single, known.single))
        own = F[every, every, every, every]
        diagonal = [v[every, every] for v in (H[below], dH, Theta[below])]
        result = change(now, at_K, jnp.where(own == 0, 0.0, 2 * own * now.m[..., 0]), dG[every, every, None], *diagonal)
        new_G, new_H = (none.at[every, every].set(value) for value in result)
        if len(first):
            now, at_K = (Averages(*(v[below - 1] for v in values)) for values in (drawn.pairs, known.pairs))
            # Σ_mn F_m1n2 ⟨∂_m∂_n s'_1 s'_2⟩; the derivatives in G are those in z, once or twice.
            weights = (
                2 * F[first, first, first, second],
                2 * F[second, first, second, second],
                F[first, first, second, second] + F[second, first, first, second],
            )
            move = jnp.stack([dG[first, first], dG[second, second], dG[first, second]], axis=-1)
            mixed = (jnp.stack(weights, axis=-1) * now.m).sum(-1)
            result = change(now, at_K, mixed, move, *(v[first, second] for v in (H[below], dH, Theta[below])))
            for i, j in ((first, second), (second, first)):
                new_G, new_H = new_G.at[i, j].set(result[0]), new_H.at[i, j].set(result[1])
        means_G.append(new_G)
        means_H.append(new_H)
    return jnp.stack(means_G), jnp.stack(means_H)


def _change(
    linear: Linear,
    now: "Averages",
    at_K: "Averages",
    F_m: Array,
    move: Array,
    h: Array,
    dh: Array,
    theta: Array,
) -> tuple[Array, Array]:
    # The next layer's G and H without their values at infinite width and the parts linear in dG and dH. `move` holds
    # the entries of dG in its last axis, as the derivatives of the averages do.
    new = now.ss - at_K.ss - (at_K.g * move).sum(-1)
    slope = h * now.a + F_m - theta * at_K.a - at_K.a * dh - theta * (at_K.m * move).sum(-1)
    return linear.variance * new, linear.theta(new, slope)


def known_averages(act: Activation, G: Float[Array, "layers N N"]) -> "Known":
    """The averages of each sample and of each pair of samples, layer by layer."""
    first, second = np.triu_indices(G.shape[1], 1)
    own = jnp.diagonal(G, axis1=1, axis2=2)
    pairs = jnp.stack([own[:, first], own[:, second], G[:, first, second]], axis=-1)
    return Known(averages(act, own), pair_averages(act, pairs))


def pair_averages(act: Activation, G: Float[Array, "layers pairs three"]) -> "Averages":
    """⟨s1s2⟩, ⟨s1's2'⟩ and their derivatives in G11, G22 and G12, the last axis, by a rule that is coarse but smooth.

    Its error is nearly the same at K, and only differences count.
    """
    if G.size == 0:
        return Averages(*(jnp.zeros(G.shape[:2]),) * 2, *(jnp.zeros(G.shape),) * 2)
    both = functools.partial(_pair_rule, act)
    flat = G.reshape(-1, 3)
    values, slopes = jax.vmap(lambda g: (both(g), jax.jacfwd(both)(g)))(flat)
    shape = G.shape[:-1]
    return Averages(
        values[:, 0].reshape(shape),
        values[:, 1].reshape(shape),
        slopes[:, 0].reshape(*shape, 3),
        slopes[:, 1].reshape(*shape, 3),
    )


def _pair_rule(act: Activation, G: Float[Array, " three"]) -> Float[Array, " two"]:
    first = jnp.sqrt(jnp.maximum(G[0], 1e-100))
    along = G[2] / first
    # Networks may make two inputs equal; the rest then counts as a very small one.
    across = jnp.sqrt(jnp.maximum(G[1] - along**2, 1e-12 * G[1] + 1e-100))
    kinks = np.array([kink.position for kink in act.kinks])
    if not len(kinks):
        x, w = (jnp.asarray(v) for v in _HERMITE)
        z1, z2 = first * x[:, None], along * x[:, None] + across * x[None, :]
        weight = w[:, None] * w[None, :]
    else:
        x, wx = _pieces(jnp.asarray(kinks) / first)
        y, wy = jax.vmap(lambda t: _pieces((kinks - along * t) / across))(x)
        z1, z2, weight = first * x[:, None], along * x[:, None] + across * y, wx[:, None] * wy
    slope = act.derivative(1)
    return jnp.stack([(weight * f(z1) * f(z2)).sum() for f in (act, slope)])


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_HERMITE = [part / scale for part, scale in zip(np.polynomial.hermite_e.hermegauss(24), (1.0, np.sqrt(2 * np.pi)))]


def _pieces(breaks: Array) -> tuple[Array, Array]:
    edges = jnp.sort(jnp.concatenate([jnp.array([-6.5, -1.5, 1.5, 6.5]), jnp.clip(breaks, -6.5, 6.5)]))
    half = (edges[1:] - edges[:-1])[:, None] / 2
    x = (edges[:-1, None] + half * (1 + _NODES[None, :])).ravel()
    return x, (half * _WEIGHTS[None, :]).ravel() * jnp.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def averages(act: Activation, G: Array) -> Averages:
    """⟨s²⟩, ⟨s'²⟩ and their derivatives in G, in forms without s'', which may hold deltas."""
    if G.size == 0:  # up to two layers there is nothing between the first and the last
        return Averages(G, G, G[..., None], G[..., None])
    # A network may die, and then every average is that of a point.
    G = jnp.maximum(G, 1e-100)
    z, w = rule(
        G, kinks=[kink.position for kink in act.kinks], length=act.length, oscillates=act.oscillates, cuts=act.cuts
    )
    tilt = w * (z * z - G[..., None]) / (2 * G[..., None] ** 2)
    square, slope = act(z) ** 2, act.derivative(1)(z) ** 2
    ss, a, g, m = ((weight * value).sum(-1) for weight in (w, tilt) for value in (square, slope))
    return Averages(ss, a, g[..., None], m[..., None])
