"""Training many seeds in one program.

A step of this size is bound by its matrix products and runs from the cache, so seeds are stacked a few at a time and
the stacks follow each other inside the program; more at once would go through main memory. The learning rate is an
argument of the program, so that a grid of rates compiles once.
"""

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import _check
from ..data import load_splits
from ._average import averaged
from ._optimizers import DEFAULT, OPTIMIZERS, REFRESH_EVERY, SCHEDULES
from ._rngd import RNGDState, refresh
from ._soap import SOAPState
from ._task import INPUTS, Parts, Task, cross_entropy, perceptron, prepared, split
from ._units import UnitsState
from ._whiten import Whitening

STACK = 4
"""Seeds whose steps are done together."""

_REFERENCE = 5000
"""Training inputs from which batch normalization takes its moments for predictions."""


class _Laboratory(NamedTuple):
    parts: Parts
    white: Whitening | None
    seconds: float
    classes: int


class _Scores(NamedTuple):
    cost: Any
    accuracy: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """All of a training by `neft.fisher.train` but its learning rate and its seeds, to be run for many of them.

    `data`, `full` and `preprocess` are those of `neft.data.load`, `split` is the seed by which the data is cut 5:1:1,
    and the others are those of `neft.fisher.train`. Nothing is loaded before `train` is called.

    >>> experiment = Experiment(full=False, preprocess="pool(49)+unit", hidden=(8,), optimizer="sgd", epochs=1)
    >>> experiment.train(0.1, seeds=(0, 1))["train_cost"].shape
    (2, 2)
    """

    data: str = "fashion-mnist"
    full: bool | None = None
    preprocess: str | None = None
    hidden: Sequence[int] = (80, 80, 80)
    activation: str = "relu"
    batch_norm: bool = False
    optimizer: str = DEFAULT
    schedule: str | None = None
    inputs: str | None = None
    epochs: int = 5
    batch: int = 50
    l2: float = 1e-3
    split: int = 0

    def __post_init__(self) -> None:
        _check.one_of("optimizer", self.optimizer, tuple(OPTIMIZERS))
        if self.schedule is not None:
            _check.one_of("schedule", self.schedule, SCHEDULES)
        if self.inputs is not None:
            _check.one_of("inputs", self.inputs, INPUTS)
        for name in ("epochs", "batch"):
            _check.integer(name, getattr(self, name), at_least=1)
        _check.integer("split", self.split, at_least=0)
        _check.real("l2", self.l2, at_least=0.0)
        hidden = tuple(_check.integer("each of hidden", width, at_least=1) for width in self.hidden)
        object.__setattr__(self, "hidden", hidden)

    def train(self, learning_rate: float | None, seeds: Sequence[int]) -> dict[str, Any]:
        """The curves of `seeds` trainings, which differ in initial weights and in the order of the data.

        Returns `epochs` of shape (points,), costs and accuracies on the training and validation part of shape
        (seeds, points), cost and accuracy on the test part at the end of shape (seeds,), and the CPU seconds of the
        steps for one seed at each point. A `learning_rate` of None is the optimizer's usual one.
        """
        if learning_rate is not None:
            _check.real("learning_rate", learning_rate, above=0.0)
        program = _program(self)
        seen = self.epochs * self.steps * self.batch
        rate = OPTIMIZERS[self.optimizer].usual(seen) if learning_rate is None else float(learning_rate)
        laboratory = _laboratory(self.data, self.full, self.preprocess, self.split, self.form)
        parts = laboratory.parts
        size = len(parts.validation.x)
        watched = (parts.train.x[:size], parts.train.y[:size]), tuple(parts.validation)
        stacks = _stacks(len(seeds))
        carry = program.start([seeds[i] for i in np.ravel(stacks)], stacks.shape)
        clock, chunk = laboratory.seconds, self._chunk
        rows = [[*program.evaluate(carry[0], *watched[0]), *program.evaluate(carry[0], *watched[1])]]
        seconds = [clock]
        for epoch in range(self.epochs):
            index = np.stack([self._order(seed, epoch) for seed in seeds])[stacks]
            for first in range(0, self.steps, chunk):
                done = epoch * self.steps + first
                part = index[:, :, first : first + chunk]
                compiled = program.compiled(carry, part)
                started = time.process_time()
                carry, costs = compiled(carry, np.float32(rate), program.x, program.y, part)
                costs = np.asarray(costs)
                if chunk < self.steps and costs.shape[2] == chunk:
                    carry = (carry[0], refresh(carry[1]))
                clock += (time.process_time() - started) / stacks.size
                _refuse_nonfinite(_unstacked(costs, stacks), done, rate)
            used = program.used(carry)
            rows.append([*program.evaluate(used, *watched[0]), *program.evaluate(used, *watched[1])])
            seconds.append(clock)
        names = ("train_cost", "train_accuracy", "validation_cost", "validation_accuracy")
        curves = (np.stack([_unstacked(row[i], stacks) for row in rows], axis=1) for i in range(4))
        test = program.evaluate(program.used(carry), *parts.test)
        return {
            "epochs": np.arange(self.epochs + 1.0),
            **dict(zip(names, curves)),
            "test_cost": _unstacked(test.cost, stacks),
            "test_accuracy": _unstacked(test.accuracy, stacks),
            "learning_rate": rate,
            "steps_per_epoch": self.steps,
            "cpu_seconds": np.array(seconds),
        }

    @property
    def form(self) -> str:
        """Of the inputs: raw, centred or white."""
        return OPTIMIZERS[self.optimizer].inputs if self.inputs is None else self.inputs

    @property
    def falls(self) -> bool:
        """Whether the rate falls to 0 at the end."""
        return (self.schedule or OPTIMIZERS[self.optimizer].schedule) == "cosine"

    @functools.cached_property
    def steps(self) -> int:
        """In one epoch."""
        count = len(_laboratory(self.data, self.full, self.preprocess, self.split, self.form).parts.train.x)
        if count < self.batch:
            raise ValueError(f"batch is {self.batch}, but the training part has only {count} examples.")
        return count // self.batch

    @property
    def _chunk(self) -> int:
        # Steps between two visits to the host: an epoch, or the period at which metrics are inverted there.
        return min(self.steps, REFRESH_EVERY.get(self.optimizer, self.steps))

    def _order(self, seed: int, epoch: int) -> np.ndarray:
        # As in `fisher.train`: by the seed and the epoch alone.
        count = len(_laboratory(self.data, self.full, self.preprocess, self.split, self.form).parts.train.x)
        order = np.random.default_rng((seed, 1, epoch)).permutation(count)[: self.steps * self.batch]
        return order.reshape(self.steps, self.batch).astype(np.int32)


