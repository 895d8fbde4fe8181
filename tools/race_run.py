"""One run of a race of optimizers: the data in its form, compiled steps, and the curve (`race_optimizers.py`)."""

import functools
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from measure import peer  # type: ignore[import-not-found]

import neft
from neft import fisher
from neft.fisher._glorot import glorot
from neft.fisher._optimizers import in_units
from neft.fisher._task import Parts, Split, Task, cross_entropy, perceptron, split

HIDDEN, L2, SEEN, REFERENCE = (80, 80, 80), 1e-3, 10_000, 5000
TUNING_SEED = 101
AXES, MOMENTS_FROM = 128, 3000
KFAC = "K-FAC"


class Setting(NamedTuple):
    """What is tuned; the horizon is in epochs."""

    rate: float
    momentum: float
    batch: int
    horizon: float


class Rival(NamedTuple):
    """An optimizer as a function of a schedule, a momentum and whether the inputs are white.

    `rate` is its usual one, `momenta` are the values its momentum may have, and `falls` says whether it takes a
    schedule.
    """

    make: Callable[[Any, Any, bool], optax.GradientTransformation] | None
    rate: float
    momenta: tuple[float, ...]
    falls: bool = True


def with_momentum(schedule: Any, momentum: Any, *_: Any) -> optax.GradientTransformation:
    """Nesterov's momentum."""
    return optax.chain(optax.trace(momentum, nesterov=True), optax.scale_by_learning_rate(schedule))


def few_axes(schedule: Any, momentum: Any, white: bool) -> optax.GradientTransformation:
    """RNGD with eight axes of each metric, in units of the preactivations."""
    return in_units(schedule, momentum=momentum, inputs="white" if white else "running")


def no_metrics(schedule: Any, momentum: Any, *_: Any) -> optax.GradientTransformation:
    """The same without metrics."""
    return in_units(schedule, momentum=momentum, metrics=False)


def whole_metrics(schedule: Any, momentum: Any, white: bool) -> optax.GradientTransformation:
    """RNGD with one metric per layer, inverted every 20 steps, and momentum."""
    settings = fisher.Settings(
        inputs="white" if white else "running",
        start="batch",
        metric_step=0.5,
        update_every=20,
        refresh_every=20,
        relative_damping=0.03,
    )
    return optax.chain(fisher.scale_by_rngd(settings), with_momentum(schedule, momentum))


RIVALS = {
    "rngd": Rival(few_axes, 0.02, (0.8, 0.9, 0.95)),
    "rngd, metrics off": Rival(no_metrics, 0.02, (0.8, 0.9, 0.95)),
    "rngd, whole metrics": Rival(whole_metrics, 0.05, (0.8, 0.9, 0.95)),
    "sgd": Rival(lambda rate, *_: optax.sgd(rate), 0.5, (0.0,)),
    "momentum": Rival(with_momentum, 0.1, (0.8, 0.9, 0.95)),
    "adam": Rival(lambda rate, m, _: optax.adam(rate, b1=m), 4e-3, (0.8, 0.9, 0.95)),
    "adamw": Rival(lambda rate, m, _: optax.adamw(rate, b1=m, weight_decay=1e-2), 4e-3, (0.8, 0.9, 0.95)),
    "muon": Rival(lambda rate, m, _: optax.contrib.muon(rate, beta=m), 0.02, (0.9, 0.95, 0.98)),
    "soap": Rival(lambda rate, m, _: fisher.soap(rate, b1=m), 6e-3, (0.8, 0.9, 0.95)),
    "schedule-free": Rival(
        lambda rate, m, _: optax.contrib.schedule_free_adamw(rate, b1=m), 8e-3, (0.9, 0.95, 0.98), falls=False
    ),
    KFAC: Rival(None, 0.03, (0.0, 0.8, 0.9)),
}


class Row(NamedTuple):
    """What stands in a line of the table before it is tuned."""

    data: str
    norm: str
    optimizer: str
    inputs: str


class Laboratory(NamedTuple):
    """Training part and evaluated examples of a seed in one form of the inputs, and what the form cost."""

    train: Split
    seen: Split
    judged: Split
    white: Any
    seconds: float


@functools.lru_cache(maxsize=4)
def cut(data: str, seed: int, count: int | None) -> Parts:
    """The parts of the data, of which the training part may be shortened."""
    parts = split(neft.data.load(data), neft.data.load(data, "test"), seed)
    if count is None:
        return parts
    return parts._replace(train=Split(parts.train.x[:count], parts.train.y[:count]))


