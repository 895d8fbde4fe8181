"""What a neuron of a residual stream keeps of its past, for several inputs (docs/theory/residual, eqs. 37-43).

With an activation at the start of a branch any function u of a neuron is correlated at order 1/width with what all
neurons share. Such a functional y(u) is a sum over the branches before: where one begins at the stage m, products of
derivatives of its activation at two inputs e and f are sources,

    y(u) = Σ_m Σ_ef c_…ef ⟨σ^(p)(z^m_e) σ^(q)(z^m_f) u(z)⟩

with z^m and z jointly Gaussian, since a stream is z^m times its skips plus what is independent of it. The coefficients
c are halves (`_halves`): V, DH, F, B, P1, Q1, R1, S1 and U hold φ, δ, ψ, β, ϖ, κ, ϱ, ς and ζ, and after the samples of
the moving neuron they have those of the still one that u does not stand for, and then e and f.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._activation import Activation
from .._pinned import pinned_products
from .._pinned_slopes import curved_slopes
from .._tuples import almost_everywhere
from ..network import Linear
from ._halves import Halves, Slopes
from ._many_inputs import Four, Pair
from ._many_moments import Averages

# Derivatives of the two factors of a source or of a function that a functional is taken of.
ORDERS = {"ss": (0, 0), "dd": (1, 1), "sd": (0, 1), "se": (0, 2), "ed": (2, 1), "td": (3, 1), "ee": (2, 2)}
_OF_SLOPES = (0, 0, 1, 3), (0, 0, 2, 2)  # σσ of a source with two derivatives of σ'σ' of a stage
_CONNECTED = ("V", "DH")  # covariances, not means of products
_POWERS = {"V": 0, "DH": 0, "F": 1, "B": 2, "P1": 2, "Q1": 1, "R1": 2, "S1": 2, "U": 3}
_OF_TENSOR = {"V": "V", "D": "DH", "F": "F", "B": "B", "P": "P1", "Q": "Q1", "R": "R1", "S": "S1", "U": "U"}
# Where each functional has its sources.
_SOURCES = {
    "V": ("ss",),
    "DH": ("ss", "dd"),
    "F": ("sd",),
    "B": ("dd",),
    "P1": ("se", "dd"),
    "Q1": ("sd", "ed"),
    "R1": ("se", "td", "dd"),
    "S1": ("dd", "ee"),
    "U": ("ed",),
}
# For which tensors each functional is taken of what.
_TAKEN = {
    "V": {"ss": "V", "dd": "DA", "se": "", "td": "", "ee": ""},
    "DH": {"ss": "D", "dd": "A"},
    "F": {"sd": "F", "ed": "QT"},
    "B": {"dd": "B", "se": "PR", "td": "R", "ee": "S"},
    "P1": {"dd": "P"},
    "Q1": {"sd": "Q", "ed": "T"},
    "R1": {"dd": "R"},
    "S1": {"dd": "S"},
    "U": {"ed": "U"},
}
_FOR_MEANS = {"K1": {"V": ("dd", "se")}, "Theta1": {"V": ("dd", "se", "td", "ee"), "DH": ("dd",), "F": ("ed",)}}


def _rights(half: str, wanted: frozenset[str]) -> set[str]:
    found = {right for right, names in _TAKEN[half].items() if wanted & set(names)}
    return found.union(*(_FOR_MEANS[name].get(half, ()) for name in wanted & set(_FOR_MEANS)))


class Source(NamedTuple):
    """A branch that began at a stage with these averages: the product of the skips since, and coefficients by kind."""

    act: Activation
    K: Pair
    mean: Averages
    skip: float
    of: dict[str, Halves]


def sources(wanted: frozenset[str], act: Activation, K: Pair, Theta: Pair | None, mean: Averages, linear: Linear):
    """What a layer that begins a branch leaves behind (docs/theory/residual, eq. 40), before it goes through others."""
    C, rate = linear
    one = np.eye(len(K))
    T: Pair = np.zeros_like(K) if Theta is None else Theta
    made = {
        "V": {"ss": C * np.einsum("ae,bf->abef", one, one)},
        "DH": {"ss": rate * np.einsum("ae,bf->abef", one, one), "dd": C * np.einsum("ab,ae,bf->abef", T, one, one)},
        "F": {"sd": C * np.einsum("cb,ae,bf->abcef", T, one, one)},
        "B": {"dd": C * np.einsum("ca,db,ae,bf->abcdef", T, T, one, one)},
        "P1": {"se": C * np.einsum("bc,bd,ae,bf->abcdef", T, T, one, one)},
        "Q1": {
            "sd": rate * np.einsum("ac,be,af->abcef", T, one, one),
            "ed": C * np.einsum("ab,ac,ae,bf->abcef", T, T, one, one),
        },
        "R1": {
            "se": rate * np.einsum("ac,ad,be,af->abcdef", T, T, one, one),
            "td": C * np.einsum("ab,ac,ad,ae,bf->abcdef", T, T, T, one, one),
        },
        "S1": {
            "dd": rate * np.einsum("ac,bd,ae,bf->abcdef", T, T, one, one),
            "ee": C * np.einsum("ab,ac,bd,ae,bf->abcdef", T, T, T, one, one),
        },
        "U": {"ed": C * np.einsum("ca,ad,cb,ae,bf->abcdef", T, T, T, one, one)},
    }
    of: dict[str, Halves] = {kind: {} for kind in ORDERS}
    for tensor, half in _OF_TENSOR.items():
        if tensor in wanted:
            for kind in _SOURCES[half]:
                # What only comes later begins with nothing.
                like = next(iter(made[half].values()))
                of[kind][half] = made[half].get(kind, np.zeros_like(like))
    return Source(act, K, mean, 1.0, {kind: halves for kind, halves in of.items() if halves})


def went(source: Source, skip: float, slopes: Sequence[Slopes], *, stayed: bool) -> Source:
    """A source after a block: its shared side goes around the branch and through it, u around it (eq. 39).

    A source that is new did not stay: its shared side is in the branch already.
    """
    of = {}
    for kind, halves in source.of.items():
        through = halves
        for one in slopes:
            through = one.through(through)
        of[kind] = {
            name: skip ** _POWERS[name] * (skip**2 * value + through[name] if stayed else through[name])
            for name, value in halves.items()
        }
    return source._replace(skip=skip * source.skip, of=of)


def only_through(source: Source, slopes: Slopes) -> Source:
    """A source whose shared side goes through a layer."""
    return source._replace(of={kind: slopes.through(halves) for kind, halves in source.of.items()})


class Tables(NamedTuple):
    """Averages ⟨σ^(p)_e σ^(q)_f σ^(r)_j σ^(s)_k⟩ of a source at e, f and a stage at j, k, by the orders."""

    found: dict[tuple[int, ...], np.ndarray]
    N: int

    def between(self, left: str, right: str) -> Four:
        """With axes e, f, j, k."""
        orders = (*ORDERS[left], *ORDERS[right])
        sort = sorted(range(4), key=lambda i: orders[i])
        array = self.found[tuple(orders[i] for i in sort)]
        # Axis i of what is wanted is that axis of the sorted pattern which has its order.
        array = array.transpose([sort.index(i) for i in range(4)])
        return array[: self.N, : self.N, self.N :, self.N :]


def tables(source: Source, K: Pair, wanted: frozenset[str], *, rtol: float) -> Tables:
    """All averages that functionals of this source ask for, at a stage with this covariance."""
    needed = {
        tuple(sorted((*ORDERS[left], *ORDERS[right])))
        for left, halves in source.of.items()
        for half in halves
        for right in _rights(half, wanted)
    }
    if not needed:
        return Tables({}, len(K))
    patterns = sorted(needed)
    cross = source.skip * source.K
    joint = np.block([[source.K, cross], [cross.T, K]])
    found = dict(zip(patterns, almost_everywhere(source.act, patterns, joint, rtol=rtol)))
    for pattern in patterns:
        # The deltas that those do not see; the highest derivative, the last factor, holds them.
        *rest, highest = pattern
        if pattern not in _OF_SLOPES and any(kink.order == highest - 1 for kink in source.act.kinks):
            deltas = pinned_products(source.act, highest, (rest[0], rest[1], rest[2]), joint, rtol=rtol)
            found[pattern] = found[pattern] + np.moveaxis(deltas, 0, -1)
    if source.act.kinks and needed >= set(_OF_SLOPES):
        N = len(K)
        for pattern, deltas in zip(_OF_SLOPES, curved_slopes(source.act, joint, N, rtol=rtol)):
            # Sorted, the third derivative is the last factor.
            found[pattern] = found[pattern].copy()
            found[pattern][:N, :N, N:, N:] += np.swapaxes(deltas, 2, 3)
    return Tables(found, len(K))


def taken(past: Sequence[Source], all_tables: Sequence[Tables], mean: Averages, half: str, right: str) -> np.ndarray:
    """A functional of σ^(r)_jσ^(s)_k: its axes, without e and f, and then j and k."""
    total: np.ndarray | float = 0.0
    for source, table in zip(past, all_tables):
        for left, halves in source.of.items():
            if half in halves:
                average = table.between(left, right)
                if half in _CONNECTED:
                    average = average - pair(source.mean, left)[:, :, None, None] * pair(mean, right)
                total = total + np.einsum("...ef,efjk->...jk", halves[half], average)
    return np.asarray(total)


def pair(mean: Averages, kind: str) -> Pair:
    """⟨σ^(p)_aσ^(q)_b⟩ of one stage."""
    return {"ss": mean.ss, "dd": mean.dd, "se": mean.es.T, "td": mean.td, "ee": mean.ee}[kind]


def own_parts(past: Sequence[Source], wanted: frozenset[str]) -> dict[str, Four]:
    """What the functionals are of the tensors: those of the neurons' own zz, z and 1 (eq. 38)."""
    zz, z, one = _of_two, _of_one, _of_none
    found: dict[str, Four] = {}
    if not past:
        return found
    if "V" in wanted:
        value = _summed(past, "V", zz)
        found["V"] = value + value.transpose(2, 3, 0, 1)
    if "D" in wanted:
        found["D"] = _summed(past, "DH", zz).transpose(2, 3, 0, 1)
    if "F" in wanted:
        value = np.einsum("bdca->acbd", _summed(past, "F", z))
        found["F"] = value + value.transpose(2, 3, 0, 1)
    if "B" in wanted:
        value = _summed(past, "B", one)
        found["B"] = value + value.transpose(2, 3, 0, 1)
    if "P" in wanted:
        found["P"] = np.einsum("dabc->abcd", _summed(past, "P1", one))
    if "Q" in wanted:
        found["Q"] = _summed(past, "Q1", z)
    for name in ("R", "S"):
        if name in wanted:
            found[name] = _summed(past, f"{name}1", one)
    return found


