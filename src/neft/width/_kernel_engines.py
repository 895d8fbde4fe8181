"""Three ways to average over pairs of inputs, with one interface: in closed form, by Hermite expansion, by quadrature.

Each holds what the two sides of a block of pairs have by themselves at one activation of the network.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jax import lax

from .._activation import Activation
from .._closed import form_of
from .._guard import positive, root
from .._hermite import broadcast_sum
from .._tilt import tilt_of
from ..gaussian import pair
from ..network import Means, Stage
from ._kernel_expansion import CHUNK, Expansion


class Part(NamedTuple):
    """What a side has at an activation: ⟨σ²⟩, ⟨σ⟩ if needed, the terms of σ and σ', and those of zσ' if needed.

    `factor` is its part in a fast form, where that is to be used (`Fast` in `_closed.py`).
    """

    square: Any
    mean: Any = None
    terms: Any = None
    tilt: Any = None
    factor: Any = None


@runtime_checkable
class Averager(Protocol):
    """The averages at one activation."""

    one: Part
    two: Part

    def pair(self, stage: Stage) -> Means:
        """⟨σ²⟩ of both sides, ⟨σσ⟩ and ⟨σ'σ'⟩."""
        ...

    def tilted(self, stage: Stage) -> Any:
        """⟨z₁z₂ σ'σ'⟩."""
        ...


class Way(NamedTuple):
    """How an activation is averaged, without the inputs: one of the three engines, and the orders of its terms."""

    engine: Any
    act: Activation
    orders: tuple[tuple[int, int], ...] = ()

    def between(self, one: Part, two: Part) -> Averager:
        """The averages between two sides."""
        return self.engine(self.act, one, two, *((self.orders,) if self.orders else ()))


class ByForm(eqx.Module):
    """In closed form."""

    act: Activation = eqx.field(static=True)
    one: Part
    two: Part

    def pair(self, stage: Stage) -> Means:
        """See `Averager`."""
        form, both = form_of(self.act), stage.pair
        assert form is not None
        if form.fast is not None and self.one.factor is not None:
            factor = self.one.factor * self.two.factor
            return Means(self.one.square, self.two.square, *form.fast.averages(factor, stage.c))
        gap = form.gap and form.gap(both)
        return Means(self.one.square, self.two.square, form.value(both), form.derivative(both), gap)

    def tilted(self, stage: Stage) -> Any:
        """See `Averager`."""
        form = form_of(tilt_of(self.act))
        assert form is not None
        return form.value(stage.pair)


class BySeries(eqx.Module):
    """By Hermite expansions, ⟨σσ⟩ = Σ_k a_k(K1) a_k(K2) ρ^k (docs/theory/width, eq. 75).

    `orders` are the first order and the step of the terms beyond orders 0 and 1, of σ, σ' and zσ'.
    """

    act: Activation = eqx.field(static=True)
    one: Part
    two: Part
    orders: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def pair(self, stage: Stage) -> Means:
        """See `Averager`."""
        rho = self._correlation(stage)
        form = form_of(self.act)
        if form is not None:
            # Only zσ' is expanded.
            return ByForm(self.act, self.one, self.two).pair(stage)
        sums = [self._sum(a, b, rho, n) for n, (a, b) in enumerate(zip(self.one.terms, self.two.terms))]
        # Both are used twice and must not be computed twice.
        return Means(self.one.square, self.two.square, *lax.optimization_barrier(tuple(sums)))

    def tilted(self, stage: Stage) -> Any:
        """See `Averager`."""
        return self._sum(self.one.tilt, self.two.tilt, self._correlation(stage), 2)

    def _correlation(self, stage: Stage) -> Any:
        return lax.optimization_barrier(stage.c / positive(root(stage.K1) * root(stage.K2)))

    def _sum(self, a: Any, b: Any, rho: Any, which: int) -> Any:
        return broadcast_sum(a, b, rho, *self.orders[which], chunk=min(a.high.shape[0], CHUNK))


class ByQuadrature:
    """By quadrature that refines itself, in NumPy: for what neither of the others can do."""

    def __init__(self, act: Activation, one: Part, two: Part) -> None:
        self.act, self.one, self.two = act, one, two

    def pair(self, stage: Stage) -> Means:
        """See `Averager`."""
        means = (pair(self.act, stage.K1, stage.K2, self._correlation(stage), order=n) for n in (0, 1))
        return Means(self.one.square, self.two.square, *means)

    def tilted(self, stage: Stage) -> Any:
        """See `Averager`."""
        return pair(tilt_of(self.act), stage.K1, stage.K2, self._correlation(stage))

    def _correlation(self, stage: Stage) -> np.ndarray:
        return np.clip(np.asarray(stage.c) / positive(root(stage.K1) * root(stage.K2)), -1, 1)


class InOrder:
    """Averages for blocks that ask for them in the order in which these are given."""

    def __init__(self, averagers: Any) -> None:
        self._left, self._used = list(averagers), []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        """See `neft.network.Averages`."""
        averager = self._left.pop(0)
        self._used.append((stage, averager))
        return averager.pair(stage)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        """See `neft.network.Averages`."""
        averager = self._at(stage)
        return averager.one.mean, averager.two.mean

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        """See `neft.network.Averages`."""
        return self._at(stage).tilted(stage)

    def _at(self, stage: Stage) -> Any:
        return next(averager for place, averager in self._used if place is stage)


def way_of(act: Activation, plan: tuple[Expansion, ...] | None) -> Way:
    """How an activation is averaged: without a plan by quadrature, with an empty one in closed form."""
    if plan is None:
        return Way(ByQuadrature, act)
    orders = tuple(order for expanded in plan for order in expanded.orders)
    if not orders:
        return Way(ByForm, act)
    # Orders stand at the places of σ, σ' and zσ'.
    return Way(BySeries, act, orders if len(orders) != 1 else ((2, 1), (2, 1), *orders))
