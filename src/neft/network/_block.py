"""What a block of a network is: the few names that each has, and what averages its step of the kernels may ask for."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array

from .. import _check
from .._activation import Activation
from .._promote import traced
from ._stage import Stage


class Means(NamedTuple):
    """Averages of σ over a Gaussian stage: ⟨σ₁²⟩, ⟨σ₂²⟩, ⟨σ₁σ₂⟩, ⟨σ₁'σ₂'⟩.

    With √(⟨σ₁²⟩⟨σ₂²⟩) - ⟨σ₁σ₂⟩ where more digits of it are known than the difference has, else None.
    """

    square1: Any
    square2: Any
    square: Any
    slope: Any
    gap: Any = None


@runtime_checkable
class Averages(Protocol):
    """How Gaussian averages are taken: in closed form, by an expansion, by quadrature. Blocks ask, engines know."""

    def pair(self, activation: Activation, stage: Stage) -> Means:
        """The averages that every activation needs."""
        ...

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        """⟨σ₁⟩ and ⟨σ₂⟩."""
        ...

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        """⟨z₁z₂ σ₁'σ₂'⟩."""
        ...


@runtime_checkable
class AveragesOnPositions(Averages, Protocol):
    """The same where entries stand at positions that blocks mix, as pools do."""

    def alone(self, stage: Stage, function: Callable[[Any], Any]) -> tuple[Any, Any]:
        """`function(c)` of each of the two inputs by itself, c being its products between all pairs of positions.

        A stage holds products of an input with itself at equal positions only.
        """
        ...


class Linear(NamedTuple):
    """A block that is linear, with independent Gaussian weights: their variance and learning rate, times the fan-in.

    K' = … + C_W⟨ss⟩ and Θ' = … + λ_W⟨ss⟩ + C_W Θ, where the dots are constants (docs/theory/blocks, eq. 2).
    """

    variance: Any
    learning_rate: Any

    def theta(self, square: Any, Theta: Any) -> Any:
        """The part of Θ' that is not constant; linear, so that averages and changes of both go through it too."""
        return self.learning_rate * square + self.variance * Theta


class Division(NamedTuple):
    """A norm: whether it subtracts the mean, its ε, and the rates of its gains and biases, None where not trained."""

    centres: bool
    epsilon: Any
    gain: Any = None
    bias: Any = None


class TwoMatrices(NamedTuple):
    """What a block skip · z + last(σ(first(norm(z)))) is made of: its skip, two linear blocks, the width between them.

    The norm is None where there is none.
    """

    skip: Any
    first: Linear
    last: Linear
    width: int
    norm: Division | None = None


class OneMatrix(NamedTuple):
    """What a block skip · z + last(σ(norm(z))) is made of: its skip, σ, and the linear block.

    The norm is None where there is none.
    """

    skip: Any
    activation: Activation
    last: Linear
    norm: Division | None = None


class Step(NamedTuple):
    """A dense block of a branch and the activation before it, None where there is none; the width of what it sums."""

    activation: Activation | None
    dense: "Block"
    width: int | None


class Chain(NamedTuple):
    """What a block skip · z + branch(z) is made of, whose branch is dense blocks and activations: its skip, its steps.

    The width that the first step sums is that of the stream, None here.
    """

    skip: Any
    steps: tuple[Step, ...]


class Block(eqx.Module):
    """A part of a network: it maps one stage to the next (docs/theory/blocks).

    A block of your own has `init`, `apply`, `rates` and `kernel`, and hyperparameters as fields; sizes are static
    fields. With them a network that holds it has kernels, predictions, simulations and tangent kernels. It may have
    `tensors`, and with it what is of order 1/width.
    """

    weighs: ClassVar[bool] = True  # whether statistics have an entry for it
    mixes: ClassVar[bool] = False  # whether its step of the kernels takes all pairs of positions

    @property
    def dimensions(self) -> int:
        """How many dimensions its positions must have; 0 where it takes any, or none."""
        return 0

    @abc.abstractmethod
    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Any:
        """Random parameters, a pytree, for inputs of this width; an empty one if there are none."""

    @abc.abstractmethod
    def apply(self, params: Any, x: Array) -> Array:
        """The outputs (…, width) for inputs (…, fan_in); where these have positions, (N, H, W, fan_in)."""

    @abc.abstractmethod
    def rates(self, fan_in: int) -> Any:
        """The learning rates, a tree like that of the parameters with a number for each array."""

    @abc.abstractmethod
    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """The step of K and Θ at infinite width. It may refuse a stage, with a ValueError of one sentence."""

    def visited(self, params: Any, x: Array, visit: "Visit") -> Array:
        """The outputs with `visit(block, params, x)` for `apply`; a block made of blocks hands it on to them."""
        return visit(self, params, x)

    def tensors(self) -> "Linear | OneMatrix | TwoMatrices | Chain | Division | None":
        """What its step of the tensors of order 1/width is made of; None where it has none.

        A linear block has that of docs/theory/width, eqs. 20-64, two matrices that of docs/theory/blocks, eqs. 13-30,
        a norm that of docs/theory/blocks, eqs. 38-48, one matrix that of docs/theory/residual, eqs. 12-30, any chain of
        dense blocks and activations that of docs/theory/residual, eqs. 32-44.
        """
        return None

    def chain(self) -> Chain | None:
        """A residual block as dense blocks and activations around which its skip goes; None where it is not that."""
        return None

    def resized(self, change: Callable[[int], int]) -> "Block":
        """The block with other widths, `change` of each; that of a block of one's own is not known."""
        raise ValueError(f"block {type(self).__name__} is a user's own, so nothing is known about other widths of it.")

    def to_dict(self) -> Any:
        """What a file keeps. A block of one's own is named there and cannot be made again."""
        return {"type": type(self).__name__, "named": False}


Visit = Callable[[Block, Any, Array], Array]


def hyperparameter(name: str, value: Any, *, at_least: float | None = 0.0) -> Any:
    """A number as a float, checked; a tracer as it is, for jit, vmap and grad."""
    if not traced(value):
        return _check.real(name, value, at_least=at_least)
    if value.ndim:
        raise ValueError(f"{name} has shape {value.shape}, but must be one number.")
    return value
