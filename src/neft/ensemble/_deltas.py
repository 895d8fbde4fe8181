"""What kinks add to P and Q, or to R: the deltas in σ'' or σ''' that no draw ever hits and autodiff does not see.

Every second derivative of the network is linear in σ'' of each neuron, and every third one in σ'''. So where σ' jumps
at z = κ, E[σ''(z_r) Y] holds jump · p(κ) · E[Y | z_r = κ] for each neuron r. Given the layer below, z_r is Gaussian:
the neuron is pinned to the kink by moving its incoming weights along the one direction that z_r depends on, the layers
above are computed again, and the density p(κ) is known. Y holds σ'(z_r) itself, which takes all values across the jump
with equal weight (docs/theory/width, section Kinks: 1/3 where it counts twice, 1/2 where it counts once). Neurons of a
layer are alike, so a few of them stand for all.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._activation import Activation
from ..network import MLP, Layer
from ._differentials import Signals, backward, forward, learning_rates

NODES = 4
"""How many neurons of a layer are pinned."""


class Spike(NamedTuple):
    """A delta in the derivative after the one that jumps: where, how strong, and the slope σ' that goes with it."""

    position: Any
    weight: Any
    slope: Any
    mirrored: Any


@functools.lru_cache(maxsize=64)
def spikes(act: Activation) -> tuple[Spike, ...]:
    """The deltas of σ'' where σ' jumps, with slopes across the jump; else those of σ''', where σ'' jumps."""
    lowest = min((kink.order for kink in act.kinks), default=3)
    found = []
    for kink in act.kinks:
        if kink.order != lowest or lowest not in (1, 2):
            continue
        # These are numbers of the activation, even while a caller is traced.
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            left = float(act.derivative(1)(kink.position - max(abs(kink.position) * 2.0**-50, 1e-150)))
        if lowest == 2:
            found.append(Spike(kink.position, kink.jump, left, left))
            continue
        for t in (0.5 - 12**-0.5, 0.5 + 12**-0.5):  # two Gauss-Legendre nodes: exact up to the third power of σ'
            slopes = (left + t * kink.jump, left + (1 - t) * kink.jump)
            found.append(Spike(kink.position, kink.jump / 2, *slopes))
    return tuple(found)


def deltas(
    net: MLP, params: tuple[Layer, ...], x: Float[Array, "N n_0"], rows: tuple[Array, ...]
) -> dict[str, Float[Array, "layers N N N N"]]:
    """What has to be added to `differentials`, by name: P and Q, or R, or nothing."""
    found = spikes(net.activation)
    if not found:
        return {}
    zs = net.preactivations(params, x)
    N = len(x)
    order = min(kink.order for kink in net.activation.kinks)
    table = Spike(*(jnp.asarray(column, x.dtype) for column in zip(*found)))
    layers = [(jnp.zeros((N,) * 4, x.dtype),) * 2]
    for l in range(1, net.depth):
        total = layers[0]
        for m in range(l):
            nodes = min(NODES, net.widths[m + 1])
            pinned = functools.partial(_pinned, net, params, x, zs, rows[l - 1], l, m, order)
            for axes in ((None, None, 0), (None, 0, None), (0, None, None)):
                pinned = jax.vmap(pinned, in_axes=axes)
            # Axes (spike, node, sample 0, …).
            parts = pinned(table, jnp.arange(nodes), jnp.arange(N))
            total = tuple(old + net.widths[m + 1] / nodes * new.sum((0, 1)) for old, new in zip(total, parts))
        layers.append(total)
    columns = [jnp.stack(column) for column in zip(*layers)]
    return dict(zip(("P", "Q") if order == 1 else ("R",), columns))


def _pinned(
    net: MLP, params, x: Array, zs, rows: Array, l: int, m: int, order: int, spike: Spike, r: Array, a: Array
) -> tuple[Array, ...]:
    # The part of neuron r of layer m+1 with sample a at the kink, of the tensors of layer l+1; axes b, c, d.
    act = net.activation
    below = [x, *(act(z) for z in zs[:m])]
    spread = net.variances()[m]
    covariance = spread.b + spread.W * (below[m] @ below[m][a])
    variance = spread.b + spread.W * jnp.sum(below[m] ** 2, axis=1)
    alive = variance[a] > 0
    shift = jnp.where(alive, (spike.position - zs[m][a, r]) / jnp.where(alive, variance[a], 1.0), 0.0)
    z = zs[m].at[:, r].add(shift * covariance)
    weights = [p.W for p in params[:l]]
    weights[m] = weights[m].at[r].add(shift * spread.W * below[m][a])
    density = jnp.exp(-(spike.position**2) / (2 * variance[a])) / jnp.sqrt(2 * jnp.pi * variance[a])
    density = jnp.where(alive, density, 0.0)

    # Samples that are at the kink together with this one, on the way up or on the way down.
    near = 1e2 * jnp.finfo(x.dtype).eps * (jnp.abs(spike.position) + jnp.sqrt(variance))
    there = (jnp.abs(z[:, r] - spike.position) <= near) | (jnp.arange(len(x)) == a)
    slopes = act.derivative(1)(z)
    z = z.at[:, r].set(jnp.where(there, spike.position, z[:, r]))
    across = jnp.where(covariance > 0, spike.slope, spike.mirrored)
    slopes = slopes.at[:, r].set(jnp.where(there, across, slopes[:, r]))
    s1 = [*(act.derivative(1)(value) for value in zs[:m]), slopes]
    for p in params[m + 1 : l]:
        below.append(act(z))
        z = below[-1] @ p.W.T + p.b[None, :]
        s1.append(act.derivative(1)(z))
    f = act(z)

    k = len(rows)
    signals = Signals(weights, below, s1, (), ())
    us, ds = backward(signals, jnp.concatenate([rows, f]))
    part = Signals(weights[: m + 1], below[: m + 1], s1[: m + 1], (), ())
    zdot = forward(part, learning_rates(net), ds[: m + 1])[0][m][:, a, :, r]
    u = us[m][:, a, r] * spike.weight * density
    if order == 2:
        i, j = np.nonzero(~np.eye(k, dtype=bool))
        return (jnp.einsum("p,pb,pc,pd->bcd", u[i], zdot[i], zdot[j], zdot[j]) / len(i),)
    c = net.variances()[l].W
    P = jnp.einsum("d,hb,hc->bcd", u[k:], zdot[:k], zdot[:k])
    Q = jnp.einsum("h,hb,dc->bcd", u[:k], zdot[:k], zdot[k:])
    return c / k * P, c / k * Q
