"""How the activations of a network are averaged for many pairs: in closed form, by expansions and how long, or not."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._closed import Pair, form_of
from .._guard import positive, root
from .._tilt import tilt_of
from ..network import Means, Stage
from ._kernel_engines import InOrder
from ._kernel_expansion import Expansion, expansion, reaches
from ._kernel_own import Occurrence, averages

Plan = tuple[Expansion, ...] | None  # the expansions that an activation needs; None where only quadrature serves

_FEW = 64  # inputs
_STARTS = np.append(np.linspace(0.02, 0.98, 49), [0.99, 0.995, 0.998, 0.999, 1.0])


def planned(met: Sequence[Occurrence], tolerance: float) -> list[Plan]:
    """The plans of the activations that inputs meet."""
    plans = [_plan(one, tolerance) for one in met]
    if any(plan is None for plan in plans):
        # Quadrature for one activation is quadrature for all that have no closed form.
        return [None if plan else plan for plan in plans]
    return plans


def _plan(one: Occurrence, tolerance: float) -> Plan:
    found: list[Expansion | None] = []
    if form_of(one.act) is None:
        # Few pairs of a user's own function take less time than compiling an expansion of it.
        short = one.act.named or len(one.K) > 2 * _FEW
        found.append(expansion(one.act, one.K, one.square, tolerance) if short else None)
    tilt = tilt_of(one.act)
    if one.tilted and form_of(tilt) is None:
        square = averages(tilt, one.K, slopes=False)[0]
        found.append(expansion(tilt, one.K, square, tolerance, derivatives=(0,)))
    return None if any(plan is None for plan in found) else tuple(plan for plan in found if plan is not None)


def lengths(
    segments: Sequence[Any], met: Sequence[Occurrence], plans: Sequence[Plan], ends: Any, inside: bool, tolerance: float
) -> tuple[tuple[int, float], ...]:
    """How many terms serve pairs up to which |ρ| of the first Gaussian stage, as `reaches` has it.

    With positive coefficients |⟨σ₁σ₂⟩| is at most Σ a_k² |ρ|^k, the average of an input with itself at that
    correlation. `ends` are |x|²/n_0 and the means of x of all inputs; `inside` says that the first segment has
    activations, where nothing is known about correlations.
    """
    used = [(i, one) for i, plan in enumerate(plans) for one in plan or ()]
    if inside:
        return reaches([one for _, one in used], np.ones(1), [np.ones(1)] * len(used), tolerance)
    chosen = np.unique([np.argsort(one.K)[[0, len(one.K) // 2, -1]] for one in met])
    q, mean = (value[chosen] for value in ends)
    first = segments[0].kernel(Stage.itself(q, 0 * q, mean1=mean, mean2=mean, kind="input"), InOrder(()))
    K, rho = first.K1[None, :], _STARTS[:, None]
    stage = Stage.between(K, K, rho * K, 0 * rho * K)
    engine = _Bound(plans, met, chosen)
    for segment in segments[1:]:
        stage = segment.kernel(stage, engine)
    largest = [np.minimum(engine.seen[i].max(axis=1), 1) for i, _ in used]
    return reaches([one for _, one in used], _STARTS, largest, tolerance)


class _Bound:
    # Averages of chosen inputs with themselves at correlations, and the correlations that were met.
    def __init__(self, plans: Any, met: Any, chosen: np.ndarray) -> None:
        self._left = list(zip(plans, met))
        self._chosen, self.seen = chosen, []
        self._last: Any = None

    def pair(self, activation: Any, stage: Any) -> Means:
        plan, one = self._left.pop(0)
        K, square = one.K[self._chosen], one.square[self._chosen]
        rho = np.clip(stage.c / positive(root(stage.K1) * root(stage.K2)), 0, 1)
        self.seen.append(rho)
        value = self._power(plan[0], K, rho) if plan and len(plan[0].orders) == 2 else self._form(activation, K, rho)
        self._last = K
        return Means(square[None, :], square[None, :], np.minimum(value, square[None, :]), 0 * value)

    def mean(self, activation: Any, stage: Any) -> tuple[Any, Any]:
        mean = averages(activation, self._last, means=True)
        return mean, mean

    def tilted(self, activation: Any, stage: Any) -> Any:
        return 0 * stage.c

    @staticmethod
    def _power(one: Expansion, K: np.ndarray, rho: np.ndarray) -> np.ndarray:
        a = one.whole(K)[0]
        powers = np.broadcast_to(rho, (len(a), *rho.shape)).copy()
        powers[0] = 1.0
        return np.einsum("kn,ksn->sn", a * a, np.cumprod(powers, axis=0))

    @staticmethod
    def _form(act: Any, K: np.ndarray, rho: np.ndarray) -> np.ndarray:
        form = form_of(act)
        assert form is not None
        return np.asarray(form.value(Pair.of(K[None, :], K[None, :], jnp.asarray(rho))))
