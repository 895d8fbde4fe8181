"""How deep networks behave at criticality (docs/theory/width, eqs. 70-72), and with skips of 1 (docs/theory/depth)."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from .._activation import Activation
from .._activation import activation as _activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Block, Means, OneMatrix, Stage, TwoMatrices
from ..network.engine import passed, stream_width
from ._critical import CriticalPoint, critical
from ._depth_flow import depth_flow
from ._functionals import squares
from ._origin import Origin, origin
from ._step import Step
from ._subject import Repeated, Subject, subject

_TERMS = 4096  # of the Hermite expansion of z|z|, whose squares fall like 1/k⁴
_DEEP = 256


@result
class Asymptotics(Result):
    """The approach to criticality with the depth l.

    At C_W = 1/A_2 and C_b = 0 the kernel obeys K' = K (1 + a_half √K + a_1 K + …). Where K* = 0 attracts, K falls as a
    power of 1/l, χ_⊥ → 1 - p/l and V/K² → V_slope · l; p and V_slope are None where it does not, or where K falls
    slower than any power. For a scale-invariant σ, K stays and V/K² = V_slope (l - 1). V is for equal widths. Of a
    repeated block l counts the blocks that were passed, so that l - 1 is l, and to V/K² = V_slope · l a constant may
    come; V_slope is None where V is not known, and C_W is its own critical one.

    A block with skips of 1 is not critical. Without norms in its branches it is taken with branches of 1/√L, whose
    ratios tend to `limits` as the depth L grows, at its own variances and rates. With norms in them K → growth · l and
    χ_⊥ → 1 - p/l, where p may be negative, at C_b = 0 and C_W = 1.

    Attributes:
        activation: its name, or the block in words.
        dense: of a block, which of its dense blocks have C_W; None for an activation.
        universality: "scale-invariant", "K*=0"; "small branches" or "growing" with skips of 1; "normalized" where norms
            fix χ_∥ below 1.
        growth: what a block adds to K where it grows, else None.
        limits: of branches of 1/√L, V/K², A/Θ², B/Θ², K1/K and Θ1/Θ by the names V, A, B, K1, Theta1, else None.
        a_half: zero unless there is a kink at 0.
        A_2: mean of the squared slopes on the two sides of 0, so that 1/A_2 is the critical C_W.
        A_4: mean of their fourth powers.
        law: the prediction in words.
    """

    activation: str
    dense: str | None
    universality: Literal["scale-invariant", "K*=0", "small branches", "growing", "normalized"]
    C_W: float | None
    A_2: float | None
    A_4: float | None
    a_half: float | None
    a_1: float | None
    b_1: float | None
    p: float | None
    V_slope: float | None
    growth: float | None
    limits: dict[str, float] | None
    law: str
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"dense": None, "growth": None, "limits": None} | fields

    def _shown(self):
        absent = [name for name in ("dense", "growth", "limits") if getattr(self, name) is None]
        yield from ((name, value) for name, value in super()._shown() if name not in absent)


@public
@float64
def asymptotics(activation: Repeated, *, dense: int | None = None) -> Asymptotics:
    """The exponents and coefficients of the flow at the critical point with K* = 0, or of a scale-invariant activation.

    Of a block with skips of 1 or with norms, which has no such point, what holds instead: see `Asymptotics`.

    With σ_k the k-th derivative at 0: a_1 = σ_3/σ_1 + (3/4)(σ_2/σ_1)², b_1 = σ_3/σ_1 + (σ_2/σ_1)², K → 1/(-a_1 l) and
    χ_⊥ → 1 - p/l with p = b_1/a_1. A kink at 0 adds a_half, which then rules: K → 4/(a_half l)², p = 2. A skip γ around
    an activation that sees the variance sK multiplies a_1 and b_1 by (1 - γ²)s and a_half by (1 - γ²)√s
    (docs/theory/blocks, eq. 37).

    Args:
        activation: an activation, its name, or any elementwise JAX function with σ(0) = 0; or a repeated block with
            one such activation, or with norms.
        dense: of a block, which dense block has the critical C_W, counted from 0; by default all have.

    >>> found = asymptotics("tanh")
    >>> found.a_1, found.b_1, found.p
    (-2.0, -2.0, 1.0)
    """
    of = subject(activation, dense)
    points = () if of.step is None else critical(activation, dense=dense).points
    if of.step is not None and not points and _skips_with_one(of.step):
        return _with_skips_of_one(of, of.step)
    for point in points:
        if of.step is not None and point.universality == "normalized":
            return _behind_norms(of, of.step, point)
    act = of.activation or _only_activation(of, of.step)  # type: ignore[arg-type]
    near = origin(act)
    if not near.fixed:
        raise ValueError(
            f"activation is {act.name!r} with σ(0) = {near.value:g} and mean squared slope {near.A_2:g} at 0, but "
            "asymptotics are known for σ(0) = 0 and a slope that is not 0."
        )
    if math.isnan(near.a_1):
        raise ValueError(
            f"activation {act.name!r} has a derivative that diverges at 0, so its asymptotics are not known."
        )
    C_W, source = 1 / near.A_2, 3 * near.A_4 / near.A_2**2 - 1
    if of.step is not None:
        C_W = _critical_weight(of, points)
        near, source = _through(of.step, near, source, C_W)
    p, V_slope, law = _flow(near, act.scale_invariant, source, "(l - 1)" if of.step is None else "l")
    return Asymptotics(
        activation=of.name,
        dense=of.dense,
        universality="scale-invariant" if act.scale_invariant else "K*=0",
        C_W=C_W,
        A_2=near.A_2,
        A_4=near.A_4,
        a_half=near.a_half,
        a_1=near.a_1,
        b_1=near.b_1,
        p=p,
        V_slope=V_slope,
        growth=None,
        limits=None,
        law=law,
        made=Made.by("neft.width.asymptotics", specification=of.record),
    )


def _only_activation(of: Subject, step: Step) -> Activation:
    if len(step.activations) != 1:
        names = ", ".join(act.name for act in step.activations) or "none"
        raise ValueError(f"block {of.name} has the activations {names}, but asymptotics are known for one.")
    return step.activations[0]


def _critical_weight(of: Subject, points: Sequence[CriticalPoint]) -> float:
    for point in points:
        if point.universality in ("scale-invariant", "K*=0"):
            return point.C_W
    raise ValueError(f"block {of.name} is not critical at K* = 0 or at every K, where asymptotics are known.")


def _through(step: Step, near: Origin, source: float, C_W: float) -> tuple[Origin, float | None]:
    """The coefficients of a block K' = γ²K + β⟨σ²⟩ at sK, and what it adds to V/K² where that is known."""
    blocks = step.variances.put(0.0, C_W)
    seen: list[float] = []

    class Linear:
        # As if σ were √A_2 z: what is left of the step is linear in K, or the block is not of this kind.
        def pair(self, activation: Activation, stage: Stage) -> Means:
            seen.append(float(stage.K1))
            return Means(near.A_2 * stage.K1, near.A_2 * stage.K2, near.A_2 * stage.c, stage.c)

        def mean(self, activation: Activation, stage: Stage) -> Any:
            raise ValueError("a norm is no linear block.")

        tilted = mean

    K = np.array([0.5, 1.0, 2.0])
    values = [float(passed(blocks, Stage.itself(np.asarray(one), np.zeros(())), Linear()).c) for one in K]
    skip = float(step.slopes(1.0, 0.0, 0.0).parallel)
    if len(seen) != 3 or np.ptp(values / K) > 1e-9 or np.ptp(seen / K) > 1e-9 or abs(values[1] - 1) > 1e-9:
        raise ValueError(
            "asymptotics are known for one skip around one activation, without norms and biases, but the block is more."
        )
    s, rest = seen[1], 1 - skip
    scaled = near._replace(a_half=rest * math.sqrt(s) * near.a_half, a_1=rest * s * near.a_1, b_1=rest * s * near.b_1)
    return scaled, _growth_of_V(blocks, skip, near, source)


