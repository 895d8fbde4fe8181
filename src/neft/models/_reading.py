"""What was read of a model: the network, its parameters, and a row for each layer."""

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from .. import _check
from .._result import Made, Result, result
from ..network import Network
from ._measure import initializer, measured
from ._pieces import Normed, Piece, Plain, Weighted, common


@result
class ReadLayer(Result):
    """A layer of a model.

    Attributes:
        name: where its parameters stand in the model; "" where it has none.
        block: what it is.
        fan_in, width: entries that are summed, and outputs; None without weights.
        C_W, C_b: mean square of the weights times the fan-in, and of the biases; None without weights.
        error_W, error_b: their standard errors, if the numbers are independent.
        drawn: which initializer gives such weights.
    """

    name: str
    block: str
    fan_in: int | None
    width: int | None
    C_W: float | None
    error_W: float | None
    C_b: float | None
    error_b: float | None
    drawn: str


@result
class Reading(Result):
    """A model as a network. `network` is its specification, `params` its parameters in the order of `network.init`.

    Attributes:
        framework: whose model it is.
        layers: what each layer is, with variances measured from its weights.
        specification: the network as `Network.to_dict` gives it.
        axes: of one input of the model, such as ("C", "H", "W").
        flattened: whether the model makes a vector of them first.
        single: whether the model's one output of an input is a number, and not a vector of one.
        values: the arrays of the parameters, one after the other.
        notes: what is different from the model, and what cannot be known.
    """

    framework: str
    layers: tuple[ReadLayer, ...]
    specification: dict[str, Any]
    axes: tuple[str, ...]
    flattened: bool
    single: bool
    values: tuple[Float[np.ndarray, "..."], ...]
    notes: tuple[str, ...]
    made: Made

    @functools.cached_property
    def network(self) -> Network:
        """The specification; one with functions of the model's own cannot be made again from a file."""
        return Network.from_dict(self.specification)

    @property
    def params(self) -> tuple[Any, ...]:
        """The model's parameters as those of the network."""
        like = jax.eval_shape(self.network.init, jax.random.key(0))
        return jax.tree.unflatten(jax.tree.structure(like), list(self.values))

    def arranged(self, x: Any) -> Any:
        """Inputs of the model, one or many, as the network takes them: channels last, or vectors.

        >>> import equinox as eqx
        >>> from neft import read
        >>> read(eqx.nn.Linear(3, 2, key=jax.random.key(0))).arranged(np.ones((5, 3))).shape
        (5, 3)
        """
        x = x if hasattr(x, "reshape") and hasattr(x, "shape") and not hasattr(x, "numpy") else _check.as_array("x", x)
        count = len(self.axes)
        if x.ndim not in (count, count + 1):
            raise ValueError(f"x has shape {x.shape}, but must have {count} axes, or one more for many inputs.")
        if self.flattened:
            return x.reshape(*x.shape[: x.ndim - count], -1)
        order = [self.axes.index(label) for label in ("H", "W", "C") if label in self.axes]
        many = x.ndim - count
        return x.transpose(*range(many), *(many + axis for axis in order))

    def apply(self, x: Any) -> Any:
        """The network's outputs for inputs of the model, in the shape of the model's."""
        found = self.network.apply(self.params, self.arranged(x))
        return found[..., 0] if self.single else found

    def _shown(self):
        yield from ((name, value) for name, value in super()._shown() if name not in ("specification", "values"))


def row(piece: Piece, default: str) -> ReadLayer:
    """What is said of one piece."""
    nothing = dict.fromkeys(("fan_in", "width", "C_W", "error_W", "C_b", "error_b"))
    name, block = common(piece.names), piece.block()
    if isinstance(piece, Weighted):
        weights, biases = measured(piece.W, piece.fan_in), measured(piece.leaves()[1])
        outs = piece.width if piece.window is None else piece.width * piece.fan_in // piece.W.shape[-2]
        return ReadLayer(
            name=name,
            block=type(block).__name__ if piece.b is not None else f"{type(block).__name__} without biases",
            fan_in=piece.fan_in,
            width=piece.width,
            C_W=weights.variance,
            error_W=weights.error,
            C_b=biases.variance,
            error_b=biases.error,
            drawn=initializer(weights, piece.fan_in, outs, default),
        )
    if isinstance(piece, Normed):
        gain = [] if piece.gain is None else [f"gains {piece.gain.mean():.3g} ± {piece.gain.std():.2g}"]
        bias = [] if piece.bias is None else [f"biases {piece.bias.mean():.3g} ± {piece.bias.std():.2g}"]
        return ReadLayer(name=name, block=type(block).__name__, drawn=", ".join(gain + bias), **nothing)
    assert isinstance(piece, Plain)
    words = getattr(piece.of, "name", None) or repr(block)
    return ReadLayer(name=name, block=words, drawn="", **nothing)
