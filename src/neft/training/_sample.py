"""Wide networks trained on any loss, one draw at a time: draws from the prior, moved in function space.

Where the loss is not quadratic the trained outputs are no longer Gaussian, so they are sampled.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float, Int

from .. import _check
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._finite import LEAST, output_tensors
from ._fluctuations import CUTOFF, Law, at_width, draw, law
from ._function_space import TOLERANCE, draw_batches, moved
from ._kernels import Blocks, digest, inputs, of_matrices, of_network
from ._loss import Loss, chosen, prepared
from ._lost import TRIED, warn_lost
from ._response import TENSORS
from ._schedule import Schedule, schedule
from ._trained import trained

TOGETHER, SIDE_BY_SIDE = 40, 60
"""Inputs whose fluctuations are all drawn together, and how many are taken at once where there are more."""

_Part = tuple[Law, np.ndarray]


@result
class Trajectories(Result):
    """Outputs of wide networks in training, one per draw: logits where the loss is the cross-entropy.

    `outputs` are those of the test inputs and `train_outputs` those of the training inputs, at the given time or number
    of steps or, on an axis of their own, several; `start` are the test outputs before training. At `order` 1, the
    order in 1/width, `infinite_outputs` are the test outputs of the same draws at infinite width, whose averages
    `predict` knows for the square loss; `negative` is how many draws had an initial covariance of the training inputs
    that was not positive, which says that the next orders in 1/width are not small, and `good` is False for a draw
    whose kernel was not, so that it did not get to the end. Test inputs are taken in that many `blocks`: all together
    beside up to 40 inputs in all, else each by itself. The law of each block beside all training inputs is right to
    order 1/width; between inputs of different blocks only what infinite width says is. `train_outputs` are those beside
    the first test inputs.
    """

    time: Float[np.ndarray, "*times"] | None
    steps: Int[np.ndarray, "*times"] | None
    outputs: Float[np.ndarray, "draws *times tests outputs"]
    train_outputs: Float[np.ndarray, "draws *times trains outputs"]
    start: Float[np.ndarray, "draws tests outputs"]
    order: int
    infinite_outputs: Float[np.ndarray, "draws *times tests outputs"] | None
    good: Bool[np.ndarray, " draws"]
    negative: int
    made: Made
    blocks: int = 1

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if "good" in fields:
            return fields
        draws = len(fields["start"])
        return {"steps": None, "order": 0, "infinite_outputs": None, "good": [True] * draws, "negative": 0} | fields

    @property
    def mean(self) -> Float[np.ndarray, "*times tests outputs"]:
        """The mean of the test outputs over the draws that got to the end."""
        return self.outputs[self.good].mean(axis=0)

    @property
    def std(self) -> Float[np.ndarray, "*times tests outputs"]:
        """Their standard deviation over draws; NaN for a single draw."""
        good = self.outputs[self.good]
        return good.std(axis=0, ddof=1) if len(good) > 1 else np.full(good.shape[1:], np.nan)

    @property
    def probabilities(self) -> Float[np.ndarray, "*times tests outputs"]:
        """The mean over draws of softmax(outputs), the prediction of the ensemble of classifiers."""
        good = self.outputs[self.good]
        powers = np.exp(good - good.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).mean(axis=0)


@public
def sample(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    time: Any = None,
    *,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    shuffled: bool = False,
    loss: Any = "cross_entropy",
    order: int = 0,
    draws: int = 64,
    key: Array | None = None,
    start: Any = None,
    rtol: float | None = None,
) -> Trajectories:
    """Draws of wide networks trained on any loss, by integration in function space.

    At infinite width dz/dt = -Θ_xA dL/dz_A with the frozen kernel Θ of `width.kernel`, from z(0) ~ N(0, K) for each
    output, by an adaptive Runge-Kutta method (diffrax), or by steps. On the square loss these are draws of what
    `predict` describes. At order 1 each draw has outputs and tangent kernels of its own, whose averages are right to
    order 1/width, without a network being drawn, and follows the hierarchy of `evolve` at its third order
    (docs/theory/training, eqs. 54-62).

    Args:
        net: the specification; at order 1 one whose tensors `width.statistics` knows.
        x_train: training inputs, shape (N, n_0).
        y_train: labels 0, 1, 2, … of shape (N,), or probabilities (N, n_L); whatever the loss takes.
        x_test: inputs to predict, shape (N_test, n_0); the training inputs by default.
        time: how long gradient flow lasts, a number or a list in rising order.
        steps: number of steps of gradient descent, or a list of numbers, in place of a time.
        learning_rate: η, the size of a step.
        momentum: β, as in `predict`.
        nesterov: as in `predict`.
        batch: how many training inputs a step takes, as in `predict`; every draw has batches of its own.
        shuffled: whether the batches are those of shuffled epochs (the next ones of all in random order, which is drawn
            anew when fewer than a batch are left) instead of drawn anew for each step.
        loss: "cross_entropy", "square", or a function loss(z, y) of outputs (N, n_L) that sums over the inputs.
        order: 0 for infinite width, 1 with what is of order 1/width.
        draws: how many networks.
        key: a JAX key; key 0 by default.
        start: z(0) of one draw instead, shape (N + N_test, n_L), training inputs first (without x_test (N, n_L)); at
            order 0 only.
        rtol: at order 1, the tolerance of averages over four inputs, as in `predict`.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 2), activation="erf", C_b=0.1)
    >>> found = sample(net, [[1.0, 0.0], [0.0, 1.0]], [0, 1], time=[0.0, 5.0], draws=4)
    >>> found.outputs.shape, bool(found.probabilities[1, 0, 0] > 0.8)
    ((4, 2, 2, 2), True)
    """
    x_train = inputs(net, "x_train", x_train)
    x_test = None if x_test is None else inputs(net, "x_test", x_test)
    function = chosen(loss)
    y = prepared(function, y_train, len(x_train), net.widths[-1])
    order = _check.integer("order", order, at_least=0, at_most=1)
    plan = _plan(time, steps, learning_rate, momentum, nesterov, batch, len(x_train), shuffled)
    specification = {"net": net.to_dict(), "data": digest(x_train, y, x_test)}
    finite = None
    if order == 1:
        if start is not None:
            raise ValueError("start is given, but goes with order 0: kernels of order 1 are drawn together with z(0).")
        finite = _laws(net, x_train, x_test, rtol)
        specification |= {"order": 1} | ({} if rtol is None else {"rtol": rtol})
    kernels = of_network(net, x_train, x_test)
    return _sampled(kernels, finite, y, plan, function, net.widths[-1], draws, key, start, specification)


def _laws(net: Network, x_train: np.ndarray, x_test: np.ndarray | None, rtol: float | None) -> Iterator[_Part]:
    """For each part of the test inputs the law of all training inputs and them, and which of all inputs these are.

    One after the other, since each is large.
    """
    N, M, O = len(x_train), 0 if x_test is None else len(x_test), net.widths[-1]
    joint = max(TOGETHER, N + LEAST) >= N + M
    size = M if joint else max(LEAST, SIDE_BY_SIDE - N)
    rows = (N + min(M, size)) * O
    _check.memory(f"order 1 with {N} training inputs and {O} outputs", 6 * rows**2 * (N * O) ** 2)

    def of(x: np.ndarray) -> Law:
        tensors = output_tensors(net, x, (*TENSORS, "V"), rtol=rtol, first=None if joint else N)
        return law(tensors, net.widths[-2], N, O, None if joint else [np.array([i]) for i in range(N, len(x))])

    def each() -> Iterator[_Part]:
        if x_test is None:
            yield of(x_train), np.arange(N)
            return
        for cut in blocks(M, size, label="test inputs" if size < M else None):
            yield of(np.concatenate([x_train, x_test[cut]])), np.concatenate([np.arange(N), N + np.arange(M)[cut]])

    return each()


@public
def sample_from_kernels(
    K: Any,
    Theta: Any,
    y_train: Any,
    time: Any = None,
    *,
    outputs: int,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    shuffled: bool = False,
    loss: Any = "cross_entropy",
    draws: int = 64,
    key: Array | None = None,
    start: Any = None,
) -> Trajectories:
    """What `sample` gives, from kernels of one's own: K and Theta as in `predict_from_kernels`, `outputs` many outputs.

    >>> found = sample_from_kernels(np.eye(3), np.eye(3) + 0.5, [0, 1], time=1.0, outputs=2, draws=4)
    >>> found.outputs.shape
    (4, 1, 2)
    """
    function = chosen(loss)
    given = np.atleast_1d(_check.as_array("y_train", y_train))
    if not given.size:
        raise ValueError(f"y_train has shape {given.shape}, but must hold at least one target.")
    y = prepared(function, y_train, len(given), outputs)
    plan = _plan(time, steps, learning_rate, momentum, nesterov, batch, len(y), shuffled)
    kernels = of_matrices(K, Theta, len(y))
    specification = {"data": digest(*kernels[:5], y)}
    return _sampled(kernels, None, y, plan, function, outputs, draws, key, start, specification)


def _plan(time: Any, *options: Any) -> Schedule:
    plan = schedule(time, *options)
    if plan.steps is not None:
        return plan
    if time is None:
        raise ValueError("time is missing, but a loss that is not quadratic has no end of training that is known.")
    assert plan.time is not None
    if not np.isfinite(plan.time).all() or (np.diff(plan.time.ravel()) < 0).any():
        raise ValueError(f"time is {_check.brief(time)}, but must be finite and, if it is a list, in rising order.")
    return plan


def _sampled(
    kernels: Blocks,
    finite: Iterator[_Part] | None,
    y: np.ndarray,
    plan: Schedule,
    loss: Loss,
    O: int,
    draws: int,
    key: Array | None,
    start: Any,
    specification: dict[str, Any],
) -> Trajectories:
    N, M = len(kernels.K_AA), len(kernels.K_xx)
    draws = _check.integer("draws", draws, at_least=1)
    given = None if start is None else _check.array("start", start, shape=(N + M * kernels.apart, O))[None]
    seed = jax.random.key(0) if key is None else key
    if given is None or plan.batch is not None:
        key = seed
    z = _prior(kernels, draws, O, seed) if given is None else given
    rows = slice(N, None) if kernels.apart else slice(None)
    T = max(int(np.prod(plan.shape)), 1)
    S = z.shape[1]
    c = np.empty((len(z), T, N, O))
    every = np.arange(len(z))
    batches = None
    if plan.batch is not None and plan.steps is not None:
        options = {"steps": int(plan.steps.max()), "count": N, "batch": plan.batch, "shuffled": plan.shuffled}
        batches = np.asarray(draw_batches(seed, every, **options))
    for part in blocks(len(z), block_size(8 * (40 + 2 * T) * N * O, 64), label=None if finite else "draws"):
        c[part] = moved(loss, kernels.Theta_AA, z[part, :N], y, plan, None if batches is None else batches[part])
    after, before, good, negative = None, z, np.ones(len(z), bool), np.zeros(len(z), bool)
    count, groups, width, reaches = 0, 0, np.inf, None
    for law_, where in finite or ():
        # Numbers of its own for each part, and the training outputs that the first part has.
        own = seed if not count else jax.random.fold_in(jax.random.fold_in(seed, 2**31 - 1), count)
        new = where if not count else where[N:]
        if after is None:
            after, before = np.empty((len(z), T, S, O)), np.empty_like(z)
        size = 8 * (4 * (len(where) * O) ** 2 * N * O + 6 * (N * O) ** 3)
        for part in blocks(len(z), block_size(size, 64), label="draws"):
            one = draw(law_, own, every[part], infinite=z[part][:, where])
            found, reached = trained(law_, one, y, plan, loss, None if batches is None else batches[part])
            before[part.start : part.stop, new] = one.z[:, -len(new) :]
            after[part.start : part.stop, :, new] = found[:, :, -len(new) :]
            negative[part] |= ~one.positive
            good[part] &= reached
        count, groups, width = count + 1, groups + len(law_.groups), law_.n
        if not good.all() and reaches is None:
            few = np.flatnonzero(~good)[:TRIED]
            drawn = batches if batches is None else batches[few]
            reaches = functools.partial(_reaches, law_, own, few, z[few][:, where], y, plan, loss, drawn)
    specification |= plan.to_dict() | {"draws": len(z), "loss": getattr(loss, "__name__", "own")}
    lift = (slice(None), *(None,) * len(plan.shape))
    c = c.reshape(len(z), *plan.shape, N, O)
    infinite = z[:, rows][lift] - kernels.Theta_xA @ c
    train = z[:, :N][lift] - kernels.Theta_AA @ c
    if after is not None:
        after = after.reshape(len(z), *plan.shape, S, O)
        train = after[..., :N, :]
        warn_lost(int(negative.sum()), good, width, reaches)
    return Trajectories(
        time=plan.time,
        steps=plan.steps,
        outputs=infinite if after is None else after[..., rows, :],
        train_outputs=train,
        start=before[:, rows],
        order=0 if after is None else 1,
        infinite_outputs=None if after is None else infinite,
        good=good,
        negative=int(negative.sum()),
        blocks=max(1, groups),
        made=Made.by(
            "neft.training.sample",
            specification=specification,
            key=key,
            tolerances={"step": TOLERANCE} | ({"cutoff": CUTOFF} if count else {}),
        ),
    )


def _reaches(
    law_: Law,
    key: Array,
    index: np.ndarray,
    infinite: np.ndarray,
    y: np.ndarray,
    plan: Schedule,
    loss: Loss,
    batches: np.ndarray | None,
    n: float,
) -> int:
    # How many of the draws would get to the end at another width.
    wide = at_width(law_, n)
    return int(trained(wide, draw(wide, key, index, infinite=infinite), y, plan, loss, batches)[1].sum())


@float64
def _prior(kernels: Blocks, draws: int, O: int, key: Array) -> np.ndarray:
    # (draws, inputs, O) draws of N(0, K); a singular K is no special case.
    K = kernels.K_AA
    if kernels.apart:
        K = np.block([[K, kernels.K_xA.T], [kernels.K_xA, kernels.K_xx]])
    l, v = scipy.linalg.eigh(K)
    each = jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (len(K), O)))(jnp.arange(draws))
    return (v * np.sqrt(np.maximum(l, 0.0))) @ np.asarray(each)
