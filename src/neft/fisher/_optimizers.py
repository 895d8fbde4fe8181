"""The optimizers that `train` knows by name, and the inputs that suit each."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
import optax.contrib

from .. import _check
from ._rngd import PRESETS, Settings, rngd, scale_by_rngd
from ._soap import soap
from ._units import scale_by_preactivations

_BATCH = 200
"""Examples in the batches whose rate is given."""


class Optimizer(NamedTuple):
    """How an optimizer is made from a learning rate, its usual rate, and its usual inputs and schedule.

    `seen` is the number of examples of a whole training for which the rate is usual, if it goes as 1/√ of that.
    """

    make: Callable[[Any], optax.GradientTransformation]
    rate: float
    inputs: str = "raw"
    schedule: str = "constant"
    seen: int | None = None

    def usual(self, seen: int) -> float:
        """The usual rate of a training that sees this many examples in all its steps.

        >>> OPTIMIZERS["rngd-units"].usual(400_000), OPTIMIZERS["adam"].usual(400_000)
        (0.01, 0.001)
        """
        return self.rate if self.seen is None else self.rate * math.sqrt(self.seen / seen)


def in_units(
    rate: Any, *, momentum: Any = 0.9, metrics: bool = True, inputs: str = "white", batch: int | None = _BATCH
) -> optax.GradientTransformation:
    """RNGD on a few axes with momentum, in steps that are shares of the preactivations; the rate must fall to 0.

    The rate is that of batches of `batch` examples and goes as √batch for others (docs/theory/fisher, eq. 25), or is
    taken as it is. Without `metrics` it is momentum in the same units, which says what the metrics add.

    >>> isinstance(in_units(0.02), optax.GradientTransformation)
    True
    """
    return optax.chain(
        _direction(metrics, inputs),
        optax.trace(momentum, nesterov=True),
        scale_by_preactivations(examples=32, every=8),
        _by_batch(batch),
        optax.scale_by_learning_rate(rate),
    )


def averaging(
    rate: Any, *, momentum: Any = 0.9, metrics: bool = True, inputs: str = "white", batch: int | None = _BATCH
) -> optax.GradientTransformation:
    """RNGD on a few axes in the same steps, with an average of the weights instead of a falling rate.

    The average is that of schedule-free optimizers (Defazio et al. 2024): gradients are taken between it and the newest
    weights, `momentum` of the way to the average, and `averaged` takes it out of the state. For few epochs: steps that
    are shares of the weights make these grow in the end, unless they fall.

    >>> isinstance(averaging(0.1), optax.GradientTransformation)
    True
    """
    steps = optax.chain(
        _direction(metrics, inputs),
        scale_by_preactivations(examples=32, every=8),
        _by_batch(batch),
        optax.scale_by_learning_rate(rate),
    )
    return optax.contrib.schedule_free(steps, learning_rate=rate, b1=momentum, weight_lr_power=0.0)


def _by_batch(batch: int | None) -> optax.GradientTransformation:
    if batch is None:
        return optax.identity()

    def update(updates: Any, state: Any, params: Any = None, *, captures: Any = None, **extra: Any) -> tuple[Any, Any]:
        del params, extra
        factor = math.sqrt(len(captures.outputs) / batch)
        return jax.tree.map(lambda leaf: leaf * factor, updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


def _direction(metrics: bool, inputs: str) -> optax.GradientTransformation:
    return scale_by_rngd(dataclasses.replace(UNITS, inputs=inputs)) if metrics else optax.identity()


UNITS = Settings(rank=8, start="batch", metric_step=1.0, update_every=50, relative_damping=0.03)
"""Eight axes of a batch's metric, every 50 steps; damping by a share of the trace that leaves out the small ones."""

OPTIMIZERS = {
    "sgd": Optimizer(optax.sgd, 0.1),
    "momentum": Optimizer(lambda rate: optax.sgd(rate, momentum=0.9), 0.02),
    "nesterov": Optimizer(lambda rate: optax.sgd(rate, momentum=0.9, nesterov=True), 0.02),
    "adam": Optimizer(optax.adam, 1e-3),
    "adamw": Optimizer(optax.adamw, 1e-3),
    "nadam": Optimizer(optax.nadam, 1e-3),
    "rmsprop": Optimizer(optax.rmsprop, 1e-3),
    "adagrad": Optimizer(optax.adagrad, 1e-2),
    "lion": Optimizer(optax.lion, 1e-4),
    "muon": Optimizer(optax.contrib.muon, 1e-2),
    "soap": Optimizer(soap, 3e-3),
    # They predict with an average of the weights instead of a falling rate.
    "schedule-free": Optimizer(optax.contrib.schedule_free_adamw, 2.5e-3),
    "schedule-free-sgd": Optimizer(optax.contrib.schedule_free_sgd, 0.5),
    "rngd": Optimizer(rngd, 0.1, "white"),
    # Shares of the weights that are renewed in a whole training add up to about the same.
    "rngd-units": Optimizer(in_units, 0.02, "axes", "cosine", seen=100_000),
    "rngd-averaged": Optimizer(averaging, 0.025, "axes"),
    # Its large metrics are inverted between the compiled stretches, where LAPACK is many times cheaper.
    "rngd-published": Optimizer(lambda rate: rngd(rate, preset="published", inverse="outside"), 0.01),
}
REFRESH_EVERY = {"rngd-published": PRESETS["published"].refresh_every}
"""Optimizers whose state goes through `refresh` at intervals."""

DEFAULT = "rngd-units"
"""What `train` takes if no optimizer is named."""

SCHEDULES = ("constant", "cosine")


def optimizer(
    name: str, rate: float | None, schedule: str | None, steps: int, batch: int
) -> tuple[optax.GradientTransformation, float, str]:
    """The optimizer of a name with its learning rate, constant or falling to 0 over `steps`, and its schedule.

    A rate or schedule of None is the usual one.

    >>> optimizer("adam", None, None, 100, 50)[1:]
    (0.001, 'constant')
    """
    chosen = OPTIMIZERS[_check.one_of("optimizer", name, tuple(OPTIMIZERS))]
    rate = chosen.usual(steps * batch) if rate is None else _check.real("learning_rate", rate, above=0.0)
    schedule = chosen.schedule if schedule is None else _check.one_of("schedule", schedule, SCHEDULES)
    return chosen.make(rate if schedule == "constant" else optax.cosine_decay_schedule(rate, steps)), rate, schedule
