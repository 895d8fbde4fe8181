"""How far the truncated hierarchy is off trained networks, order by order, against the width."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _check
from .._blocks import block_size
from .._precision import float64
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._descend import drawn as parameters
from ._dynamics import flow
from ._ensemble import ensemble
from ._evolve import MOST
from ._function_space import draw_batches
from ._hierarchy import Hierarchy, drawn
from ._kernels import inputs
from ._loss import Loss, chosen, prepared
from ._schedule import Schedule, schedule
from ._steps import descend


@result
class Orders(Result):
    """Errors of the outputs that the hierarchy predicts at orders 1, 2 and 3, by width.

    `rms` (3, widths) is over draws, test inputs and outputs and `stderr` its standard error over draws. `lost` counts
    the draws at which an order did not get to its end, because a kernel that is cut off can lose positivity; they are
    left out.
    """

    rms: Float[np.ndarray, "3 widths"]
    stderr: Float[np.ndarray, "3 widths"]
    lost: Int[np.ndarray, "3 widths"]
    widths: tuple[int, ...]
    activation: str
    depth: int
    draws: int
    made: Made

    @property
    def powers(self) -> Float[np.ndarray, "3 2"]:
        """p in rms ∝ n^-p and its standard error, of each order, by least squares weighted with the uncertainties.

        Theory says 1, 1 and 2 for large n.
        """
        if len(self.widths) < 2:
            raise ValueError(f"widths is {self.widths}, but a power needs at least two of them.")
        found = np.empty((3, 2))
        for order, (rms, stderr) in enumerate(zip(self.rms, self.stderr)):
            relative = stderr / rms
            design = np.stack([np.ones(len(self.widths)), -np.log(self.widths)], axis=1) / relative[:, None]
            covariance = np.linalg.inv(design.T @ design)
            p = (covariance @ design.T @ (np.log(rms) / relative))[1]
            found[order] = p, np.sqrt(covariance[1, 1])
        return found

    def _shown(self):
        yield "network", f"{self.activation}, {self.depth} layers, {self.draws} draws"
        for order in range(3):
            errors = ", ".join(f"{n}: {rms:.2g}" for n, rms in zip(self.widths, self.rms[order]))
            yield f"order {order + 1}", f"rms error by width {errors}"


@public
@float64
def orders(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    *,
    widths: Sequence[int],
    draws: int = 16,
    key: Array,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    loss: Any = "square",
) -> Orders:
    """How far each order of `evolve` is off trained networks, as the width of all hidden layers grows.

    Each draw is predicted from its own kernels, so what is left is what the order cuts off: for large n it falls like
    1/n at orders 1 and 2 and like 1/n² at order 3 (docs/theory/training, section One network). Training is as in
    `ensemble`.

    Args:
        net: the specification; its hidden layers get other widths.
        x_train: training inputs, shape (N, n_0).
        y_train: targets, shape (N, n_L), or (N,) for one output; labels for the cross-entropy; what an own loss takes.
        x_test: where outputs are compared, shape (N_test, n_0); at the training inputs by default.
        widths: of all hidden layers, one after the other.
        draws: networks at each width, at least 2.
        key: a JAX key; draw i is net.init(jax.random.fold_in(key, i)).
        time: how long gradient flow lasts; on the square loss to its end by default.
        steps: number of steps of gradient descent instead, with their size `learning_rate`.
        learning_rate: η.
        momentum: β, as in `predict`.
        nesterov: as in `predict`.
        batch: how many training inputs a step takes; each draw is predicted with the batches that it was trained with.
        loss: "square", "cross_entropy", or a function loss(z, y) that sums over the training inputs.

    >>> from neft import MLP

    >>> orders(MLP((2, 1, 1), "tanh"), [[1.0, 0.0]], [0.3], widths=[0], key=jax.random.key(0))
    Traceback (most recent call last):
    ValueError: each of widths is 0, but must be at least 1.
    """
    x = inputs(net, "x_train", x_train)
    function = chosen(loss)
    y = prepared(function, y_train, len(x), net.outputs)
    tests = x if x_test is None else inputs(net, "x_test", x_test)
    widths = tuple(_check.integer("each of widths", n, at_least=1) for n in widths)
    draws = _check.integer("draws", draws, at_least=2)
    if not widths:
        raise ValueError("widths is empty, but must hold at least one width.")
    if not net.hidden_widths():
        raise ValueError(f"net has {net.depth} layer, but must have at least 2: one layer has no width.")
    for act in net.activations:
        for kink in act.kinks:
            if kink.order < 2:
                raise ValueError(
                    f"net has the activation {act.name}, whose derivative {kink.order} jumps at {kink.position:g}, but "
                    "orders 2 and 3 need its second derivative."
                )
    plan = schedule(time, steps, learning_rate, momentum, nesterov, batch, len(x))
    if (entries := ((len(x) + len(tests)) * net.outputs) ** 4) > MOST:
        raise ValueError(f"order 3 holds {entries:.0e} numbers for these inputs, at most {MOST:.0e}.")
    options = {"draws": draws, "key": key, "time": time, "steps": steps, "learning_rate": learning_rate}
    options |= {"momentum": momentum, "nesterov": nesterov, "batch": batch, "loss": loss}
    cells = []
    for n in track(widths, "widths"):
        other = net.resized(lambda _, n=n: n)
        trained = ensemble(other, x, y, tests, **options)
        cells.append(_cell(other, function, x, y, tests, plan, trained.test, trained.good, key))
    rms, stderr, lost = (np.stack(column, axis=1) for column in zip(*cells))
    specification = {"net": net.to_dict(), "x_train": x, "y_train": y, "x_test": tests, **plan.to_dict()}
    return Orders(
        rms=rms,
        stderr=stderr,
        lost=lost,
        widths=widths,
        activation=", ".join(act.name for act in net.activations),
        depth=net.depth,
        draws=draws,
        made=Made.by("neft.training.orders", specification=specification, key=key),
    )


def _cell(
    net: Network,
    loss: Loss,
    x: np.ndarray,
    y: np.ndarray,
    tests: np.ndarray,
    plan: Schedule,
    trained: Any,
    good: Any,
    key: Array,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    samples, draws = jnp.asarray(np.concatenate([x, tests])), len(good)
    # Of each draw the second derivatives along every gradient are held.
    held = 8 * 3 * net.parameter_count() * (len(samples) * net.outputs) ** 2
    whole = _hierarchies(net, key, jnp.arange(draws), samples, len(x), block_size(held, draws))
    # Zeros beyond the order kept, so that one program serves all orders and widths.
    cuts = [Hierarchy(*(part if k < kept else 0 * part for k, part in enumerate(whole))) for kept in (2, 3, 6)]
    rms, stderr, lost = np.empty(3), np.empty(3), np.empty(3, int)
    batches, count = None, len(x) * net.outputs
    if plan.batch is not None and plan.steps is not None:
        options = {"steps": int(plan.steps), "count": len(x), "batch": plan.batch}
        batches = draw_batches(key, jnp.arange(draws), **options)
    for order, cut in enumerate(cuts):
        z, reached = map(np.asarray, _ends(loss, net.outputs, cut, jnp.asarray(y), *_moment(plan), batches))
        kept = good & reached
        lost[order] = draws - kept.sum()
        if kept.sum() < 2:
            raise ValueError(
                f"of {draws} networks of widths {net.widths} only {kept.sum()} could be trained at order {order + 1}, "
                "but at least 2 are needed: take wider networks or more draws."
            )
        square = ((z[:, count:].reshape(trained.shape) - trained)[kept] ** 2).mean((1, 2))
        rms[order] = np.sqrt(square.mean())
        stderr[order] = square.std(ddof=1) / np.sqrt(len(square)) / max(2 * rms[order], 1e-300)
    return rms, stderr, lost


@functools.partial(jax.jit, static_argnums=(4, 5))
def _hierarchies(net: Network, key: Array, index: Array, x: Array, train: int, together: int) -> Hierarchy:
    params = parameters(net, key, index, dtype=jnp.float64)
    return jax.lax.map(lambda p: drawn(net, p, x, train, 3, net.rates()), params, batch_size=together)


def _moment(plan: Schedule) -> tuple[Array | None, Array | None, Any, Any]:
    if plan.steps is not None:
        return None, jnp.asarray(plan.steps)[None], plan.learning_rate, plan.momentum.parts
    return (None if plan.converged else jnp.asarray(plan.time)[None]), None, None, None


@functools.partial(jax.jit, static_argnums=(0, 1))
def _ends(
    loss: Loss,
    outputs: int,
    h: Hierarchy,
    y: Array,
    time: Array | None,
    steps: Array | None,
    rate: Any,
    momentum: Any,
    batches: Array | None,
) -> tuple[Array, Array]:
    options: Any = {"loss": loss, "outputs": outputs}

    def end(h: Hierarchy, batches: Array | None) -> tuple[Array, Array]:
        if steps is None:
            course = flow(h, y, time, **options)
        else:
            course = descend(h, y, steps, rate, batches, momentum, **options)
        return course.z[0], course.reached[0]

    return jax.vmap(end, in_axes=(0, None if batches is None else 0))(h, batches)
