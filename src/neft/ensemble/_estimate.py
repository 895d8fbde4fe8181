"""Estimates of every tensor from an ensemble of drawn networks, with standard errors."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._blocks import blocks
from .._network import MLP, Layer
from .._precision import float64
from .._result import Made, Result, result
from ..gaussian import Powers, moment
from ._forward import differentials, kernels

_CHUNK = 128
"""Draws that are summed in one compiled call. It is fixed, so that sums do not depend on how much memory there is."""

KERNELS = ("K", "Theta", "V", "A", "B", "D", "F", "K1", "Theta1")
DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")


@result
class Estimate(Result):
    """A mean over draws and its standard error, each of shape (L,)."""

    mean: Float[np.ndarray, " layers"]
    stderr: Float[np.ndarray, " layers"]


@result
class Estimates(Result):
    """Estimates of the tensors, as attributes K, Theta, V, … with `.mean` and `.stderr`.

    K and Theta are the means at this width, K + K1/n and Theta + Theta1/n; K1 and Theta1 are n times their distance
    from infinite width.
    """

    tensors: dict[str, Estimate]
    widths: tuple[int, ...]
    draws: int
    made: Made

    def __getattr__(self, name: str) -> Estimate:
        if name.startswith("_") or name not in self.tensors:
            raise AttributeError(f"these estimates hold {', '.join(self.tensors)}, but not {name!r}.")
        return self.tensors[name]

    def _shown(self):
        yield "widths", repr(self.widths)
        yield "draws", repr(self.draws)
        for name, estimate in self.tensors.items():
            yield name, ", ".join(f"{m:.5g} ± {e:.2g}" for m, e in zip(estimate.mean, estimate.stderr))


def estimate(net: MLP, x: Any, draws: int, key: Array, *, dtype: Any = np.float64) -> Estimates:
    """The tensors of `neft.width.statistics` from `draws` random networks, for one input x of shape (n_0,).

    Averages over a layer's own weights are done in closed form where possible. Memory is bounded whatever the number of
    draws, and draw i depends on (key, i) alone. Where a derivative of σ jumps, P to U (R alone, where the second jumps)
    are left out: autodiff does not see the deltas in them.

    Args:
        net: the specification; hidden widths and the output width must be at least 2 where dNTK and ddNTK are wanted.
        x: the input.
        draws: number of networks, at least 2.
        key: a JAX key.
        dtype: float32 or float64 for the networks; sums are always float64.

    >>> net = MLP(widths=(3, 8, 2), activation="tanh")
    >>> found = estimate(net, [1.0, 1.0, 1.0], draws=256, key=jax.random.key(0))
    >>> found.V.mean.shape
    (2,)
    """
    draws = _check.integer("draws", draws, at_least=2)
    x = _check.array("x", x, shape=(net.widths[0],))
    with_differentials = min(net.widths[1:]) >= 2 and all(kink.order >= 2 for kink in net.activation.kinks)
    if any(kink.order == 0 for kink in net.activation.kinks):
        raise ValueError(f"activation {net.activation.name} jumps, so its NTK does not exist.")
    return _estimate(net, x, draws, key, np.dtype(dtype), with_differentials)


@float64
def _estimate(net: MLP, x: np.ndarray, draws: int, key: Array, dtype: np.dtype, with_differentials: bool) -> Estimates:
    K, Theta = _infinite_width(net, float(x @ x / net.widths[0]))
    reference = jnp.asarray(np.stack([K, Theta]))
    size, sums, products = (13 if with_differentials else 7), 0.0, 0.0
    chunk = functools.partial(_chunk, net, with_differentials)
    for part in blocks(draws, _CHUNK, label="draws"):
        index = np.arange(part.start, part.start + _CHUNK)
        mask = (index < part.stop).astype(np.float64)
        first, second = chunk(jnp.asarray(x, dtype), key, jnp.asarray(index), jnp.asarray(mask), reference)
        sums, products = sums + np.asarray(first), products + np.asarray(second)
    mean = np.asarray(sums) / draws
    covariance = (np.asarray(products) / draws - mean[:, :, None] * mean[:, None, :]) / (draws - 1)
    n = np.array(net.widths[:-1], float)

    def linear(weights: dict[int, Any], value: np.ndarray) -> Estimate:
        # The standard error of a function of means, from its gradient.
        gradient = np.zeros((len(n), size))
        for i, weight in weights.items():
            gradient[:, i] = weight
        variance = np.einsum("li,lij,lj->l", gradient, covariance, gradient)
        return Estimate(mean=value, stderr=np.sqrt(np.maximum(variance, 0.0)))

    g, h, gg, gh, hh, FF, BB = mean[:, :7].T
    tensors = {
        "K": linear({0: 1.0}, K + g),
        "Theta": linear({1: 1.0}, Theta + h),
        "V": linear({2: n, 0: -2 * n * g}, n * (gg - g * g)),
        "A": linear({4: n, 1: -2 * n * h}, n * (hh - h * h)),
        "B": linear({6: n}, n * BB),
        "D": linear({3: n, 0: -n * h, 1: -n * g}, n * (gh - g * h)),
        "F": linear({5: n}, n * FF),
    }
    if with_differentials:
        tensors |= {name: linear({7 + i: n}, n * mean[:, 7 + i]) for i, name in enumerate(DIFFERENTIALS)}
    if net.activation.kinks:
        # Where the second derivative jumps, the third holds a delta that no draw ever sees, and only R counts it.
        tensors.pop("R", None)
    tensors |= {"K1": linear({0: n}, n * g), "Theta1": linear({1: n}, n * h)}
    specification = {"net": net.to_dict(), "x": x, "draws": draws, "dtype": str(dtype)}
    made = Made.by("neft.ensemble.estimate", specification=specification, key=key)
    return Estimates(tensors=tensors, widths=net.widths, draws=draws, made=made)


def _infinite_width(net: MLP, q: float) -> tuple[np.ndarray, np.ndarray]:
    K, Theta = [net.C_b[0] + net.C_W[0] * q], [net.lambda_b[0] + net.lambda_W[0] * q]
    for l in range(1, net.depth):
        square, slope = (float(moment(net.activation, powers, K[-1])) for powers in (Powers(s=2), Powers(s1=2)))
        Theta.append(net.lambda_b[l] + net.lambda_W[l] * square + net.C_W[l] * Theta[-1] * slope)
        K.append(net.C_b[l] + net.C_W[l] * square)
    return np.array(K), np.array(Theta)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _chunk(
    net: MLP, with_differentials: bool, x: Array, key: Array, index: Array, mask: Array, reference: Array
) -> tuple[Array, Array]:
    """Sums of the observables of each draw, (L, observables), and of their products, (L, observables, observables)."""

    def observables(i):
        params: tuple[Layer, ...] = net.init(jax.random.fold_in(key, i), x.dtype)
        found = kernels(net, params, x)
        # Relative to infinite width, so that variances do not cancel. The first layer's are not random: exactly 0, not
        # the rounding of the networks' dtype.
        g, h = ((value - known).at[0].set(0.0) for value, known in zip((found.G, found.H), reference))
        values = [g, h, g * g, g * h, h * h, found.FF, found.BB]
        if with_differentials:
            values += differentials(net, params, x)
        return jnp.stack(values, axis=-1).astype(float)

    y = jax.vmap(observables)(index) * mask[:, None, None]
    return y.sum(axis=0), jnp.einsum("dli,dlj->lij", y, y)
