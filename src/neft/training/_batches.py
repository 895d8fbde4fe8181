"""The spread that mini-batches add to infinitely wide networks trained on the square loss.

Each step takes a batch of b of the N training inputs, drawn anew and without repetition, and N/b times the sum over it.
On average that is the full batch. Its noise has a covariance that is linear in the second moments of the residuals, so
that these obey a closed recursion (docs/theory/training, eqs. 44-47).
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from .. import _check
from ._kernels import Blocks
from ._momentum import Momentum
from ._schedule import Schedule


def batch_covariance(blocks: Blocks, y: np.ndarray, plan: Schedule) -> np.ndarray:
    """What batches add to the covariance of the test outputs, (*times, M, O, M, O), averaged over initial outputs.

    Batches are the same for all outputs, so that these become correlated.
    """
    assert plan.steps is not None and plan.learning_rate is not None and plan.batch is not None
    O, M = y.shape[1], len(blocks.Theta_xA)
    _check.memory("the covariance of the test outputs", 2 * plan.steps.size * (M * O) ** 2)
    l, v = scipy.linalg.eigh(blocks.Theta_AA, driver="evd")
    u = v.T @ y
    first, second = np.triu_indices(O)
    # E[ε(0)ε(0)ᵀ] is K for each output, and y_o y_pᵀ for each pair of them.
    start = np.concatenate([(v.T @ blocks.K_AA @ v)[None], np.einsum("mr,nr->rmn", u[:, first], u[:, second])])
    found = _recursion(plan, np.maximum(l, 0.0), v, start)
    towards = blocks.Theta_xA @ v * plan.learning_rate
    full = np.einsum("im,trmn,jn->trij", towards, found, towards, optimize=True)
    cov = np.zeros((len(full), M, O, M, O))
    cov[:, :, first, :, second] = full[:, 1:].swapaxes(0, 1)
    cov[:, :, second, :, first] = full[:, 1:].mT.swapaxes(0, 1)
    for o in range(O):
        cov[:, :, o, :, o] += full[:, 0]
    if not np.isfinite(cov).all():
        raise ValueError(
            f"learning_rate is {plan.learning_rate:g}, but batches of {plan.batch} then make the spread leave the "
            "range of numbers: lower it, or take larger batches."
        )
    return cov.reshape(*plan.steps.shape, M, O, M, O)


def _recursion(plan: Schedule, l: np.ndarray, v: np.ndarray, start: np.ndarray) -> np.ndarray:
    # cov(c)/η² at the moments, (times, R, N, N) in eigenvectors, for R second moments of ε(0).
    assert plan.steps is not None and plan.learning_rate is not None and plan.batch is not None
    N, m, step = len(l), plan.momentum, plan.learning_rate * l
    excess = (N - plan.batch) / (plan.batch * max(N - 1, 1))
    own, push = 1 - m.here * step, m.before
    left, velocity, c = np.ones(N), np.zeros(N), np.zeros(N)
    moments = _Moments(*(np.zeros_like(start) for _ in range(4)))
    kept: dict[int, np.ndarray] = {}
    wanted = plan.steps.ravel().tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        for done in range(max(wanted) + 1):
            if done in wanted:
                kept[done] = moments.cc
            residuals = start * np.multiply.outer(left, left) + step[:, None] * moments.cc * step[None, :]
            diagonal = np.einsum("am,rmn,an->ra", v, residuals, v, optimize=True)
            noise = excess * (N * (v.T * diagonal[:, None, :]) @ v - residuals)
            moments = _after(m, step, moments, noise)
            c, velocity = own * c + push * velocity + m.here, m.beta * velocity + 1 - step * c
            left = 1 - step * c
    return np.stack([kept[T] for T in wanted])


class _Moments(NamedTuple):
    """Second moments of c/η and of the velocity v, each (R, N, N)."""

    cc: np.ndarray
    cv: np.ndarray
    vc: np.ndarray
    vv: np.ndarray


def _after(m: Momentum, step: np.ndarray, before: _Moments, noise: np.ndarray) -> _Moments:
    # c/η and v after a step are fixed combinations of those before it, the mean residual and the noise.
    cc, cv, vc, vv = before
    own, push, columns, by_row = 1 - m.here * step, m.before, step[None, :], step[:, None]
    rows = own[:, None]
    return _Moments(
        rows * cc * own + push * (rows * cv + vc * own) + push**2 * vv + m.here**2 * noise,
        -rows * cc * columns + m.beta * rows * cv - push * vc * columns + push * m.beta * vv + m.here * noise,
        -by_row * cc * own - push * by_row * cv + m.beta * vc * own + push * m.beta * vv + m.here * noise,
        by_row * cc * columns - m.beta * (by_row * cv + vc * columns) + m.beta**2 * vv + noise,
    )
