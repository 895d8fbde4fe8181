"""Draws of finite width in training: each has a hierarchy that flow or steps move (docs/theory/training, eq. 62)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array

from .._precision import float64
from ._dynamics import flow
from ._fluctuations import Draws, Law
from ._hierarchy import Hierarchy
from ._loss import Loss, cross_entropy
from ._schedule import Schedule
from ._steps import descend


def trained(
    finite: Law, draws: Draws, y: np.ndarray, plan: Schedule, loss: Loss, batches: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs over all samples after training, (draws, T, S, O), and which draws got there."""
    chosen: Any = plan.time if plan.steps is None else plan.steps
    moments, where = np.unique(chosen, return_inverse=True)
    O, turned, order = finite.outputs, np.eye(finite.outputs), np.arange(draws.z[0].size)
    kernels = (draws.z.reshape(len(draws.z), -1), draws.H, draws.dH, tuple(np.asarray(part) for part in finite.ddH))
    if loss is cross_entropy and O > 1:
        turned, order, kernels = _differences(finite, draws)
        loss, O = _of_differences, O - 1
    if plan.steps is None:
        z, reached = _by_flow(loss, O, *kernels, y, moments)
    else:
        options = (moments, plan.learning_rate, plan.momentum.parts, batches)
        z, reached = _by_steps(loss, O, *kernels, y, *options)
    z = np.asarray(z)[:, where.ravel()][..., np.argsort(order)]
    return z.reshape(*z.shape[:2], -1, finite.outputs) @ turned, np.all(np.asarray(reached), axis=1)


def _of_differences(z: Array, y: Array) -> Array:
    return cross_entropy(z @ jnp.asarray(scipy.linalg.helmert(z.shape[1] + 1), z.dtype), y)


def _differences(finite: Law, draws: Draws) -> tuple[np.ndarray, np.ndarray, Any]:
    """What training meets where the loss sees differences of logits alone, as the cross-entropy does.

    Outputs are turned so that the last one is proportional to their sum, of which the slopes have no part. The ddNTKs
    look the same from all sides. Given back are the matrix that turns outputs back, the order of composite indices,
    with those first that training moves along, and the kernels in it.
    """
    N, O, S, count = finite.train, finite.outputs, draws.z.shape[1], len(draws.z)
    back = np.roll(scipy.linalg.helmert(O, full=True), -1, axis=0)
    z = draws.z @ back.T
    H = np.einsum("saibj,ki,lj->sakbl", draws.H.reshape(count, S, O, S, O), back, back, optimize=True)
    dH = draws.dH.reshape(count, S, O, S, O, N, O)
    dH = np.einsum("saibjcm,ki,lj,nm->sakblcn", dH, back, back, back, optimize=True)
    indices = np.arange(S * O).reshape(S, O)
    first = indices[:N, :-1].ravel()
    order = np.concatenate([first, np.setdiff1d(indices.ravel(), first)])
    M = S * O
    H = H.reshape(count, M, M)[:, order[:, None], order]
    dH = dH.reshape(count, M, M, N * O)[:, order[:, None, None], order[:, None], first]
    ddH = tuple(np.asarray(part)[np.ix_(order, order, first, first)] for part in finite.ddH)
    return back, order, (z.reshape(count, M)[:, order], H, dH, ddH)


@float64
@functools.partial(jax.jit, static_argnums=(0, 1))
def _by_flow(loss: Loss, O: int, z: Array, H: Array, dH: Array, ddH: Any, y: Array, times: Array) -> Any:
    def one(z: Array, H: Array, dH: Array) -> Any:
        course = flow(Hierarchy(z, H, dH, *ddH), y, times, loss=loss, outputs=O)
        return course.z, course.reached

    return jax.vmap(one)(z, H, dH)


@float64
@functools.partial(jax.jit, static_argnums=(0, 1))
def _by_steps(
    loss: Loss,
    O: int,
    z: Array,
    H: Array,
    dH: Array,
    ddH: Any,
    y: Array,
    moments: Array,
    eta: Any,
    parts: Any,
    batches: Any,
) -> Any:
    def one(z: Array, H: Array, dH: Array, batches: Any) -> Any:
        h = Hierarchy(z, H, dH, *ddH)
        course = descend(h, y, moments, eta, batches, parts, loss=loss, outputs=O)
        return course.z, course.reached

    return jax.vmap(one, in_axes=(0, 0, 0, None if batches is None else 0))(z, H, dH, batches)
