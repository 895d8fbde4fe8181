"""What one drawn network says about dNTK and ddNTK, for one or several inputs.

The weights W of layer l+1 enter their correlators through second moments only. Where two sums over W meet the same
vector, they are done exactly; the others take a few *probes*: rows w of random signs with the variance of a weight.
A probe is a linear function w·σ(z^l) of the network below, and its gradient is of rank one in every layer: with
u = ∂(w·σ)/∂σ(z^m) and δ = σ'u, it is δ ⊗ σ(z^{m-1}). So one pass forward along gradients (ż), and one pass back that is
differentiated along them (u̇), give all contractions of second and third derivatives as products of vectors, and no
array is larger than a layer's weights.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..network import MLP, Layer
from ._forward import Kernels


class Differentials(NamedTuple):
    """The correlators of dNTK and ddNTK, averaged over the last weights.

    Axes as the subscripts of docs/theory/width, eqs. 42-44: P[0,1,2,3], Q[0,1,2,3], R[0,1,2,3], S[1,2,3,4], T[1,3,2,4],
    U[1,4,2,3]; l is the first axis.
    """

    P: Float[Array, "layers N N N N"]
    Q: Float[Array, "layers N N N N"]
    R: Float[Array, "layers N N N N"]
    S: Float[Array, "layers N N N N"]
    T: Float[Array, "layers N N N N"]
    U: Float[Array, "layers N N N N"]


class Signals(NamedTuple):
    """A drawn network seen from its layers m = 1..l: lists with one array per layer, (samples, neurons) each.

    `below` is σ of the layer before (x for the first), s1 to s3 are σ', σ'', σ''' at the layer's preactivations.
    """

    W: Sequence[Array]
    below: Sequence[Array]
    s1: Sequence[Array]
    s2: Sequence[Array]
    s3: Sequence[Array]


class Rates(NamedTuple):
    """λ_b and λ_W/n_{m-1} of each layer."""

    b: Sequence[float]
    W: Sequence[float]


def differentials(
    net: MLP, params: tuple[Layer, ...], x: Float[Array, "N n_0"], rows: tuple[Array, ...], found: Kernels
) -> Differentials:
    """The correlators of all layers of one drawn network, given its probes and its kernels.

    Derivatives of σ are taken almost everywhere: `_deltas` adds what kinks hide.
    """
    zs = net.preactivations(params, x)
    act = net.activation
    below = [x, *(act(z) for z in zs[:-1])]
    slopes = [[act.derivative(n)(z) for z in zs[:-1]] for n in (1, 2, 3)]
    rates = learning_rates(net)
    none = jnp.zeros((len(x),) * 4, x.dtype)
    layers = [(none,) * 6]
    for l in range(1, net.depth):
        signals = Signals([p.W for p in params[:l]], below[:l], *(s[:l] for s in slopes))
        epsilon, c = rates.W[l], net.variances()[l].W
        squares = (found.FF[l], found.BB[l])
        layers.append(_at_layer(signals, rates, rows[l - 1], below[l], squares, epsilon, c))
    return Differentials(*(jnp.stack(column) for column in zip(*layers)))


def learning_rates(net: MLP) -> Rates:
    """The learning rates of a network."""
    return Rates([rate.b for rate in net.rates()], [rate.W for rate in net.rates()])


def backward(signals: Signals, heads: Array) -> tuple[list[Array], list[Array]]:
    """u and δ of each layer, (heads, samples, neurons), for linear functions (heads, neurons) of the last σ."""
    N = len(signals.below[0])
    u = jnp.broadcast_to(heads[:, None, :], (len(heads), N, heads.shape[-1]))
    us, deltas = [u], [signals.s1[-1][None] * u]
    for W, s1 in zip(signals.W[:0:-1], signals.s1[-2::-1]):
        us.append(deltas[-1] @ W)
        deltas.append(s1[None] * us[-1])
    return us[::-1], deltas[::-1]


def forward(signals: Signals, rates: Rates, deltas: Sequence[Array]) -> tuple[list[Array], list[Array | None]]:
    """ż of each layer and σ'ż of the layer before, at sample a along head h's gradient at sample b: (h, a, b, n)."""
    change: Array | None = None
    zdots, changes = [], []
    for m, (W, below) in enumerate(zip(signals.W, signals.below)):
        own = metric(rates, below, m)[None, :, :, None] * deltas[m][:, None, :, :]
        zdots.append(own if change is None else own + change @ W.T)
        changes.append(change)
        change = signals.s1[m][None, :, None, :] * zdots[-1]
    return zdots, changes


def metric(rates: Rates, below: Array, m: int) -> Array:
    """λ_b + (λ_W/n) s·s between samples: the learning rates seen by two gradients δ ⊗ (s, 1)."""
    return rates.b[m] + rates.W[m] * (below @ below.T)


def _second(
    signals: Signals, rates: Rates, us: Sequence[Array], deltas: Sequence[Array], zdots: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """u̇ and δ̇ of each layer: head i at sample a along the gradient of head j at sample b, (i, j, a, b, n)."""

    def along(m: int, udot: Array) -> Array:
        bent = (signals.s2[m][None] * us[m])[:, None, :, None, :] * zdots[m][None]
        return bent + signals.s1[m][None, None, :, None, :] * udot

    heads, N, n = us[-1].shape
    udots = [jnp.zeros((heads, heads, N, N, n), us[-1].dtype)]
    deltadots = [along(len(us) - 1, udots[0])]
    for m in range(len(us) - 1, 0, -1):
        dot = jnp.einsum("ian,jbn->ijab", deltas[m], deltas[m])
        udots.append(rates.W[m] * dot[..., None] * signals.below[m][None, None, None] + deltadots[-1] @ signals.W[m])
        deltadots.append(along(m - 1, udots[-1]))
    return udots[::-1], deltadots[::-1]


def _at_layer(
    signals: Signals, rates: Rates, rows: Array, f: Array, found: tuple[Array, Array], epsilon: Any, c: Any
) -> tuple[Array, ...]:
    # The samples 0, 1, 2, 3 or 1, 2, 3, 4 of the theory are a, b, c, d in the order of the tensor's axes.
    k = len(rows)
    u, delta = backward(signals, rows)
    v, phi = backward(signals, f)  # the heads σ(z^l) of every sample
    zdot, change = forward(signals, rates, delta)
    udot, deltadot = _second(signals, rates, u, delta, zdot)
    i, j = np.nonzero(~np.eye(k, dtype=bool))  # pairs of different probes
    own = np.arange(k)
    P = Q = R = S = T = U = jnp.zeros((len(f),) * 4, f.dtype)
    for m in range(len(u)):
        layer = _Layer(
            metric(rates, signals.below[m], m), rates.W[m], signals.below[m], delta[m], deltadot[m], change[m]
        )
        s2, s3 = signals.s2[m][None, :, None, :], signals.s3[m][None, :, None, :]
        z, uz = zdot[m], udot[m]
        # D²(f(d)·σ)(a) along v_j(b), v_j(c).
        P += jnp.einsum("dan,habcn->abcd", v[m], (s2 * z)[:, :, :, None] * z[:, :, None]) / k
        # ⟨D²σ_i(a) v_i(b), λ∇(f(d)·σ)(c)⟩.
        Q += jnp.einsum("habn,dcn,ac->abcd", deltadot[m][own, own], phi[m], layer.metric) / k
        # D³σ_i(a) along v_i(b), v_j(c), v_j(d).
        bent = s3 * u[m][i][:, :, None] * z[i] + s2 * uz[i, i]
        mixed = _both((s2 * uz[i, j])[:, :, :, None] * z[j][:, :, None], 2, 3)
        R += jnp.einsum("pabn,pacdn->abcd", bent, z[j][:, :, :, None] * z[j][:, :, None]) / len(i)
        R += jnp.einsum("pabn,pacdn->abcd", z[i], mixed) / len(i)
        if m > 0:
            touch = layer.touch()
            across = jnp.einsum("dan,hbn->hadb", phi[m], delta[m])
            P += _both(jnp.einsum("hadb,hacb->abcd", across, touch), 1, 2) / k
            Q += jnp.einsum("hcda,habc->abcd", across, touch) / k
            R += _both(
                jnp.einsum("pabc,padc->abcd", layer.meet(i, i, j), touch[j])
                + jnp.einsum("pacb,padb->abcd", layer.meet(i, j, i), touch[j])
                + jnp.einsum("pacd,pabd->abcd", layer.meet(i, j, j), touch[i]),
                2,
                3,
            ) / len(i)
        S += layer.product((i, j), (i, j)).transpose(0, 2, 1, 3) / len(i)
        T += layer.product((i, i), (j, j)) / len(i)
        U += layer.product((i, j), (j, i)).transpose(0, 3, 2, 1) / len(i)
    FF, BB = found
    FF = FF.transpose(1, 0, 3, 2)
    return (
        c * P,
        c * (epsilon * FF + Q),
        epsilon * P.transpose(0, 3, 1, 2) + R,
        epsilon * c * BB + S,
        epsilon * (epsilon * FF + Q + Q.transpose(2, 3, 0, 1)) + T,
        U,
    )


class _Layer(NamedTuple):
    # One layer's part of D²σ_i(a) v_j(b) = δ̇_ij(a;b) ⊗ (s(a), 1) + δ_i(a) ⊗ (ṡ_j(a;b), 0).
    metric: Array
    epsilon: Any
    below: Array
    delta: Array
    deltadot: Array
    change: Array | None

    def touch(self) -> Array:
        """ε ṡ_h(a;b)·s(c), axes (h, a, b, c)."""
        return self.epsilon * jnp.einsum("habn,cn->habc", self.change, self.below)

    def meet(self, i: np.ndarray, j: np.ndarray, h: np.ndarray) -> Array:
        """δ̇_ij(a;b)·δ_h(c), axes (pair, a, b, c)."""
        return jnp.einsum("pabn,pcn->pabc", self.deltadot[i, j], self.delta[h])

    def product(self, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> Array:
        """⟨D²σ_i(a) v_j(c), λ D²σ_k(b) v_l(d)⟩ summed over pairs (i, j), (k, l), axes (a, c, b, d)."""
        (i, j), (k, l) = first, second
        total = jnp.einsum("pacn,pbdn,ab->acbd", self.deltadot[i, j], self.deltadot[k, l], self.metric)
        if self.change is None:
            return total
        touch = self.touch()
        dot = jnp.einsum("pan,pbn->pab", self.delta[i], self.delta[k])
        changes = self.epsilon * jnp.einsum("pacn,pbdn->pacbd", self.change[j], self.change[l])
        total += jnp.einsum("pacb,pbda->acbd", self.meet(i, j, k), touch[l])
        total += jnp.einsum("pbda,pacb->acbd", self.meet(k, l, i), touch[j])
        return total + jnp.einsum("pab,pacbd->acbd", dot, changes)


def _both(array: Array, first: int, second: int) -> Array:
    return array + array.swapaxes(first, second)
