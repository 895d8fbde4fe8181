"""The multilayer perceptron of docs/theory/width, eqs. 1-4."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import _check
from .._activation import Activation
from .._activation import activation as _activation
from .._promote import library_of, traced
from .._public import public
from ._block import hyperparameter
from ._dense import HYPER, Dense, Layer
from ._network import Network
from ._nonlinearity import Nonlinearity


class MLP(Network):
    """Specification of a multilayer perceptron (docs/theory/width, eqs. 1-4): dense blocks and one activation.

        z¹ = b¹ + W¹x,    z^{l+1} = b^{l+1} + W^{l+1} σ(z^l),    l = 1..L

    with Var b = C_b and Var W = C_W/n_{l-1} at initialization, and learning rates λ_b and λ_W/n_{l-1}. It holds no
    parameters. Sizes and the activation are static, the hyperparameters are leaves of a pytree: `jit`, `vmap` and
    `grad` go through them.

    Args:
        widths: (n_0, …, n_L): the number of inputs, the hidden widths, the number of outputs.
        activation: an `Activation`, a name or a function.
        C_b, C_W, lambda_b, lambda_W: one number for all layers, or one per layer; they read as tuples of length L.

    >>> net = MLP(widths=(3, 8, 2), activation="tanh", C_W=1.5)
    >>> net.apply(net.init(jax.random.key(0)), jax.numpy.ones((5, 3))).shape
    (5, 2)
    """

    sigma: Nonlinearity

    def __init__(
        self,
        widths: Sequence[int],
        activation: "str | Activation | Callable[[Any], Any]" = "tanh",
        *,
        C_b: Any = 0.0,
        C_W: Any = 1.0,
        lambda_b: Any = 1.0,
        lambda_W: Any = 1.0,
    ) -> None:
        widths = _widths(widths)
        sigma = Nonlinearity(_activation(activation))
        given = dict(zip(HYPER, (C_b, C_W, lambda_b, lambda_W)))
        values = {name: _per_layer(name, value, len(widths) - 1) for name, value in given.items()}
        blocks, made = [], {}
        for width, *own in zip(widths[1:], *values.values()):
            blocks += [sigma] if blocks else []
            # Equal layers of a deep network are one object.
            key = (width, *map(id, own))
            made[key] = made.get(key) or Dense(width, **dict(zip(HYPER, own)))
            blocks.append(made[key])
        self.inputs, self.input_shape, self.blocks = widths[0], widths[:1], tuple(blocks)
        self.sigma = sigma

    @property
    def activation(self) -> Activation:
        """σ."""
        return self.sigma.activation

    @property
    def dense(self) -> tuple[Dense, ...]:
        """The dense blocks, one for each layer."""
        return self.blocks[::2]  # type: ignore[return-value]

    def variances(self) -> tuple[Layer, ...]:
        """Variances of weights and biases at initialization, in the structure of the parameters."""
        return tuple(block.variances(n) for block, n in zip(self.dense, self.widths))

    @property
    def stacked(self) -> Dense:
        """All dense blocks as one, of width 1, whose hyperparameters are arrays with one entry for each layer."""
        columns = (self.C_b, self.C_W, self.lambda_b, self.lambda_W)
        return jax.tree.unflatten(_ONE, [library_of(*column).asarray(column) for column in columns])

    @property
    def C_b(self) -> tuple[Any, ...]:
        """The variance of the biases of each layer."""
        return _of_layers(self.blocks, "C_b")

    @property
    def C_W(self) -> tuple[Any, ...]:
        """The variance of the weights of each layer, times its fan-in."""
        return _of_layers(self.blocks, "C_W")

    @property
    def lambda_b(self) -> tuple[Any, ...]:
        """The learning rate of the biases of each layer."""
        return _of_layers(self.blocks, "lambda_b")

    @property
    def lambda_W(self) -> tuple[Any, ...]:
        """The learning rate of the weights of each layer, times its fan-in."""
        return _of_layers(self.blocks, "lambda_W")

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L)."""
        return (self.inputs, *_of_layers(self.blocks, "width"))

    def replace(self, **changes: Any) -> "MLP":
        """The network with other widths, another activation or other hyperparameters.

        With more or fewer layers it keeps hyperparameters that are the same in all.

        >>> MLP((3, 8, 2)).replace(C_W=2.0).C_W
        (2.0, 2.0)
        >>> MLP((3, 8, 2), C_W=2.0).replace(widths=(3, 8, 8, 2)).C_W
        (2.0, 2.0, 2.0)
        """
        own = {name: getattr(self, name) for name in ("widths", "activation", *HYPER)} | changes
        for name in HYPER:
            if name not in changes and len(own["widths"]) != len(self.widths):
                if len(set(own[name])) > 1:
                    raise ValueError(f"{name} is {own[name]}, but must be the same in all layers.")
                own[name] = own[name][0]
        return MLP(**own)

    def parameter_count(self) -> int:
        """Number of weights and biases.

        >>> MLP(widths=(784, 512, 10)).parameter_count()
        407050
        """
        return sum(n * (m + 1) for m, n in zip(self.widths, self.widths[1:]))

    def to_dict(self) -> dict[str, Any]:
        """The specification as JSON can hold it."""
        return {
            "type": "MLP",
            "widths": list(self.widths),
            "activation": self.activation.name,
            "named": self.activation.remakable,
            **{name: list(getattr(self, name)) for name in HYPER},
        }

    @classmethod
    @public
    def from_dict(cls, record: Mapping[str, Any]) -> "MLP":
        """The network that `to_dict` described; one with a user's own activation cannot be made again from a file."""
        if not record.get("named", True):
            raise ValueError(f"activation {record['activation']!r} is a user's own function, which a file cannot hold.")
        missing = [name for name in ("widths", "activation", *HYPER) if name not in record]
        if missing:
            raise ValueError(f"the record of a network lacks {', '.join(missing)}.")
        return cls(**{name: record[name] for name in ("widths", "activation", *HYPER)})

    def __repr__(self) -> str:
        def brief(values: tuple[Any, ...]) -> str:
            if any(traced(v) for v in values):
                return repr(values[0])
            return f"{values[0]:g}" if len(set(values)) == 1 else "(" + ", ".join(f"{v:g}" for v in values) + ")"

        hyper = ", ".join(f"{name}={brief(getattr(self, name))}" for name in HYPER)
        return f"MLP(widths={self.widths}, activation={self.activation.name!r}, {hyper})"

    def _check_call(self, params: Sequence[Any], x: Any) -> None:
        wanted = [((n, m), (n,)) for m, n in zip(self.widths, self.widths[1:])]
        try:
            shapes = [(np.shape(W), np.shape(b)) for W, b in params]
        except (TypeError, ValueError):
            raise ValueError(f"params must hold one pair (W, b) per layer, of shapes {wanted}.") from None
        if shapes != wanted:
            raise ValueError(f"params hold shapes {shapes}, but must hold (W, b) of shapes {wanted}.")
        if not isinstance(x, jax.Array):
            _check.as_array("x", x)
        if np.ndim(x) == 0 or np.shape(x)[-1] != self.widths[0]:
            raise ValueError(f"x has shape {np.shape(x)}, but its last axis must have {self.widths[0]} entries.")


