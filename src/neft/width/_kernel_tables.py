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

_FACTOR = 64.0  # between the largest and the least variance that one series serves


def _sizes(K: np.ndarray, largest: float) -> np.ndarray:
    # Variances of one size have the same number, those that vanish inf.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.floor(np.log(largest / np.maximum(K, 0)) / np.log(_FACTOR))


def in_pieces(K: np.ndarray, f: Callable[[np.ndarray, float], np.ndarray], largest: float | None = None) -> np.ndarray:
    """f(K, size) of variances of any shape, called with vectors (n,) whose variances are of one size.

    Sizes are counted from the largest variance, of these if none is given. The axes of f come first.

    >>> in_pieces(np.array([[0.0, 1.0], [1e-8, 4.0]]), lambda K, size: np.stack([K, 2 * K]))[1].tolist()
    [[0.0, 2.0], [2e-08, 8.0]]
    """
    flat = K.ravel()
    sizes = _sizes(flat, float(flat.max()) if largest is None else largest)
    if sizes.size and np.isfinite(sizes[0]) and (sizes == sizes[0]).all():
        found = f(flat, sizes[0])
        return found.reshape(*found.shape[:-1], *K.shape)
    found: np.ndarray | None = None
    for one in np.unique(sizes):
        where = sizes == one
        # All that vanish are one.
        values = f(flat[where] if np.isfinite(one) else np.zeros(1), one)
        if found is None:
            found = np.empty((*values.shape[:-1], flat.size), values.dtype)
        found[..., where] = values
    assert found is not None
    return found.reshape(*found.shape[:-1], *K.shape)


def averages_at(act: Activation, K: np.ndarray, *, means: bool = False, slopes: bool = True) -> np.ndarray:
    """What `averages` gives, at variances of any shape."""
    found = functools.partial(averages, act, means=means, slopes=slopes)
    if form_of(act) and not means:
        return found(K.ravel()).reshape(-1, *K.shape)
    return in_pieces(K, lambda K, _: found(K))


class Tables:
    """The coefficients that a tolerance asks for at variances of any shape, of which all are known beforehand.

    Variances of one size have one series, so that a block of them takes no more than to evaluate it.
    """

    def __init__(self, expanded: Expansion, K: np.ndarray, tolerance: float) -> None:
        self.terms = int(np.argmax(expanded.lost <= tolerance))
        flat = K.ravel()
        self._largest = float(flat.max())
        sizes = _sizes(flat, self._largest)
        self._by_size = {}
        for one in np.unique(sizes):
            (series,) = chebyshev(flat[None, sizes == one], lambda K: expanded.whole(K)[:, : self.terms])
            self._by_size[one] = dataclasses.replace(expanded, series=series)

    def __call__(self, K: np.ndarray, dtype: Any) -> tuple[Terms, ...]:
        """The coefficients of each derivative, terms first."""
        shapes: list[Terms] = []

        def of_one_size(K: np.ndarray, size: float) -> np.ndarray:
            shapes[:] = self._by_size[size].table(K, self.terms, dtype)
            return np.concatenate([part for one in shapes for part in one])

        found = in_pieces(K, of_one_size, self._largest)
        cuts = np.cumsum([len(half) for one in shapes for half in one])[:-1]
        halves = iter(np.split(found, cuts))
        return tuple(Terms(next(halves), next(halves)) for _ in shapes)
