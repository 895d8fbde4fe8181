"""Critical points: where a deep network neither forgets its input nor amplifies it (docs/theory/width, eqs. 67-69)."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from .. import _check
from .._activation import Activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..gaussian import moment
from ._curves import GROWTH, SLOPE, SQUARE, Curves, curves, grid, per_weight
from ._origin import Origin, origin
from ._points import points as points_of
from ._step import Step
from ._subject import Repeated, Subject, subject

Universality = Literal["scale-invariant", "K*=0", "half-stable", "K*>0", "normalized", "none"]
Stability = Literal["above", "below", "both", "neither", "every K stays"]

_DECADES = 6
_PER_DECADE = 20
_RESOLVED = 1e-11  # of a difference to its two sides; rounding leaves some 1e-14


@result
class Susceptibilities(Result):
    """χ_∥ and χ_⊥: how much one layer stretches a change of K, and a small difference between two inputs."""

    parallel: Float[np.ndarray, "*shape"]
    perpendicular: Float[np.ndarray, "*shape"]
    made: Made


@result
class CriticalPoint(Result):
    """Initialization variances at which χ_∥ = χ_⊥ = 1 at the fixed point K_star.

    Attributes:
        K_star: the fixed point; None where every K is one.
        universality: "scale-invariant", "K*=0", "half-stable" (K_star > 0 attracts from one side only), or "K*>0" for
            one that attracts from both sides or from neither; "normalized" where norms fix χ_∥ below 1 whatever the
            variances are, and χ_⊥ alone is 1.
        stability: the side from which K_star attracts: "above", "below", "both", "neither", or "every K stays".
    """

    C_b: float
    C_W: float
    K_star: float | None
    universality: Universality
    stability: Stability


@result
class Criticality(Result):
    """The critical points of an activation or of a repeated block. C_b, C_W, K_star, universality and stability are
    those of the best one.

    The best is a scale-invariant one, else a K* = 0 that attracts, else one with K* > 0, else a K* = 0 that repels. If
    there is none, universality is "none" and the numbers are None.

    Attributes:
        activation: its name, or the block in words.
        dense: of a block, which of its dense blocks have these variances; None for an activation.
        why: what was found, in words.
        points: all points, the best first.
        K: a grid of variances for the picture.
        perpendicular: ⟨s'²⟩ on that grid, which is χ_⊥/C_W; of a block χ_⊥ itself, at the best point, or at C_b = 0 and
            C_W = 1 where there is none.
        parallel: d⟨s²⟩/dK on that grid, which is χ_∥/C_W; of a block likewise χ_∥.
    """

    activation: str
    dense: str | None
    C_b: float | None
    C_W: float | None
    K_star: float | None
    universality: Universality
    stability: Stability | None
    why: str
    points: tuple[CriticalPoint, ...]
    K: Float[np.ndarray, " grid"]
    perpendicular: Float[np.ndarray, " grid"]
    parallel: Float[np.ndarray, " grid"]
    made: Made

    def _shown(self):
        hidden = ("K", "perpendicular", "parallel", *(() if self.dense else ("dense",)))
        yield from ((name, value) for name, value in super()._shown() if name not in hidden)

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"dense": None} | fields


@public
@float64
def susceptibilities(
    activation: Repeated, K: Any, C_W: Any, *, C_b: Any = 0.0, dense: int | None = None
) -> Susceptibilities:
    """χ_∥ = C_W d⟨s²⟩/dK and χ_⊥ = C_W⟨s'²⟩ over z ~ N(0, K), for numbers or arrays that broadcast.

    Of a block they are derivatives of its own step (docs/theory/blocks, eqs. 31-32).

    Args:
        activation: an activation, its name, or any elementwise JAX function; or a block, a list of blocks that begins
            and ends at preactivations, or a network that repeats one.
        K: the variance of a preactivation, ≥ 0 (0 is the limit from above).
        C_W: the variance of a weight times its fan-in, ≥ 0.
        C_b: the variance of a bias, ≥ 0; blocks with several dense ones depend on it.
        dense: of a block, which dense block has these variances, counted from 0; by default all have.

    >>> chi = susceptibilities("relu", 3.0, 2.0)
    >>> float(chi.parallel), float(chi.perpendicular)
    (1.0, 1.0)
    """
    of = subject(activation, dense)
    K, C_W = _check.array("K", K, at_least=0.0), _check.array("C_W", C_W, at_least=0.0)
    C_b = _check.array("C_b", C_b, at_least=0.0)
    for name, value in (("C_W", C_W), ("C_b", C_b)):
        try:
            np.broadcast_shapes(K.shape, C_W.shape, value.shape)
        except ValueError:
            raise ValueError(
                f"{name} has shape {value.shape}, but must broadcast with the shape {K.shape} of K."
            ) from None
    if of.step is not None:
        of.step.refuse_jumps()
        _, parallel, perpendicular = of.step.slopes(K, C_b, C_W)
    else:
        assert of.activation is not None
        perpendicular, parallel = (C_W * chi + 0 * C_b for chi in per_weight(of.activation, K))
    return Susceptibilities(
        parallel=np.asarray(parallel),
        perpendicular=np.asarray(perpendicular),
        made=Made.by(
            "neft.width.susceptibilities",
            specification=of.record | {"K": K, "C_W": C_W} | ({} if of.step is None else {"C_b": C_b}),
        ),
    )


@public
@float64
def critical(activation: Repeated, *, dense: int | None = None) -> Criticality:
    """All critical initializations: χ_∥ = χ_⊥ = 1 at K* = C_b + C_W⟨s²⟩ with C_b ≥ 0 (docs/theory/width, eq. 69).

    Points with K* > 0 are where ⟨s'²⟩ = d⟨s²⟩/dK; they are sought over twelve decades of K. Of a repeated block one
    common (C_b, C_W) of its dense blocks is solved for (docs/theory/blocks, eqs. 31-36).

    Args:
        activation: an activation, its name, or any elementwise JAX function; or a block, a list of blocks that begins
            and ends at preactivations, or a network that repeats one.
        dense: of a block, for which dense block to solve, counted from 0; by default for all.

    >>> found = critical("gelu")
    >>> print(f"{found.universality} {found.stability} {found.C_b:.6f} {found.C_W:.6f} {found.K_star:.6f}")
    half-stable above 0.172922 1.983058 3.561553
    """
    of = subject(activation, dense)
    if of.step is not None:
        return _of_block(of, of.step)
    act = of.activation
    assert act is not None
    if any(kink.order == 0 for kink in act.kinks):
        return _found(of, [], [f"σ jumps, so ⟨σ'²⟩ and with it χ_⊥ do not exist for {act.name}."], None)
    near, on = origin(act), curves(act, grid(act, _DECADES, _PER_DECADE))
    if act.scale_invariant:
        return _found(of, *_scale_invariant(near), on)
    points, why = _at_zero(near, on)
    for candidate, reason in _above_zero(act, on):
        points += [candidate] if candidate else []
        why.append(reason)
    return _found(of, sorted(points, key=_rank), why, on)


def _of_block(of: Subject, step: Step) -> Criticality:
    jumps = [act.name for act in step.activations if any(kink.order == 0 for kink in act.kinks)]
    if jumps:
        return _found(of, [], [f"{jumps[0]} jumps, so ⟨σ'²⟩ and with it χ_⊥ do not exist."], None)
    found, why = points_of(step)
    points = sorted((CriticalPoint(**point._asdict()) for point in found), key=_rank)  # type: ignore[arg-type]
    K = np.logspace(-_DECADES, _DECADES, 10 * 2 * _DECADES + 1)
    best = points[0] if points else None
    at = step.slopes(K, best.C_b if best else 0.0, best.C_W if best else 1.0, by="grid")
    return _found(of, points, why, Curves(K, at.K, at.perpendicular, at.parallel, 0 * K))


def _found(of: Subject, points: list[CriticalPoint], why: list[str], on: Curves | None) -> Criticality:
    best = points[0] if points else None
    nothing = np.empty(0)
    if on is not None and of.activation is not None and of.dense is not None:
        # The step of an activation that was given as a block.
        C_W = best.C_W if best else 1.0
        on = on._replace(a=C_W * on.a, g=C_W * on.g)
    return Criticality(
        activation=of.name,
        dense=of.dense,
        C_b=best and best.C_b,
        C_W=best and best.C_W,
        K_star=best and best.K_star,
        universality=best.universality if best else "none",
        stability=best and best.stability,
        why=" ".join(why),
        points=tuple(points),
        K=on.K if on else nothing,
        perpendicular=on.a if on else nothing,
        parallel=on.g if on else nothing,
        made=Made.by("neft.width.critical", specification=of.record),
    )


def _rank(point: CriticalPoint) -> int:
    if point.universality == "K*=0":
        return 0 if point.stability == "above" else 2
    return 1


def _scale_invariant(near: Origin) -> tuple[list[CriticalPoint], list[str]]:
    if not near.A_2:
        return [], ["σ is 0 everywhere, so nothing passes a layer."]
    point = CriticalPoint(
        C_b=0.0, C_W=1 / near.A_2, K_star=None, universality="scale-invariant", stability="every K stays"
    )
    return [point], ["σ(cz) = cσ(z) for c > 0, so χ_∥ = χ_⊥ at every K and every K is a fixed point at C_b = 0."]


def _at_zero(near: Origin, on: Curves) -> tuple[list[CriticalPoint], list[str]]:
    if near.value:
        return [], [f"K* = 0 is no fixed point because σ(0) = {near.value:.6g}."]
    if not near.A_2:
        return [], ["K* = 0 is not critical because σ'(0) = 0."]
    attracts, law = _near_zero(near, on)
    verb = {True: "attracts", False: "repels", None: "neither attracts nor repels measurably"}[attracts]
    point = CriticalPoint(
        C_b=0.0,
        C_W=1 / near.A_2,
        K_star=0.0,
        universality="K*=0",
        stability="above" if attracts else "neither",
    )
    return [point], [f"K* = 0 is critical at C_W = {point.C_W:.6g} because σ(0) = 0; it {verb}: {law}."]


def _near_zero(near: Origin, on: Curves) -> tuple[bool | None, str]:
    # The first power of K that is there decides; a kink at 0 brings half powers.
    for coefficient, power in ((near.a_half, "^(3/2)"), (near.a_1, "²")):
        if coefficient and not math.isnan(coefficient):
            return coefficient < 0, f"K' - K = {coefficient:.6g} K{power}"
    # Such as hard_tanh, linear near 0: what is beyond all powers is read off the map itself.
    change = on.ss / (near.A_2 * on.K) - 1
    seen = np.abs(change) > _RESOLVED + 10 * on.error
    if not seen.any():
        return None, "K' = K to all digits"
    i = int(np.argmax(seen))
    order = "more than order K" if math.isnan(near.a_1) else "order K²"
    return bool(change[i] < 0), f"K' = K to {order}, and K'/K - 1 = {change[i]:.1e} at K = {on.K[i]:.3g}"


def _above_zero(act: Activation, on: Curves) -> Iterator[tuple[CriticalPoint | None, str]]:
    roots = list(_crossings(act, on))
    if np.abs(_difference(on)).max() < _RESOLVED:
        # σ = c₀ + c₁z: nowhere a crossing, but everywhere equal.
        yield None, "No point has K* > 0 because σ is linear, and a constant part would need C_b < 0."
    elif not roots:
        sure = on.K[on.error < 1e-6]
        span = f"K from {sure[0]:.0e} to {sure[-1]:.0e}" if sure.size else "the K that can be resolved"
        yield None, f"No point has K* > 0 because ⟨σ'²⟩ and d⟨σ²⟩/dK are nowhere equal for {span}."
    for K in roots:
        C_W = 1 / float(moment(act, SLOPE, K))
        C_b = K - C_W * float(moment(act, SQUARE, K))
        if C_b < -1e-12 * K:
            yield None, f"χ_∥ = χ_⊥ at K = {K:.6g} too, but it would be a fixed point for C_b = {C_b:.4g} < 0 only."
            continue
        stability = _stability(act, K, C_W)
        kind: Universality = "half-stable" if stability in ("above", "below") else "K*>0"
        point = CriticalPoint(C_b=max(C_b, 0.0), C_W=C_W, K_star=K, universality=kind, stability=stability)
        side = {"above": "above only", "below": "below only", "both": "both sides", "neither": "neither side"}[
            stability
        ]
        yield point, f"K* = {K:.6g} attracts from {side}, by the slope of K → C_b + C_W⟨σ²⟩ on its two sides."


def _stability(act: Activation, K: float, C_W: float) -> Literal["above", "below", "both", "neither"]:
    # Where the flow ends says nothing: another fixed point can be near, reached after millions of layers.
    beside = K * np.array([1 - 1e-3, 1 + 1e-3])
    below, above = C_W * moment(act, GROWTH, beside) / beside < 1
    if above:
        return "both" if below else "above"
    return "below" if below else "neither"


def _crossings(act: Activation, on: Curves) -> Iterator[float]:
    """The K where ⟨s'²⟩ = d⟨s²⟩/dK, by a change of sign that is no rounding."""

    def difference(log_K: float) -> float:
        K = math.exp(log_K)
        return float(moment(act, SLOPE, K) - moment(act, GROWTH, K) / K)

    D = _difference(on)
    (seen,) = np.nonzero(np.abs(D) > _RESOLVED + 10 * on.error)
    for i, j in itertools.pairwise(seen):
        if D[i] * D[j] < 0:
            root: Any = brentq(difference, math.log(on.K[i]), math.log(on.K[j]), xtol=1e-13)
            yield math.exp(root)


def _difference(on: Curves) -> np.ndarray:
    size = on.a + np.abs(on.g)
    return (on.a - on.g) / np.where(size > 0, size, 1.0)