def _growth_of_V(blocks: Sequence[Block], skip: float, near: Origin, source: float) -> float | None:
    """What a block adds to V/K² where K stays, `skip` being γ² (docs/theory/depth, eqs. 1-3)."""
    known, rest = blocks[0].tensors() if len(blocks) == 1 else None, 1 - skip
    if isinstance(known, TwoMatrices):
        return 2 * (1 - skip**2) + stream_width(blocks) / known.width * rest**2 * source
    if isinstance(known, OneMatrix):
        # σ² is A_2 z² and a multiple of z|z|, of which relu has half.
        odd = 2 * np.asarray(squares(_activation("relu"), jnp.ones(()), _TERMS).s)[1::2]
        gamma = math.sqrt(skip) ** np.arange(1, _TERMS, 2)
        gamma = gamma if known.skip >= 0 else -gamma
        kinked = near.A_4 / near.A_2**2 - 1
        return 2 * (1 - skip**2) + rest**2 * kinked * float((odd**2 * (1 + gamma) / (1 - gamma)).sum())
    return None


def _skips_with_one(step: Step) -> bool:
    return abs(float(step.slopes(1.0, 0.0, 0.0).perpendicular) - 1) < 1e-9


def _with_skips_of_one(of: Subject, step: Step) -> Asymptotics:
    K, C_W = np.array([1e3, 2e3]), None
    at = step.slopes(K, 0.0, 1.0)
    kind: Literal["growing", "small branches"]
    if np.abs(at.parallel - 1).max() < 1e-4:
        kind, C_W, k, limits = "growing", 1.0, float(at.K[-1] - K[-1]), None
        p = -float((at.perpendicular[-1] - 1) * K[-1] / k)
        law = f"K → {k:.6g} l, χ_⊥ → 1 {'-' if p > 0 else '+'} {abs(p):.6g}/l, V/K² falls like 1/l where it is known."
    else:
        flow = depth_flow(step.blocks, _DEEP, scaled=True)
        kind, k, p, limits, law = "small branches", None, None, flow.limits, flow.summary
    return _without_origin(of, universality=kind, C_W=C_W, p=p, growth=k, limits=limits, law=law)


