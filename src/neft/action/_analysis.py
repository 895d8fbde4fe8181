"""Everything the action notes look at for one θ on one data set, in one result."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ._alignment import Domination, Elements, domination, elements
from ._expand import Expansion, describe, expand
from ._fit import Fit
from ._model import parameters, samples, smooth_at_zero
from ._resum import pade
from ._singularities import Radius, radius, verdict
from ._stops import Stops


@result
class Convergence(Result):
    """The loss along tθ and what its series at the origin makes of it.

    For each of `t`: the loss, the partial sums of every order (one row per order), and the Padé approximant with its
    error estimate. `radius` is the radius of convergence.
    """

    t: Float[np.ndarray, " points"]
    loss: Float[np.ndarray, " points"]
    partial: Float[np.ndarray, "orders points"]
    pade: Float[np.ndarray, " points"]
    pade_error: Float[np.ndarray, " points"]
    radius: float
    made: Made

    def verdict(self, t: float = 1.0) -> str:
        """Whether partial sums at t mean anything: "inside" or "outside"."""
        return verdict(t, self.radius)


@result
class Analysis(Result):
    """The expansion at θ with the analyses of action notes A and B.

    `history` is that of the training, where there was one, and `stops` what gradients say about when to stop it.
    """

    expansion: Expansion
    convergence: Convergence
    radius: Radius
    elements: Elements
    domination: Domination
    history: dict[str, Float[np.ndarray, " epochs"]]
    best: int | None
    stops: Stops | None = None
    made: Made

    def _shown(self):
        yield "loss", f"{self.expansion.loss:.6g}"
        for n in range(self.expansion.order + 1):
            parts = list(self.expansion.of_order(n).items())[:4]
            named = ", ".join(f"{name} {term.share:.1%}" for name, term in parts)
            yield f"S_{n}", f"{self.expansion.S[n]:.6g}" + (f"  ({named})" if named else "")
        yield "radius", f"{self.radius.radius:.4g}: {self.radius.binds} (pole bound {self.radius.pole:.4g})"
        sums = self.convergence.partial[:, -1]
        yield "partial sums at t = 1", f"{', '.join(f'{s:.4g}' for s in sums[2:7])}: {self.convergence.verdict()}"
        for name in ("UW", "UWW", "UUWW"):
            if name in self.domination.value:
                value, random = self.domination.value[name], self.domination.random[name]
                yield (
                    name,
                    f"{value:.4g}; random θ of equal norms {random:.3g}; {self.domination.count[name]:.3g} sub-terms",
                )
        for name, found in self.elements.of.items():
            yield (
                f"elements of {name}",
                f"spread {found.spread:.3g}, skew {found.skew:.3g}, excess kurtosis {found.kurtosis:.3g}, negative "
                f"{found.negative:.1%} (mass {found.negative_mass:.1%})",
            )
        if self.best is not None:
            ends = ", ".join(f"{name} {self.history[name][self.best]:.3g}" for name in ("U", "c", "W", "b"))
            yield "scales at θ*", ends
        if self.stops is not None:
            yield from self.stops._shown()


@public
@float64
def convergence(
    params: Any, data: Any, *, activation: Any = "silu", order: int = 24, points: int = 31, bound: float | None = None
) -> Convergence:
    """The loss at `points` values of t from 0 to 1, its partial sums up to an order, and Padé approximants.

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=np.eye(2), b=np.zeros(2))
    >>> found = convergence(theta, (np.eye(2), [0, 1]))
    >>> found.verdict(), bool(abs(found.partial[-1, -1] - found.loss[-1]) < 1e-3)
    ('inside', True)
    """
    order, points = (
        _check.integer("order", order, at_least=1, at_most=_check.HIGHEST_ORDER),
        _check.integer("points", points, at_least=2),
    )
    theta, act, source = parameters(params), smooth_at_zero(activation), data
    checked = samples(data, classes=theta.classes, features=theta.features)
    # Padé approximants need every digit.
    S = expand(theta, checked[:2], order, activation=act, terms=False, dtype=np.float64).S
    t = np.linspace(0.0, 1.0, points)
    scaled = [theta.scaled(U=x, W=x, b=x, c=x) for x in t.tolist()]
    losses = [expand(each, checked[:2], 0, activation=act, terms=False).loss for each in scaled]
    powers = t[None, :] ** np.arange(order + 1)[:, None]
    approximants = [pade(S, float(x)) for x in t]
    return Convergence(
        t=t,
        loss=np.array(losses),
        partial=np.cumsum(S[:, None] * powers, axis=0),
        pade=np.array([value for value, _ in approximants]),
        pade_error=np.array([error for _, error in approximants]),
        radius=float(radius(theta, checked[:2], activation=act).radius if bound is None else bound),
        made=Made.by("neft.action.convergence", specification=describe(theta, source, act) | {"order": order}),
    )


@public
def analyse(
    params: Any,
    data: Any,
    *,
    activation: Any = "silu",
    order: int = 4,
    draws: int = 4,
    key: Array | None = None,
    stops: Stops | None = None,
) -> Analysis:
    """The expansion, its convergence, the elements' statistics and the domination of terms, for θ or for a `Fit`.

    Args:
        params: as for `expand`, or a `Fit`, whose history is kept.
        data: as for `expand`.
        activation: as for `expand`.
        order: the highest order of the terms.
        draws: of random θ for `domination`.
        key: of these draws.
        stops: what `stops_by_size` found, to be kept with the rest.

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=np.eye(2), b=np.zeros(2))
    >>> analyse(theta, (np.eye(2), [0, 1]), order=2).expansion.terms["UW"].value
    -0.25
    """
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    fit = params if isinstance(params, Fit) else None
    theta = fit.params if fit is not None else params
    bound = radius(theta, data, activation=activation)
    history = {} if fit is None else {"training": fit.training_loss, "evaluation": fit.evaluation_loss, **fit.scales}
    return Analysis(
        expansion=expand(theta, data, order, activation=activation),
        convergence=convergence(theta, data, activation=activation, bound=bound.radius),
        radius=bound,
        elements=elements(theta, data, activation=activation),
        domination=domination(theta, data, min(order, 4), activation=activation, draws=draws, key=key),
        history=history,
        best=None if fit is None else fit.best,
        stops=stops,
        made=Made.by("neft.action.analyse", specification={"order": order, "draws": draws}),
    )
