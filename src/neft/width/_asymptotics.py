"""How deep networks behave at criticality where K* = 0 or every K is fixed (docs/theory/width, eqs. 70-72)."""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from .._activation import Activation
from .._activation import activation as _activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result

_BESIDE_ZERO = 1e-150  # a normal number, so near that no derivative of order one changes
_LARGE = 1e30  # a derivative beyond this is one that diverges at 0


class Origin(NamedTuple):
    """σ near 0, as σ(0) + a± z + …, and the map K → C_W⟨s²⟩ there for σ(0) = 0 and C_W = 1/A_2.

    ⟨s²⟩ = A_2 K (1 + a_half √K + a_1 K + …) and ⟨s'²⟩ = A_2 (1 + a_half √K + b_1 K + …). Averages of the two sides
    of 0 replace σ_k, so a kink at 0 is no exception; without one a_half = 0. The coefficients are NaN
    where K = 0 is no fixed point, or where a higher derivative diverges.
    """

    value: float  # σ(0)
    A_2: float
    A_4: float
    growth: float  # d⟨s²⟩/dK at K = 0
    a_half: float
    a_1: float
    b_1: float

    @property
    def fixed(self) -> bool:
        """Whether K = 0 is a fixed point at C_b = 0 with susceptibilities that are not 0."""
        return self.value == 0 and self.A_2 > 0


@result
class Asymptotics(Result):
    """The approach to criticality with the depth l.

    At C_W = 1/A_2 and C_b = 0 the kernel obeys K' = K (1 + a_half √K + a_1 K + …). Where K* = 0 attracts, K falls as a
    power of 1/l, χ_⊥ → 1 - p/l and V/K² → V_slope · l; p and V_slope are None where it does not, or where K falls
    slower than any power. For a scale-invariant σ, K stays and V/K² = V_slope (l - 1). V is for equal widths.

    Attributes:
        a_half: zero unless there is a kink at 0.
        A_2: mean of the squared slopes on the two sides of 0, so that 1/A_2 is the critical C_W.
        A_4: mean of their fourth powers.
        law: the prediction in words.
    """

    activation: str
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


@public
@float64
def asymptotics(activation: str | Activation | Callable[[Any], Any]) -> Asymptotics:
    """The exponents and coefficients of the flow at the critical point with K* = 0, or of a scale-invariant activation.

    With σ_k the k-th derivative at 0: a_1 = σ_3/σ_1 + (3/4)(σ_2/σ_1)², b_1 = σ_3/σ_1 + (σ_2/σ_1)², K → 1/(-a_1 l) and
    χ_⊥ → 1 - p/l with p = b_1/a_1. A kink at 0 adds a_half, which then rules: K → 4/(a_half l)², p = 2.

    Args:
        activation: an activation, its name, or any elementwise JAX function with σ(0) = 0.

    >>> found = asymptotics("tanh")
    >>> found.a_1, found.b_1, found.p
    (-2.0, -2.0, 1.0)
    """
    act = _activation(activation)
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
    p, V_slope, law = _flow(near, act.scale_invariant)
    return Asymptotics(
        activation=act.name,
        universality="scale-invariant" if act.scale_invariant else "K*=0",
        C_W=1 / near.A_2,
        A_2=near.A_2,
        A_4=near.A_4,
        a_half=near.a_half,
        a_1=near.a_1,
        b_1=near.b_1,
        p=p,
        V_slope=V_slope,
        law=law,
        made=Made.by("neft.width.asymptotics", specification={"activation": act.to_dict()}),
    )


def _flow(near: Origin, scale_invariant: bool) -> tuple[float | None, float | None, str]:
    source = 3 * near.A_4 / near.A_2**2 - 1
    if scale_invariant:
        return None, source, f"K and χ = 1 stay; V/K² = {source:.6g} (l - 1)."
    leading = near.a_half or near.a_1
    if leading > 0:
        return None, None, "K = 0 repels: K grows away from it."
    if leading == 0:
        return None, None, "K' = K to this order: K falls slower than 1/l, if it falls."
    # V' = source K² + χ_∥² V, and χ_∥/(K'/K) is 1 - 1/l for any power law of K.
    p, law = (2.0, "4/(a_half l)²") if near.a_half else (near.b_1 / near.a_1, "1/(-a_1 l)")
    return p, source / 3, f"K → {law}, χ_⊥ → 1 - {p:.6g}/l, V/K² → {source / 3:.6g} l."


@functools.lru_cache(maxsize=256)
def origin(act: Activation) -> Origin:
    """What σ is near 0, from both sides."""
    left, right = _derivatives(act, -1), _derivatives(act, 1)
    value = right[0]
    A_2, A_4 = (_mean(left[1] ** n, right[1] ** n) for n in (2, 4))
    growth = A_2 + (value * _mean(left[2], right[2]) if value else 0.0)
    if value and left[1] != right[1]:
        growth = math.copysign(math.inf, value * (right[1] - left[1]))  # ⟨σ''σ⟩ holds the delta of the kink
    if value or not A_2:
        return Origin(value, A_2, A_4, growth, *(math.nan,) * 3)
    half = _sum(right[1] * right[2], -left[1] * left[2]) * math.sqrt(2 / math.pi)
    a_1, b_1 = (
        _sum(*(part / 2 for side in (left, right) for part in (weight * side[2] ** 2, side[1] * side[3])))
        for weight in (0.75, 1.0)
    )
    return Origin(value, A_2, A_4, growth, half / A_2, a_1 / A_2, b_1 / A_2)


def _derivatives(act: Activation, side: int) -> list[float]:
    # Even when the caller is being traced, these are numbers of the activation.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        beside = [float(act.derivative(n)(side * _BESIDE_ZERO)) for n in range(4)]
    if not _all_finite(beside):
        # A function such as z sin(z)/z is smooth, but its program divides by zero.
        with contextlib.suppress(ValueError):
            beside = list(act.taylor(3) * [1, 1, 2, 6])
    if not _all_finite(beside[:2]):
        raise ValueError(f"activation {act.name!r} is not finite beside 0 or has no finite slope there, but must be.")
    if not _all_finite(beside):
        beside[2:] = [math.nan, math.nan]
    # What is there by rounding, or because this is not quite 0, would decide which power of K rules.
    noise = 1e-14 * float(np.nanmax(np.abs(beside)))
    return [0.0 if abs(value) <= noise else value for value in beside]


def _all_finite(values: list[float]) -> bool:
    return all(math.isfinite(value) and abs(value) < _LARGE for value in values)


def _mean(left: float, right: float) -> float:
    return (left + right) / 2


def _sum(*terms: float) -> float:
    # Terms that cancel are zero, whatever their rounding leaves: its sign would decide what attracts.
    total = math.fsum(terms)
    return 0.0 if abs(total) <= 1e-12 * float(np.abs(terms).sum()) else total
