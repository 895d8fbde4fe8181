"""The optimizers that `train` knows by name, and the inputs that suit each."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import optax
import optax.contrib

from .. import _check
from ._rngd import PRESETS, Settings, rngd, scale_by_rngd
from ._soap import soap
from ._units import scale_by_preactivations


class Optimizer(NamedTuple):
    """How an optimizer is made from a learning rate, its usual rate, and the form of the inputs it takes by default."""

    make: Callable[[Any], optax.GradientTransformation]
    rate: float
    inputs: str = "raw"


def in_units(
    rate: Any, *, momentum: Any = 0.9, metrics: bool = True, inputs: str = "white"
) -> optax.GradientTransformation:
    """RNGD on a few axes with momentum, in steps that are shares of the preactivations; the rate should fall to 0.

    Without `metrics` it is momentum in the same units, which says what the metrics add.

    >>> isinstance(in_units(0.02), optax.GradientTransformation)
    True
    """
    direction = scale_by_rngd(dataclasses.replace(UNITS, inputs=inputs)) if metrics else optax.identity()
    return optax.chain(
        direction,
        optax.trace(momentum, nesterov=True),
        scale_by_preactivations(examples=32, every=8),
        optax.scale_by_learning_rate(rate),
    )


UNITS = Settings(rank=8, start="batch", metric_step=1.0, relative_damping=0.03)
"""Eight axes of each batch's metric, every 10 steps; damping by a share of the trace that leaves out the small ones."""

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
    "rngd-units": Optimizer(in_units, 0.02, "white"),
    # Its large metrics are inverted between the compiled stretches, where LAPACK is many times cheaper.
    "rngd-published": Optimizer(lambda rate: rngd(rate, preset="published", inverse="outside"), 0.01),
}
REFRESH_EVERY = {"rngd-published": PRESETS["published"].refresh_every}
"""Optimizers whose state goes through `refresh` at intervals."""

SCHEDULES = ("constant", "cosine")


def optimizer(name: str, rate: float | None, schedule: str, steps: int) -> tuple[optax.GradientTransformation, float]:
    """The optimizer of a name with its learning rate (None: the usual one), constant or falling to 0 over `steps`.

    >>> optimizer("adam", None, "constant", 100)[1]
    0.001
    """
    chosen = OPTIMIZERS[_check.one_of("optimizer", name, tuple(OPTIMIZERS))]
    rate = chosen.rate if rate is None else _check.real("learning_rate", rate, above=0.0)
    _check.one_of("schedule", schedule, SCHEDULES)
    return chosen.make(rate if schedule == "constant" else optax.cosine_decay_schedule(rate, steps)), rate