def plain(net: Network) -> MLP | None:
    """The network as a multilayer perceptron where it is one: dense blocks with one activation between them.

    >>> plain(Network(3, [Dense(8), "relu", Dense(2)])).activation.name
    'relu'
    >>> plain(Network(3, [Dense(8), Dense(2)])) is None
    True
    """
    if isinstance(net, MLP):
        return net
    dense, between = net.blocks[::2], net.blocks[1::2]
    kinds = [block for block in between if isinstance(block, Nonlinearity)]
    if len(net.blocks) % 2 == 0 or len(kinds) < len(between) or len({block.activation for block in kinds}) > 1:
        return None
    layers = [block for block in dense if isinstance(block, Dense)]
    if len(layers) < len(dense):
        return None
    given = {name: [getattr(block, name) for block in layers] for name in HYPER}
    return MLP((net.inputs, *(block.width for block in layers)), kinds[0].activation if kinds else "linear", **given)


def perceptron(net: Network, what: str) -> MLP:
    """The network as a multilayer perceptron, for what knows no other yet.

    >>> perceptron(MLP((3, 8, 2)), "weather").widths
    (3, 8, 2)
    """
    found = plain(net)
    if found is None:
        raise ValueError(
            f"net is {_check.brief(net)}, but {what} are known only for dense blocks with one activation between them."
        )
    return found


def _widths(values: Sequence[int]) -> tuple[int, ...]:
    if not _is_list(values) or len(values) < 2:
        raise ValueError(
            f"widths is {_check.brief(values)}, but must list at least two numbers: inputs, hidden widths, outputs."
        )
    return tuple(_check.integer("each of widths", n, at_least=1) for n in values)


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray | jax.Array):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _per_layer(name: str, value: Any, depth: int) -> tuple[Any, ...]:
    if not _is_list(value):
        return (hyperparameter(name, value),) * depth
    if len(value) != depth:
        raise ValueError(
            f"{name} is {_check.brief(value)}, but must be one number or one for each of the {depth} layers."
        )
    return tuple(hyperparameter(f"{name} of layer {l + 1}", v) for l, v in enumerate(value))


def _of_layers(blocks: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    # Equinox looks whether each attribute is a method, which takes longer than all else in a deep network; and takes a
    # method for a tree of its own, so this is none.
    read = object.__getattribute__
    return tuple(read(block, name) for block in blocks[::2])


_ONE = jax.tree.structure(Dense(1))
