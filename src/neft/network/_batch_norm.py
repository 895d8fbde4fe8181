"""Batch normalization: each entry by its mean and variance over a batch."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import _check
from .._guard import positive
from .._promote import to_rank, traced
from ._block import Averages, hyperparameter
from ._norm import Norm
from ._stage import Stage


class Moments(NamedTuple):
    """Mean and variance of each entry over a batch, of shape (n,)."""

    mean: Any
    variance: Any


def moments_of(x: Array) -> Moments:
    """The moments over all inputs of a batch (…, n).

    >>> moments_of(jnp.array([[1.0, 0.0], [3.0, 0.0]])).variance.tolist()
    [1.0, 0.0]
    """
    batch = tuple(range(x.ndim - 1))
    return Moments(x.mean(batch), x.var(batch))


class BatchNorm(Norm):
    """(z - mean z)/√(var z + ε), moments over the batch, with gains and biases if rates for them are given.

    By default the moments are the batch's own, as in training. Given ones, such as those of the training set, make
    the network a function of one input: `net.with_moments(net.moments(params, x))`. There is no kernel at infinite
    width. Without ε an entry that is the same for the whole batch becomes 0.

    >>> BatchNorm(lambda_gain=1.0, lambda_bias=1.0)
    BatchNorm(lambda_gain=1, lambda_bias=1, epsilon=1e-05)
    """

    _names: ClassVar[tuple[str, ...]] = ("lambda_gain", "lambda_bias", "epsilon")
    moments: Moments | None

    def __init__(
        self, *, lambda_gain: Any = None, lambda_bias: Any = None, epsilon: Any = 1e-5, moments: Any = None
    ) -> None:
        self.lambda_gain = None if lambda_gain is None else hyperparameter("lambda_gain", lambda_gain)
        self.lambda_bias = None if lambda_bias is None else hyperparameter("lambda_bias", lambda_bias)
        self.epsilon = hyperparameter("epsilon", epsilon)
        self.moments = None if moments is None else _given(moments)

    def apply(self, params: Any, x: Array) -> Array:
        """x without the mean of each entry, divided by the root of its variance and ε."""
        mean, variance = (to_rank(jnp.asarray(part, x.dtype), x.ndim) for part in self._taken(x))
        square = variance + jnp.asarray(self.epsilon, x.dtype)
        gain, bias = params if self._trained else (None, None)
        scale = jax.lax.rsqrt(positive(square))
        if gain is not None:
            scale = to_rank(jnp.asarray(gain, x.dtype), x.ndim) * scale
        y = (x - mean) * scale
        return y if bias is None else y + to_rank(jnp.asarray(bias, x.dtype), x.ndim)

    def _taken(self, x: Array) -> Moments:
        if self.moments is None:
            if (count := x.size // x.shape[-1]) < 2:
                raise ValueError(
                    f"the number of inputs is {count}, but the moments of a batch need at least two: "
                    "net.with_moments(…) takes moments that are given."
                )
            return moments_of(x)
        for part in self.moments:
            if np.shape(part) not in ((), x.shape[-1:]):
                raise ValueError(f"moments have shape {np.shape(part)}, but the block has {x.shape[-1]} entries.")
        return self.moments

    def kernel(self, stage: Stage, average: Averages) -> NoReturn:
        """None: it refuses."""
        if self.moments is not None:
            raise ValueError(
                "its moments were taken from one network, so it has no kernel at infinite width, but LayerNorm and "
                "RMSNorm have one."
            )
        raise ValueError(
            "the moments of a batch couple its inputs, so that no output is a function of one input and there is no "
            "kernel at infinite width, but LayerNorm and RMSNorm have one."
        )

    def resized(self, change: Callable[[int], int]) -> "BatchNorm":
        """The same block; moments of other widths are not known."""
        return self.with_moments(None)

    def with_moments(self, moments: Any) -> "BatchNorm":
        """The block with given moments; with None, those of the batch."""
        return BatchNorm(
            lambda_gain=self.lambda_gain, lambda_bias=self.lambda_bias, epsilon=self.epsilon, moments=moments
        )

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it, with the moments where they are given."""
        if self.moments is None:
            return super().to_dict()
        return super().to_dict() | {"moments": [np.asarray(part).tolist() for part in self.moments]}

    def __repr__(self) -> str:
        if self.moments is None:
            return super().__repr__()
        return f"{repr(self.with_moments(None))[:-1]}, moments=…)"


def _given(moments: Any) -> Moments:
    try:
        mean, variance = moments
    except (TypeError, ValueError):
        raise ValueError(f"moments is {_check.brief(moments)}, but must be a pair of means and variances.") from None
    shapes = np.shape(mean), np.shape(variance)
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise ValueError(f"moments have shapes {shapes}, but must be means and variances of one shape (n,).")
    return Moments(
        mean if traced(mean) else _check.array("the mean of moments", mean, dtype=None),
        variance if traced(variance) else _check.array("the variance of moments", variance, dtype=None, at_least=0.0),
    )
