"""How long a network is trained: by gradient flow for a time, or by steps of gradient descent."""

import dataclasses
import math
from typing import Any

import numpy as np

from .. import _check
from ._momentum import NONE, Momentum, momentum, updates


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Gradient flow until `time`, or `steps` steps of size `learning_rate`; arrays of shape (), or (T,) for several.

    Steps may have `momentum`, and each may take a `batch` of that many training inputs, None for all of them, drawn
    anew for each step or `shuffled`: the next ones of all in random order.
    """

    time: np.ndarray | None
    steps: np.ndarray | None = None
    learning_rate: float | None = None
    momentum: Momentum = NONE
    batch: int | None = None
    shuffled: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """() for one moment, (T,) for several."""
        moments = self.time if self.steps is None else self.steps
        assert moments is not None
        return moments.shape

    @property
    def converged(self) -> bool:
        """Whether it is the one moment when training has come to its end."""
        return self.time is not None and self.time.ndim == 0 and bool(np.isinf(self.time))

    def gain(self, l: np.ndarray) -> np.ndarray:
        """(1 - e^{-lt})/l, or (1 - (1-ηl)^T)/l, of shape (*shape, N) for eigenvalues l ≥ 0 of shape (N,).

        How far an eigenvector of Θ has been learned, per eigenvalue; its limit at l = 0 is the time, t or ηT.
        """
        if self.steps is None:
            assert self.time is not None
            t = self.time[..., None]
            # An infinite time times an eigenvalue 0 is no number: that gain is infinite, as its limit is.
            left = np.multiply(l, t, out=np.zeros(np.broadcast_shapes(np.shape(l), t.shape)), where=(l > 0) & (t > 0))
            learned, limit = -np.expm1(-left), t
        elif self.momentum.beta:
            assert self.learning_rate is not None
            step = self.learning_rate * np.asarray(l, float)
            each = [updates(step, int(T), self.momentum) for T in self.steps.ravel()]
            return self.learning_rate * np.reshape(each, (*self.steps.shape, *step.shape))
        else:
            assert self.learning_rate is not None
            T, step = self.steps[..., None], self.learning_rate * l
            small = np.where(step < 0.5, step, 0.0)
            learned = np.where(step < 0.5, -np.expm1(T * np.log1p(-small)), 1 - (1 - step) ** T)
            limit = self.learning_rate * T
        return np.divide(learned, l, out=np.broadcast_to(limit, learned.shape).astype(float), where=l > 0)

    def check_stable(self, largest: float) -> None:
        """Refuse a learning rate at which the eigenvalue `largest` of Θ would make the outputs grow."""
        reach = self.momentum.reach
        if self.learning_rate is not None and self.learning_rate * largest > reach:
            raise ValueError(
                f"learning_rate is {self.learning_rate:g}, but must be at most {reach / largest:g}, which is {reach:g} "
                "over the largest eigenvalue of the training inputs' NTK: beyond it gradient descent diverges."
            )

    def to_dict(self) -> dict[str, Any]:
        """The schedule as what made a result."""
        batch = {} if self.batch is None else {"batch": self.batch}
        batch |= {"shuffled": True} if self.shuffled else {}
        given = {"time": self.time, "steps": self.steps, "learning_rate": self.learning_rate}
        return given | self.momentum.to_dict() | batch


def schedule(
    time: Any = None,
    steps: Any = None,
    learning_rate: Any = None,
    beta: Any = 0.0,
    nesterov: Any = False,
    batch: Any = None,
    count: int | None = None,
    shuffled: Any = False,
) -> Schedule:
    """The schedule that a user's arguments describe; without any, gradient flow to its end.

    A batch has at least one of the `count` training inputs and at most all of them.

    >>> schedule(time=2.0).gain(np.array([0.0, 1.0])).round(4).tolist()
    [2.0, 0.8647]
    """
    m = momentum(beta, nesterov)
    if batch is not None:
        batch = _check.integer("batch", batch, at_least=1, at_most=count)
    if not isinstance(shuffled, bool | np.bool_):
        raise ValueError(f"shuffled is {_check.brief(shuffled)}, but must be True or False.")
    if shuffled and batch is None:
        raise ValueError("shuffled is True, but goes with a batch, which is missing.")
    if steps is None:
        given = {"learning_rate": learning_rate, "momentum": m.beta or None, "batch": batch}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is {_check.brief(value)}, but it goes with steps, which are missing.")
        return Schedule(np.asarray(math.inf) if time is None else _times(time))
    if time is not None:
        raise ValueError(
            f"time is {_check.brief(time)} and steps is {_check.brief(steps)}, but only one of them can be given."
        )
    if learning_rate is None:
        raise ValueError(f"steps is {_check.brief(steps)}, but it goes with a learning_rate, which is missing.")
    counts = _check.array("steps", steps, ndim=(0, 1), at_least=0, dtype=np.int64)
    if not counts.size:
        raise ValueError("steps is empty, but must hold at least one number of steps.")
    return Schedule(None, counts, _check.real("learning_rate", learning_rate, above=0.0), m, batch, bool(shuffled))


def _times(time: Any) -> np.ndarray:
    values = _check.as_array("time", time)
    if values.dtype.kind == "f" and values.ndim < 2:
        # Infinite times are moments like others, the last one.
        _check.array("time", np.where(np.isposinf(values), 0.0, values), at_least=0.0)
    else:
        values = _check.array("time", time, ndim=(0, 1), at_least=0.0)
    if not values.size:
        raise ValueError("time is empty, but must hold at least one time.")
    return values.astype(np.float64)
