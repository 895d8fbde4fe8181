"""The Gaussian process of an infinitely wide network, conditioned on noisy targets: Bayes instead of gradients."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._kernels import digest, inputs, of_network, square, targets
from ._linear import CUTOFF, response, ridge_response
from ._schedule import schedule


@result
class Posterior(Result):
    """Mean (N_test, n_L) and covariance (N_test, N_test) of the outputs given the targets, the same for each output.

    The covariance is that of the outputs; that of new noisy targets has the noise on its diagonal in addition. Of
    several noises the axis stands in front, and `leave_one_out` holds for each of them the mean square by which a
    training target is missed by the mean given all the others.
    """

    mean: Float[np.ndarray, "*front tests outputs"]
    cov: Float[np.ndarray, "*front tests tests"]
    noise: Float[np.ndarray, "*trains"]
    leave_one_out: Float[np.ndarray, " noises"] | None
    rank: int
    made: Made

    @property
    def std(self) -> Float[np.ndarray, "*front tests outputs"]:
        """The standard deviation of each output, in the shape of `mean`."""
        variance = np.diagonal(self.cov, axis1=-2, axis2=-1)
        return np.broadcast_to(np.sqrt(np.maximum(variance, 0.0))[..., None], self.mean.shape)

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"leave_one_out": None} | fields


@public
def nngp(
    net: Network, x_train: Any, y_train: Any, x_test: Any = None, *, noise: Any = 0.0, cutoff: float = CUTOFF
) -> Posterior:
    """The posterior of an infinitely wide network, for targets with Gaussian noise (docs/theory/training, eq. 5).

        mean = K_xA (K_AA + noise)⁻¹ y,    cov = K_xx - K_xA (K_AA + noise)⁻¹ K_Ax

    It is what gradient flow would give if only the last layer were trained. Where the matrix is singular to working
    precision, a `ConditionWarning` says so and the pseudo-inverse serves.

    Args:
        net: the specification.
        x_train: training inputs, shape (N, n_0).
        y_train: targets, shape (N, n_L), or (N,) for one output.
        x_test: inputs to predict, shape (N_test, n_0); the training inputs by default.
        noise: variance of a target's noise, one number or one for each training input; a column of shape (R, 1) for R
            values one after the other, all from one eigendecomposition, each with its leave-one-out error.
        cutoff: eigenvalues below this part of the largest are not trusted.

    >>> from neft import MLP

    >>> net = MLP(widths=(1, 64, 1), activation="erf", C_b=0.5)
    >>> nngp(net, [[0.0], [1.0]], [0.0, 1.0], noise=0.1).mean.shape
    (2, 1)
    """
    x_train = inputs(net, "x_train", x_train)
    y_train = targets(y_train, len(x_train), net.widths[-1])
    x_test = None if x_test is None else inputs(net, "x_test", x_test)
    K_AA, K_xA, K_xx = of_network(net, x_train, x_test)[:3]
    specification = {"net": net.to_dict(), "data": digest(x_train, y_train, x_test)}
    return _conditioned(K_AA, K_xA, K_xx, y_train, noise, cutoff, "neft.training.nngp", specification)


@public
def nngp_from_kernel(K: Any, y_train: Any, *, noise: Any = 0.0, cutoff: float = CUTOFF) -> Posterior:
    """What `nngp` gives, from a covariance K over training and test inputs, shape (N+M, N+M), training inputs first.

    >>> nngp_from_kernel([[1.0, 0.5], [0.5, 1.0]], [2.0], noise=1.0).mean.round(6).tolist()
    [[0.5]]
    """
    y_train = targets(y_train, None, None)
    count = len(y_train)
    K = square("K", K, count)
    x = slice(count, None) if len(K) > count else slice(None)
    specification = {"data": digest(K, y_train)}
    name = "neft.training.nngp_from_kernel"
    return _conditioned(K[:count, :count], K[x, :count], K[x, x], y_train, noise, cutoff, name, specification)


def _conditioned(
    K_AA: np.ndarray,
    K_xA: np.ndarray,
    K_xx: np.ndarray,
    y: np.ndarray,
    noise: Any,
    cutoff: float,
    function: str,
    specification: dict[str, Any],
) -> Posterior:
    variance = _check.array("noise", noise, ndim=(0, 1, 2), at_least=0.0)
    if (variance.ndim == 1 and len(variance) != len(y)) or (variance.ndim == 2 and variance.shape[1:] != (1,)):
        raise ValueError(
            f"noise has shape {variance.shape}, but must be one number, have shape ({len(y)},) with one for each "
            "training input, or (R, 1) for R values."
        )
    if not variance.size:
        raise ValueError(f"noise has shape {variance.shape}, but must hold at least one value.")
    cutoff = _check.real("cutoff", cutoff, above=0.0)
    what, missed = "the covariance of the training targets", None
    if variance.ndim == 2:
        (A, rank, _), missed = ridge_response(K_xA, K_AA, variance[:, 0], y, cutoff, what)
    else:
        noisy = K_AA + np.diag(np.broadcast_to(variance, len(y)))
        A, rank, _ = response(K_xA, noisy, schedule(), cutoff, what)
    return Posterior(
        mean=A @ y,
        cov=K_xx - A @ K_xA.T,
        noise=variance,
        leave_one_out=missed,
        rank=rank,
        made=Made.by(function, specification=specification | {"noise": variance}, tolerances={"cutoff": cutoff}),
    )
