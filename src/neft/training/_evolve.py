"""One network through training, beyond the linear model: what its tangent kernels say about where it ends."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .. import _check
from .._flat import Model, flat
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from .._warn import warn
from ..network import Network
from ._dynamics import LARGE, MOST_STEPS, TOLERANCE, flow
from ._hierarchy import Hierarchy, hierarchy
from ._linear import response
from ._loss import Loss, chosen, prepared, square
from ._schedule import Schedule, schedule
from ._steps import descend

MOST = 2**27
"""The most entries that a ddNTK may have."""


class ConvergenceWarning(UserWarning):
    """The truncated hierarchy did not get to where it was asked to; the message says why."""


@result
class Evolution(Result):
    """Outputs and kernels of one network as the truncated hierarchy trains it.

    `train` is (N, O) and `test` (N_test, O), with an axis in front for several moments. `H` (N+N_test, N+N_test, O, O)
    is the NTK over training and test inputs before training and `H_star` after it (with the axis in front); `moved` is
    the size of their difference over the training inputs, relative to H. `converged` says whether a moment was reached:
    where it was not, `reason` says why, and the last state there was stands in its place. `truncation` is the order of
    the hierarchy. For steps of gradient descent without momentum and batches `step_effect` is by how much `test`
    differs from gradient flow over the same time η·steps, else None.
    """

    train: Float[np.ndarray, "*times N O"]
    test: Float[np.ndarray, "*times N_test O"]
    H: Float[np.ndarray, "all all O O"]
    H_star: Float[np.ndarray, "*times all all O O"]
    moved: Float[np.ndarray, "*times"]
    truncation: int
    time: Float[np.ndarray, "*times"] | None
    steps: Int[np.ndarray, "*times"] | None
    learning_rate: float | None
    step_effect: Float[np.ndarray, "*times N_test O"] | None
    converged: Bool[np.ndarray, "*times"]
    reason: str | None
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"truncation" if name == "order" else name: value for name, value in fields.items()}


@public
@float64
def evolve(
    f: Model | Network,
    params: Any,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    *,
    truncation: int = 3,
    time: Any = None,
    rates: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batches: Any = None,
    loss: Any = "square",
) -> Evolution:
    """Where training takes one network, by the hierarchy of its tangent kernels cut off at an order.

    Along gradient flow dz/dt = -Hε, dH/dt = -(dH_ijk + dH_jik)ε_k, d(dH)/dt = -(I_ijkl + II_ijkl + II_ikjl)ε_l with
    ε = dL/dz over the training set, z - y for L = ½Σ(z-y)² (docs/theory/training, eqs. 6-8). Order 1 keeps H as it is
    (the linear model), 2 keeps dH, 3 keeps both ddNTKs; the error against the trained network falls with its width n
    like 1/n, 1/n and 1/n². With `steps` and `learning_rate` it is gradient descent, with momentum and mini-batches or
    without, by Taylor's series around the first parameters (eqs. 48-53 there): the error is η^(order+1).

    A kernel that is cut off can lose positivity, and then the outputs run away: a `ConvergenceWarning` and `converged`
    say so.

    Args:
        f: f(params, x) maps inputs of shape (N, …) to outputs (N, O); or a network or its `apply`.
        params: its parameters, any pytree; its arrays of real numbers are trained.
        x_train: training inputs, shape (N, …).
        y_train: targets, shape (N, O), or (N,) for one output; labels for the cross-entropy; what an own loss takes.
        x_test: inputs to predict, shape (N_test, …); the training inputs by default.
        truncation: the order, 1, 2 or 3.
        time: how long gradient flow lasts, a number or a list; on the square loss to its end by default.
        rates: learning rates, as in `neft.tangent.ntk`: those of a network, else 1, by default.
        steps: number of steps of gradient descent, or a list of numbers, in place of a time; as many as there are
            `batches` by default.
        learning_rate: η, the size of a step; on the square loss at most 2(1+β) over the largest eigenvalue of H.
        momentum: β, as in `predict`.
        nesterov: as in `predict`.
        batches: indices of the training inputs that each step takes, shape (steps, batch); all by default. The gradient
            is N/batch times the sum over them.
        loss: "square", "cross_entropy", or a function loss(z, y) of outputs (N, O) that sums over the inputs.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 1), activation="tanh")
    >>> found = evolve(net, net.init(jax.random.key(0)), [[1.0, 0.0], [0.0, 1.0]], [0.5, -0.5], truncation=1)
    >>> found.train.round(6).tolist(), bool(found.converged)
    ([[0.5], [-0.5]], True)
    """
    truncation = _check.integer("truncation", truncation, at_least=1, at_most=3)
    function = chosen(loss)
    params = jax.tree.map(_double, params)
    x = _inputs("x_train", x_train)
    count = len(x)
    taken = None if batches is None else _batches(batches, count)
    if taken is not None and steps is None and time is None:
        steps = len(taken)
    size = None if taken is None else taken.shape[1]
    # A batch may take inputs twice, and more of them than there are.
    plan = schedule(time, steps, learning_rate, momentum, nesterov, size)
    if taken is not None and plan.steps is not None and plan.steps.max() > len(taken):
        raise ValueError(f"steps is {plan.steps.max()}, but batches hold the inputs of {len(taken)} steps only.")
    if plan.converged and function is not square:
        raise ValueError("time is missing, but only the square loss has an end of training that is known.")
    if x_test is not None:
        tests = _inputs("x_test", x_test)
        if tests.shape[1:] != x.shape[1:]:
            raise ValueError(f"x_test has inputs of shape {tests.shape[1:]}, but x_train has {x.shape[1:]}.")
        x = np.concatenate([x, tests])
    x = jnp.asarray(x)
    model = flat(f, params)
    outputs = jax.eval_shape(model.z, model.theta, x).shape[1]
    y = prepared(function, y_train, count, outputs)
    if (entries := (len(x) * outputs) ** (truncation + 1)) > MOST:
        raise ValueError(
            f"order {truncation} holds {entries:.0e} numbers for {len(x) * outputs} outputs, at most {MOST:.0e}."
        )
    h = hierarchy(f, params, x, count, truncation, rates)
    A = count * outputs
    if function is square and taken is None:
        plan.check_stable(float(np.linalg.eigvalsh(np.asarray(h.H)[:A, :A])[-1]))
    task = _Task(jnp.asarray(y), function, outputs, None if taken is None else jnp.asarray(taken))
    found = _run(h, task, plan)
    effect = None
    if plan.learning_rate is not None and plan.steps is not None and taken is None and not plan.momentum.beta:
        still = _run(h, task, Schedule(np.asarray(plan.learning_rate * plan.steps.astype(float))))
        effect = found.z - still.z

    def outputs_of(z: np.ndarray, test: bool) -> np.ndarray:
        split = z.reshape(*plan.shape, len(x), outputs)
        return split[..., count:, :] if test and x_test is not None else split[..., :count, :]

    def kernel_of(H: np.ndarray, *times: int) -> np.ndarray:
        return H.reshape(*times, len(x), outputs, len(x), outputs).swapaxes(-3, -2)

    before = np.asarray(h.H)
    change = (found.H - before)[:, :A, :A]
    reason = _reason(found, A, plan)
    if reason is not None:
        message = f"training at order {truncation} did not get to its end: {reason}."
        warn(message, ConvergenceWarning)
    specification = {
        "f": f.to_dict() if isinstance(f, Network) else getattr(f, "__name__", "a function"),
        "truncation": truncation,
        "loss": getattr(function, "__name__", "own"),
    }
    specification |= {"x_train": np.asarray(x[:count]), "y_train": y, "x_test": np.asarray(x[count:])}
    specification |= {} if taken is None else {"batches": taken}
    return Evolution(
        train=outputs_of(found.z, False),
        test=outputs_of(found.z, True),
        H=kernel_of(before),
        H_star=kernel_of(found.H, *plan.shape),
        moved=_relative(change, before[:A, :A]).reshape(plan.shape),
        truncation=truncation,
        time=plan.time,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        step_effect=None if effect is None else outputs_of(effect, True),
        converged=found.reached.reshape(plan.shape),
        reason=reason,
        made=Made.by(
            "neft.training.evolve", specification=specification | plan.to_dict(), tolerances={"step": TOLERANCE}
        ),
    )


def _relative(change: np.ndarray, before: np.ndarray) -> np.ndarray:
    # Learning rates of 0 make a kernel of 0, which stays where it is.
    size = float(np.linalg.norm(before))
    return np.linalg.norm(change, axis=(1, 2)) / (size or 1.0)


class _Found(NamedTuple):
    # Outputs (moments, M), kernels (moments, M, M), and which moments were reached.
    z: np.ndarray
    H: np.ndarray
    reached: np.ndarray


class _Task(NamedTuple):
    # What is trained on: y as the loss takes it, the loss, how many outputs, and the batches of the steps.
    y: Any
    loss: Loss
    outputs: int
    batches: Any


_flow = functools.partial(jax.jit, static_argnames=("loss", "outputs"))(flow)
_descend = functools.partial(jax.jit, static_argnames=("loss", "outputs"))(descend)


def _run(h: Hierarchy, task: _Task, plan: Schedule) -> _Found:
    """The course at the moments of the plan, in their order, as NumPy arrays with an axis of moments."""
    if h.dH is None and task.loss is square and task.batches is None:
        return _linear(h, task.y, plan)
    chosen: Any = plan.time if plan.steps is None else plan.steps
    moments, where = np.unique(chosen, return_inverse=True)
    options: dict[str, Any] = {"loss": task.loss, "outputs": task.outputs}
    if plan.steps is not None:
        given = (jnp.asarray(moments), plan.learning_rate, task.batches, plan.momentum.parts)
        found = [_descend(h, task.y, *given, **options)]
    else:
        finite = moments[np.isfinite(moments)]
        found = [_flow(h, task.y, jnp.asarray(finite), **options)] if len(finite) else []
        found += [_flow(h, task.y, None, **options)] if len(finite) < len(moments) else []
    z, H, reached = (
        np.concatenate([np.asarray(part) for part in parts])[where.ravel()]
        for parts in zip(*((course.z, course.H, course.reached) for course in found))
    )
    return _Found(z, H, reached)


def _linear(h: Hierarchy, y: Any, plan: Schedule) -> _Found:
    # With a kernel that stays as it is nothing needs to be integrated.
    z, H, y = np.asarray(h.z), np.asarray(h.H), np.asarray(y).ravel()
    A = len(y)
    moved = response(H[:, :A], H[:A, :A], plan, what="the NTK of the training inputs").A @ (z[:A] - y)
    moved = moved.reshape(-1, len(z))
    return _Found(z - moved, np.broadcast_to(H, (len(moved), *H.shape)), np.ones(len(moved), bool))


def _reason(found: _Found, A: int, plan: Schedule) -> str | None:
    if found.reached.all():
        return None
    lowest = float(np.linalg.eigvalsh(found.H[~found.reached][0][:A, :A])[0])
    if lowest < 0:
        return (
            f"the truncated kernel lost positivity, and its smallest eigenvalue over the training set is {lowest:.3g}"
        )
    if plan.steps is not None:
        return f"the loss grew to more than {LARGE**2:g} times its size, so the learning rate is too large"
    return f"{MOST_STEPS} steps of the integrator were not enough, since the smallest eigenvalue is {lowest:.3g}"


def _batches(batches: Any, count: int) -> np.ndarray:
    taken = _check.array("batches", batches, ndim=2, at_least=0, dtype=np.int64)
    if 0 in taken.shape or taken.max() >= count:
        held = f"has shape {taken.shape}" if 0 in taken.shape else f"holds {taken.max()}"
        raise ValueError(
            f"batches {held}, but must hold indices of the {count} training inputs, from 0 to {count - 1}."
        )
    return taken


def _inputs(name: str, x: Any) -> np.ndarray:
    x = _check.array(name, x)
    if x.ndim == 0 or 0 in x.shape:
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input along its first axis.")
    return x


def _double(leaf: Any) -> Any:
    known = isinstance(leaf, np.ndarray | np.generic | jax.Array)
    return jnp.asarray(leaf, np.float64) if known and jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
