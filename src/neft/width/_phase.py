"""The phase diagram in (C_b, C_W): what becomes of a signal in a deep network (docs/theory/width, eqs. 67-69)."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from .. import _check
from .._activation import Activation
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..gaussian import Powers, moment
from ._critical import CriticalPoint, critical
from ._curves import Curves, curves, grid, per_weight
from ._origin import origin
from ._settled import START, TOP, settled
from ._subject import Repeated, subject

PHASES = ("ordered", "chaotic", "critical", "diverging", "unsettled")
"""What the codes 0, 1, … of a phase diagram mean."""

_DECADES, _PER_DECADE, _COARSE = 12, 100, 25
_START = 1.0
_STEPS = 2000
_UNRESOLVED = 1e-6  # the relative error of an average that ends the table
_MARGINAL = 1e-12  # a relative change of K by one layer that is rounding


@result
class PhaseDiagram(Result):
    """The fate of a signal that starts at K = 1, on a grid of C_b (rows) and C_W (columns).

    Attributes:
        phase: 0 ordered (χ_⊥ < 1), 1 chaotic (χ_⊥ > 1), 2 critical (|χ_⊥ - 1| within the tolerance), 3 diverging (K
            grows without bound), 4 unsettled (K leaves the range where its averages are resolved).
        K_star: the fixed point that is reached; inf where K diverges, NaN where it does not settle.
        perpendicular: χ_⊥ there; where K diverges, at the largest K that was computed.
        parallel: χ_∥ there, likewise.
        xi_perpendicular: ξ_⊥ = 1/|ln χ_⊥|, the number of layers over which a difference of two inputs changes e-fold.
        xi_parallel: the same for a change of K.
        points: the critical points of the activation or block.
        dense: of a block, which of its dense blocks have these variances; None for an activation.
        phases: the names of the phases, so that `phases[code]` says what a code in `phase` means.
    """

    activation: str
    dense: str | None
    C_b: Float[np.ndarray, " biases"]
    C_W: Float[np.ndarray, " weights"]
    phase: Int[np.ndarray, "biases weights"]
    K_star: Float[np.ndarray, "biases weights"]
    perpendicular: Float[np.ndarray, "biases weights"]
    parallel: Float[np.ndarray, "biases weights"]
    xi_perpendicular: Float[np.ndarray, "biases weights"]
    xi_parallel: Float[np.ndarray, "biases weights"]
    points: tuple[CriticalPoint, ...]
    made: Made
    phases: ClassVar[tuple[str, ...]] = PHASES

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"dense": None} | fields

    def _shown(self):
        yield from ((name, value) for name, value in super()._shown() if name != "dense" or self.dense)

    def share(self, name: str) -> float:
        """The part of the grid in a phase, by its name."""
        return float(np.mean(self.phase == PHASES.index(_check.one_of("name", name, PHASES))))


@public
@float64
def phase(
    activation: Repeated,
    C_b: Any = None,
    C_W: Any = None,
    *,
    dense: int | None = None,
    tolerance: float = 1e-3,
    coarse: bool = False,
) -> PhaseDiagram:
    """The phases of a network in (C_b, C_W), with the fixed points, susceptibilities and depth scales.

    The map K → C_b + C_W⟨s²⟩ is tabulated once. Where it rises, K moves one way until the next fixed point, which is
    found by its change of sign however slow the flow is; where it falls somewhere, the first 2000 layers are iterated.
    Of a repeated block the map is its own step (docs/theory/blocks, eqs. 31-32), and layers are blocks.

    Args:
        activation: an activation, its name, or any elementwise JAX function; or a block, a list of blocks that begins
            and ends at preactivations, or a network that repeats one.
        C_b: variances of a bias, a number or one axis (default: 51 from 0 to 1).
        C_W: variances of a weight times its fan-in (default: 71 from 0.5 to 4).
        dense: of a block, which dense block has these variances, counted from 0; by default all have.
        tolerance: the distance of χ_⊥ from 1 that counts as critical.
        coarse: of an activation, all from the table, good to some 1e-4, and without its critical points: for a picture
            of a new function in a fraction of a second. Blocks take no notice of it.

    >>> found = phase("tanh", C_b=[0.0, 0.5], C_W=[0.5, 1.0, 3.0])
    >>> [[found.phases[code] for code in row] for row in found.phase]
    [['ordered', 'critical', 'chaotic'], ['ordered', 'ordered', 'chaotic']]
    """
    of = subject(activation, dense)
    biases = _axis("C_b", np.linspace(0.0, 1.0, 51) if C_b is None else C_b)
    weights = _axis("C_W", np.linspace(0.5, 4.0, 71) if C_W is None else C_W)
    _check.real("tolerance", tolerance, at_least=0.0)
    shape = (biases.size, weights.size)
    b, w = (part.ravel() for part in np.meshgrid(biases, weights, indexing="ij"))
    coarse = coarse and of.activation is not None
    if of.activation is not None:
        K, chi = (_from_table if coarse else _of_activation)(of.activation, b, w)
    else:
        K, chi = _of_block(of.step, b, w)
    perpendicular, parallel = (np.where(np.isnan(K), np.nan, one).reshape(shape) for one in chi)
    K = K.reshape(shape)
    return PhaseDiagram(
        activation=of.name,
        dense=of.dense,
        C_b=biases,
        C_W=weights,
        phase=_codes(K, perpendicular, tolerance),
        K_star=K,
        perpendicular=perpendicular,
        parallel=parallel,
        xi_perpendicular=depth_scale(perpendicular),
        xi_parallel=depth_scale(parallel),
        points=() if coarse else critical(activation, dense=dense).points,
        made=Made.by(
            "neft.width.phase",
            specification=of.record | {"C_b": biases, "C_W": weights} | ({"coarse": True} if coarse else {}),
            tolerances={"tolerance": tolerance},
        ),
    )


def _of_activation(act: Activation, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    _refuse_jumps(act)
    K, top = _fixed_points(act, b, w)
    return K, tuple(w * chi for chi in _slopes(act, K, top))


def _from_table(act: Activation, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    _refuse_jumps(act)
    table = _table(act, _COARSE)
    K, below = _looked_up(table, b, w)
    on = table.on
    # Below the table the map is its tangent at the first knot.
    source = np.maximum(b[below] + w[below] * (on.ss[0] - on.K[0] * on.g[0]), 0.0)
    K[below] = np.minimum(source / np.maximum(1 - w[below] * on.g[0], np.finfo(float).tiny), on.K[0])
    at = np.log(np.clip(np.nan_to_num(K, nan=_START, posinf=on.K[-1]), *on.K[[0, -1]]))
    return K, tuple(w * CubicSpline(np.log(on.K), values)(at) for values in (on.a, on.g))


def _of_block(step: Any, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    step.refuse_jumps()
    K = settled(step, b, w)
    at = step.slopes(np.where(np.isfinite(K), K, START), b, w)
    # Where K diverges, those of the largest variance, infinite where they overflow there.
    away = np.isinf(K)
    last = step.slopes(TOP, b[away], w[away], by="grid") if away.any() else None
    chi = at.perpendicular, at.parallel
    for values, end in zip(chi, (last.perpendicular, last.parallel) if last else ()):
        values[away] = np.where(np.isnan(end), np.inf, end)
    return K, chi


def _codes(K: np.ndarray, perpendicular: np.ndarray, tolerance: float) -> np.ndarray:
    names = np.select(
        [np.isnan(K), np.isinf(K), np.abs(perpendicular - 1) <= tolerance, perpendicular < 1],
        [PHASES.index(name) for name in ("unsettled", "diverging", "critical", "ordered")],
        PHASES.index("chaotic"),
    )
    return names.astype(np.int64)


def depth_scale(chi: np.ndarray) -> np.ndarray:
    """ξ = 1/|ln |χ||: infinite at χ = 1 up to rounding, 0 at χ = 0."""
    with np.errstate(divide="ignore"):
        rate = np.abs(np.log(np.abs(chi)))
        return np.where(rate < _MARGINAL, np.inf, 1 / rate)


def _slopes(act: Activation, K: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    # χ_⊥ and χ_∥ per unit of C_W; where K diverges those of the largest variance, infinite where they overflow there.
    a, g = per_weight(act, np.where(np.isfinite(K), K, _START))
    if not np.isinf(K).any():
        return a, g
    try:
        last = per_weight(act, np.asarray(float(top)))
    except ValueError:
        last = np.inf, np.inf
    return np.where(np.isinf(K), last[0], a), np.where(np.isinf(K), last[1], g)


def _axis(argument: str, value: Any) -> np.ndarray:
    axis = np.atleast_1d(_check.array(argument, value, ndim=(0, 1), at_least=0.0))
    if not axis.size or (np.diff(axis) <= 0).any():
        raise ValueError(f"{argument} has {axis.size} values, but must hold at least one, in increasing order.")
    return axis


def _refuse_jumps(act: Activation) -> None:
    for kink in act.kinks:
        if kink.order == 0:
            raise ValueError(
                f"activation is {act.name!r}, which jumps at {kink.position:g}, but must be continuous for χ_⊥ to be."
            )


class _Map(NamedTuple):
    """The map K → C_b + C_W⟨s²⟩ as a table, and what it means to leave the table."""

    on: Curves
    ss: Callable[[np.ndarray], np.ndarray]  # ⟨s²⟩ of log K
    open_below: bool  # whether the table ends because K = 0 is next, not because its averages are unresolved
    open_above: bool  # likewise for infinity

    def excess(self, K: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The relative change of K by one layer."""
        return (b + w * self.ss(np.log(K))) / K - 1


