"""Norms over the entries of a stage: RMSNorm and LayerNorm."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from .._guard import at_least_zero, positive, root
from .._promote import cast, to_rank
from ._block import Averages, Block, Division, hyperparameter
from ._stage import Stage, centred, divided


class Affine(NamedTuple):
    """Gains and biases of a norm, or their rates; None for what is not trained."""

    gain: Any = None
    bias: Any = None


class Norm(Block):
    """What norms share: gains and biases. RMSNorm and LayerNorm differ in whether the mean is subtracted."""

    weighs: ClassVar[bool] = False
    _centres: ClassVar[bool] = False
    lambda_gain: Any
    lambda_bias: Any
    epsilon: Any

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Any:
        """Gains 1 and biases 0, those that are trained."""
        if not self._trained:
            return ()
        gain = None if self.lambda_gain is None else jnp.ones(fan_in, dtype)
        return Affine(gain, None if self.lambda_bias is None else jnp.zeros(fan_in, dtype))

    def apply(self, params: Any, x: Array) -> Array:
        """x without its mean (LayerNorm only) divided by the root of its mean square and ε."""
        epsilon = jnp.asarray(self.epsilon, x.dtype)
        if self._centres:
            x = x - x.mean(-1, keepdims=True)
        square = (x * x).mean(-1, keepdims=True) + epsilon
        y = jnp.where(square > 0, x / jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
        gain, bias = params if self._trained else (None, None)
        if gain is not None:
            y = y * to_rank(jnp.asarray(gain, x.dtype), x.ndim)
        return y if bias is None else y + to_rank(jnp.asarray(bias, x.dtype), x.ndim)

    def rates(self, fan_in: int) -> Any:
        """λ_gain and λ_bias, of every entry."""
        return Affine(self.lambda_gain, self.lambda_bias) if self._trained else ()

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """Correlations, and Θ in their units; what is trained adds λ_gain z1 z2 + λ_bias to the NTK of an entry."""
        if self._centres:
            if stage.kind == "activation" and stage.activation is not None:
                assert stage.before is not None
                mean1, mean2 = average.mean(stage.activation, stage.before)
                stage = stage.replace(mean1=mean1, mean2=mean2)
            elif stage.kind == "activation" and stage.mean1 is None:
                raise ValueError(
                    "it stands after a norm or a pool of activations or after Flatten, whose mean over entries is not "
                    "carried on, but RMSNorm may stand there."
                )
            stage = centred(stage)
        epsilon = cast(self.epsilon, stage.c)
        sizes = [root(at_least_zero(K) + epsilon) for K in (stage.K1, stage.K2)]
        stage = divided(stage, *map(positive, sizes))
        if self.lambda_bias is not None:
            stage = stage.replace(Theta=stage.Theta + cast(self.lambda_bias, stage.c))
        if self.lambda_gain is not None:
            gain = cast(self.lambda_gain, stage.c)
            stage = stage.replace(gain=gain if stage.gain is None else stage.gain + gain)
        return stage

    def tensors(self) -> Division:
        """Whether it subtracts the mean, ε and the rates."""
        return Division(self._centres, self.epsilon, self.lambda_gain, self.lambda_bias)

    def resized(self, change: Callable[[int], int]) -> Block:
        """It has any width."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        names = [name for name in ("lambda_gain", "lambda_bias", "epsilon") if name in self._names]
        return {"type": type(self).__name__, **{name: getattr(self, name) for name in names}}

    def __repr__(self) -> str:
        given = {k: v for k, v in self.to_dict().items() if k != "type" and v is not None}
        return f"{type(self).__name__}({', '.join(f'{k}={v:g}' for k, v in given.items())})"

    _names: ClassVar[tuple[str, ...]] = ("lambda_gain", "epsilon")

    @property
    def _trained(self) -> bool:
        return self.lambda_gain is not None or self.lambda_bias is not None


class RMSNorm(Norm):
    """z/√(mean z² + ε), with a gain per entry if a rate for it is given (docs/theory/blocks, eq. 7).

    The gain starts at 1. Without ε the norm of a vector of zeros is zeros.

    >>> RMSNorm().to_dict()
    {'type': 'RMSNorm', 'lambda_gain': None, 'epsilon': 1e-06}
    """

    def __init__(self, *, lambda_gain: Any = None, epsilon: Any = 1e-6) -> None:
        self.lambda_gain = None if lambda_gain is None else hyperparameter("lambda_gain", lambda_gain)
        self.lambda_bias = None
        self.epsilon = hyperparameter("epsilon", epsilon)


class LayerNorm(Norm):
    """(z - mean z)/√(var z + ε), with gains and biases if rates for them are given (docs/theory/blocks, eq. 8).

    Preactivations have no mean at infinite width, so there it is RMSNorm; activations and inputs have one.

    >>> LayerNorm(lambda_gain=1.0)
    LayerNorm(lambda_gain=1, epsilon=1e-06)
    """

    _centres: ClassVar[bool] = True
    _names: ClassVar[tuple[str, ...]] = ("lambda_gain", "lambda_bias", "epsilon")

    def __init__(self, *, lambda_gain: Any = None, lambda_bias: Any = None, epsilon: Any = 1e-6) -> None:
        self.lambda_gain = None if lambda_gain is None else hyperparameter("lambda_gain", lambda_gain)
        self.lambda_bias = None if lambda_bias is None else hyperparameter("lambda_bias", lambda_bias)
        self.epsilon = hyperparameter("epsilon", epsilon)
