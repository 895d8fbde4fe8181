"""How one of the two neurons of a correlator goes through a layer, for several inputs.

docs/theory/residual, eqs. 32-36.

A tensor of a residual stream is a correlator of two neurons. Each of them goes around a branch, which multiplies by the
skip, or through it. A *half* is a correlator of which one neuron, the moving one, went through some layers of a branch,
while the other has stayed. The samples of the moving neuron come first in it:

    V [1, 2 | 3, 4]   Dz [1, 2 | 3, 4]   DH [3, 4 | 1, 2]   A [1, 2 | 3, 4]   F [1, 3 | 2, 4]   B [1, 3 | 2, 4]
    P1 [3, 0 | 1, 2]  P2 [1, 2 | 0, 3]   Q1 [0, 1 | 3, 2]   Q2 [3, 2 | 0, 1]   R1 [0, 1 | 2, 3]  R2 [2, 3 | 0, 1]
    S1 [1, 2 | 3, 4]  S2 [3, 4 | 1, 2]   T [1, 3 | 2, 4]    U [1, 4 | 2, 3]

in the subscripts of docs/theory/width, eqs. 39-44. What comes after the first two axes is carried as it is.
"""

from typing import NamedTuple

import numpy as np

from ..network import Linear
from ._many_inputs import Pair
from ._many_moments import Averages

Halves = dict[str, np.ndarray]

# Of each tensor: its halves, and the subscripts of theirs that its own are.
_OF = {
    "V": (("V", "abcd"), ("V", "cdab")),
    "D": (("Dz", "abcd"), ("DH", "cdab")),
    "A": (("A", "abcd"), ("A", "cdab")),
    "F": (("F", "abcd"), ("F", "cdab")),
    "B": (("B", "abcd"), ("B", "cdab")),
    "P": (("P1", "dabc"), ("P2", "bcad")),
    "Q": (("Q1", "abdc"), ("Q2", "dcab")),
    "R": (("R1", "abcd"), ("R2", "cdab")),
    "S": (("S1", "abcd"), ("S2", "cdab")),
    "T": (("T", "abcd"), ("T", "cdab")),
    "U": (("U", "abcd"), ("U", "cdab")),
}


def halves_of(tensors: dict[str, np.ndarray]) -> Halves:
    """The halves of a stream whose tensors are these, before any layer of a branch."""
    found = {}
    for name, value in tensors.items():
        for half, letters in _OF[name]:
            if half not in found:
                found[half] = np.einsum(f"abcd->{letters}", value)
    return found


def wholes(halves: Halves) -> dict[str, np.ndarray]:
    """What the tensors have of them: either neuron may be the moving one."""
    found = {}
    for name, ((half, letters), (other, others)) in _OF.items():
        if half in halves:
            found[name] = np.einsum(f"{letters}->abcd", halves[half]) + np.einsum(f"{others}->abcd", halves[other])
    return found


class Slopes(NamedTuple):
    """How a layer b + Wσ(z) passes on what one neuron of the stage before has to do with another one."""

    mean: Averages
    Theta: Pair | None
    linear: Linear

    def along(self, X: np.ndarray) -> np.ndarray:
        """C_W ½⟨∂_m∂_n(σ_aσ_b)⟩ X_mn…, of K."""
        return self.linear.variance * _curved(self.mean.es, self.mean.dd, X)

    def mixed(self, X: np.ndarray) -> np.ndarray:
        """½⟨∂_m∂_nΩ_ab⟩ X_mn…, of Θ through K."""
        mean, Theta = self.mean, self.Theta
        return _curved(self.linear.theta(mean.es, Theta * mean.td), self.linear.theta(mean.dd, Theta * mean.ee), X)

    def across(self, X: np.ndarray) -> np.ndarray:
        """C_W⟨σ_a'σ_b'⟩ X_ab…, of Θ."""
        return _over(self.linear.variance * self.mean.dd, X) * X

    def moved(self, X: np.ndarray) -> np.ndarray:
        """C_W⟨∂_m(σ_aσ_b')⟩ X_mb…, of z_a with ∇z_b."""
        C, mean, own = self.linear.variance, self.mean, _diagonal(X)
        return C * (_over(mean.dd, X) * X + _over(mean.es.T, X) * own[None])

    def turned(self, X: np.ndarray) -> np.ndarray:
        """⟨∂_mΛ_ab⟩ X_ma…, of ∇∇z_a∇z_b through z with ∇z_a, Λ_ab = λ_Wσ_a'σ_b + C_WΘ_abσ_a''σ_b'."""
        mean, Theta = self.mean, self.Theta
        own, other = self.linear.theta(mean.es, Theta * mean.td), self.linear.theta(mean.dd, Theta * mean.ee)
        return _over(own, X) * _diagonal(X)[:, None] + _over(other, X) * np.swapaxes(X, 0, 1)

    def through(self, h: Halves) -> Halves:
        """The halves after the layer (docs/theory/residual, eqs. 33-36)."""
        mean, Theta, theta = self.mean, self.Theta, self.linear.theta
        new: Halves = {}
        for name in ("V", "Dz"):
            if name in h:
                new[name] = self.along(h[name])
        for name in ("F", "Q2"):
            if name in h:
                new[name] = self.moved(h[name])
        for name in ("B", "P2", "R2", "S2", "U"):
            if name in h:
                new[name] = self.across(h[name])
        for name, other in (("DH", "V"), ("A", "Dz")):
            if name in h:
                new[name] = self.across(h[name])
                if other in h:
                    new[name] = new[name] + self.mixed(h[other])
        for name, other in (("Q1", "F"), ("T", "Q2"), ("R1", "P1")):
            if name in h:
                new[name] = self.across(h[name])
                if other in h:
                    new[name] = new[name] + self.turned(h[other])
        if "P1" in h:
            new["P1"] = self.moved(h["P1"])
        if "S1" in h:
            new["S1"] = self.across(h["S1"])
        if "B" in h:
            # What curves there moves along two gradients.
            if "P1" in h:
                new["P1"] = new["P1"] + _over(self.linear.variance * mean.es.T, h["B"]) * _diagonal(h["B"])[None]
            if "R1" in h:
                new["R1"] = new["R1"] + _over(theta(mean.es, Theta * mean.td), h["B"]) * _diagonal(h["B"])[:, None]
            if "S1" in h:
                new["S1"] = new["S1"] + _over(theta(mean.dd, Theta * mean.ee), h["B"]) * h["B"]
        return new


def _curved(own: Pair, mixed: Pair, X: np.ndarray) -> np.ndarray:
    # Σ_mn ½⟨∂_m∂_n f_ab⟩ X_mn… with ⟨∂_a∂_a f⟩ and ⟨∂_a∂_b f⟩; X is symmetric in its first two axes.
    diagonal = _diagonal(X)
    first, second = _over(own, X) * diagonal[:, None], _over(own.T, X) * diagonal[None]
    return (first + second) / 2 + _over(mixed, X) * X


def _diagonal(X: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.diagonal(X), -1, 0)


def _over(pair: Pair, X: np.ndarray) -> np.ndarray:
    return pair.reshape(*pair.shape, *(1,) * (X.ndim - 2))
