"""Infinitely wide networks in training, in function space: all outputs are z(0) - Θc, and only c moves."""

import functools
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from .._precision import float64
from ._loss import Loss, slope
from ._schedule import Schedule

TOLERANCE = 1e-8
_MOST_STEPS = 1 << 16


def moved(loss: Loss, Theta: np.ndarray, z: np.ndarray, y: np.ndarray, plan: Schedule, batches: Any) -> np.ndarray:
    """c = ∫ dL/dz_A dt, or its sum over steps, (draws, T, N, O), for training outputs z (draws, N, O) before training.

    `batches` are the inputs that each step of each draw takes, (draws, steps, batch), or None.
    """
    if plan.steps is None:
        assert plan.time is not None
        return _flowed(loss, Theta, z, y, plan.time.ravel())
    moments, where = np.unique(plan.steps, return_inverse=True)
    c = np.asarray(_stepped(loss, Theta, z, y, moments, plan.learning_rate, plan.momentum.parts, batches))
    if not np.isfinite(c).all():
        raise ValueError(
            f"learning_rate is {plan.learning_rate:g}, but outputs then leave the range of numbers: lower it."
        )
    return c[:, where.ravel()]


def _flowed(loss: Loss, Theta: np.ndarray, z: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    before, c, found = 0.0, np.zeros_like(z), []
    for t in times:
        c, good = _integrated(loss, Theta, z, y, before, t, c)
        if not good or not np.isfinite(c).all():
            raise ValueError(
                f"time is {t:g}, but gradient flow takes more than {_MOST_STEPS} steps until then or leaves the range "
                "of numbers: lower it, or the learning rates."
            )
        before = t
        found.append(c)
    return np.stack(found, axis=1)


@float64
@functools.partial(jax.jit, static_argnums=0)
def _integrated(
    loss: Loss, Theta: Array, z: Array, y: Array, before: Array, after: Array, c: Array
) -> tuple[Array, Array]:
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, c, args: jax.vmap(lambda each: slope(loss, each, y))(z - Theta @ c)),  # type: ignore
        diffrax.Tsit5(),
        t0=before,
        t1=after,
        dt0=None,
        y0=c,
        saveat=diffrax.SaveAt(t1=True),
        # The draws take their steps together, and the one with the largest error says how long they are.
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE, norm=lambda e: jnp.abs(e).max()),
        max_steps=_MOST_STEPS,
        throw=False,
    )
    assert solution.ys is not None
    return solution.ys[-1], solution.result == diffrax.RESULTS.successful


@float64
@functools.partial(jax.jit, static_argnums=0)
def _stepped(
    loss: Loss, Theta: Array, z: Array, y: Array, moments: Array, eta: Any, momentum: Any, batches: Array | None
) -> Array:
    here, before, beta = momentum
    N = len(y)

    def one(z: Array, batches: Array | None) -> Array:
        def gradient(now: Array, t: Array) -> Array:
            if batches is None:
                return slope(loss, now, y)
            taken = batches[t]
            return N / batches.shape[1] * jax.grad(lambda now: loss(now[taken], y[taken]))(now)

        def step(t: Array, state: Any) -> Any:
            c, velocity = state
            g = gradient(z - Theta @ c, t)
            return c + eta * (here * g + before * velocity), beta * velocity + g

        def several(now: Any, until: Array) -> Any:
            state = jax.lax.fori_loop(now[0], until, step, now[1])
            return (until, state), state[0]

        start = (jnp.zeros((), moments.dtype), (jnp.zeros_like(z), jnp.zeros_like(z)))
        return jax.lax.scan(several, start, moments)[1]

    return jax.vmap(one)(z, batches) if batches is not None else jax.vmap(lambda z: one(z, None))(z)


@float64
@functools.partial(jax.jit, static_argnames=("steps", "count", "batch", "shuffled"))
def draw_batches(
    key: Array, index: Array, *, steps: int, count: int, batch: int, shuffled: bool = False
) -> Int[Array, "draws steps batch"]:
    """The inputs that each step of each draw takes: `batch` of the `count` there are, none of them twice.

    Each step draws anew, or, `shuffled`, takes the next ones of all in random order, which is drawn anew when fewer
    than a batch are left.
    """
    each = count // batch if shuffled else 1
    epochs = -(-steps // each)

    def one(i: Array) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(key, i), 1)
        orders = jnp.argsort(jax.random.uniform(own, (epochs, count)), axis=1)
        return orders[:, : each * batch].reshape(-1, batch)[:steps]

    return jax.vmap(one)(index)
