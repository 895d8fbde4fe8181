"""The loss beyond the radius of its series: Padé approximants, and series that are started again step by step."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from .. import _check
from .._precision import float64
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ._ray import _run, _tree
from ._singularities import series_radius

_STEPS = 200


@result
class Recovered(Result):
    """loss(params) from Taylor series along t·params, from t = 0 to 1, beside the loss itself (`truth`).

    `partial` is the partial sum of the series at the origin, which `inside` says to converge or not; `pade` its Padé
    approximant with an error estimate. `value` continues in steps: at each of `centres` a new series is started whose
    radius is `radii`, and only its terms from the first on are used, so that nothing but ln M or loss(0) is ever
    evaluated; `error` estimates what the series leave out.
    """

    value: float
    error: float
    pade: float
    pade_error: float
    partial: float
    inside: bool
    truth: float
    radius: float
    centres: Float[np.ndarray, " steps"]
    radii: Float[np.ndarray, " steps"]
    increments: Float[np.ndarray, " steps"]
    order: int
    made: Made


@public
def pade(coefficients: Any, t: float = 1.0) -> tuple[float, float]:
    """The value at t of the Padé approximants next to the diagonal, and an estimate of its error.

    Of the diagonal approximants that use at least two thirds of the coefficients, those three neighbours are taken that
    agree best. Neighbours can agree by accident, so the error is the range of all of these approximants and of those
    next to the diagonal, but for a ninth at either end: some of them sit on spurious poles.

    >>> value, error = pade([0.0, *((-1.0) ** (k + 1) / k for k in range(1, 21))], 5.0)
    >>> abs(value - math.log(6)) < error < 1e-4
    True
    """
    c = _check.array("coefficients", coefficients, ndim=1)
    if not len(c):
        raise ValueError("coefficients is empty, but must hold at least one number.")
    t = _check.real("t", t)
    unit = series_radius(c)
    unit = unit if math.isfinite(unit) and unit > 0 else 1.0
    scaled = c * unit ** np.arange(len(c))
    _check.finite("coefficients times the radius to their powers", scaled)
    used = range(max(0, min(2 * len(c) // 3, len(c) - 3)), len(c))
    values = [_pade(scaled, n // 2 + n % 2, n // 2, t / unit) for n in used]
    triples = [values[i : i + 3] for i in range(max(1, len(values) - 2))]
    spreads = [(max(triple) - min(triple), triple[-1]) for triple in triples if all(map(math.isfinite, triple))]
    if not spreads:
        raise ValueError(f"t is {t:g}, where no approximant has a value: it must be nearer to the radius, {unit:g}.")
    if len(values) < 2:
        return values[0], math.inf
    value = min(spreads)[1]
    beside = [_pade(scaled, n // 2 + n % 2 + i, n // 2 - i, t / unit) for n in used if n > 1 for i in (-1, 1)]
    ranked = sorted(filter(math.isfinite, values + beside))
    inner = ranked[len(ranked) // 9 : len(ranked) - len(ranked) // 9]
    return float(value), float(max(inner[-1] - value, value - inner[0]))


def _pade(c: np.ndarray, above: int, below: int, t: float) -> float:
    # The denominator is the null vector of the rows that the numerator does not reach, found by an SVD.
    rows = np.array(
        [[c[k - j] if k >= j else 0.0 for j in range(below + 1)] for k in range(above + 1, above + below + 1)]
    )
    q = np.linalg.svd(rows)[2][-1] if below else np.ones(1)
    p = np.convolve(c[: above + 1], q)[: above + 1]
    bottom = np.polynomial.polynomial.polyval(t, q)
    return float(np.polynomial.polynomial.polyval(t, p) / bottom) if bottom else math.nan


@public
@float64
def recover(loss: Callable[[Any], Any], params: Any, *, order: int = 16, fraction: float = 0.5) -> Recovered:
    """loss(params) from series alone, even where t = 1 lies beyond the radius of convergence.

    Args:
        loss: as for `ray`.
        params: a tree of arrays.
        order: of every series.
        fraction: of the radius at its centre that a step takes.

    >>> import jax.numpy as jnp
    >>> found = recover(lambda w: jnp.logaddexp(0.0, w), 20.0)
    >>> found.inside, abs(found.value - 20.0) < 1e-3, abs(found.partial) > 1e6
    (False, True, True)
    """
    _check.function("loss", loss, "params")
    order = _check.integer("order", order, at_least=4, at_most=_check.HIGHEST_ORDER)
    fraction = _check.real("fraction", fraction, above=0.0)
    direction = _tree("params", params, np.float64)
    origin = _run(loss, None, direction, order, 1.0)
    centre, error, value = 0.0, 0.0, float(origin[0])
    centres, radii, increments = [], [], []
    coefficients = origin
    for _ in track(range(_STEPS), "steps"):
        bound = series_radius(coefficients)
        step = min(1.0 - centre, fraction * bound)
        terms = coefficients[1:] * step ** np.arange(1, order + 1)
        ratio = step / bound if math.isfinite(bound) else 0.0
        error += float(np.abs(terms[-3:]).max() * (ratio / (1 - ratio) if ratio < 1 else math.inf))
        value += float(terms.sum())
        centres, radii, increments = [*centres, centre], [*radii, bound], [*increments, float(terms.sum())]
        centre += step
        if centre >= 1.0 - 1e-12:
            break
        start = jax.tree.map(lambda leaf, t=centre: t * leaf, direction)
        coefficients = _run(loss, start, direction, order, 1.0)
    else:
        raise ValueError(f"the steps do not reach t = 1 in {_STEPS}, but stop at t = {centre:.3g}; raise fraction.")
    by_pade, pade_error = pade(origin)
    return Recovered(
        value=value,
        error=error,
        pade=by_pade,
        pade_error=pade_error,
        partial=float(origin.sum()),
        inside=radii[0] > 1,
        truth=float(loss(direction)),
        radius=radii[0],
        centres=np.array(centres),
        radii=np.array(radii),
        increments=np.array(increments),
        order=order,
        made=Made.by("neft.action.recover", specification={"order": order, "fraction": fraction}),
    )