def _table(act: Activation, per_decade: int = _PER_DECADE) -> _Map:
    on = curves(act, grid(act, _DECADES, per_decade))
    start = int(np.argmin(np.abs(np.log(on.K / _START)))) if on.K.size else 0
    bad = on.error > _UNRESOLVED
    if not on.K.size or bad[start]:
        raise ValueError(
            f"activation {act.name!r} has averages at K = {_START:g} that cannot be resolved (is a kink undeclared?)."
        )
    low = start - int(np.argmax(bad[start::-1])) + 1 if bad[:start].any() else 0
    high = start + int(np.argmax(bad[start:])) if bad[start:].any() else len(bad)
    on = Curves(*(values[low:high] for values in on))
    # An exponential σ is lost before it overflows, but growing faster than K it does not come back.
    runs_away = on.K[-1] * on.g[-1] > 1.5 * on.ss[-1]
    above = high == len(bad) or bool(runs_away)
    return _Map(on, _interpolated(on), low == 0, above)


def _interpolated(on: Curves) -> Callable[[np.ndarray], np.ndarray]:
    # Of powers of K, which ⟨s²⟩ is near 0 and far out, the logarithm is a straight line.
    if not (on.ss > 0).all():
        return CubicHermiteSpline(np.log(on.K), on.ss, on.K * on.g)
    spline = CubicHermiteSpline(np.log(on.K), np.log(on.ss), on.K * on.g / on.ss)
    return lambda log_K: np.exp(spline(log_K))


