"""A dense block: weights and biases."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _check
from .._promote import cast, to_rank
from ._block import Averages, Block, Linear, hyperparameter
from ._stage import Stage, scaled, shifted


class Layer(NamedTuple):
    """Parameters of one layer: weights W of shape (n_l, n_{l-1}), biases b of shape (n_l,). Or rates, or variances."""

    W: Any
    b: Any


class Dense(Block):
    """b + W s with Var b = C_b and Var W = C_W/fan-in, trained at rates λ_b and λ_W/fan-in (docs/theory/blocks, eq. 2).

    >>> Dense(64, C_W=2.0).to_dict()["width"]
    64
    """

    width: int = eqx.field(static=True)
    C_b: Any
    C_W: Any
    lambda_b: Any
    lambda_W: Any

    def __init__(self, width: int, *, C_b: Any = 0.0, C_W: Any = 1.0, lambda_b: Any = 1.0, lambda_W: Any = 1.0) -> None:
        self.width = _check.integer("width", width, at_least=1)
        self.C_b, self.C_W = hyperparameter("C_b", C_b), hyperparameter("C_W", C_W)
        self.lambda_b, self.lambda_W = hyperparameter("lambda_b", lambda_b), hyperparameter("lambda_W", lambda_W)

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Layer:
        """Gaussian weights and biases."""
        key_W, key_b = jax.random.split(key)
        W = jax.random.normal(key_W, (self.width, fan_in), dtype) * deviation(self.C_W, fan_in, dtype)
        return Layer(W, jax.random.normal(key_b, (self.width,), dtype) * deviation(self.C_b, 1, dtype))

    def apply(self, params: Any, x: Array) -> Array:
        """b + W x."""
        W, b = (jnp.asarray(part, x.dtype) for part in params)
        return x @ W.T + to_rank(b, x.ndim)

    def rates(self, fan_in: int) -> Layer:
        """λ_W/fan-in and λ_b."""
        return Layer(self.lambda_W / fan_in, self.lambda_b)

    def variances(self, fan_in: int) -> Layer:
        """C_W/fan-in and C_b."""
        return Layer(self.C_W / fan_in, self.C_b)

    def kernel(self, stage: Stage, average: Averages | None = None) -> Stage:
        """K' = C_b + C_W⟨s s⟩ and Θ' = λ_b + λ_W⟨s s⟩ + C_W Θ."""
        C_b, lambda_b, *both = (cast(value, stage.c) for value in (self.C_b, self.lambda_b, *self.tensors()))
        linear = Linear(*both)
        Theta = lambda_b + linear.theta(stage.c, stage.mean_theta)
        return shifted(scaled(stage, linear.variance, Theta), C_b, Theta)

    def tensors(self) -> Linear:
        """C_W and λ_W."""
        return Linear(self.C_W, self.lambda_W)

    def resized(self, change: Callable[[int], int]) -> "Dense":
        """With another number of outputs."""
        return self.replace(width=change(self.width))

    def replace(self, **changes: Any) -> "Dense":
        """The same block with another width or other hyperparameters."""
        return Dense(**({name: getattr(self, name) for name in ("width", *HYPER)} | changes))

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        return {"type": "Dense", "width": self.width, **{name: getattr(self, name) for name in HYPER}}

    def __repr__(self) -> str:
        return f"Dense({self.width}, {', '.join(f'{k}={v:g}' for k, v in self.to_dict().items() if k in HYPER)})"


HYPER = ("C_b", "C_W", "lambda_b", "lambda_W")


def deviation(variance: Any, fan_in: int, dtype: Any) -> Any:
    """√(variance/fan-in)."""
    if isinstance(variance, float):
        return math.sqrt(variance / fan_in)
    return jnp.sqrt(jnp.asarray(variance, dtype) / fan_in)
