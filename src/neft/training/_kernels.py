"""The kernels of training and test inputs, cut into the blocks that predictions are made of."""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from .. import _check, width
from ..network import Network


class Blocks(NamedTuple):
    """K and Θ between the training inputs A (N of them) and the test inputs x (M).

    Unless they are `apart`, the training inputs stand for the test inputs.
    """

    K_AA: np.ndarray
    K_xA: np.ndarray
    K_xx: np.ndarray
    Theta_AA: np.ndarray
    Theta_xA: np.ndarray
    apart: bool


def of_network(net: Network, x_train: np.ndarray, x_test: np.ndarray | None) -> Blocks:
    """Those of an infinitely wide network; without test inputs the training inputs stand for them."""
    count = len(x_train) + (0 if x_test is None else len(x_test))
    # K and Θ, the factor or eigenvectors of one, and what they are multiplied into.
    refuse_too_many(len(x_train), 5 * 8 * count**2)
    every = x_train if x_test is None else np.concatenate([x_train, x_test])
    return _cut(*width.kernel(net, every), len(x_train))


def means_of_network(net: Network, x_train: np.ndarray, x_test: np.ndarray | None) -> Blocks:
    """Θ_xA and Θ_AA alone, which is all that the mean takes; K is empty."""
    N, M = len(x_train), len(x_train if x_test is None else x_test)
    # `width.kernel` makes K beside Θ, and lets it go before the factor is made.
    refuse_too_many(N, 8 * (2 * N**2 + 3 * N * M))
    Theta_AA = width.kernel(net, x_train).Theta
    Theta_xA = Theta_AA if x_test is None else width.kernel(net, x_test, x_train).Theta
    none = np.empty((0, 0))
    return Blocks(none, none, none, Theta_AA, Theta_xA, x_test is not None)


def refuse_too_many(trains: int, size: float) -> None:
    """Say before it starts that whole kernels do not fit this machine's memory, and what does."""
    have = _check.machine_memory()
    if size > have:
        raise ValueError(
            f"the kernels of {trains} training inputs would take {size / 1e9:.3g} GB, but this machine has "
            f"{have / 1e9:.3g} GB: neft.training.regress(net, x_train, y_train, memory='8GB').predict(x_test) is small."
        )


def of_matrices(K: Any, Theta: Any, count: int) -> Blocks:
    """Those of matrices over training and test inputs, the `count` training inputs first."""
    K, Theta = square("K", K, count), square("Theta", Theta, count)
    if K.shape != Theta.shape:
        raise ValueError(f"Theta has shape {Theta.shape}, but must have the shape {K.shape} of K.")
    return _cut(K, Theta, count)


def _cut(K: np.ndarray, Theta: np.ndarray, count: int) -> Blocks:
    apart = len(K) > count
    A, x = slice(count), slice(count, None) if apart else slice(None)
    return Blocks(K[A, A], K[x, A], K[x, x], Theta[A, A], Theta[x, A], apart)


def square(name: str, matrix: Any, count: int) -> np.ndarray:
    """A matrix over at least `count` inputs, symmetric but for rounding in its own dtype; that is taken out."""
    single = getattr(matrix, "dtype", None) == np.float32
    M = _check.array(name, matrix, ndim=2)
    if M.shape[0] != M.shape[1] or len(M) < count:
        raise ValueError(f"{name} has shape {M.shape}, but must be square with at least {count} rows, training first.")
    if np.abs(M - M.T).max(initial=0.0) > (1e-4 if single else 1e-8) * np.abs(M).max(initial=0.0):
        raise ValueError(f"{name} differs from its transpose by {np.abs(M - M.T).max():g}, but must be symmetric.")
    M = (M + M.T) / 2
    _refuse_negative(name, M, 1e-4 if single else 1e-8)
    return M


def _refuse_negative(name: str, M: np.ndarray, rounding: float) -> None:
    # What averages of squares give is never negative; a matrix that is would come back as negative variances. The
    # factorization of a matrix lifted by its rounding says so at a tenth of the price of eigenvalues.
    if not len(M):
        return
    size = float(np.abs(M).max())
    try:
        np.linalg.cholesky(M + (np.sqrt(len(M)) * rounding * size + np.finfo(float).tiny) * np.eye(len(M)))
    except np.linalg.LinAlgError:
        lowest = float(np.linalg.eigvalsh(M)[0])
        raise ValueError(f"{name} has the eigenvalue {lowest:g}, but a kernel has none below 0.") from None


def inputs(net: Network, name: str, x: Any) -> np.ndarray:
    """At least one input of the network, shape (N, n_0); images may come as they are, (N, H, W, C)."""
    x = _check.array(name, net.flat(x), shape=(None, net.inputs))
    if not len(x):
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input.")
    return x


def targets(y: Any, count: int | None, outputs: int | None, *, name: str = "y_train") -> np.ndarray:
    """Targets of shape (N, n_L); those of shape (N,) count as one output."""
    y = _check.array(name, y, ndim=(1, 2))
    if y.ndim == 1 and outputs in (1, None):
        y = y[:, None]
    y = _check.array(name, y, shape=(count, outputs))
    if not y.size:
        raise ValueError(f"{name} has shape {y.shape}, but must hold at least one target.")
    return y


def digest(*arrays: np.ndarray | None) -> str:
    """SHA-256 of types, shapes and bytes: which data made a result, without holding it."""
    found = hashlib.sha256()
    for values in arrays:
        if values is not None:
            found.update(f"{values.dtype.str} {values.shape}\n".encode())
            found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()
