"""Training of one configuration, with curves, checkpoints and a stop at the first cost that is not finite."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _blocks, _check
from .._activation import activation as _activation
from .._progress import track
from .._public import public
from .._result import Made, Result, load, result
from ..data import Dataset
from ..network import Network
from ._average import averaged
from ._optimizers import DEFAULT, OPTIMIZERS, REFRESH_EVERY, optimizer
from ._rngd import refresh
from ._task import Parts, Split, Task, perceptron, prepared, split

_CHUNK = 100
"""Steps that are compiled into one program: the bar moves, and a cost that is not finite is seen, this often."""

_HIDDEN = (80, 80, 80)

_COLUMNS = ("epochs", "steps", "train_cost", "train_accuracy", "validation_cost", "validation_accuracy", "cpu_seconds")


@result
class Curves(Result):
    """The curves of one training, at the start and after each epoch (or part of one).

    Attributes:
        optimizer, learning_rate, schedule, inputs, batch_norm, batch, l2, seed: what was run.
        widths: of the network.
        activation: of the network.
        epochs: how many epochs were done at each point; `steps` the same in steps.
        train_cost, validation_cost: cross-entropy plus ½·L2·|W|².
        train_accuracy, validation_accuracy: shares of right answers.
        cpu_seconds: CPU time of the training steps, after that of whitening or centring the training inputs; without
            compilation and evaluation.
        test_accuracy: at the end.
        data: name and checksum of the data.
    """

    optimizer: str
    learning_rate: float
    schedule: str
    inputs: str
    batch_norm: bool
    batch: int
    l2: float
    seed: int
    widths: tuple[int, ...]
    activation: str
    epochs: Float[np.ndarray, " points"]
    steps: Float[np.ndarray, " points"]
    train_cost: Float[np.ndarray, " points"]
    train_accuracy: Float[np.ndarray, " points"]
    validation_cost: Float[np.ndarray, " points"]
    validation_accuracy: Float[np.ndarray, " points"]
    cpu_seconds: Float[np.ndarray, " points"]
    test_accuracy: float
    data: dict[str, str]
    made: Made

    def reached(self, cost: float) -> tuple[float, float] | None:
        """Epochs and CPU seconds after which the training cost is below `cost` for the first time, None if never.

        Between two points both are interpolated linearly.
        """
        below = np.flatnonzero(self.train_cost <= cost)
        if not below.size:
            return None
        i = int(below[0])
        if i == 0:
            return float(self.epochs[0]), float(self.cpu_seconds[0])
        before, after = self.train_cost[i - 1], self.train_cost[i]
        share = (before - cost) / (before - after)
        return tuple(float(v[i - 1] + share * (v[i] - v[i - 1])) for v in (self.epochs, self.cpu_seconds))  # type: ignore[return-value]


@result
class Checkpoint(Result):
    """A training that was interrupted: what is run, the rows of the curves so far, and the leaves of its state."""

    specification: dict[str, Any]
    rows: tuple[tuple[float, ...], ...]
    leaves: tuple[np.ndarray, ...]


class Training(NamedTuple):
    """The curves, and the trained parameters for raw inputs."""

    curves: Curves
    params: Any


@public
def train(
    data: Dataset,
    test: Dataset | None = None,
    *,
    net: Network | None = None,
    hidden: Sequence[int] = _HIDDEN,
    activation: str = "relu",
    batch_norm: bool = False,
    optimizer: str = DEFAULT,
    learning_rate: float | None = None,
    schedule: str | None = None,
    inputs: str | None = None,
    epochs: int = 5,
    points: int = 1,
    batch: int = 50,
    l2: float = 1e-3,
    seed: int = 0,
    until: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Training:
    """Train a classifier by one optimizer, as in the experiment of Sun, Nielsen 2017, section 4.

    Args:
        data: the examples; with `test` put together, shuffled, and cut into training, validation and test part, 5:1:1.
        test: more examples (the test split of a named set).
        net: any network from the data's features to its classes, instead of the perceptron that the next three make.
        hidden: the hidden widths.
        activation: of the hidden layers.
        batch_norm: whether batch normalization follows each hidden layer.
        optimizer: "sgd", "momentum", "nesterov", "adam", "adamw", "nadam", "rmsprop", "adagrad", "lion", "muon",
            "soap", "schedule-free", "schedule-free-sgd", "rngd-units" (RNGD on a few axes with momentum, in steps that
            are shares of the preactivations, whose rate is that of batches of 200), "rngd-averaged" (the same with an
            average of the weights, for few epochs), "rngd" (whole metrics) or "rngd-published".
        learning_rate: by default the optimizer's usual one; that of "rngd-units" goes as 1/√ of the examples of all
            steps, 0.02 for 100,000.
        schedule: "constant", or "cosine" to fall to 0 at the end; by default "cosine" for "rngd-units", and "constant"
            for all others.
        inputs: "raw", "centred" (the training mean taken off), "white" (see `whiten`) or "axes" (white on the first 64
            principal axes, from 2,000 inputs); by default what suits the optimizer: axes for "rngd-averaged" and
            "rngd-units", white for "rngd", raw for all others.
        epochs: passes over the training part.
        points: points of the curves in each epoch.
        batch: examples in a step.
        l2: the cost has the term ½·L2·|W|², weights only.
        seed: of the split, the initial weights and the order of the examples.
        until: stop at the first point whose training cost is at most this.
        checkpoint: an .npz file that is written at each point; if it exists, training resumes from it.

    >>> import neft
    >>> data = neft.data.load("fashion-mnist", preprocess="pool(49)+unit", full=False).balanced(20)
    >>> train(data, hidden=(8,), optimizer="adam", epochs=1).curves.epochs
    array([0., 1.])
    """
    task, parts, seconds, specification = _prepare(
        data,
        test,
        _network(data, net, hidden, activation, batch_norm),
        optimizer,
        learning_rate,
        schedule,
        inputs,
        epochs,
        batch,
        l2,
        seed,
    )
    specification["net"] = None if net is None else net.to_dict()
    specification["activation"] = (
        _activation(activation).name if net is None else ", ".join(act.name for act in net.activations)
    )
    points = _check.integer("points", points, at_least=1)
    until = None if until is None else _check.real("until", until)
    specification["points"] = points
    rows, carry = _start(task, parts, seconds, specification, checkpoint)
    x, y = jnp.asarray(parts.train.x), jnp.asarray(parts.train.y)
    period = REFRESH_EVERY.get(optimizer)
    done = int(rows[-1][1])
    clock = rows[-1][-1]
    for chunk in track(list(_chunks(len(x), batch, epochs, points, seed, done)), f"{optimizer} on {data.name}"):
        compiled = _compiled(task, carry, x, y, chunk.index)
        started = time.process_time()
        carry, costs = compiled(carry, x, y, chunk.index)
        costs = np.asarray(costs)
        if period is not None and (done + len(costs)) // period > done // period:
            carry = (carry[0], refresh(carry[1]))
        clock += time.process_time() - started
        _refuse_nonfinite(costs, done, specification)
        done += len(costs)
        if chunk.point:
            rows = (*rows, _row(task, parts, averaged(carry[1], carry[0]), done, len(x) // batch, clock))
            if checkpoint is not None:
                _save(checkpoint, specification, rows, carry)
            if until is not None and rows[-1][2] <= until:
                break
    used = averaged(carry[1], carry[0])
    params = used if task.white is None else task.white.leave(used)
    return Training(_curves(task, parts, used, rows, specification, data), params)


class _Chunk(NamedTuple):
    index: Any
    point: bool


def _network(data: Dataset, net: Network | None, hidden: Sequence[int], activation: str, batch_norm: bool) -> Network:
    sizes = data.features, data.classes
    if net is None:
        return perceptron((sizes[0], *hidden, sizes[1]), activation, batch_norm)
    given = {"hidden": tuple(hidden) != _HIDDEN, "activation": activation != "relu", "batch_norm": batch_norm}
    for name in (name for name, other in given.items() if other):
        raise ValueError(f"{name} is given with net, but net is the whole network.")
    if (net.inputs, net.outputs) != sizes:
        raise ValueError(
            f"net has {net.inputs} inputs and {net.outputs} outputs, but the data has {sizes[0]} features and "
            f"{sizes[1]} classes."
        )
    return net


def _prepare(data, test, net, name, rate, schedule, inputs, epochs, batch, l2, seed):
    # Everything is checked before the data is touched.
    _check.one_of("optimizer", name, tuple(OPTIMIZERS))
    inputs = OPTIMIZERS[name].inputs if inputs is None else inputs
    epochs = _check.integer("epochs", epochs, at_least=1)
    batch = _check.integer("batch", batch, at_least=2 if net.couples else 1)
    l2 = _check.real("l2", l2, at_least=0.0)
    seed = _check.integer("seed", seed, at_least=0)
    raw = split(data, test, seed)
    count = len(raw.train.x) // batch
    if count < 1:
        raise ValueError(f"batch is {batch}, but the training part has only {len(raw.train.x)} examples.")
    chosen, rate, schedule = optimizer(name, rate, schedule, epochs * count, batch)
    parts, white, seconds = prepared(raw, inputs)
    task = Task(net, l2, white, chosen)
    checksum = data.checksum if test is None else f"{data.checksum}+{test.checksum}"
    specification = {
        "optimizer": name,
        "learning_rate": rate,
        "schedule": schedule,
        "inputs": inputs,
        "batch_norm": net.couples,
        "batch": batch,
        "l2": l2,
        "seed": seed,
        "widths": list(net.widths),
        "data": {"name": data.name, "checksum": checksum, "preprocessing": data.preprocessing},
        # A falling rate knows its end; a constant one can continue.
        "epochs": epochs if schedule != "constant" else None,
    }
    return task, parts, seconds, specification


def _chunks(count: int, batch: int, epochs: int, points: int, seed: int, done: int) -> Iterator[_Chunk]:
    # The order of the examples depends on the seed and the epoch alone, so that it is the same after an interruption.
    steps = count // batch
    points = min(points, steps)
    for epoch in range(done // steps, epochs):
        order = np.random.default_rng((seed, 1, epoch)).permutation(count)[: steps * batch].reshape(steps, batch)
        for part in _blocks.blocks(steps, -(-steps // points)):
            if epoch * steps + part.start < done:
                continue
            pieces = list(_blocks.blocks(part.stop - part.start, _CHUNK))
            for piece in pieces:
                rows = order[part.start + piece.start : part.start + piece.stop]
                yield _Chunk(rows.astype(np.int32), piece is pieces[-1])


def _compiled(task: Task, carry: Any, x: Any, y: Any, index: np.ndarray) -> Any:
    # Compiled ahead, so that CPU seconds are those of the steps.
    programs = task.__dict__.setdefault("programs", {})
    if index.shape not in programs:
        programs[index.shape] = task.compiled.lower(carry, x, y, index).compile()
    return programs[index.shape]


def _start(task: Task, parts: Parts, seconds: float, specification: dict, checkpoint: Any):
    carry = task.init(jax.random.key(specification["seed"]))
    if checkpoint is not None and Path(checkpoint).suffix != ".npz":
        raise ValueError(f"checkpoint is {str(checkpoint)!r}, but must end in .npz.")
    if checkpoint is None or not Path(checkpoint).exists():
        return (_row(task, parts, carry[0], 0, 1, seconds),), carry
    saved = load(checkpoint)
    if not isinstance(saved, Checkpoint):
        raise ValueError(f"checkpoint {str(checkpoint)!r} holds a {type(saved).__name__}, but must hold a Checkpoint.")
    different = [key for key in specification if saved.specification.get(key) != specification[key]]
    if different:
        key = different[0]
        raise ValueError(
            f"checkpoint {str(checkpoint)!r} has {key} {saved.specification.get(key)!r}, but this training has "
            f"{specification[key]!r}: name another file, or run the same."
        )
    structure = jax.tree.structure(carry)
    carry = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved.leaves])
    return tuple(tuple(row) for row in saved.rows), carry


def _save(path: Any, specification: dict, rows: tuple, carry: Any) -> None:
    leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(carry))
    Checkpoint(specification=specification, rows=rows, leaves=leaves).save(path)


def _refuse_nonfinite(costs: np.ndarray, done: int, specification: dict) -> None:
    wrong = np.flatnonzero(~np.isfinite(costs))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(
            f"the cost is {costs[at]} at step {done + at + 1}, so training stops: learning_rate is "
            f"{specification['learning_rate']:g}, and a lower one may help."
        )


def _row(task: Task, parts: Parts, params: Any, done: int, per_epoch: int, clock: float) -> tuple[float, ...]:
    # The training cost is that of as many examples as the validation part has.
    size = len(parts.validation.x)
    train = Split(parts.train.x[:size], parts.train.y[:size])
    pairs = (task.evaluate(params, part, parts.train.x) for part in (train, parts.validation))
    return (done / per_epoch, float(done), *(value for pair in pairs for value in pair), clock)


def _curves(task: Task, parts: Parts, params: Any, rows: tuple, specification: dict, data: Dataset) -> Curves:
    columns = dict(zip(_COLUMNS, np.array(rows, float).T))
    named = {key: specification[key] for key in ("optimizer", "learning_rate", "schedule", "inputs", "batch_norm")}
    named |= {key: specification[key] for key in ("batch", "l2", "seed", "activation", "data")}
    return Curves(
        **named,
        **columns,
        widths=tuple(specification["widths"]),
        test_accuracy=task.evaluate(params, parts.test, parts.train.x)[1],
        made=Made.by("neft.fisher.train", specification=specification, key=specification["seed"]),
    )
