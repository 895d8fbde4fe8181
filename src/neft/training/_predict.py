"""What an infinitely wide network gives after training on half the squared error."""

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from jaxtyping import Float, Int

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._batches import batch_covariance
from ._kernels import Blocks, digest, inputs, means_of_network, of_matrices, of_network, targets
from ._linear import CUTOFF, response, ridge_response
from ._schedule import Schedule, schedule

if TYPE_CHECKING:
    from ._finite import FinitePrediction


@result
class Prediction(Result):
    """Mean and covariance of the trained outputs over the ensemble of initializations, at one time or at several.

    `mean` is (N_test, n_L) and `cov` (N_test, N_test), the same for each output; distinct outputs are independent. A
    list of times puts an axis in front of both. `time` holds the times (infinite: to the end) or is None where `steps`
    were asked for. `max_learning_rate` is the largest stable one, and `rank` the number of directions that were
    learned, less than the number of training inputs where their kernel is singular. `batch_cov` (N_test, n_L, N_test,
    n_L) is what the choice of mini-batches adds to `cov`, and correlates outputs; None where all inputs are taken.
    Without a covariance both are None.

    Where a `ridge` was asked for, or several, `leave_one_out` holds for each of them the mean square by which a
    training target is missed by the regression on all the others. The axis of several ridges stands in front.
    """

    mean: Float[np.ndarray, "*front tests outputs"]
    cov: Float[np.ndarray, "*front tests tests"] | None
    time: Float[np.ndarray, "*times"] | None
    steps: Int[np.ndarray, "*times"] | None
    learning_rate: float | None
    max_learning_rate: float
    rank: int
    momentum: float
    nesterov: bool
    batch: int | None
    batch_cov: Float[np.ndarray, "*front tests outputs tests outputs"] | None
    ridge: Float[np.ndarray, "*ridges"] | None
    leave_one_out: Float[np.ndarray, "*ridges"] | None
    made: Made

    @property
    def std(self) -> Float[np.ndarray, "*front tests outputs"]:
        """The standard deviation of each output over initializations and batches, in the shape of `mean`."""
        if self.cov is None:
            raise ValueError("std takes the covariance, but this prediction was made with covariance=False.")
        variance = np.broadcast_to(np.diagonal(self.cov, axis1=-2, axis2=-1)[..., None], self.mean.shape)
        if self.batch_cov is not None:
            variance = variance + np.einsum("...iaia->...ia", self.batch_cov)
        return np.sqrt(np.maximum(variance, 0.0))

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        added = {"momentum": 0.0, "nesterov": False, "batch": None, "batch_cov": None}
        return added | {"ridge": None, "leave_one_out": None} | fields


@overload
def predict(
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
    order: Literal[0] = 0,
    cutoff: float = CUTOFF,
    ridge: Any = None,
    covariance: bool = True,
) -> Prediction: ...
@overload
def predict(
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
    order: Literal[1],
    cutoff: float = CUTOFF,
    rtol: float | None = None,
) -> "FinitePrediction": ...
@overload
def predict(
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
    order: int,
    cutoff: float = CUTOFF,
    ridge: Any = None,
    covariance: bool = True,
    rtol: float | None = None,
) -> "Prediction | FinitePrediction": ...
@public
def predict(
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
    order: int = 0,
    cutoff: float = CUTOFF,
    ridge: Any = None,
    covariance: bool = True,
    rtol: float | None = None,
) -> Any:
    """Mean and covariance of networks trained on L = ½Σ(z-y)², at infinite width or, with order=1, at finite width.

    At infinite width the outputs obey dz/dt = -Θ(z_A - y), so with A_t = Θ_xA Θ_AA⁻¹(1 - e^{-Θ_AA t})

        mean = A_t y,    cov = K_xx + A_t K_AA A_tᵀ - A_t K_Ax - (A_t K_Ax)ᵀ

    where K and Θ are those of `width.kernel` (docs/theory/training, eqs. 1-3). After T steps of size η, (1-ηΘ)^T stands
    for the exponential; with momentum a power of another matrix, and mini-batches add to the covariance (eqs. 37-47
    there). Where Θ_AA is singular to working precision, a `ConditionWarning` says so and the pseudo-inverse serves.

    Args:
        net: the specification. Learning rates are η λ_b and η λ_W/n_{l-1}; η = 1 for gradient flow.
        x_train: training inputs, shape (N, n_0).
        y_train: targets, shape (N, n_L), or (N,) for one output.
        x_test: inputs to predict, shape (N_test, n_0); the training inputs by default.
        time: how long gradient flow lasts, a number or a list; to its end by default.
        steps: number of steps of gradient descent, or a list of numbers, in place of a time.
        learning_rate: η, the size of a step; at most `max_learning_rate`.
        momentum: β, at least 0 and below 1, with steps: v ← βv + g, θ ← θ - ηv for the gradient g. At order 0 only.
        nesterov: θ ← θ - η(g + βv) instead.
        batch: how many training inputs a step takes, drawn anew for each step and without repetition; its gradient is
            N/batch times the sum over them. All of them by default. At order 0 only.
        order: 0 for infinite width (a `Prediction`), 1 with the corrections of order 1/width.
        cutoff: eigenvalues of Θ_AA below this part of the largest are not trusted; at order 0 only.
        ridge: a number or a list; Θ_AA + ridge stands for Θ_AA, at the end of training and order 0 only. All of them
            come from one eigendecomposition, each with its leave-one-out error.
        covariance: whether it is wanted; without it only Θ is made, at order 0.
        rtol: at order 1, the tolerance of averages over four inputs, relative to the largest: 1e-7 by default for up to
            12 inputs and 3e-5 for more, which is 1e-3 of the corrections. With more than 60 inputs the test inputs are
            taken in blocks (`FinitePrediction.blocks`).

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 1), activation="erf", C_b=0.1)
    >>> predict(net, [[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0]).mean.round(6).tolist()
    [[1.0], [-1.0]]
    """
    order = _check.integer("order", order, at_least=0, at_most=1)
    x_train = inputs(net, "x_train", x_train)
    y_train = targets(y_train, len(x_train), net.widths[-1])
    x_test = None if x_test is None else inputs(net, "x_test", x_test)
    plan = schedule(time, steps, learning_rate, momentum, nesterov, batch, len(x_train))
    cutoff = _check.real("cutoff", cutoff, above=0.0)
    if order == 1:
        if ridge is not None or not covariance:
            given = f"ridge is {_check.brief(ridge)}" if ridge is not None else "covariance is False"
            raise ValueError(f"{given}, but goes with order=0 only.")
        for name, value in (("momentum", plan.momentum.beta), ("batch", plan.batch)):
            if value:
                raise ValueError(f"{name} is {value:g}, but the averages of order 1 are for full batches without it.")
        if cutoff != CUTOFF:
            raise ValueError(f"cutoff is {cutoff:g}, but order=1 cuts nothing off: leave it out.")
        # The corrections need tensors of four inputs, which nobody waits for who does not ask.
        from ._finite import predict_finite

        rtol = None if rtol is None else _check.real("rtol", rtol, above=0.0)
        options = {"time": time, "steps": steps, "learning_rate": learning_rate, "rtol": rtol}
        return predict_finite(net, x_train, y_train, x_test, **options)
    if rtol is not None:
        raise ValueError(f"rtol is {_check.brief(rtol)}, but goes with order=1 only.")
    specification = {"net": net.to_dict(), "data": digest(x_train, y_train, x_test)}
    ridges = _ridges(ridge, plan)
    blocks = of_network(net, x_train, x_test) if covariance else means_of_network(net, x_train, x_test)
    return _predicted(blocks, y_train, plan, cutoff, "neft.training.predict", specification, ridges, covariance)


