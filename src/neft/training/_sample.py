"""Infinitely wide networks trained on any loss: draws from the prior, moved in function space.

Where the loss is not quadratic the trained outputs are no longer Gaussian, so they are sampled.
"""

import functools
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from .. import _check
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._kernels import Blocks, digest, inputs, of_matrices, of_network
from ._loss import Loss, chosen, prepared, slope
from ._schedule import schedule

_TOLERANCE = 1e-8
_MOST_STEPS = 1 << 16


@result
class Trajectories(Result):
    """Outputs of infinitely wide networks in training, one per draw: logits where the loss is the cross-entropy.

    `outputs` are those of the test inputs and `train_outputs` those of the training inputs, at the given time or, on an
    axis of their own, times; `start` are the test outputs before training.
    """

    time: Float[np.ndarray, "*times"]
    outputs: Float[np.ndarray, "draws *times tests outputs"]
    train_outputs: Float[np.ndarray, "draws *times trains outputs"]
    start: Float[np.ndarray, "draws tests outputs"]
    made: Made

    @property
    def mean(self) -> Float[np.ndarray, "*times tests outputs"]:
        """The mean of the test outputs over draws."""
        return self.outputs.mean(axis=0)

    @property
    def std(self) -> Float[np.ndarray, "*times tests outputs"]:
        """Their standard deviation over draws; NaN for a single draw."""
        return self.outputs.std(axis=0, ddof=1) if len(self.outputs) > 1 else np.full(self.outputs.shape[1:], np.nan)

    @property
    def probabilities(self) -> Float[np.ndarray, "*times tests outputs"]:
        """The mean over draws of softmax(outputs), the prediction of the ensemble of classifiers."""
        powers = np.exp(self.outputs - self.outputs.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).mean(axis=0)


@public
def sample(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    time: Any = None,
    *,
    loss: Any = "cross_entropy",
    draws: int = 64,
    key: Array | None = None,
    start: Any = None,
) -> Trajectories:
    """Draws of an infinitely wide network trained by gradient flow on any loss, by integration in function space.

    dz/dt = -Θ_xA dL/dz_A with the frozen kernel Θ of `width.kernel`, from z(0) ~ N(0, K) for each output, by an
    adaptive Runge-Kutta method (diffrax). On the square loss these are draws of what `predict` describes.

    Args:
        net: the specification.
        x_train: training inputs, shape (N, n_0).
        y_train: labels 0, 1, 2, … of shape (N,), or probabilities (N, n_L); whatever the loss takes.
        x_test: inputs to predict, shape (N_test, n_0); the training inputs by default.
        time: how long gradient flow lasts, a number or a list in rising order.
        loss: "cross_entropy", "square", or a function loss(z, y) of outputs (N, n_L) that sums over the inputs.
        draws: how many networks.
        key: a JAX key; key 0 by default.
        start: z(0) of one draw instead, shape (N + N_test, n_L), training inputs first (without x_test (N, n_L)).

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
    plan = _times(time)
    kernels = of_network(net, x_train, x_test)
    specification = {"net": net.to_dict(), "data": digest(x_train, y, x_test)}
    return _sampled(kernels, y, plan, function, net.widths[-1], draws, key, start, specification)


@public
def sample_from_kernels(
    K: Any,
    Theta: Any,
    y_train: Any,
    time: Any = None,
    *,
    outputs: int,
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
    plan = _times(time)
    kernels = of_matrices(K, Theta, len(y))
    return _sampled(kernels, y, plan, function, outputs, draws, key, start, {"data": digest(*kernels[:5], y)})


def _times(time: Any) -> np.ndarray:
    if time is None:
        raise ValueError("time is missing, but a loss that is not quadratic has no end of training that is known.")
    times = schedule(time=time).time
    assert times is not None
    if not np.isfinite(times).all() or (np.diff(times.ravel()) < 0).any():
        raise ValueError(f"time is {_check.brief(time)}, but must be finite and, if it is a list, in rising order.")
    return times


def _sampled(
    kernels: Blocks,
    y: np.ndarray,
    times: np.ndarray,
    loss: Loss,
    O: int,
    draws: int,
    key: Array | None,
    start: Any,
    specification: dict[str, Any],
) -> Trajectories:
    N, M = len(kernels.K_AA), len(kernels.K_xx)
    draws = _check.integer("draws", draws, at_least=1)
    if start is None:
        key = jax.random.key(0) if key is None else key
        z = _prior(kernels, draws, O, key)
    else:
        z = _check.array("start", start, shape=(N + M * kernels.apart, O))[None]
    z_A, z_x = z[:, :N], z[:, N:] if kernels.apart else z
    moved = np.empty((len(z), times.size, N, O))
    chunk = block_size(8 * 40 * N * O + 8 * 2 * times.size * N * O, 64)
    for part in blocks(len(z), chunk, label="draws"):
        moved[part] = _moved(loss, kernels.Theta_AA, z_A[part], y, times.ravel())
    moved = moved.reshape(len(z), *times.shape, N, O)
    specification |= {"time": times, "draws": len(z), "loss": getattr(loss, "__name__", "own")}
    name = "neft.training.sample"
    lift = (slice(None), *(None,) * times.ndim)
    return Trajectories(
        time=times,
        outputs=z_x[lift] - kernels.Theta_xA @ moved,
        train_outputs=z_A[lift] - kernels.Theta_AA @ moved,
        start=z_x,
        made=Made.by(name, specification=specification, key=key, tolerances={"step": _TOLERANCE}),
    )


@float64
def _prior(kernels: Blocks, draws: int, O: int, key: Array) -> np.ndarray:
    # (draws, inputs, O) draws of N(0, K); a singular K is no special case.
    K = kernels.K_AA
    if kernels.apart:
        K = np.block([[K, kernels.K_xA.T], [kernels.K_xA, kernels.K_xx]])
    l, v = scipy.linalg.eigh(K)
    each = jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (len(K), O)))(jnp.arange(draws))
    return (v * np.sqrt(np.maximum(l, 0.0))) @ np.asarray(each)


def _moved(loss: Loss, Theta: np.ndarray, z: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    # c(t) = ∫ dL/dz_A dt, (draws, T, N, O): all outputs are z(0) - Θ c, also those of inputs that nobody trains on.
    before, c, moved = 0.0, np.zeros_like(z), []
    for t in times:
        c, good = _integrated(loss, Theta, z, y, before, t, c)
        if not good or not np.isfinite(c).all():
            raise ValueError(
                f"time is {t:g}, but gradient flow takes more than {_MOST_STEPS} steps until then or leaves the range "
                "of numbers: lower it, or the learning rates."
            )
        before = t
        moved.append(c)
    return np.stack(moved, axis=1)


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
        stepsize_controller=diffrax.PIDController(rtol=_TOLERANCE, atol=_TOLERANCE, norm=lambda e: jnp.abs(e).max()),
        max_steps=_MOST_STEPS,
        throw=False,
    )
    assert solution.ys is not None
    return solution.ys[-1], solution.result == diffrax.RESULTS.successful
