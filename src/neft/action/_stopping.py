"""Early stopping seen from the gradients of the two losses (seed 001, section 3)."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check
from .._progress import track
from .._result import Made, Result, result

_POWER_STEPS = 30


@result
class Stopping(Result):
    """How training and evaluation losses went, and where each rule would have stopped.

    Histories have one entry per observation: the losses S_T and S_E, ∇S_T·∇S_E (`alignment`, seed 001, equation 7), and
    ∇S_E·Δθ for the step taken next (`drift`). The stops are the observations at which alignment turns negative and
    drift positive, `minimum` is that of S_E; None where it did not happen. `trusted` says whether the rule of equation
    7 may be trusted, and `reason` why: the batch is full and the step below 2/λ_max, with λ_max the largest curvature
    of S_T where S_E is least.
    """

    training: Float[np.ndarray, " steps"]
    evaluation: Float[np.ndarray, " steps"]
    alignment: Float[np.ndarray, " steps"]
    drift: Float[np.ndarray, " steps"]
    stop_by_alignment: int | None
    stop_by_drift: int | None
    minimum: int | None
    trusted: bool
    reason: str
    rate: float | None
    curvature: float | None
    made: Made


class StoppingMonitor:
    """Follows ∇S_T·∇S_E and ∇S_E·Δθ during a training, and says where it should have stopped.

    Args:
        training: the training loss S_T, a JAX function of the parameters.
        evaluation: the evaluation loss S_E.

    >>> monitor = StoppingMonitor(lambda w: jnp.sum((w - 1.0) ** 2), lambda w: jnp.sum((w - 0.5) ** 2))
    >>> _ = monitor.follow(jnp.zeros(2), optax.sgd(0.05), steps=20, rate=0.05)
    >>> report = monitor.report()
    >>> report.stop_by_alignment == report.stop_by_drift == report.minimum, report.trusted
    (True, True)
    """

    def __init__(self, training: Callable[[Any], Any], evaluation: Callable[[Any], Any]):
        # A plain function is a constant of compiled code; a Partial brings its data as arguments.
        wrap = lambda f: f if isinstance(f, jax.tree_util.Partial) else jax.tree_util.Partial(f)  # noqa: E731
        self._training, self._evaluation = wrap(training), wrap(evaluation)
        self._rows: list[tuple[float, float, float, float]] = []
        self._rate: float | None = None
        self._full = True
        self._curvature: float | None = None

    def observe(self, params: Any, update: Any = None) -> None:
        """Record the losses and their gradients at `params`; `update` is the change that the next step will make."""
        values = _observed(self._training, self._evaluation, params)
        drift = np.nan if update is None else float(_dot(values[3], update))
        self._rows.append((float(values[0]), float(values[1]), float(_dot(values[2], values[3])), drift))

    def follow(
        self,
        params: Any,
        optimizer: optax.GradientTransformation,
        *,
        steps: int,
        rate: float | None = None,
        batches: Callable[[int], Callable[[Any], Any]] | None = None,
    ) -> Any:
        """Train for a number of steps and observe each; the parameters at the end come back.

        Args:
            params: where to start.
            optimizer: an optax transformation.
            steps: how many.
            rate: the optimizer's step size, for the verdict.
            batches: for minibatches, the loss of each step; by default the whole training loss.
        """
        steps = _check.integer("steps", steps, at_least=1)
        self._rate, self._full = rate, batches is None
        state = optimizer.init(params)
        least, kept = np.inf, params
        for i in track(range(steps), "steps"):
            first, second, gradient, other = _observed(self._training, self._evaluation, params)
            alignment = float(_dot(gradient, other))
            # The curvature counts where the rule is applied: it grows on during training.
            if float(second) < least:
                least, kept = float(second), params
            if batches is not None:
                gradient = jax.grad(batches(i))(params)
            update, state = optimizer.update(gradient, state, params)
            self._rows.append((float(first), float(second), alignment, float(_dot(other, update))))
            params = optax.apply_updates(params, update)
        if rate is not None:
            self._curvature = largest_curvature(self._training, kept)
        self.observe(params)
        return params

    def report(self) -> Stopping:
        """What the observations say."""
        if len(self._rows) < 2:
            raise ValueError(f"the monitor holds {len(self._rows)} observations, but a report needs at least two.")
        training, evaluation, alignment, drift = (np.array(column) for column in zip(*self._rows))
        minimum = int(np.argmin(evaluation))
        trusted, reason = self._verdict()
        return Stopping(
            training=training,
            evaluation=evaluation,
            alignment=alignment,
            drift=drift,
            stop_by_alignment=_crossing(-alignment),
            stop_by_drift=_crossing(drift),
            minimum=minimum if minimum < len(evaluation) - 1 else None,
            trusted=trusted,
            reason=reason,
            rate=self._rate,
            curvature=self._curvature,
            made=Made.by("neft.action.StoppingMonitor", specification={"observations": len(self._rows)}),
        )

    def _verdict(self) -> tuple[bool, str]:
        if not self._full:
            return False, "minibatches: the update is not along the gradient of the training loss"
        if self._rate is None or self._curvature is None:
            return False, "the step size is not known"
        if self._rate * self._curvature >= 2:
            return False, f"the step {self._rate:.3g} is beyond 2/λ_max = {2 / self._curvature:.3g}"
        return True, f"full batch, and the step {self._rate:.3g} is below 2/λ_max = {2 / self._curvature:.3g}"


def largest_curvature(loss: Callable[[Any], Any], params: Any, *, steps: int = _POWER_STEPS) -> float:
    """λ_max of the Hessian of the loss at params, by power iteration with Hessian-vector products.

    >>> round(largest_curvature(lambda w: 1.5 * w[0] ** 2 + w[1] ** 2, jnp.ones(2)), 4)
    3.0
    """
    wrapped = loss if isinstance(loss, jax.tree_util.Partial) else jax.tree_util.Partial(loss)
    keys = jax.random.split(jax.random.key(0), len(jax.tree.leaves(params)))
    tree = jax.tree.unflatten(jax.tree.structure(params), list(keys))
    v = jax.tree.map(lambda leaf, k: jax.random.normal(k, jnp.shape(leaf), jnp.asarray(leaf).dtype), params, tree)
    return float(_power(wrapped, params, v, _check.integer("steps", steps, at_least=1)))


@jax.jit
def _observed(training: Any, evaluation: Any, params: Any) -> Any:
    first, gradient = jax.value_and_grad(training.__call__)(params)
    second, other = jax.value_and_grad(evaluation.__call__)(params)
    return first, second, gradient, other


def _power(loss: Any, params: Any, v: Any, steps: int) -> Array:
    @jax.jit
    def run(loss: Any, params: Any, v: Any) -> Array:
        def step(carry: Any, _: Any) -> Any:
            v, _ = carry
            size = jnp.sqrt(_dot(v, v))
            v = jax.tree.map(lambda leaf: leaf / size, v)
            product = jax.jvp(jax.grad(loss.__call__), (params,), (v,))[1]
            return (product, _dot(v, product)), None

        return jax.lax.scan(step, (v, jnp.zeros(())), length=steps)[0][1]

    return run(loss, params, v)


def _dot(a: Any, b: Any) -> Any:
    return sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


def _crossing(values: np.ndarray) -> int | None:
    # The first observation at which the values are positive after having been negative.
    known = values[np.isfinite(values)]
    positive = np.flatnonzero((known[1:] > 0) & (known[:-1] <= 0))
    return int(positive[0]) + 1 if len(positive) else None


def stops_by_size(
    data: Any,
    evaluation: Any,
    sizes: Sequence[int],
    *,
    hidden: int = 32,
    activation: Any = "silu",
    rate: float = 0.5,
    steps: int = 200,
    key: Array | None = None,
) -> dict[int, Stopping]:
    """How the stop moves with the size of the data: one full-batch descent per size, from the same parameters.

    A size is the number of training samples, the first so many of each class alike.

    >>> import neft
    >>> data = neft.data.load("fashion-mnist", "test", preprocess="pool(49)+global", full=False)
    >>> found = stops_by_size(data, data, [100], hidden=4, steps=2)
    >>> found[100].training.shape
    (3,)
    """
    from ..data._dataset import first_of_each_class
    from ._fit import _start, loss_of
    from ._model import LETTERS, samples

    train = samples(data)
    key = jax.random.key(0) if key is None else key
    start = _start(key, train, _check.integer("hidden", hidden, at_least=1))._asdict()
    start = {name: start[name] for name in LETTERS}
    found = {}
    for size in sizes:
        size = _check.integer("each of sizes", size, at_least=train.classes, at_most=len(train.m))
        rows = first_of_each_class(train.m, size // train.classes)
        part = loss_of((train.z[rows], train.m[rows]), activation)
        monitor = StoppingMonitor(part, loss_of(evaluation, activation))
        monitor.follow(start, optax.sgd(rate), steps=steps, rate=rate)
        found[size] = monitor.report()
    return found
