"""Inputs in which the metric of the first layer is the identity, so that its natural gradient is the plain one."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import linalg

from .. import _blocks, _check
from .._public import public
from .._result import Made, Result, result
from ..network import Layer

_ROWS = 512
"""Inputs that are whitened at a time: few enough for what is subtracted from to stay in the cache."""


@result
class Whitening(Result):
    """z = (x - μ)US with the covariance UΛUᵀ of the inputs and S = (Λ+ε)^{-½} (docs/theory/fisher, eqs. 15-16).

    A gradient step of size η in the whitened first layer is the step that preconditions (W, b) by E[x̃x̃ᵀ] +
    ε diag(1, …, 1, 0): the ordinary metric with the bias undamped. Call it on inputs; `enter` and `leave` take
    parameters to whitened coordinates and back.

    Attributes:
        mean: μ, of shape (d,).
        axes: U, of shape (d, k); k is d unless fewer were asked for.
        scale: the diagonal of S, of shape (k,).
        damping: ε.
    """

    mean: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d k"]
    scale: Float[np.ndarray, " k"]
    damping: float
    made: Made

    def __call__(self, x: Float[np.ndarray, "N d"] | Float[Array, "N d"]) -> Float[np.ndarray, "N k"]:
        """The whitened inputs, in the dtype of x (that of the moments for whole numbers), a block at a time."""
        x = np.asarray(x)
        if x.ndim != 2 or x.shape[1] != len(self.mean):
            raise ValueError(f"x has shape {x.shape}, but must have shape (any, {len(self.mean)}).")
        dtype = x.dtype if x.dtype.kind == "f" else self.mean.dtype
        out = np.empty((len(x), len(self.scale)), dtype)
        map = (self.axes * self.scale).astype(dtype)
        mean = self.mean.astype(dtype)
        for block in _blocks.blocks(len(x), _ROWS):
            out[block] = (x[block] - mean) @ map
        return out

    def enter(self, params: Sequence[Any]) -> tuple[Any, ...]:
        """The same network in whitened coordinates; exactly the same where no axis was left out."""
        W, b = params[0]
        into = _like(self.axes / self.scale, W)
        return Layer(W @ into, b + W @ _like(self.mean, W)), *params[1:]

    def leave(self, params: Sequence[Any]) -> tuple[Any, ...]:
        """The network on raw inputs: W = USV, b = c - μᵀW."""
        V, c = params[0]
        W = V @ _like((self.axes * self.scale).T, V)
        return Layer(W, c - W @ _like(self.mean, W)), *params[1:]

    def square(self, V: Float[Array, "n k"]) -> Float[Array, ""]:
        """|W|² of the raw weights of a whitened layer, which is what L2 decays."""
        return jnp.square(V * _like(self.scale, V)[None, :]).sum()


@public
def whiten(
    x: Any,
    *,
    damping: float = 0.0,
    relative_damping: float = 6e-3,
    rank: int | float | None = None,
    samples: int | None = None,
) -> Whitening:
    """The whitening of a set of inputs (training inputs, of shape (N, d)).

    On N inputs it costs samples·d² for the moments, about 4d³ for the axes, and N·d·rank for the one product over the
    data; a layer of n neurons on fewer inputs then saves 2N·n·(d - rank) multiplications in every epoch.

    Args:
        x: the inputs.
        damping: ε of the first layer's metric.
        relative_damping: the same in units of tr C, the variance of an input; both are added. So inputs in other units,
            or measured from elsewhere, have the same whitened ones.
        rank: how many principal axes to keep: a whole number, or the share of the variance that they must carry,
            between 0 and 1, as in `rank=0.95` (all of them by default, which changes no network).
        samples: how many of the inputs, from the first on, the moments are taken from (all by default).

    >>> white = whiten(np.random.default_rng(0).normal(size=(50, 3)), relative_damping=0.0, damping=1e-9)
    >>> np.round(np.cov(white(np.eye(3)).T).shape, 3).tolist()
    [3, 3]
    """
    damping = _check.real("damping", damping, at_least=0.0)
    relative_damping = _check.real("relative_damping", relative_damping, at_least=0.0)
    x = _check.array("x", x, ndim=2, dtype=np.asarray(x).dtype if np.asarray(x).dtype.kind == "f" else np.float64)
    count, d = x.shape
    if count < 2:
        raise ValueError(f"x has shape {x.shape}, but must hold at least two inputs.")
    share = _share(rank)
    kept = d if rank is None or share is not None else _check.integer("rank", rank, at_least=1, at_most=d)
    count = count if samples is None else _check.integer("samples", samples, at_least=2, at_most=count)
    mean, covariance = _moments(x[:count])
    values, vectors = linalg.eigh(covariance, subset_by_index=(d - kept, d - 1))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if share is not None:
        # Rounding may leave the sum of all variances below the whole.
        kept = min(int(np.searchsorted(np.cumsum(values), share * values.sum())) + 1, d)
        values, vectors = values[:kept], np.ascontiguousarray(vectors[:, :kept])
    epsilon = damping + relative_damping * float(np.trace(covariance))
    if values[-1] + epsilon <= 1e-12 * values[0] or values[0] + epsilon <= 0:
        raise ValueError("damping is too small: the inputs do not fill all directions, so it must be positive.")
    return Whitening(
        mean=mean,
        axes=vectors,
        scale=1 / np.sqrt(values + epsilon),
        damping=epsilon,
        made=Made.by("neft.fisher.whiten", specification={"samples": count, "rank": kept}),
    )


def _share(rank: Any) -> float | None:
    # A share of the variance, or None where rank is a number of axes.
    if not isinstance(rank, (float, np.floating)):
        return None
    share = _check.real("rank", rank, above=0.0)
    if share >= 1:
        raise ValueError(f"rank is {share:g}, but must be a whole number of axes, or a share of the variance below 1.")
    return share


def _moments(x: Float[np.ndarray, "N d"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    mean = x.mean(0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for block in _blocks.blocks(len(x), 4096):
        # Products in the dtype of the data, sums over blocks in float64.
        centred = x[block] - mean.astype(x.dtype)
        covariance += centred.T @ centred
    return mean, covariance / len(x)


def _like(values: np.ndarray, array: Any) -> Array:
    return jnp.asarray(values, jnp.asarray(array).dtype)
