"""The Gaussian averages of one layer that the width expansion is made of (docs/theory/width, eqs. 20-38, 65)."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from .._activation import Activation
from .._moments import Powers, pure_moments

Existence = Literal["all", "no second derivative squared", "no derivative"]

# Arrays of one shape, or None where a kink forbids the average.
Average = Any


class Averages(NamedTuple):
    """Averages over z ~ N(0, K); s, d, e, t stand for σ, σ', σ'', σ'''. None where a kink forbids one."""

    ss: Average  # ⟨s²⟩
    ssss: Average  # ⟨s⁴⟩
    g: Average  # d⟨s²⟩/dK
    a: Average = None  # ⟨s'²⟩
    ssdd: Average = None  # ⟨s²s'²⟩
    dddd: Average = None  # ⟨s'⁴⟩
    m: Average = None  # d⟨s'²⟩/dK = ⟨z s's''⟩/K
    sdde: Average = None  # ⟨s s'²s''⟩
    se: Average = None  # ⟨s s''⟩
    ss2: Average = None  # d²⟨s²⟩/dK²
    a2: Average = None  # d²⟨s'²⟩/dK²
    dddt: Average = None  # ⟨s'³s'''⟩
    dt: Average = None  # ⟨s's'''⟩
    ddee: Average = None  # ⟨s'²s''²⟩
    ee: Average = None  # ⟨s''²⟩


def existence(act: Activation) -> Existence:
    """Which averages exist: it depends on the lowest derivative that jumps."""
    lowest = min((kink.order for kink in act.kinks), default=4)
    if lowest == 0:
        return "no derivative"
    return "no second derivative squared" if lowest == 1 else "all"


def averages(
    act: Activation,
    K: Float[Array, "*shape"] | Float[np.ndarray, "*shape"] | float,
    moments: Callable[[Activation, list[Powers], Any], Any] = pure_moments,
) -> Averages:
    """All averages of one layer at variance K > 0: a pure function, but for `moments` that are not.

    Derivatives in K are written with Stein's lemma, in the form that loses fewest digits at small K among those that
    exist: where σ' jumps, each holds at most one delta.
    """
    exists = existence(act)
    if exists == "no derivative":
        # Derivatives in K of the Gaussian alone, He₂/2K and He₄/4K²: those of σ are not needed.
        chosen = [Powers(s=2), Powers(s=4), Powers(s=2, z=2), Powers(s=2, z=4)]
        ss, ssss, zzss, zzzzss = moments(act, chosen, K)
        ss2 = (zzzzss - 6 * K * zzss + 3 * K**2 * ss) / (4 * K**4)
        return Averages(ss, ssss, (zzss - K * ss) / (2 * K**2), ss2=ss2)
    table = {
        "ss": Powers(s=2),
        "ssss": Powers(s=4),
        "zsd": Powers(s=1, s1=1, z=1),
        "a": Powers(s1=2),
        "ssdd": Powers(s=2, s1=2),
        "dddd": Powers(s1=4),
        "zde": Powers(s1=1, s2=1, z=1),
        "sdde": Powers(s=1, s1=2, s2=1),
        "se": Powers(s=1, s2=1),
    }
    if exists == "all":
        table |= {
            "zst": Powers(s=1, s3=1, z=1),
            "zzee": Powers(s2=2, z=2),
            "zzdt": Powers(s1=1, s3=1, z=2),
            "dddt": Powers(s1=3, s3=1),
            "dt": Powers(s1=1, s3=1),
            "ddee": Powers(s1=2, s2=2),
            "ee": Powers(s2=2),
        }
    else:
        table |= {
            "zzdd": Powers(s1=2, z=2),
            "zzse": Powers(s=1, s2=1, z=2),
            "zzzde": Powers(s1=1, s2=1, z=3),
        }
    mean = dict(zip(table, moments(act, list(table.values()), K)))
    common = {name: mean[name] for name in ("ss", "ssss", "a", "ssdd", "dddd", "sdde", "se")}
    common |= {"g": mean["zsd"] / K, "m": mean["zde"] / K}
    if exists == "all":
        ss2 = (3 * mean["zde"] + mean["zst"]) / (2 * K)
        a2 = (mean["zzee"] + mean["zzdt"] - K * (mean["ee"] + mean["dt"])) / (2 * K**2)
        return Averages(**common, ss2=ss2, a2=a2, **{name: mean[name] for name in ("dddt", "dt", "ddee", "ee")})
    ss2 = (mean["zzdd"] + mean["zzse"] - K * (mean["a"] + mean["se"])) / (2 * K**2)
    a2 = (mean["zzzde"] - 3 * K * mean["zde"]) / (2 * K**3)
    return Averages(**common, ss2=ss2, a2=a2)
