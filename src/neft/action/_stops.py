"""How the early stop moves with the size of the data (action note B, section 3)."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import Array

from .. import _check
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from .._samples import first_of_each_class
from ._fit import loss_of, start
from ._model import Samples, samples
from ._stopping import Stopping, StoppingMonitor, largest_curvature

_EVALUATED = 1000


@result
class Stops(Result):
    """One full-batch descent for each of `sizes` (numbers of training samples), all from the same parameters.

    `runs` holds what a `StoppingMonitor` saw of each; `stops[size]` is that of a size.
    """

    sizes: tuple[int, ...]
    runs: tuple[Stopping, ...]
    made: Made

    def __getitem__(self, size: int) -> Stopping:
        if size not in self.sizes:
            raise KeyError(size)
        return self.runs[self.sizes.index(size)]

    def _shown(self):
        for size, run in zip(self.sizes, self.runs, strict=True):
            least = "not reached" if run.minimum is None else str(run.minimum)
            rules = ((run.stop_by_alignment, "∇S_T·∇S_E = 0"), (run.stop_by_drift, "∇S_E·Δθ = 0"))
            stops = ", ".join(f"{name} {'never' if stop is None else f'at {stop}'}" for stop, name in rules)
            trust = "" if run.trusted else f" (not trusted: {run.reason})"
            yield f"{size} samples", f"least S_E at step {least}; {stops}{trust}"


@public
def stops_by_size(
    data: Any,
    evaluation: Any | None,
    sizes: Sequence[int],
    *,
    hidden: int = 32,
    activation: Any = "silu",
    learning_rate: float | None = None,
    steps: int = 200,
    key: Array | None = None,
) -> Stops:
    """How the stop moves with the size of the data: one full-batch descent per size, from the same parameters.

    Args:
        data: a `Dataset` or a pair (z, m) to train on.
        evaluation: the same for the evaluation loss; if None, the samples of the data that follow those of the
            largest size, at most 1000.
        sizes: numbers of training samples; each takes that many from the start, balanced over classes.
        hidden: H.
        activation: a name or a function.
        learning_rate: the step; by default 1/(2λ_max) at the start on the first of the sizes, a quarter of what is
            stable there, because λ_max grows in training.
        steps: of each descent.
        key: of the initial parameters (default: key 0).

    >>> import neft
    >>> data = neft.data.load("fashion-mnist", "test", preprocess="pool(49)+global", full=False)
    >>> found = stops_by_size(data, data, [100], hidden=4, steps=2)
    >>> found[100].training.shape
    (3,)
    """
    train = samples(data)
    key = jax.random.key(0) if key is None else key
    params = start(key, train, _check.integer("hidden", hidden, at_least=1))._asdict()
    fewest = int(train.prior.min() * len(train.m) + 0.5)
    most = train.classes * (fewest if evaluation is not None else fewest - 1)
    counts = tuple(_check.integer("each of sizes", n, at_least=train.classes, at_most=most) for n in sizes)
    if not counts:
        raise ValueError("sizes is empty, but must hold at least one number of samples.")
    test = loss_of(_following(train, max(counts)) if evaluation is None else evaluation, activation=activation)
    runs = []
    for count in track(counts, "sizes"):
        rows = first_of_each_class(train.m, count // train.classes)
        part = loss_of((train.z[rows], train.m[rows]), activation=activation)
        if learning_rate is None:
            learning_rate = 0.5 / max(largest_curvature(part, params), 1e-3)
        monitor = StoppingMonitor(part, test)
        monitor.follow(params, optax.sgd(learning_rate), steps=steps, learning_rate=learning_rate)
        runs.append(monitor.report())
    specification = {"hidden": hidden, "learning_rate": learning_rate, "steps": steps, "features": train.z.shape[1]}
    return Stops(
        sizes=counts,
        runs=tuple(runs),
        made=Made.by("neft.action.stops_by_size", specification=specification, key=key),
    )


def _following(train: Samples, size: int) -> tuple[np.ndarray, np.ndarray]:
    used = size // train.classes
    more = first_of_each_class(train.m, used + max(1, _EVALUATED // train.classes))
    rows = np.setdiff1d(more, first_of_each_class(train.m, used))
    return train.z[rows], train.m[rows]
