"""How deep networks behave at criticality where K* = 0 or every K is fixed (docs/theory/width, eqs. 70-72)."""

import math
from typing import Any, Literal

import numpy as np

from .._activation import Activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import Means, Stage
from ..network.engine import passed, stream_width
from ._critical import critical
from ._origin import Origin, origin
from ._step import Step
from ._subject import Repeated, Subject, subject
from ._through_blocks import two_matrices


@result
class Asymptotics(Result):
    """The approach to criticality with the depth l.

    At C_W = 1/A_2 and C_b = 0 the kernel obeys K' = K (1 + a_half √K + a_1 K + …). Where K* = 0 attracts, K falls as a
    power of 1/l, χ_⊥ → 1 - p/l and V/K² → V_slope · l; p and V_slope are None where it does not, or where K falls
    slower than any power. For a scale-invariant σ, K stays and V/K² = V_slope (l - 1). V is for equal widths. Of a
    repeated block l counts the blocks that were passed, so that l - 1 is l, V_slope is None where V is not known, and
    C_W is its own critical one.

    Attributes:
        activation: its name, or the block in words.
        dense: of a block, which of its dense blocks have C_W; None for an activation.
        a_half: zero unless there is a kink at 0.
        A_2: mean of the squared slopes on the two sides of 0, so that 1/A_2 is the critical C_W.
        A_4: mean of their fourth powers.
        law: the prediction in words.
    """

    activation: str
    dense: str | None
    universality: Literal["scale-invariant", "K*=0"]
    C_W: float
    A_2: float
    A_4: float
    a_half: float
    a_1: float
    b_1: float
    p: float | None
    V_slope: float | None
    law: str
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"dense": None} | fields

    def _shown(self):
        yield from ((name, value) for name, value in super()._shown() if name != "dense" or self.dense)


@public
@float64
def asymptotics(activation: Repeated, *, dense: int | None = None) -> Asymptotics:
    """The exponents and coefficients of the flow at the critical point with K* = 0, or of a scale-invariant activation.

    With σ_k the k-th derivative at 0: a_1 = σ_3/σ_1 + (3/4)(σ_2/σ_1)², b_1 = σ_3/σ_1 + (σ_2/σ_1)², K → 1/(-a_1 l) and
    χ_⊥ → 1 - p/l with p = b_1/a_1. A kink at 0 adds a_half, which then rules: K → 4/(a_half l)², p = 2. A skip γ around
    an activation that sees the variance sK multiplies a_1 and b_1 by (1 - γ²)s and a_half by (1 - γ²)√s
    (docs/theory/blocks, eq. 37).

    Args:
        activation: an activation, its name, or any elementwise JAX function with σ(0) = 0; or a repeated block with
            one such activation and without norms.
        dense: of a block, which dense block has the critical C_W, counted from 0; by default all have.

    >>> found = asymptotics("tanh")
    >>> found.a_1, found.b_1, found.p
    (-2.0, -2.0, 1.0)
    """
    of = subject(activation, dense)
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
        C_W = _critical_weight(of, activation, dense)
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
        law=law,
        made=Made.by("neft.width.asymptotics", specification=of.record),
    )


def _only_activation(of: Subject, step: Step) -> Activation:
    if len(step.activations) != 1:
        names = ", ".join(act.name for act in step.activations) or "none"
        raise ValueError(f"block {of.name} has the activations {names}, but asymptotics are known for one.")
    return step.activations[0]


def _critical_weight(of: Subject, given: Any, dense: int | None) -> float:
    points = [p for p in critical(given, dense=dense).points if p.universality in ("scale-invariant", "K*=0")]
    if not points:
        raise ValueError(f"block {of.name} is not critical at K* = 0 or at every K, where asymptotics are known.")
    (point, *_) = points
    return point.C_W


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
    parts = two_matrices(blocks)
    # Of V only two-matrix blocks are known to close on it (docs/theory/blocks, eq. 18).
    grows = None if parts is None else 2 * (1 - skip**2) + stream_width(blocks) / parts.width * rest**2 * source
    return scaled, grows


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
