"""Early stopping seen from the gradients of the two losses (action note B, section 3)."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check, _optimizer
from .._progress import track
from .._public import public
from .._result import Made, Result, result

_POWER_STEPS = 30


@result
class Stopping(Result):
    """How training and evaluation losses went, and where each rule would have stopped.

    Histories have one entry per observation: the losses S_T and S_E, ∇S_T·∇S_E (`alignment`, docs/theory/action, eq.
    22), and ∇S_E·Δθ for the step taken next (`drift`). The stops are the observations at which alignment turns negative
    and drift positive, `minimum` is that of S_E; None where it did not happen. `trusted` says whether the rule
    ∇S_T·∇S_E = 0 may be trusted, and `reason` why: each update is the step size times -∇S_T of the full batch, and the
    step size stays below 2/λ_max up to the stop, with λ_max the largest curvature of S_T at each observation
    (`curvature`, empty where the step size is not known).

    All the way up to the stop counts: beyond 2/λ_max the descent swings back and forth across the steepest direction,
    so that alignment changes its sign without any minimum of S_E, and the rule takes its first change of sign. What
    comes after the stop does not count: curvature keeps growing there, and the rule has been applied already. (λ_max at
    the stop alone would trust a descent that came to rest late; λ_max of the whole path distrusts those that run on.)
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
    learning_rate: float | None
    curvature: Float[np.ndarray, " known"]
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"learning_rate" if name == "rate" else name: value for name, value in fields.items()}

    def _shown(self):
        yield "steps", str(len(self.training) - 1)
        yield "least S_E", "not reached" if self.minimum is None else f"{self.evaluation.min():.6g} at {self.minimum}"
        for rule, stop in (("∇S_T·∇S_E < 0", self.stop_by_alignment), ("∇S_E·Δθ > 0", self.stop_by_drift)):
            yield rule, "never" if stop is None else f"from step {stop} on"
        yield "trusted" if self.trusted else "not trusted", self.reason


class StoppingMonitor:
    """Follows ∇S_T·∇S_E and ∇S_E·Δθ during a training, and says where it should have stopped.

    Args:
        training: the training loss S_T, a JAX function of the parameters.
        evaluation: the evaluation loss S_E.

    >>> monitor = StoppingMonitor(lambda w: jnp.sum((w - 1.0) ** 2), lambda w: jnp.sum((w - 0.5) ** 2))
    >>> _ = monitor.follow(jnp.zeros(2), optax.sgd(0.05), steps=20, learning_rate=0.05)
    >>> report = monitor.report()
    >>> report.stop_by_alignment == report.stop_by_drift == report.minimum, report.trusted
    (True, True)
    """

    @public
    def __init__(self, training: Callable[[Any], Any], evaluation: Callable[[Any], Any]):
        # A plain function is a constant of compiled code; a Partial brings its data as arguments.
        wrap = lambda f: f if isinstance(f, jax.tree_util.Partial) else jax.tree_util.Partial(f)  # noqa: E731
        self._training, self._evaluation = wrap(training), wrap(evaluation)
        self._rows: list[tuple[float, float, float, float]] = []
        self._rate: float | None = None
        self._full = self._plain = True
        self._curvature: list[float] = []

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
        learning_rate: float | None = None,
        batches: Callable[[int], Callable[[Any], Any]] | None = None,
    ) -> Any:
        """Train for a number of steps and observe each; the parameters at the end come back.

        Args:
            params: where to start.
            optimizer: an optax transformation.
            steps: how many.
            learning_rate: the optimizer's step size, for the verdict.
            batches: for minibatches, the loss of each step; by default the whole training loss.
        """
        steps = _check.integer("steps", steps, at_least=1)
        rate = None if learning_rate is None else _check.real("learning_rate", learning_rate, above=0.0)
        self._rate, self._full = rate, batches is None
        state = optimizer.init(params)
        steepest = None
        for i in track(range(steps), "steps"):
            first, second, gradient, other = _observed(self._training, self._evaluation, params)
            alignment = float(_dot(gradient, other))
            if rate is not None and batches is None:
                steepest = self._followed(params, steepest)
            if batches is not None:
                gradient = jax.grad(batches(i))(params)
            update, state = _optimizer.update(optimizer, gradient, state, params)
            self._plain = self._plain and (rate is None or _along(update, gradient, -rate))
            self._rows.append((float(first), float(second), alignment, float(_dot(other, update))))
            params = optax.apply_updates(params, update)
        self.observe(params)
        return params

    def _followed(self, params: Any, steepest: Any) -> Any:
        # The steepest direction turns slowly: from the second observation on one product with the Hessian follows it.
        if steepest is None:
            steepest = _steepest(self._training, params, _POWER_STEPS)
        else:
            _, v, shift = steepest
            steepest = (*_power(self._training, params, v, shift, steps=1), shift)
        self._curvature.append(float(steepest[0]))
        return steepest

    def report(self) -> Stopping:
        """What the observations say."""
        if len(self._rows) < 2:
            raise ValueError(f"the monitor holds {len(self._rows)} observations, but a report needs at least two.")
        training, evaluation, alignment, drift = (np.array(column) for column in zip(*self._rows))
        minimum = int(np.argmin(evaluation))
        stop = _crossing(-alignment)
        trusted, reason = self._verdict(len(training) if stop is None else stop + 1)
        return Stopping(
            training=training,
            evaluation=evaluation,
            alignment=alignment,
            drift=drift,
            stop_by_alignment=stop,
            stop_by_drift=_crossing(drift),
            minimum=minimum if minimum < len(evaluation) - 1 else None,
            trusted=trusted,
            reason=reason,
            learning_rate=self._rate,
            curvature=np.array(self._curvature),
            made=Made.by("neft.action.StoppingMonitor", specification={"observations": len(self._rows)}),
        )

    def _verdict(self, observed: int) -> tuple[bool, str]:
        if not self._full:
            return False, "minibatches: the update is not along the gradient of the training loss"
        if self._rate is None or not self._curvature:
            return False, "the step size is not known"
        if not self._plain:
            return False, f"the updates are not {self._rate:.3g} times the gradient of the training loss"
        sharpest = float(np.max(self._curvature[:observed]))
        if not np.isfinite(sharpest):
            return False, "the training loss has no finite curvature before the stop"
        if sharpest <= 0:
            return True, f"full batch, and the step {self._rate:.3g} meets no positive curvature"
        bound = f"2/λ_max = {2 / sharpest:.3g}"
        if self._rate * sharpest >= 2:
            return False, f"the step {self._rate:.3g} goes beyond {bound} before the stop"
        return True, f"full batch, and the step {self._rate:.3g} stays below {bound} up to the stop"