def _behind_norms(of: Subject, step: Step, point: CriticalPoint) -> Asymptotics:
    # Norms fix χ_∥ below 1, so that V forgets; Θ has χ_⊥ = 1, and its fluctuations add up (docs/theory/depth).
    # A norm after the sum leaves 0 but for rounding, which differs from one machine to the next.
    parallel = round(float(step.slopes(point.K_star, point.C_b, point.C_W).parallel), 12) + 0.0
    law = (
        f"At C_b = {point.C_b:.6g} K = {point.K_star:.6g} and χ_⊥ = 1 stay, with χ_∥ = {parallel:.6g}: V/K² tends to a "
        "constant, A/Θ² and B/Θ² grow like l, where they are known."
    )
    return _without_origin(of, universality="normalized", C_W=point.C_W, p=None, growth=None, limits=None, law=law)


def _without_origin(of: Subject, **found: Any) -> Asymptotics:
    """Where no expansion around K = 0 rules."""
    nothing = dict.fromkeys(("A_2", "A_4", "a_half", "a_1", "b_1", "V_slope"))
    made = Made.by("neft.width.asymptotics", specification=of.record)
    return Asymptotics(activation=of.name, dense=of.dense, **nothing, **found, made=made)


def _flow(
    near: Origin, scale_invariant: bool, source: float | None, steps: str
) -> tuple[float | None, float | None, str]:
    # `source` is what a layer adds to V/K² where K stays, and `steps` how many there are.
    if scale_invariant:
        return None, source, f"K and χ = 1 stay; V/K² {_grows(source, '= {:.6g} ' + steps)}."
    leading = near.a_half or near.a_1
    if leading > 0:
        return None, None, "K = 0 repels: K grows away from it."
    if leading == 0:
        return None, None, "K' = K to this order: K falls slower than 1/l, if it falls."
    # V' = source K² + χ_∥² V, and χ_∥/(K'/K) is 1 - 1/l for any power law of K.
    p, law = (2.0, "4/(a_half l)²") if near.a_half else (near.b_1 / near.a_1, "1/(-a_1 l)")
    slope = None if source is None else source / 3
    return p, slope, f"K → {law}, χ_⊥ → 1 - {p:.6g}/l, V/K² {_grows(slope, '→ {:.6g} l')}."


def _grows(value: float | None, words: str) -> str:
    return "is not known" if value is None else words.format(value)
