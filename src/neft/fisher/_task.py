"""Classification as in the experiment of Sun, Nielsen 2017: the split of the data, the cost, and its compiled loops."""

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _blocks, _check, _optimizer
from ..data import Dataset
from ..network import MLP, BatchNorm, Dense, Network, Nonlinearity
from ._capture import capture
from ._glorot import glorot
from ._layers import layers
from ._whiten import Whitening, whiten

INPUTS = ("raw", "centred", "white", "axes")
_EVALUATED = 5000
_WHITENED = 10_000
"""Training inputs that a whitening is taken from: more do not change the training."""
_AXES, _FOR_AXES = 64, 2000
"""Axes that "axes" keeps, and training inputs that they are taken from."""


class Split(NamedTuple):
    """Inputs and labels of one part of the data."""

    x: np.ndarray
    y: np.ndarray


class Parts(NamedTuple):
    """Training, validation and test part."""

    train: Split
    validation: Split
    test: Split


def split(data: Dataset, test: Dataset | None, seed: int) -> Parts:
    """All examples shuffled and cut 5 : 1 : 1, as Sun, Nielsen 2017 cuts MNIST into 50,000, 10,000 and 10,000."""
    x = data.x if test is None else np.concatenate([data.x, test.x])
    y = data.y if test is None else np.concatenate([data.y, test.y])
    order = np.random.default_rng(seed).permutation(len(x))
    part = len(x) // 7
    if part < 1:
        raise ValueError(f"data has {len(x)} examples, but must have at least 7.")
    cut = len(x) - 2 * part, len(x) - part
    pieces = np.split(order, cut)
    return Parts(*(Split(x[piece], y[piece].astype(np.int32)) for piece in pieces))


def prepared(parts: Parts, inputs: str) -> tuple[Parts, Whitening | None, float]:
    """The parts with their inputs as they are, centred by the training mean, or whitened on the training part, whole or
    on its first axes.

    The third is the CPU time that it took for the training part.
    """
    _check.one_of("inputs", inputs, INPUTS)
    started = time.process_time()
    white = None
    if inputs == "raw":
        return parts, None, 0.0
    if inputs == "centred":
        mean = parts.train.x.mean(0, dtype=np.float64).astype(parts.train.x.dtype)

        def change(x: np.ndarray) -> np.ndarray:
            return x - mean

    else:
        x, few = parts.train.x, inputs == "axes"
        rank, samples = (min(_AXES, x.shape[1]), min(_FOR_AXES, len(x))) if few else (None, min(_WHITENED, len(x)))
        change = white = whiten(x, rank=rank, samples=samples)
    train = change(parts.train.x)
    seconds = time.process_time() - started
    rest = (Split(change(part.x), part.y) for part in parts[1:])
    return Parts(Split(train, parts.train.y), *rest), white, seconds


def perceptron(widths: Sequence[int], activation: Any, batch_norm: bool) -> Network:
    """The networks of the experiment: a perceptron, or one whose hidden outputs σ(z) are normalized over the batch."""
    net = MLP(widths=widths, activation=activation)
    if not batch_norm:
        return net
    norm = BatchNorm(lambda_gain=1.0, lambda_bias=1.0)
    pairs = ((block, norm) if isinstance(block, Nonlinearity) else (block,) for block in net.blocks)
    return Network(net.input_shape, [block for pair in pairs for block in pair])


@runtime_checkable
class Coordinates(Protocol):
    """What a task needs of a `Whitening`."""

    @property
    def scale(self) -> Any:
        """A number for each coordinate."""
        ...

    def enter(self, params: Any) -> Any:
        """Parameters in whitened coordinates."""
        ...

    def leave(self, params: Any) -> Any:
        """Parameters for raw inputs."""
        ...

    def square(self, V: Any) -> Any:
        """|W|² of the raw weights."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A network with its cost: softmax cross-entropy plus ½·L2·|W|² over all weights and no biases."""

    net: Network
    l2: float
    white: Coordinates | None
    optimizer: optax.GradientTransformation

    def __post_init__(self) -> None:
        if self.white is not None and not isinstance(self.net.blocks[0], Dense):
            raise ValueError(
                "inputs is 'white' or 'axes', for which the first block must be a dense one, "
                f"but it is {self.net.blocks[0]!r}."
            )

    @functools.cached_property
    def inner(self) -> Network:
        """The network in the coordinates that it is trained in, which may be fewer than its inputs."""
        count = self.net.inputs if self.white is None else len(self.white.scale)
        return self.net if count == self.net.inputs else Network(count, self.net.blocks)

    def init(self, key: Array) -> tuple[Any, Any]:
        """Parameters by Glorot's initializer (on raw inputs), and the optimizer's state."""
        params = glorot(self.net, key)
        params = params if self.white is None else self.white.enter(params)
        return params, self.optimizer.init(params)

    def penalty(self, params: Any) -> Float[Array, ""]:
        """½·L2·|W|²; a whitened first layer counts by its raw weights."""
        first, *rest = (layer.W for layer in layers(params))
        square = jnp.square(first).sum() if self.white is None else self.white.square(first)
        return self.l2 / 2 * (square + sum(jnp.square(W).sum() for W in rest))

    def step(self, carry: tuple[Any, Any], batch: tuple[Array, Array]) -> tuple[tuple[Any, Any], Array]:
        """One step of the optimizer, and the batch's cost before it."""
        params, state = carry
        x, y = batch
        seen = capture(self.inner, x, params, loss=lambda z: cross_entropy(z, y), penalty=self.penalty)
        updates, state = _optimizer.update(self.optimizer, seen.gradient, state, params, captures=seen)
        return (optax.apply_updates(params, updates), state), seen.loss  # type: ignore[return-value]

    def steps(self, carry: Any, x: Array, y: Array, index: Array) -> tuple[Any, Array]:
        """Many steps, one for each row of `index`, and their costs; to be compiled."""
        return jax.lax.scan(lambda c, rows: self.step(c, (x[rows], y[rows])), carry, index)

    @functools.cached_property
    def compiled(self) -> Any:
        """`steps` compiled, with the carry's memory used again."""
        return jax.jit(self.steps, donate_argnums=0)

    @functools.cached_property
    def _sums(self) -> Any:
        def sums(net: Network, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
            z = net.apply(params, x)
            return cross_entropy(z, y) * len(y), (z.argmax(-1) == y).sum()

        return jax.jit(sums)

    def settled(self, params: Any, reference: Any) -> Network:
        """The network for predictions: batch norms take the moments of `reference`."""
        net = self.inner
        return net.with_moments(net.moments(params, reference)) if net.couples else net

    def evaluate(self, params: Any, part: Split, reference: np.ndarray) -> tuple[float, float]:
        """Cost and accuracy on a part; batch normalization takes its moments from `reference` (training inputs)."""
        net = self.settled(params, reference[:_EVALUATED])
        loss = right = 0.0
        for block in _blocks.blocks(len(part.x), _EVALUATED):
            sums = self._sums(net, params, part.x[block], part.y[block])
            loss, right = loss + float(sums[0]), right + float(sums[1])
        return loss / len(part.x) + float(self.penalty(params)), right / len(part.x)


def cross_entropy(outputs: Float[Array, "batch classes"], y: Array) -> Float[Array, ""]:
    """The mean of -ln softmax(outputs) at the labels."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()
