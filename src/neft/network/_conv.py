"""A convolution: the same weights at every position."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from .. import _check
from .._promote import cast, to_rank
from ._block import Averages, Block, Linear, hyperparameter
from ._dense import HYPER, Layer, deviation
from ._positions import biased, windowed
from ._stage import Stage, scaled
from ._windows import PADDINGS, Padding, Window, sizes


class Conv(Block):
    """b + Σ_q W_q s(p + q) at every position p, in one or two dimensions (docs/theory/positions, eqs. 1-2).

    Var b = C_b and Var W = C_W/fan-in with rates λ_b and λ_W/fan-in; the fan-in is the number of channels times that of
    places in the window, also at the edges. The number of channels is what is infinite in kernels.

    Args:
        channels: how many outputs each position has.
        shape: the window's size, one number for sequences (N, T, C) and two for images (N, H, W, C).
        strides: how far windows move, 1 by default.
        padding: "SAME" (zeros outside), "VALID" (windows stay inside) or "CIRCULAR" (the other end is outside).
        C_b, C_W, lambda_b, lambda_W: as in `Dense`.

    >>> Conv(64, (3, 3), C_W=2.0).to_dict()["padding"]
    'SAME'
    """

    channels: int = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    strides: tuple[int, ...] = eqx.field(static=True)
    padding: Padding = eqx.field(static=True)
    C_b: Any
    C_W: Any
    lambda_b: Any
    lambda_W: Any

    def __init__(
        self,
        channels: int,
        shape: Any,
        *,
        strides: Any = None,
        padding: Any = "SAME",
        C_b: Any = 0.0,
        C_W: Any = 1.0,
        lambda_b: Any = 1.0,
        lambda_W: Any = 1.0,
    ) -> None:
        self.channels = _check.integer("channels", channels, at_least=1)
        self.shape = sizes("shape", shape)
        self.strides = sizes("strides", strides, (1,) * len(self.shape))
        self.padding = _check.one_of("padding", padding, PADDINGS)  # type: ignore[assignment]
        self.C_b, self.C_W = hyperparameter("C_b", C_b), hyperparameter("C_W", C_W)
        self.lambda_b, self.lambda_W = hyperparameter("lambda_b", lambda_b), hyperparameter("lambda_W", lambda_W)

    @property
    def _places(self) -> int:
        return math.prod(self.shape)

    @property
    def dimensions(self) -> int:
        """That of its windows."""
        return len(self.shape)

    @property
    def _windows(self) -> tuple[Window, ...]:
        return tuple(Window(size, stride, self.padding) for size, stride in zip(self.shape, self.strides))

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Layer:
        """Gaussian weights (*shape, fan_in, channels) and biases (channels,)."""
        key_W, key_b = jax.random.split(key)
        W = jax.random.normal(key_W, (*self.shape, fan_in, self.channels), dtype)
        b = jax.random.normal(key_b, (self.channels,), dtype)
        return Layer(W * deviation(self.C_W, self._places * fan_in, dtype), b * deviation(self.C_b, 1, dtype))

    def apply(self, params: Any, x: Array) -> Array:
        """The outputs (N, H, W, channels)."""
        axes = len(self.shape)
        if x.ndim != axes + 2:
            raise ValueError(f"it has {axes} dimensions, but positions there have {max(x.ndim - 2, 0)}.")
        W, b = (jnp.asarray(part, x.dtype) for part in params)
        for axis, window in enumerate(self._windows, start=1):
            window.count(x.shape[axis])
            x = window.padded(x, (axis,))
        letters = "HW"[:axes]
        numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        return lax.conv_general_dilated(x, W, self.strides, "VALID", dimension_numbers=numbers) + to_rank(b, x.ndim)

    def rates(self, fan_in: int) -> Layer:
        """λ_W/fan-in and λ_b."""
        return Layer(self.lambda_W / (self._places * fan_in), self.lambda_b)

    def variances(self, fan_in: int) -> Layer:
        """C_W/fan-in and C_b."""
        return Layer(self.C_W / (self._places * fan_in), self.C_b)

    def kernel(self, stage: Stage, average: Averages | None = None) -> Stage:
        """K' = C_b + C_W times the mean of ⟨s s⟩ over the window, Θ' = λ_b + that of λ_W⟨s s⟩ + C_W Θ."""
        stage = windowed(stage, self._windows)
        places = self._places
        C_b, lambda_b, C_W, lambda_W = (cast(getattr(self, name), stage.c) for name in _ORDER)
        Theta = lambda_b + Linear(C_W / places, lambda_W / places).theta(stage.c, stage.Theta)
        return biased(scaled(stage, C_W / places, Theta), C_b)

    def resized(self, change: Callable[[int], int]) -> "Conv":
        """With another number of channels."""
        return self.replace(channels=change(self.channels))

    def replace(self, **changes: Any) -> "Conv":
        """The same block with other sizes or hyperparameters."""
        return Conv(**({name: getattr(self, name) for name in (*_SIZES, *HYPER)} | changes))

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        shapes = {"shape": list(self.shape), "strides": list(self.strides), "padding": self.padding}
        return {
            "type": "Conv",
            "channels": self.channels,
            **shapes,
            **{name: getattr(self, name) for name in HYPER},
        }

    def __repr__(self) -> str:
        hyper = ", ".join(f"{k}={v:g}" for k, v in self.to_dict().items() if k in HYPER)
        moved = f", strides={self.strides}" if any(n > 1 for n in self.strides) else ""
        padded = f", padding={self.padding!r}" if self.padding != "SAME" else ""
        return f"Conv({self.channels}, {self.shape}{moved}{padded}, {hyper})"


_SIZES = ("channels", "shape", "strides", "padding")
_ORDER = ("C_b", "lambda_b", "C_W", "lambda_W")
