"""An activation between blocks."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from .._activation import Activation, activation
from .._guard import at_least_zero, root
from ._block import Averages, Block
from ._stage import Stage


class Nonlinearity(Block):
    """σ of every entry, or several activations one after the other, which compose into one.

    >>> Nonlinearity("tanh")
    Nonlinearity('tanh')
    """

    weighs: ClassVar[bool] = False
    parts: tuple[Activation, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def __init__(self, *parts: "str | Activation | Callable[[Any], Any]") -> None:
        self.parts = tuple(activation(part) for part in parts)
        self.activation = self.parts[0] if len(self.parts) == 1 else _composed(self.parts)

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> tuple[()]:
        """Nothing."""
        return ()

    def apply(self, params: Any, x: Array) -> Array:
        """σ(x)."""
        return self.activation(x)

    def rates(self, fan_in: int) -> tuple[()]:
        """Nothing."""
        return ()

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """⟨σσ⟩, and ⟨σ'σ'⟩ times Θ."""
        if stage.kind != "gaussian":
            where = "the input" if stage.kind == "input" else "a norm of activations, a pool of them or Flatten"
            raise ValueError(
                f"the activation {self.activation.name} follows {where}, but must follow a dense block or a "
                "convolution."
            )
        if stage.mixed:
            raise ValueError(
                f"the activation {self.activation.name} follows a skip over a trained gain, but a dense "
                "block must stand between them."
            )
        means = average.pair(self.activation, stage)
        Theta = stage.Theta * means.slope
        if stage.gain is not None:
            Theta = Theta + stage.gain * average.tilted(self.activation, stage)
        scale = root(means.square1) * root(means.square2)
        gap = at_least_zero(scale - means.square if means.gap is None else means.gap)
        return Stage(
            means.square1,
            means.square2,
            means.square,
            gap,
            at_least_zero(scale + means.square),
            Theta,
            before=stage,
            kind="activation",
            activation=self.activation,
            layout=stage.layout,
        )

    def resized(self, change: Callable[[int], int]) -> "Nonlinearity":
        """It has any width."""
        return self

    def to_dict(self) -> Any:
        """The name where that is enough to make the activation again; else all names, and whether they are."""
        if len(self.parts) == 1 and self.activation.remakable:
            return self.activation.name
        return {
            "type": "Nonlinearity",
            "activations": [part.name for part in self.parts],
            "named": all(part.remakable for part in self.parts),
        }

    def __repr__(self) -> str:
        return f"Nonlinearity({', '.join(repr(part.name) for part in self.parts)})"


# Cached, so that equal compositions are one function and compiled code is found again.
@functools.lru_cache(maxsize=64)
def _composed(parts: tuple[Activation, ...]) -> Activation:
    def composed(z):
        for part in parts:
            z = part(z)
        return z

    # Kinks of the outer ones are at values of the inner ones: they are looked for.
    return activation(composed, name="∘".join(part.name for part in reversed(parts)))