def _ridges(ridge: Any, plan: Schedule) -> np.ndarray | None:
    if ridge is None:
        return None
    if not plan.converged:
        raise ValueError(
            f"ridge is {_check.brief(ridge)}, but goes with the end of training: leave time and steps out."
        )
    found = _check.array("ridge", ridge, ndim=(0, 1), at_least=0.0)
    if not found.size:
        raise ValueError(f"ridge is {_check.brief(ridge)}, but must be a number or a list of at least one.")
    return found


@public
def predict_from_kernels(
    K: Any,
    Theta: Any,
    y_train: Any,
    time: Any = None,
    *,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    cutoff: float = CUTOFF,
) -> Prediction:
    """What `predict` gives, from kernels of one's own.

    Args:
        K: covariance of the outputs at initialization over training and test inputs, shape (N+M, N+M), training inputs
            first; with M = 0 the training inputs are predicted.
        Theta: the NTK over the same inputs.
        y_train: targets, shape (N, O) or (N,); their number says where the training inputs end.
        time: as in `predict`.
        steps: as in `predict`.
        learning_rate: as in `predict`.
        momentum: as in `predict`.
        nesterov: as in `predict`.
        batch: as in `predict`.
        cutoff: as in `predict`.

    >>> kernel = np.exp(-0.5 * np.subtract.outer([0.0, 1.0, 0.5], [0.0, 1.0, 0.5]) ** 2)
    >>> predict_from_kernels(kernel, kernel, [1.0, 3.0]).mean.round(4).tolist()
    [[2.1973]]
    """
    y_train = targets(y_train, None, None)
    plan = schedule(time, steps, learning_rate, momentum, nesterov, batch, len(y_train))
    cutoff = _check.real("cutoff", cutoff, above=0.0)
    blocks = of_matrices(K, Theta, len(y_train))
    specification = {"data": digest(*blocks[:5], y_train)}
    return _predicted(blocks, y_train, plan, cutoff, "neft.training.predict_from_kernels", specification)


def _predicted(
    blocks: Blocks,
    y: np.ndarray,
    plan: Schedule,
    cutoff: float,
    function: str,
    specification: dict[str, Any],
    ridges: np.ndarray | None = None,
    covariance: bool = True,
) -> Prediction:
    what = "the NTK of the training inputs"
    missed = None
    if ridges is None:
        A, rank, largest = response(blocks.Theta_xA, blocks.Theta_AA, plan, cutoff, what)
    else:
        (A, rank, largest), missed = ridge_response(blocks.Theta_xA, blocks.Theta_AA, ridges, y, cutoff, what)
        specification = specification | {"ridge": ridges}
    return Prediction(
        mean=A @ y,
        cov=_covariance(blocks, A) if covariance else None,
        time=plan.time,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        max_learning_rate=plan.momentum.reach / largest if largest > 0 else np.inf,
        rank=rank,
        momentum=plan.momentum.beta,
        nesterov=plan.momentum.nesterov,
        batch=plan.batch,
        batch_cov=None if plan.batch is None or not covariance else batch_covariance(blocks, y, plan),
        ridge=ridges,
        leave_one_out=missed,
        made=Made.by(function, specification=specification | plan.to_dict(), tolerances={"cutoff": cutoff}),
    )


def _covariance(blocks: Blocks, A: np.ndarray) -> np.ndarray:
    """K_xx + A K_AA Aᵀ - A K_Ax - (A K_Ax)ᵀ, the covariance of z_x - A z_A, for A of shape (*times, M, N)."""
    half = A @ (blocks.K_AA @ A.mT / 2 - blocks.K_xA.T)
    return blocks.K_xx + half + half.mT