def _fixed_points(act: Activation, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    """Where K goes from K = 1 (inf where it diverges, NaN where it does not settle), and the largest K looked at."""
    table = _table(act)
    K, below = _looked_up(table, b, w)
    if below.size:
        K[below] = _near_zero(act, table, b[below], w[below])
    inside = np.flatnonzero(np.isfinite(K) & (table.on.K[0] <= K))
    K[inside] = _polished(act, K[inside], b[inside], w[inside])
    return K, float(table.on.K[-1])


def _looked_up(table: _Map, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where K goes as far as the table tells, and where it goes below its first knot, or not where that is unknown."""
    start = np.full_like(b, _START)
    if (table.on.g < 0).any():
        start = _iterated(table, start, b, w)
    K = np.concatenate([_ahead(table, start[part], b[part], w[part]) for part in _parts(b.size, table)])
    below, above = np.flatnonzero(table.on.K[0] > K), np.isinf(K)
    K[above] = np.inf if table.open_above else np.nan
    if not table.open_below:
        K[below], below = np.nan, below[:0]
    return K, below


def _parts(count: int, table: _Map):
    return blocks(count, block_size(4 * 8 * table.on.K.size, count))


def _iterated(table: _Map, K: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    # There are no cycles, because d⟨s²⟩/dK ≥ -⟨s²⟩/2K: K settles soon where the map falls, and is slow where it rises.
    low, high = table.on.K[[0, -1]]
    for _ in range(_STEPS):
        K = np.clip(b + w * table.ss(np.log(K)), low, high)
    return K


def _ahead(table: _Map, start: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The next fixed point in the direction in which K moves: 0 if it is below the table, inf if above."""
    knots = table.on.K
    change = table.excess(start, b, w)
    excess = (b[:, None] + w[:, None] * table.on.ss) / knots - 1
    rises = change > 0
    # A change that is only rounding does not stop the flow: at K' = K + C_b it takes long to matter, but it does.
    ahead = (knots > start[:, None]) == rises[:, None]
    stops = ahead & np.where(rises[:, None], excess < -_MARGINAL, excess > _MARGINAL)
    first, last = np.argmax(stops, 1), len(knots) - 1 - np.argmax(stops[:, ::-1], 1)
    near = np.where(rises, first, last)
    far = np.clip(near + np.where(rises, -1, 1), 0, len(knots) - 1)
    # Between the last knot that it passes and the first that it does not, but not behind the start.
    passed = np.where(rises, np.maximum(knots[far], start), np.minimum(knots[far], start))
    K = _bisected(table, np.log(passed), np.log(knots[near]), b, w)
    K = np.where(stops.any(1), K, np.where(rises, np.inf, 0.0))
    return np.where(np.abs(change) <= _MARGINAL, start, K)


def _bisected(table: _Map, passed: np.ndarray, beyond: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    rises = beyond > passed
    for _ in range(50):
        middle = (passed + beyond) / 2
        goes_on = (table.excess(np.exp(middle), b, w) > 0) == rises
        passed, beyond = np.where(goes_on, middle, passed), np.where(goes_on, beyond, middle)
    return np.exp((passed + beyond) / 2)


def _near_zero(act: Activation, table: _Map, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The fixed point below the table, where the map is its tangent at 0."""
    near = origin(act)
    source = b + w * near.value**2
    if not source.any():
        return source
    return np.minimum(source / np.maximum(1 - w * near.growth, np.finfo(float).tiny), table.on.K[0])


def _polished(act: Activation, K: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A step of Newton's method with averages of full accuracy."""
    chi = w * per_weight(act, K)[1]
    # Where χ_∥ is 1 Newton's step is rounding over rounding, and the table is as good.
    steep = np.abs(1 - chi) > 1e-6
    step = (b + w * moment(act, Powers(s=2), K) - K) / np.where(steep, 1 - chi, 1.0)
    return np.where(steep & (np.abs(step) < 1e-3 * K), K + step, K)