@functools.lru_cache(maxsize=6)
def laboratory(data: str, seed: int, inputs: str, count: int | None) -> Laboratory:
    """The training inputs in their form, three times over for the median of its CPU seconds."""
    parts = cut(data, seed, count)
    judged = parts.validation if seed == TUNING_SEED else parts.test

    def formed() -> tuple[Any, Any, np.ndarray, float]:
        started = time.process_time()
        change, white = form(parts.train.x, inputs)
        x = change(parts.train.x)
        return change, white, x, time.process_time() - started

    change, white, x, first = formed()
    spent = [first] if inputs == "raw" else [first, formed()[-1], formed()[-1]]
    train = Split(x, parts.train.y)
    seen = Split(x[:SEEN], parts.train.y[:SEEN])
    seconds = 0.0 if inputs == "raw" else float(np.median(spent))
    return Laboratory(train, seen, Split(change(judged.x[:SEEN]), judged.y[:SEEN]), white, seconds)


def form(x: np.ndarray, inputs: str) -> tuple[Callable[[np.ndarray], np.ndarray], Any]:
    """How inputs are changed, and the whitening if that is it."""
    if inputs == "raw":
        return lambda x: x, None
    if inputs == "centred":
        mean = x.mean(0)
        return lambda x: x - mean, None
    white = fisher.whiten(x, rank=min(AXES, x.shape[1]), samples=min(MOMENTS_FROM, len(x)))
    return white, white


class Scale(NamedTuple):
    """The scale of a whitening as an argument of compiled code: all that L2 needs of it."""

    scale: Any

    def enter(self, params: Any) -> Any:
        """Parameters, which are in whitened coordinates already."""
        return params

    def leave(self, params: Any) -> Any:
        """Parameters, which stay in them."""
        return params

    def square(self, V: Any) -> Any:
        """|W|² of the raw weights."""
        return jnp.square(V * self.scale[None, :]).sum()


class Program:
    """Compiled code of an optimizer on a network: rate, momentum and horizon are arguments of it."""

    def __init__(self, optimizer: str, norm: str, inputs: int, classes: int, white: bool) -> None:
        self._rival, self._white = RIVALS[optimizer], white
        self.net = perceptron((inputs, *HIDDEN, classes), "relu", norm == "batch")
        self._steps: dict[Any, Any] = {}
        self.scores = jax.jit(self._scores)

    def task(self, numbers: tuple[Any, Any, Any], scale: Any) -> Task:
        """The task with traced numbers: rate, momentum, and steps to the horizon."""
        rate, momentum, horizon = numbers

        def falling(count: Any) -> Any:
            return rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count / horizon, 1.0)))

        assert self._rival.make is not None
        optimizer = self._rival.make(falling if self._rival.falls else rate, momentum, self._white)
        return Task(self.net, L2, Scale(scale) if self._white else None, optimizer)

    def start(self, params: Any, numbers: tuple[Any, Any, Any], scale: Any) -> Any:
        """Parameters and state."""
        return params, jax.jit(lambda params, numbers, scale: self.task(numbers, scale).optimizer.init(params))(
            params, numbers, scale
        )

    def steps(self, carry: Any, numbers: Any, scale: Any, x: Any, y: Any, index: np.ndarray) -> Any:
        """The compiled steps for an index of this shape; compiled outside of the measured time."""
        if index.shape not in self._steps:

            def run(carry: Any, numbers: Any, scale: Any, x: Any, y: Any, index: Any) -> Any:
                return self.task(numbers, scale).steps(carry, x, y, index)

            lowered = jax.jit(run, donate_argnums=0).lower(carry, numbers, scale, x, y, index)
            self._steps[index.shape] = lowered.compile()
        return self._steps[index.shape]

    def _scores(self, carry: Any, scale: Any, seen: Split, judged: Split, reference: Any) -> tuple[Any, Any]:
        task = self.task((1.0, 0.9, 1.0), scale)
        params = fisher.averaged(carry[1], carry[0])
        net = task.settled(params, reference)
        cost = cross_entropy(net.apply(params, seen.x), jnp.asarray(seen.y)) + task.penalty(params)
        return cost, (net.apply(params, judged.x).argmax(-1) == judged.y).mean()


@functools.lru_cache(maxsize=8)
def program(optimizer: str, norm: str, inputs: int, classes: int, white: bool) -> Program:
    """The program, compiled once."""
    return Program(optimizer, norm, inputs, classes, white)


