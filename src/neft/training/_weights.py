"""How long a perturbation acts: weights in time of the response to second order (docs/theory/training, eqs. 19-28).

Each is a nested integral over exponentials e^{-lt}, or a nested sum over powers (1-ηl)^T, of eigenvalues l of Θ_AA.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Moment(NamedTuple):
    """A time of gradient flow (`time`, perhaps infinite), or `steps` of gradient descent of size `eta`."""

    time: float
    steps: int | None = None
    eta: float = 0.0

    @property
    def over(self) -> bool:
        """Whether training has come to its end."""
        return self.steps is None and bool(np.isinf(self.time))


class Weights(NamedTuple):
    """What multiplies each product of tangent kernels in the response of output d; b runs over all samples.

    c₁ = -H1 ΔH_bμ ε_μ, c₂ = +HH ΔH_bμ ΔH_μν ε_ν + (d (dH_bμν + dH_μbν) + dH dH_bμν) ε_με_ν
    - (Y (Y_bμνρ + Y_μbνρ) + Y0 Y_bμνρ + Z Z_bμνρ + I I_bμνρ) ε_με_νε_ρ; the last of each line are None for flow.
    Those of three eigenvectors are large, and are given by κ: the weight is the sum over it with G_κdb.
    """

    G: Float[np.ndarray, "kappa all all"]
    initial: Float[np.ndarray, "all all"]
    H1: Float[np.ndarray, "all all A"]
    HH: Float[np.ndarray, "all all A A"]
    d: Float[np.ndarray, "all all A A"]
    Y: Float[np.ndarray, "kappa A A A"]
    dH: Float[np.ndarray, "all all A A"] | None
    Y0: Float[np.ndarray, "kappa A A A"] | None
    Z: Float[np.ndarray, "kappa A A A"] | None
    I: Float[np.ndarray, "kappa A A A"] | None


def nested(moment: Moment, *nodes: np.ndarray) -> np.ndarray:
    """φ(x₀, …, x_k) = ∫ e^{-x₀(t-s₁)} e^{-x₁(s₁-s₂)} … e^{-x_k s_k} over t > s₁ > … > s_k > 0, for broadcast arrays.

    For steps, η^k Σ (1-ηx₀)^{T-1-s₁} (1-ηx₁)^{s₁-1-s₂} … (1-ηx_k)^{s_k} over T > s₁ > … > s_k ≥ 0. Both are, up to a
    sign, the divided difference of e^{-xt} or (1-ηx)^T, and so an entry of that function of a matrix with the x on its
    diagonal and -1 above it, which has no trouble where nodes coincide. At the end of training and x₀ = 0, φ is
    1/(x₁ … x_k).

    >>> nested(Moment(np.inf), np.array(0.0), np.array(2.0), np.array(5.0))
    array(0.1)
    """
    x = np.stack(np.broadcast_arrays(*nodes), axis=-1)
    if moment.over:
        return np.asarray(1 / np.prod(x[..., 1:], axis=-1))
    k = x.shape[-1] - 1
    matrix = np.zeros((*x.shape, k + 1))
    every = np.arange(k + 1)
    matrix[..., every, every] = x
    matrix[..., every[:-1], every[1:]] = -1.0
    if moment.steps is None:
        return np.asarray(_exponential(-moment.time * matrix)[..., 0, k])
    return np.asarray(np.linalg.matrix_power(np.eye(k + 1) - moment.eta * matrix, moment.steps)[..., 0, k])


_TERMS = 22  # of the series of e^A for |A| ≤ 2


def _exponential(matrix: np.ndarray) -> np.ndarray:
    """e^A of triangular matrices without negative entries beside the diagonal, shape (..., k, k), to rounding.

    All at once, where `scipy.linalg.expm` takes one after the other. Nothing cancels: with the diagonal shifted up the
    series has positive terms, so have the squares, and the diagonal of each square is known.
    """
    every = np.arange(matrix.shape[-1])
    diagonal, one = matrix[..., every, every], np.eye(len(every))
    size = float(np.abs(matrix).sum(axis=-1).max(initial=0.0))
    halvings = max(0, math.ceil(math.log2(size))) if size > 0 else 0
    shift = np.abs(diagonal).max(axis=-1)[..., None, None] / 2.0**halvings
    small = matrix / 2.0**halvings + shift * one
    total = one + small / _TERMS
    for n in range(_TERMS - 1, 0, -1):
        total = one + small @ total / n
    total = np.exp(-shift) * total
    for left in range(halvings - 1, -1, -1):
        total = total @ total
        total[..., every, every] = np.exp(diagonal / 2.0**left)
    return total


def initial(moment: Moment, Theta: np.ndarray, train: int) -> Float[np.ndarray, "all all"]:
    """What is left of z(0) in each output, the first `train` samples being trained on."""
    return _kept(moment, *_spread(moment, Theta, train)[:2])


def _spread(moment: Moment, Theta: np.ndarray, train: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    # A perturbation of output b at time s moves output d at time t by Σ_κ G[κ,d,b] e^{-l_κ(t-s)}, l_0 = 0.
    A, N = train, len(Theta)
    l, vectors = np.linalg.eigh(Theta[:A, :A])
    v = np.zeros((N, A))
    v[:A] = vectors
    towards = Theta[:, :A] @ vectors / l
    still = np.eye(N) - towards @ v.T
    if moment.over:
        return still[None], np.zeros(1), l, v
    return np.concatenate([still[None], np.einsum("dk,bk->kdb", towards, v)]), np.concatenate([[0.0], l]), l, v


def _kept(moment: Moment, G: np.ndarray, rates: np.ndarray) -> np.ndarray:
    return G[0] if moment.over else np.tensordot(nested(moment, rates), G, axes=1)


def weights(moment: Moment, Theta: np.ndarray, train: int) -> tuple[Weights, np.ndarray, np.ndarray]:
    """The weights for Θ over all samples, the first `train` of them trained on, and l and v (all, A) of Θ_AA."""
    G, rates, l, v = _spread(moment, Theta, train)
    eta = moment.eta
    r = 1 - eta * l
    # (1-η m_μν) = (1-ηl_μ)(1-ηl_ν): the rate at which a product of residuals decays.
    two = l[:, None] + l - eta * np.multiply.outer(l, l)
    three = two[..., None] + l - eta * np.multiply.outer(two, l)
    k1, k2, k3 = (rates.reshape(-1, *(1,) * axes) for axes in (1, 2, 3))
    l2, l3, two3 = l[:, None], l[:, None, None], two[..., None]

    def spread(factor: np.ndarray | float, values: np.ndarray) -> np.ndarray:
        return np.tensordot(G, factor * values, axes=(0, 0))

    def phi(*nodes: np.ndarray) -> np.ndarray:
        return nested(moment, *nodes)

    r2, r3, rr = r[:, None], r[:, None, None], np.multiply.outer(r, r)[..., None]
    found = Weights(
        G=G,
        initial=_kept(moment, G, rates),
        H1=spread(1.0, phi(k1, l)),
        HH=spread(1.0, phi(k2, l2, l)),
        d=spread(r2, phi(k2, l2, two)),
        Y=r3 * rr * phi(k3, l3, two3, three),
        dH=spread(eta / 2, phi(k2, two)) if eta else None,
        Y0=eta / 2 * rr * phi(k3, two3, three) if eta else None,
        Z=eta / 2 * r3 * phi(k3, l3, three) if eta else None,
        I=eta**2 / 6 * phi(k3, three) if eta else None,
    )
    return found, l, v