class _Program:
    # Compiled code of one experiment, with the data it works on.

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        laboratory = _laboratory(
            experiment.data, experiment.full, experiment.preprocess, experiment.split, experiment.form
        )
        parts, self._white = laboratory.parts, laboratory.white
        self.x, self.y = jnp.asarray(parts.train.x), jnp.asarray(parts.train.y)
        features = parts.train.x.shape[1] if self._white is None else len(self._white.mean)
        widths = (features, *experiment.hidden, laboratory.classes)
        self._net = perceptron(widths, experiment.activation, experiment.batch_norm)
        self._programs: dict[Any, Any] = {}
        self._scores = jax.jit(self._evaluate)

    def start(self, seeds: Sequence[int], shape: tuple[int, ...]) -> Any:
        """Parameters and state of every seed, in stacks."""
        params, state = jax.vmap(self._task(1.0).init)(jnp.stack([jax.random.key(seed) for seed in seeds]))
        return jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), (params, state))

    def compiled(self, carry: Any, index: np.ndarray) -> Any:
        """The steps as machine code for these shapes, compiled outside the measured time."""
        if index.shape not in self._programs:
            lowered = jax.jit(self._steps, donate_argnums=0).lower(carry, np.float32(0), self.x, self.y, index)
            self._programs[index.shape] = lowered.compile()
        return self._programs[index.shape]

    def used(self, carry: Any) -> Any:
        """The parameters that the optimizer of every seed means for predictions, in stacks."""
        return jax.vmap(jax.vmap(lambda carry: averaged(carry[1], carry[0])))(carry)

    def evaluate(self, params: Any, x: np.ndarray, y: np.ndarray) -> _Scores:
        """Cost and accuracy of every seed, in stacks."""
        cost, right = self._scores(params, x, y, self.x[:_REFERENCE])
        return _Scores(np.asarray(cost, np.float64), np.asarray(right) / len(y))

    def _task(self, rate: Any) -> Task:
        experiment = self._experiment
        if experiment.falls:
            rate = optax.cosine_decay_schedule(rate, experiment.epochs * experiment.steps)
        return Task(self._net, experiment.l2, self._white, OPTIMIZERS[experiment.optimizer].make(rate))

    def _steps(self, carry: Any, rate: Any, x: Any, y: Any, index: Any) -> Any:
        task = self._task(rate)
        axes = (0, _axes(carry[1]))

        def stack(inputs: Any) -> Any:
            (params, state), rows = inputs
            together = jax.vmap(task.steps, in_axes=(axes, None, None, 0), out_axes=(axes, 0))
            (params, state), costs = together((params, _shared(state)), x, y, rows)
            return (params, _own(state, len(rows))), costs

        return jax.lax.map(stack, (carry, index))

    def _evaluate(self, params: Any, x: Any, y: Any, reference: Any) -> _Scores:
        task = self._task(1.0)

        def one(params: Any) -> _Scores:
            z = task.settled(params, reference).apply(params, x)
            return _Scores(cross_entropy(z, y) + task.penalty(params), (z.argmax(-1) == y).sum())

        return jax.lax.map(lambda stack: jax.lax.map(one, stack), params)