def _summed(past: Sequence[Source], half: str, value) -> np.ndarray:
    total: np.ndarray | float = 0.0
    for source, (kind, halves) in itertools.chain.from_iterable(
        ((source, item) for item in source.of.items()) for source in past
    ):
        if half in halves:
            total = total + value(source, kind, halves[half])
    return np.asarray(total)


def _of_two(source: Source, kind: str, of: np.ndarray) -> np.ndarray:
    # cov(σσ, z_jz_k) by Stein's lemma.
    mean, c = source.mean, source.skip * source.K
    own, mixed = {"ss": (mean.es, mean.dd), "dd": (mean.td, mean.ee)}[kind]
    first = np.einsum("...ef,ef,ej,ek->...jk", of, own, c, c) + np.einsum("...ef,fe,fj,fk->...jk", of, own, c, c)
    both = np.einsum("...ef,ef,ej,fk->...jk", of, mixed, c, c)
    return first + both + np.swapaxes(both, -1, -2)


def _of_one(source: Source, kind: str, of: np.ndarray) -> np.ndarray:
    mean, c = source.mean, source.skip * source.K
    first, second = {"sd": (mean.dd, mean.es.T), "ed": (mean.td, mean.ee)}[kind]
    return np.einsum("...ef,ef,ej->...j", of, first, c) + np.einsum("...ef,ef,fj->...j", of, second, c)


def _of_none(source: Source, kind: str, of: np.ndarray) -> np.ndarray:
    return np.einsum("...ef,ef->...", of, pair(source.mean, kind))
