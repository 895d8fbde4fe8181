"""Averages and expansions at many variances, which reach over decades and may vanish, as those of dark pixels do."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._activation import Activation
from .._closed import form_of
from .._hermite import Terms
from ._kernel_expansion import Expansion, chebyshev
from ._kernel_own import averages

_FACTOR = 16.0  # between the largest and the least variance that one series serves


def in_pieces(K: np.ndarray, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """f of variances of any shape, called with vectors (n,) whose variances are of one size; axes of f come first.

    >>> in_pieces(np.array([[0.0, 1.0], [1e-8, 4.0]]), lambda K: np.stack([K, 2 * K]))[1].tolist()
    [[0.0, 2.0], [2e-08, 8.0]]
    """
    flat = K.ravel()
    with np.errstate(divide="ignore"):
        size = np.floor(np.log(np.maximum(flat, 0)) / np.log(_FACTOR))
    found: np.ndarray | None = None
    for one in np.unique(size):
        where = size == one
        # All that vanish are one.
        values = f(flat[where] if np.isfinite(one) else np.zeros(1))
        if found is None:
            found = np.empty((*values.shape[:-1], flat.size), values.dtype)
        found[..., where] = values
    assert found is not None
    return found.reshape(*found.shape[:-1], *K.shape)


def averages_at(act: Activation, K: np.ndarray, *, means: bool = False, slopes: bool = True) -> np.ndarray:
    """What `averages` gives, at variances of any shape."""
    found = functools.partial(averages, act, means=means, slopes=slopes)
    return found(K.ravel()).reshape(-1, *K.shape) if form_of(act) and not means else in_pieces(K, found)


def table(expanded: Expansion, K: np.ndarray, tolerance: float, dtype: Any) -> tuple[Terms, ...]:
    """The coefficients at variances of any shape that the tolerance asks for, of each derivative, terms first."""
    terms = int(np.argmax(expanded.lost <= tolerance))

    def of_one_size(K: np.ndarray) -> np.ndarray:
        (series,) = chebyshev(K[None], lambda K: expanded.whole(K)[:, :terms])
        found = dataclasses.replace(expanded, series=series).table(K, terms, dtype)
        return np.concatenate([part for one in found for part in one])

    found = in_pieces(K, of_one_size)
    parts, start = [], 0
    for one in expanded.table(np.ones(1), terms, dtype):
        halves = []
        for half in one:
            halves.append(found[start : start + len(half)])
            start += len(half)
        parts.append(Terms(*halves))
    return tuple(parts)