# What is done at intervals of steps must count them for all seeds in one number under vmap: with a count for each, all
# branches would be done at every step.
_COMMON = {RNGDState: ("count", "damping"), SOAPState: ("count",), UnitsState: ("count",)}


def _counts(node: Any) -> bool:
    return isinstance(node, tuple(_COMMON))


def _axes(state: Any) -> Any:
    def axes(node: Any) -> Any:
        if not _counts(node):
            return 0
        return type(node)(*(None if name in _COMMON[type(node)] else 0 for name in node._fields))

    return jax.tree.map(axes, state, is_leaf=_counts)


def _shared(state: Any) -> Any:
    def first(node: Any) -> Any:
        return (
            node._replace(**{name: getattr(node, name)[0] for name in _COMMON[type(node)]}) if _counts(node) else node
        )

    return jax.tree.map(first, state, is_leaf=_counts)


def _own(state: Any, size: int) -> Any:
    def spread(node: Any) -> Any:
        if not _counts(node):
            return node
        common = {name: jnp.repeat(getattr(node, name)[None], size, axis=0) for name in _COMMON[type(node)]}
        return node._replace(**common)

    return jax.tree.map(spread, state, is_leaf=_counts)


def _stacks(count: int) -> np.ndarray:
    # Seeds by number in rows of equal length; the last row is filled up with the last seed.
    size = min(STACK, count)
    rows = -(-count // size)
    return np.minimum(np.arange(rows * size), count - 1).reshape(rows, size)


def _unstacked(values: np.ndarray, stacks: np.ndarray) -> np.ndarray:
    return np.asarray(values).reshape(stacks.size, *np.shape(values)[2:])[: stacks.max() + 1]


def _refuse_nonfinite(costs: np.ndarray, done: int, rate: float) -> None:
    wrong = ~np.isfinite(costs)
    if wrong.any():
        step = int(np.flatnonzero(wrong.any(0))[0])
        count = int(wrong.any(1).sum())
        raise ValueError(
            f"the cost is not finite from step {done + step + 1} on for {count} of {len(costs)} seeds, "
            f"learning_rate is {rate:g}."
        )


@functools.lru_cache(maxsize=2)
def _laboratory(data: str, full: bool | None, preprocess: str | None, seed: int, inputs: str) -> _Laboratory:
    train, test = load_splits(data, preprocess=preprocess, full=full)
    parts, white, seconds = prepared(split(train, test, seed), inputs)
    return _Laboratory(parts, white, seconds, train.classes)


@functools.lru_cache(maxsize=2)
def _program(experiment: Experiment) -> _Program:
    return _Program(experiment)
