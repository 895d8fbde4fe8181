"""Averages over up to four correlated Gaussian variables, as the user asks for them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _check
from .._activation import Activation
from .._activation import activation as _activation
from .._precision import float64
from .._public import public
from .._tuples import DerivativeOrders, almost_everywhere


@public
@float64
def products(
    activation: str | Activation | Callable[[Any], Any],
    patterns: Sequence[DerivativeOrders],
    K: Any,
    *,
    rtol: float = 1e-8,
) -> tuple[np.ndarray, ...]:
    """⟨σ^(p)(z_a) σ^(q)(z_b) σ^(r)(z_c) σ^(s)(z_d)⟩ for all a, b, c, d and each pattern (p, q, r, s), in float64.

    Every pattern of k ≤ 4 derivative orders gives an array of shape (N,)*k, axes in the order of the pattern. K may be
    singular: repeated and collinear inputs are ordinary. Derivatives are taken almost everywhere (docs/theory/width,
    eq. 60).

    Args:
        activation: an activation, its name, or a function.
        patterns: tuples of one to four derivative orders, each at most 3.
        K: the covariance, shape (N, N), positive semi-definite.
        rtol: tolerance relative to the largest entry of each array; an `AccuracyWarning` says when it is missed.

    >>> (V,) = products("tanh", [(0, 0, 0, 0)], [[1.0, 0.5], [0.5, 1.0]])
    >>> V.shape
    (2, 2, 2, 2)
    """
    act = _activation(activation)
    K = _covariance(K)
    if isinstance(patterns, str) or not isinstance(patterns, Sequence) or not patterns:
        shown = _check.brief(patterns)
        raise ValueError(f"patterns is {shown}, but must be a list of tuples of derivative orders, not empty.")
    patterns = [_pattern(act, p) for p in patterns]
    _check.real("rtol", rtol, above=0.0)
    found = almost_everywhere(act, patterns, K, rtol=rtol)
    if not all(np.isfinite(array).all() for array in found):
        raise ValueError(f"products of {act.name} do not exist here: it is not finite where the variances reach.")
    return found


def _covariance(K: Any) -> np.ndarray:
    K = _check.array("K", K, ndim=2)
    if K.shape[0] != K.shape[1] or not len(K):
        raise ValueError(f"K has shape {K.shape}, but must be square and not empty.")
    # A kernel computed in float32 is symmetric and positive up to its own rounding.
    tolerance = 1e-6 * max(float(np.trace(K)), 0.0)
    if not np.allclose(K, K.T, rtol=0, atol=tolerance):
        raise ValueError("K is not symmetric, but must be a covariance.")
    K = (K + K.T) / 2
    lowest = np.linalg.eigvalsh(K)[0]
    if lowest < -tolerance or (np.diag(K) < 0).any():
        raise ValueError(f"K has the eigenvalue {lowest:.3g}, but must be positive semi-definite.")
    return K


def _pattern(act: Activation, pattern: DerivativeOrders) -> DerivativeOrders:
    if not isinstance(pattern, Sequence) or not 1 <= len(pattern) <= 4:
        raise ValueError(f"patterns hold {_check.brief(pattern)}, but each must have one to four derivative orders.")
    orders = tuple(_check.integer("each order in patterns", n, at_least=0, at_most=3) for n in pattern)
    for kink in act.kinks:
        if max(orders) > kink.order:
            raise ValueError(
                f"patterns hold {_check.brief(pattern)}, "
                f"but derivative {kink.order} of {act.name} jumps at {kink.position:g}, "
                f"so orders must be at most {kink.order}."
            )
    return orders
