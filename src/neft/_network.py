"""The network of docs/theory/width, eqs. 1-4: a frozen specification with `init` and `apply`."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from . import _check
from ._activation import Activation, activation
from ._promote import common_dtype, to_rank
from ._public import public


class Layer(NamedTuple):
    """Parameters (or learning rates) of one layer: weights W of shape (n_l, n_{l-1}) and biases b of shape (n_l,)."""

    W: Any
    b: Any


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MLP:
    """Specification of a multilayer perceptron (docs/theory/width, eqs. 1-4).

        z¹ = b¹ + W¹x,    z^{l+1} = b^{l+1} + W^{l+1} σ(z^l),    l = 1..L

    with Var b = C_b and Var W = C_W/n_{l-1} at initialization, and learning rates λ_b and λ_W/n_{l-1}. It holds no
    parameters, is hashable, and may be a static argument of compiled functions.

    Attributes:
        widths: (n_0, …, n_L): the number of inputs, the hidden widths, the number of outputs.
        activation: an `Activation`; a name or a function is accepted.
        C_b, C_W, lambda_b, lambda_W: one number for all layers, or one per layer; kept as tuples of length L.

    >>> net = MLP(widths=(3, 8, 2), activation="tanh", C_W=1.5)
    >>> net.apply(net.init(jax.random.key(0)), jnp.ones((5, 3))).shape
    (5, 2)
    """

    widths: tuple[int, ...]
    activation: Activation = "tanh"  # type: ignore[assignment]  # names are turned into activations below
    C_b: tuple[float, ...] = 0.0  # type: ignore[assignment]
    C_W: tuple[float, ...] = 1.0  # type: ignore[assignment]
    lambda_b: tuple[float, ...] = 1.0  # type: ignore[assignment]
    lambda_W: tuple[float, ...] = 1.0  # type: ignore[assignment]

    def __init__(
        self,
        widths: Sequence[int],
        activation: "str | Activation | Callable[[Any], Any]" = "tanh",
        *,
        C_b: float | Sequence[float] = 0.0,
        C_W: float | Sequence[float] = 1.0,
        lambda_b: float | Sequence[float] = 1.0,
        lambda_W: float | Sequence[float] = 1.0,
    ) -> None:
        widths = _widths(widths)
        hyperparameters = {"C_b": C_b, "C_W": C_W, "lambda_b": lambda_b, "lambda_W": lambda_W}
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "activation", _activation(activation))
        for name, value in hyperparameters.items():
            object.__setattr__(self, name, _per_layer(name, value, len(widths) - 1))

    @property
    def depth(self) -> int:
        """L, the number of layers of weights."""
        return len(self.widths) - 1

    def init(self, key: Array, *, dtype: Any = None) -> tuple[Layer, ...]:
        """Random Gaussian parameters, one `Layer` per layer, in JAX's default float type unless `dtype` is given."""
        dtype = jnp.zeros(()).dtype if dtype is None else dtype
        try:
            if isinstance(dtype, np.ndarray | jax.Array) or not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
                raise TypeError
        except (TypeError, ValueError):
            raise ValueError(
                f"dtype is {_check.brief(dtype)}, but must be a type of real floating-point numbers."
            ) from None
        keys = jax.random.split(_check.key("key", key), self.depth)
        self.check_memory(dtype)
        layers = []
        for l, layer_key in enumerate(keys):
            fan_in, fan_out = self.widths[l], self.widths[l + 1]
            key_W, key_b = jax.random.split(layer_key)
            W = jax.random.normal(key_W, (fan_out, fan_in), dtype) * math.sqrt(self.C_W[l] / fan_in)
            b = jax.random.normal(key_b, (fan_out,), dtype) * math.sqrt(self.C_b[l])
            layers.append(Layer(W, b))
        return tuple(layers)

    def apply(self, params: Sequence[Any], x: Float[Array, "*batch n_0"] | np.ndarray) -> Float[Array, "*batch n_L"]:
        """The outputs z^L for inputs of shape (…, n_0)."""
        return self.preactivations(params, x)[-1]

    def preactivations(
        self, params: Sequence[Any], x: Float[Array, "*batch n_0"] | np.ndarray
    ) -> tuple[Float[Array, "*batch n_l"], ...]:
        """(z¹, …, z^L) for inputs of shape (…, n_0)."""
        self._check_call(params, x)
        dtype = common_dtype(x, *jax.tree.leaves(params))
        zs: list[Array] = []
        for W, b in params:
            W, b = jnp.asarray(W, dtype), jnp.asarray(b, dtype)
            signal = self.activation(zs[-1]) if zs else jnp.asarray(x, dtype)
            zs.append(signal @ W.T + to_rank(b, signal.ndim))
        return tuple(zs)

    def rates(self) -> tuple[Layer, ...]:
        """Learning rates λ_W/n_{l-1} and λ_b as a tree of numbers with one `Layer` per layer."""
        return tuple(
            Layer(lambda_W / fan_in, lambda_b)
            for lambda_W, lambda_b, fan_in in zip(self.lambda_W, self.lambda_b, self.widths)
        )

    def parameter_count(self) -> int:
        """Number of weights and biases.

        >>> MLP(widths=(784, 512, 10)).parameter_count()
        407050
        """
        return sum(n * (m + 1) for m, n in zip(self.widths, self.widths[1:]))

    def check_memory(self, dtype: Any = np.float32) -> None:
        """Refuse a network whose parameters do not fit into this machine's memory."""
        what = f"the {self.parameter_count():.2e} parameters of widths {_check.brief(self.widths)}"
        _check.memory(what, self.parameter_count(), itemsize=jnp.dtype(dtype).itemsize)

    def to_dict(self) -> dict[str, Any]:
        """The specification as JSON can hold it."""
        return {
            "type": "MLP",
            "widths": list(self.widths),
            "activation": self.activation.name,
            "named": self.activation.named,
            **{name: list(getattr(self, name)) for name in ("C_b", "C_W", "lambda_b", "lambda_W")},
        }

    @classmethod
    @public
    def from_dict(cls, record: Mapping[str, Any]) -> "MLP":
        """The network that `to_dict` described; one with a user's own activation cannot be made again from a file."""
        if not record.get("named", True):
            raise ValueError(f"activation {record['activation']!r} is a user's own function, which a file cannot hold.")
        missing = [field.name for field in dataclasses.fields(cls) if field.name not in record]
        if missing:
            raise ValueError(f"the record of a network lacks {', '.join(missing)}.")
        return cls(**{field.name: record[field.name] for field in dataclasses.fields(cls)})

    def __repr__(self) -> str:
        def brief(values: tuple[float, ...]) -> str:
            return f"{values[0]:g}" if len(set(values)) == 1 else "(" + ", ".join(f"{v:g}" for v in values) + ")"

        hyper = ", ".join(f"{name}={brief(getattr(self, name))}" for name in ("C_b", "C_W", "lambda_b", "lambda_W"))
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


def _activation(value: Any) -> Activation:
    return activation(value)


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


def _per_layer(name: str, value: Any, depth: int) -> tuple[float, ...]:
    if not _is_list(value):
        return (_check.real(name, value, at_least=0.0),) * depth
    if len(value) != depth:
        raise ValueError(
            f"{name} is {_check.brief(value)}, but must be one number or one for each of the {depth} layers."
        )
    return tuple(_check.real(f"{name} of layer {l + 1}", v, at_least=0.0) for l, v in enumerate(value))
