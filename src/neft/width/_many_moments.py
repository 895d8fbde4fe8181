"""The Gaussian averages of one layer over several inputs (docs/theory/width, eqs. 46-64)."""

from typing import Any, NamedTuple

import numpy as np

from .._accuracy import warn_missed
from .._activation import Activation
from .._pair_derivatives import ALIGNED, pair_derivatives
from .._pinned import pinned_products
from .._tuples import almost_everywhere
from ._moments import existence

# Of each fourfold average: the derivatives of its factors, and the tensors whose recursion asks for it.
_FOURFOLD = {
    "ssss": ((0, 0, 0, 0), "VDA"),
    "ssdd": ((0, 0, 1, 1), "DAFQT"),
    "dddd": ((1, 1, 1, 1), "ABS"),
    "edds": ((2, 1, 1, 0), "PQRT"),
    "tddd": ((3, 1, 1, 1), "R"),
    "eedd": ((2, 2, 1, 1), "STU"),
}
_PAIRS = {"ss": (0, 0), "dd": (1, 1), "es": (2, 0), "td": (3, 1), "ee": (2, 2)}
_FOURTH = {"ss": ((4, 0), (3, 1), (2, 2)), "dd": ((5, 1), (4, 2), (3, 3))}


_TOLERATED = 1e-4
"""The relative error of K₁ between near inputs, for a σ that jumps, from which on there is a warning."""


class Averages(NamedTuple):
    """Averages over several inputs; s, d, e, t stand for σ, σ', σ'', σ''', axes in the order of the letters.

    Pairs are (N, N), fourfold averages (N, N, N, N). None where a kink forbids one or nothing asks for it.
    """

    ss: Any
    dd: Any
    es: Any
    td: Any = None
    ee: Any = None
    ss4: Any = None  # ⟨σ^(4)σ⟩, ⟨σ'''σ'⟩, ⟨σ''σ''⟩
    dd4: Any = None  # ⟨σ^(5)σ'⟩, ⟨σ^(4)σ''⟩, ⟨σ'''σ'''⟩
    ssss: Any = None
    ssdd: Any = None
    dddd: Any = None
    edds: Any = None
    tddd: Any = None
    eedd: Any = None


def averages(
    act: Activation, K: np.ndarray, wanted: frozenset[str], *, rtol: float, first: int | None = None, others: int = 2
) -> Averages:
    """The averages that the recursions of the wanted tensors ask for, at a covariance K with positive diagonal."""
    exists = existence(act)
    if exists == "no derivative" and "K1" in wanted:
        _warn_of_near_inputs(act, K, rtol)
    pairs = dict(_PAIRS) if exists != "no derivative" else {name: _PAIRS[name] for name in ("ss", "dd", "es")}
    fourth = {name: orders for name, orders in _FOURTH.items() if {"ss": "K1", "dd": "Theta1"}[name] in wanted}
    orders = tuple({*pairs.values(), *(order for group in fourth.values() for order in group)})
    found = pair_derivatives(act, orders, K)
    values: dict[str, Any] = {name: found[order] for name, order in pairs.items()}
    values |= {f"{name}4": tuple(found[order] for order in group) for name, group in fourth.items()}
    asked = {name: pattern for name, (pattern, users) in _FOURFOLD.items() if wanted & set(users)}
    if asked:
        values |= zip(asked, almost_everywhere(act, list(asked.values()), K, rtol=rtol, first=first, others=others))
    # The deltas that those do not see.
    for name, kink in (("edds", 1), ("tddd", 2)):
        if name in asked and any(k.order == kink for k in act.kinks):
            first, p, q, r = asked[name]
            values[name] = values[name] + pinned_products(act, first, (p, q, r), K, rtol=rtol)
    return Averages(**values)


def of_identity(K: np.ndarray) -> Averages:
    """The same for an activation that is none, σ(z) = z."""
    zero, one = np.zeros_like(K), np.ones_like(K)
    four, both = np.zeros((len(K),) * 4), np.einsum("ab,cd->abcd", K, K)
    return Averages(
        ss=K,
        dd=one,
        es=zero,
        td=zero,
        ee=zero,
        ss4=(zero,) * 3,
        dd4=(zero,) * 3,
        ssss=both + both.transpose(0, 2, 1, 3) + both.transpose(0, 3, 2, 1),
        ssdd=four + K[:, :, None, None],
        dddd=four + 1,
        edds=four,
        tddd=four,
        eedd=four,
    )


def _warn_of_near_inputs(act: Activation, K: np.ndarray, rtol: float) -> None:
    # Where σ jumps, K₁ of two inputs grows like 1/√(1 - ρ²) as they approach each other, and the terms it is the sum of
    # like its cube: V, which they multiply, is known to rtol only.
    spread = np.sqrt(np.diagonal(K))
    rho = np.clip(K / np.outer(spread, spread), -1.0, 1.0)
    across = np.sqrt((1 - rho) * (1 + rho))
    across = across[across > ALIGNED]
    error = rtol / float(across.min(initial=1.0)) ** 2
    if error > _TOLERATED:
        warn_missed(f"K1 of {act.name} for inputs that are nearly parallel", error, rtol)
