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
from neft.fisher._optimizers import averaging, in_units
from neft.fisher._task import Parts, Split, Task, cross_entropy, perceptron, split

HIDDEN, L2, SEEN, REFERENCE = (80, 80, 80), 1e-3, 10_000, 5000
TUNING_SEED = 101
AXES, MOMENTS_FROM = 64, 2000
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


def relative(make: Callable[..., optax.GradientTransformation], metrics: bool) -> Any:
    """RNGD with eight axes of each metric, in units of the preactivations, or the same without metrics."""

    def made(schedule: Any, momentum: Any, white: bool) -> optax.GradientTransformation:
        return make(schedule, momentum=momentum, metrics=metrics, inputs="white" if white else "running", batch=None)

    return made


RIVALS = {
    "rngd": Rival(relative(in_units, True), 0.02, (0.8, 0.9, 0.95)),
    "rngd, metrics off": Rival(relative(in_units, False), 0.02, (0.8, 0.9, 0.95)),
    "rngd, averaged": Rival(relative(averaging, True), 0.1, (0.8, 0.9, 0.95), falls=False),
    "rngd, averaged, metrics off": Rival(relative(averaging, False), 0.1, (0.8, 0.9, 0.95), falls=False),
    "sgd": Rival(lambda rate, *_: optax.sgd(rate), 0.5, (0.0,)),
    "momentum": Rival(with_momentum, 0.1, (0.8, 0.9, 0.95)),
    "adam": Rival(lambda rate, m, _: optax.adam(rate, b1=m), 4e-3, (0.8, 0.9, 0.95)),
    "adamw": Rival(lambda rate, m, _: optax.adamw(rate, b1=m, weight_decay=1e-2), 4e-3, (0.8, 0.9, 0.95)),
    "muon": Rival(lambda rate, m, _: optax.contrib.muon(rate, beta=m), 0.02, (0.9, 0.95, 0.98)),
    "soap": Rival(lambda rate, m, _: fisher.soap(rate, b1=m), 6e-3, (0.8, 0.9, 0.95)),
    "schedule-free": Rival(
        lambda rate, m, _: optax.contrib.schedule_free_adamw(rate, b1=m), 8e-3, (0.9, 0.95, 0.98), falls=False
    ),
    KFAC: Rival(None, 0.01, (0.0, 0.8, 0.9)),
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
    reference: Any
    white: Any
    scale: Any
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
    seconds = 0.0 if inputs == "raw" else float(np.median(spent))
    train, judged = Split(x, parts.train.y), Split(change(judged.x[:SEEN]), judged.y[:SEEN])
    seen, reference = Split(x[:SEEN], train.y[:SEEN]), x[:REFERENCE]
    scale = None if white is None else white.scale.astype(x.dtype)
    train, seen, judged, reference, scale = jax.tree.map(jnp.asarray, (train, seen, judged, reference, scale))
    return Laboratory(train, seen, judged, reference, white, scale, seconds)


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
        self._init = jax.jit(lambda params, numbers, scale: self.task(numbers, scale).optimizer.init(params))
        self.cost, self.accuracy = jax.jit(self._cost), jax.jit(self._accuracy)
        self.used = jax.jit(lambda carry: jax.tree.map(jnp.copy, fisher.averaged(carry[1], carry[0])))

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
        return params, self._init(params, numbers, scale)

    def steps(self, carry: Any, numbers: Any, scale: Any, x: Any, y: Any, index: np.ndarray) -> Any:
        """The compiled steps for an index of this shape; compiled outside of the measured time."""
        if index.shape not in self._steps:

            def run(carry: Any, numbers: Any, scale: Any, x: Any, y: Any, index: Any) -> Any:
                return self.task(numbers, scale).steps(carry, x, y, index)

            lowered = jax.jit(run, donate_argnums=0).lower(carry, numbers, scale, x, y, index)
            self._steps[index.shape] = lowered.compile()
        return self._steps[index.shape]

    def _cost(self, params: Any, place: Any) -> Any:
        task = self.task((1.0, 0.9, 1.0), place.scale)
        net = task.settled(params, place.reference)
        return cross_entropy(net.apply(params, place.seen.x), place.seen.y) + task.penalty(params)

    def _accuracy(self, params: Any, place: Any) -> Any:
        net = self.task((1.0, 0.9, 1.0), place.scale).settled(params, place.reference)
        return (net.apply(params, place.judged.x).argmax(-1) == place.judged.y).mean()


@functools.lru_cache(maxsize=256)
def program(optimizer: str, norm: str, inputs: int, classes: int, white: bool) -> Program:
    """The program, compiled once."""
    return Program(optimizer, norm, inputs, classes, white)


def train(
    row: Row,
    setting: Setting,
    seed: int,
    levels: Sequence[float | None],
    count: int | None,
    *,
    limits: Sequence[float] | None = None,
    stride: int | None = 1,
) -> dict[str, Any]:
    """The curves of one run, until the levels are reached, the horizon, or a cost that is not finite.

    A level of None is not waited for and its curve not taken. A run that is past the limit of every level it has not
    reached, in CPU seconds, is abandoned. With a stride the curves are taken at every so many tenths of an epoch, and
    at those before the first that reaches a level; with None at the end alone.
    """
    if row.optimizer == KFAC:
        return kfac(row, setting, seed, levels, count, limits)
    place = laboratory(row.data, seed, row.inputs, count)
    x, y = place.train
    white = place.white is not None
    compiled = program(row.optimizer, row.norm, x.shape[1], int(y.max()) + 1, white)
    raw = perceptron((784, *HIDDEN, compiled.net.outputs), "relu", row.norm == "batch")
    params = glorot(raw, jax.random.key(seed))
    params = place.white.enter(params) if white else params
    per_epoch = len(x) // setting.batch
    numbers = np.float32(setting.rate), np.float32(setting.momentum), np.float32(setting.horizon * per_epoch)
    carry = compiled.start(params, numbers, place.scale)
    shown = place._replace(train=None, white=None, seconds=None)

    def scores(params: Any) -> tuple[float, float]:
        found = zip((compiled.cost, compiled.accuracy), levels)
        return tuple(math.nan if level is None else float(score(params, shown)) for score, level in found)  # type: ignore[return-value]

    clock, curve, done, fine = place.seconds, Curve(scores, levels, stride), 0, True
    curve.add(0.0, clock, compiled.used(carry), last=True)
    for index in batches(len(x), setting, seed):
        step = compiled.steps(carry, numbers, place.scale, x, y, index)
        if not done:  # once for nothing: what a first call costs is no work of the optimizer
            jax.block_until_ready(step(jax.tree.map(jnp.copy, carry), numbers, place.scale, x, y, index))
        started = time.process_time()
        carry, costs = step(carry, numbers, place.scale, x, y, index)
        jax.block_until_ready(carry)
        clock += time.process_time() - started
        done += len(index)
        fine = bool(np.isfinite(np.asarray(costs)).all())
        late = limits is not None and curve.late(clock, limits)
        last = late or not fine or done >= round(setting.horizon * per_epoch)
        if curve.add(done / per_epoch, clock, compiled.used(carry), last=last) or last:
            break
    return curve.record()


class Curve:
    """Points of a run: cost and accuracy of its parameters, taken when they may be needed."""

    def __init__(
        self, scores: Callable[[Any], tuple[float, float]], levels: Sequence[float | None], stride: int | None
    ) -> None:
        self._scores, self._levels, self._stride = scores, levels, stride
        self._points: list[tuple[float, float, float, float]] = []
        self._waiting: list[tuple[float, float, Any]] = []

    def add(self, epochs: float, seconds: float, params: Any, *, last: bool) -> bool:
        """One more point; whether nothing is left to wait for."""
        self._waiting.append((epochs, seconds, params))
        if not last and (self._stride is None or len(self._waiting) < self._stride):
            return False
        *before, now = self._waiting
        had = self._reached()
        self._take(now)
        if self._reached() != had:
            for point in before:
                self._take(point)
        self._waiting = []
        return all(self._reached())

    def late(self, clock: float, limits: Sequence[float]) -> bool:
        """Whether every level that is not reached would be reached after its limit."""
        return all(there or clock > limit for there, limit in zip(self._reached(), limits))

    def _take(self, point: tuple[float, float, Any]) -> None:
        self._points.append((*point[:2], *self._scores(point[2])))
        self._points.sort()

    def _reached(self) -> list[bool]:
        record = self.record() if self._points else None
        pairs = enumerate(self._levels)
        return [level is None or (record is not None and reach(record, level, k) is not None) for k, level in pairs]

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


def kfac(
    row: Row,
    setting: Setting,
    seed: int,
    levels: Sequence[float | None],
    count: int | None,
    limits: Sequence[float] | None,
) -> dict[str, Any]:
    """The curves of K-FAC, in its own environment."""
    place = laboratory(row.data, seed, row.inputs, count)
    net = perceptron((784, *HIDDEN, int(place.train.y.max()) + 1), "relu", False)
    params = glorot(net, jax.random.key(seed))
    params = params if place.white is None else place.white.enter(params)
    weights = {f"{name}{l}": np.asarray(v) for l, layer in enumerate(params) for name, v in layer._asdict().items()}
    job = {"what": "race", "batch": setting.batch, "l2": L2, "rate": setting.rate, "momentum": setting.momentum}
    job |= {"damping": 0.01, "seed": seed, "points": 10, "horizon": setting.horizon, "levels": list(levels)}
    job |= {"update_every": 10, "refresh_every": 20, "evaluated": SEEN}
    job["limits"] = None if limits is None else [limit - place.seconds for limit in limits]
    arrays = {"x": place.train.x, "y": place.train.y, "judged_x": place.judged.x, "judged_y": place.judged.y, **weights}
    arrays |= {} if place.scale is None else {"scale": place.scale}
    with peer("kfac.py", job, jax.tree.map(np.asarray, arrays), "KFAC_PYTHON") as found:
        assert found is not None
        curve = {name: np.asarray(found.answer[name], float) for name in ("epochs", "seconds", "cost", "accuracy")}
    curve["seconds"] = curve["seconds"] + place.seconds
    return {name: [round(float(v), 6) for v in values] for name, values in curve.items()}