def train(row: Row, setting: Setting, seed: int, levels: Sequence[float], count: int | None) -> dict[str, Any]:
    """The curves of one run, until both levels are reached, the horizon, or a cost that is not finite."""
    if row.optimizer == KFAC:
        return kfac(row, setting, seed, levels, count)
    place = laboratory(row.data, seed, row.inputs, count)
    x, y = jnp.asarray(place.train.x), jnp.asarray(place.train.y)
    white = place.white is not None
    compiled = program(row.optimizer, row.norm, x.shape[1], int(place.train.y.max()) + 1, white)
    raw = perceptron((784, *HIDDEN, compiled.net.outputs), "relu", row.norm == "batch")
    params = glorot(raw, jax.random.key(seed))
    scale = jnp.asarray(place.white.scale, x.dtype) if white else None
    params = place.white.enter(params) if white else params
    per_epoch = len(x) // setting.batch
    numbers = np.float32(setting.rate), np.float32(setting.momentum), np.float32(setting.horizon * per_epoch)
    carry = compiled.start(params, numbers, scale)
    clock, curve = place.seconds, Curve()

    def look(done: int) -> bool:
        found = compiled.scores(carry, scale, place.seen, place.judged, place.train.x[:REFERENCE])
        return curve.add(done / per_epoch, clock, *map(float, found), levels=levels)

    look(0)
    done = 0
    for index in batches(len(x), setting, seed):
        step = compiled.steps(carry, numbers, scale, x, y, index)
        started = time.process_time()
        carry, costs = step(carry, numbers, scale, x, y, index)
        jax.block_until_ready(carry)
        clock += time.process_time() - started
        done += len(index)
        if look(done) or not np.isfinite(np.asarray(costs)).all():
            break
    return curve.record()


class Curve:
    """Points of a run."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float, float, float]] = []

    def add(self, epochs: float, seconds: float, cost: float, accuracy: float, *, levels: Sequence[float]) -> bool:
        """One more point; whether nothing is left to wait for."""
        self._points.append((epochs, seconds, cost, accuracy))
        reached = [reach(self.record(), level, kind) for kind, level in enumerate(levels)]
        return not math.isfinite(cost) or all(found is not None for found in reached)

    def record(self) -> dict[str, list[float]]:
        """The points by columns."""
        names = ("epochs", "seconds", "cost", "accuracy")
        return {name: [round(v, 6) for v in column] for name, column in zip(names, zip(*self._points))}


def batches(count: int, setting: Setting, seed: int) -> Iterator[np.ndarray]:
    """Rows of examples for every step, in pieces of a tenth of an epoch, to the horizon."""
    per_epoch = count // setting.batch
    tenth = max(round(per_epoch / 10), 1)
    left = round(setting.horizon * per_epoch)
    for epoch in itertools.count():
        order = np.random.default_rng((seed, 1, epoch)).permutation(count)[: per_epoch * setting.batch]
        rows = order.reshape(per_epoch, setting.batch).astype(np.int32)
        for first in range(0, per_epoch, tenth):
            piece = rows[first : first + min(tenth, left)]
            if not left:
                return
            left -= len(piece)
            yield piece


def reach(record: Mapping[str, Sequence[float]], level: float, kind: int) -> tuple[float, float] | None:
    """Epochs and CPU seconds to a level, interpolated: of the cost (kind 0) from above, of the accuracy from below."""
    sign = (1, -1)[kind]
    values = sign * np.asarray(record[("cost", "accuracy")[kind]])
    with np.errstate(invalid="ignore"):
        there = np.flatnonzero(values <= sign * level)
    if not there.size:
        return None
    i = int(there[0])
    axes = [np.asarray(record[name]) for name in ("epochs", "seconds")]
    if i == 0:
        return float(axes[0][0]), float(axes[1][0])
    share = (values[i - 1] - sign * level) / (values[i - 1] - values[i])
    return tuple(float(axis[i - 1] + share * (axis[i] - axis[i - 1])) for axis in axes)  # type: ignore[return-value]


def kfac(row: Row, setting: Setting, seed: int, levels: Sequence[float], count: int | None) -> dict[str, Any]:
    """The curves of K-FAC, in its own environment."""
    place = laboratory(row.data, seed, row.inputs, count)
    net = perceptron((784, *HIDDEN, int(place.train.y.max()) + 1), "relu", False)
    params = glorot(net, jax.random.key(seed))
    params = params if place.white is None else place.white.enter(params)
    weights = {f"{name}{l}": np.asarray(v) for l, layer in enumerate(params) for name, v in layer._asdict().items()}
    job = {"what": "race", "batch": setting.batch, "l2": L2, "rate": setting.rate, "momentum": setting.momentum}
    job |= {"damping": 0.01, "seed": seed, "points": 10, "horizon": setting.horizon, "levels": list(levels)}
    job |= {"update_every": 10, "refresh_every": 20, "evaluated": SEEN}
    arrays = {"x": place.train.x, "y": place.train.y, "judged_x": place.judged.x, "judged_y": place.judged.y, **weights}
    if place.white is not None:
        arrays["scale"] = place.white.scale.astype(np.float32)
    with peer("kfac.py", job, arrays, "KFAC_PYTHON") as found:
        assert found is not None
        curve = {name: np.asarray(found.answer[name], float) for name in ("epochs", "seconds", "cost", "accuracy")}
    curve["seconds"] = curve["seconds"] + place.seconds
    return {name: [round(float(v), 6) for v in values] for name, values in curve.items()}