def largest_curvature(loss: Callable[[Any], Any], params: Any, *, steps: int = _POWER_STEPS) -> float:
    """λ_max of the Hessian of the loss at params, by power iteration with Hessian-vector products.

    >>> round(largest_curvature(lambda w: 1.5 * w[0] ** 2 + w[1] ** 2, jnp.ones(2)), 4)
    3.0
    """
    wrapped = loss if isinstance(loss, jax.tree_util.Partial) else jax.tree_util.Partial(loss)
    return float(_steepest(wrapped, params, _check.integer("steps", steps, at_least=1))[0])


def _steepest(loss: Any, params: Any, steps: int) -> tuple[Any, Any, Any]:
    """λ_max with its direction, and the shift that makes it the largest eigenvalue in modulus."""
    keys = jax.random.split(jax.random.key(0), len(jax.tree.leaves(params)))
    tree = jax.tree.unflatten(jax.tree.structure(params), list(keys))
    v = jax.tree.map(lambda leaf, k: jax.random.normal(k, jnp.shape(leaf), jnp.asarray(leaf).dtype), params, tree)
    none = jnp.zeros((), jax.tree.leaves(v)[0].dtype)
    found, along = _power(loss, params, v, none, steps=steps)
    # Power iteration goes to the largest modulus; where that is negative, a shift by it puts λ_max first.
    if float(found) >= 0:
        return found, along, none
    return (*_power(loss, params, v, -found, steps=steps), -found)


@jax.jit
def _observed(training: Any, evaluation: Any, params: Any) -> Any:
    first, gradient = jax.value_and_grad(training.__call__)(params)
    second, other = jax.value_and_grad(evaluation.__call__)(params)
    return first, second, gradient, other


@functools.partial(jax.jit, static_argnames="steps")
def _power(loss: Any, params: Any, v: Any, shift: Any, *, steps: int) -> tuple[Array, Any]:
    # Power iteration of the Hessian plus a shift: the Rayleigh quotient of the Hessian alone, and the vector.
    def step(v: Any, _: Any) -> Any:
        size = jnp.sqrt(_dot(v, v))
        v = jax.tree.map(lambda leaf: leaf / size, v)
        product = jax.jvp(jax.grad(loss.__call__), (params,), (v,))[1]
        new = jax.tree.map(lambda p, leaf: p + shift * leaf, product, v)
        # Where the loss is flat the vector stays what it is.
        flat = _dot(new, new) == 0
        return jax.tree.map(lambda a, b: jnp.where(flat, b, a), new, v), _dot(v, product)

    last, quotients = jax.lax.scan(step, v, length=steps)
    return quotients[-1], last


def _along(update: Any, gradient: Any, factor: float) -> bool:
    rest = jax.tree.map(lambda u, g: u - factor * g, update, gradient)
    return bool(_dot(rest, rest) <= 1e-6 * _dot(update, update))


def _dot(a: Any, b: Any) -> Any:
    return sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


def _crossing(values: np.ndarray) -> int | None:
    # The first observation at which the values are positive after having been negative.
    known = values[np.isfinite(values)]
    positive = np.flatnonzero((known[1:] > 0) & (known[:-1] <= 0))
    return int(positive[0]) + 1 if len(positive) else None
