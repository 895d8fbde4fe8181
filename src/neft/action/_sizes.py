"""Domination and the power law of the optimized loss, over sizes of input and model (action note B, section 2.4)."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares

from .. import _check
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ._expand import expand
from ._fit import fit


@result
class Sizes(Result):
    """What training at several E (inputs) and H (hidden units) gave, one row per E and one column per H.

    `loss` is the best evaluation loss, `share_UW` and `share_UWW` are the shares of those terms of S_2 and S_3 at θ*.
    For each E a power law loss = floor + amplitude·H^-exponent is fitted, with its root mean square error.
    """

    features: tuple[int, ...]
    hidden: tuple[int, ...]
    loss: Float[np.ndarray, "features hidden"]
    share_UW: Float[np.ndarray, "features hidden"]
    share_UWW: Float[np.ndarray, "features hidden"]
    exponent: Float[np.ndarray, " features"]
    floor: Float[np.ndarray, " features"]
    error: Float[np.ndarray, " features"]
    made: Made


@public
def sizes(
    data: Mapping[int, tuple[Any, Any]] | Sequence[tuple[Any, Any]],
    hidden: Sequence[int],
    *,
    activation: Any = "silu",
    epochs: int = 20,
    learning_rate: float = 1e-3,
    key: Array | None = None,
) -> Sizes:
    """Train a classifier for every pair of data sets (training, evaluation) and every hidden size, and expand at θ*.

    >>> import neft
    >>> data = neft.data.load("fashion-mnist", "test", preprocess="pool(4)+global", full=False)
    >>> found = sizes([(data, data)], [2, 4, 8], epochs=1)
    >>> found.features, found.loss.shape
    ((4,), (1, 3))
    """
    pairs = list(data.values()) if isinstance(data, Mapping) else list(data)
    if not pairs or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"data is {_check.brief(data)}, but must hold pairs of data sets, for training and evaluation."
        )
    widths = tuple(_check.integer("each of hidden", h, at_least=1) for h in hidden)
    if len(set(widths)) < 3:
        raise ValueError(f"hidden is {widths}, but must hold at least three sizes to fit a power law to.")
    key = jax.random.key(0) if key is None else key
    options: Any = {"activation": activation, "epochs": epochs, "learning_rate": learning_rate, "key": key}
    rows = []
    for train, test in track(pairs, "sizes"):
        fits = [fit(train, test, hidden=h, **options) for h in widths]
        terms = [expand(f.params, test, 3, activation=activation).terms for f in fits]
        rows.append(
            [(f.evaluation_loss[f.best], t["UW"].share, t["UWW"].share) for f, t in zip(fits, terms, strict=True)]
        )
    loss, first, second = (np.array([[cell[i] for cell in row] for row in rows]) for i in range(3))
    laws = np.array([power_law(widths, row) for row in loss])
    return Sizes(
        features=tuple(_features(train) for train, _ in pairs),
        hidden=widths,
        loss=loss,
        share_UW=first,
        share_UWW=second,
        exponent=laws[:, 1],
        floor=laws[:, 0],
        error=laws[:, 2],
        made=Made.by("neft.action.sizes", specification={"epochs": epochs, "learning_rate": learning_rate}, key=key),
    )


@public
def power_law(size: Sequence[int], loss: Any) -> tuple[float, float, float]:
    """(floor, exponent, rms error) of loss = floor + amplitude·size^-exponent.

    >>> floor, exponent, error = power_law([2, 4, 8, 16], [0.3 + n**-0.5 for n in (2, 4, 8, 16)])
    >>> round(floor, 3), round(exponent, 3)
    (0.3, 0.5)
    """
    x = _check.array("size", size, ndim=1, at_least=0.0)
    y = _check.array("loss", loss, shape=(len(x),))
    if (x == 0).any() or len(np.unique(x)) < 3:
        raise ValueError(f"size is {x.tolist()}, but must hold three different sizes above 0 or more.")
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        raise ValueError(f"loss is {y[0]:g} at every size, which no exponent describes.")

    def residual(p: np.ndarray) -> np.ndarray:
        return p[0] + p[1] * (x / x[0]) ** -p[2] - y

    found = least_squares(residual, [y.min() * 0.9, y[0] - y.min() + 1e-3, 0.5], bounds=([0, 0, 0], [np.inf] * 3))
    return float(found.x[0]), float(found.x[2]), float(np.sqrt(np.mean(found.fun**2)))


def _features(data: Any) -> int:
    return data.features if hasattr(data, "features") else np.shape(data[0])[1]
