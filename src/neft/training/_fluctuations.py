"""Draws of outputs and tangent kernels at finite width without drawing a network (docs/theory/training, eqs. 54-62).

To order 1/n all that training meets is: outputs with covariance K + K₁/n and fourth cumulant V/n, the NTK's fluctuation
with its second moments, the dNTK by its mean for given outputs, and the ddNTKs by their mean. What is drawn has these.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from .._precision import float64
from ._pairings import Four, correlators, permuted

CUTOFF = 1e-6
"""Directions of K with less than this of its largest eigenvalue keep their infinite-width outputs: K⁻¹ leaves them
out. The tensors are good to some 1e-7 of their largest entries, which K⁻¹ would blow up."""


class Law(NamedTuple):
    """What draws are made of, for S samples, training samples first, and O outputs."""

    n: float
    outputs: int
    train: int
    Theta: Float[np.ndarray, "S S"]
    whole: Float[np.ndarray, "S S"]
    """Draws of N(0, K) are this times normal numbers; its last columns are the directions that K⁻¹ keeps."""
    kept: int
    inverse: Float[np.ndarray, "S kept"]
    """K⁻¹ is this times its transpose, and its transpose times K₁ + k, and itself, the change of K relative to K."""
    K1: Float[np.ndarray, "S S"]
    collective: Float[np.ndarray, "S S kinds rank"]
    """Times normal numbers: k, the fluctuation of the outputs' covariance, and h, the NTK's diagonal in outputs."""
    free: Float[np.ndarray, "S S rank"]
    """Times normal numbers: G, of which the NTK's part that mixes outputs is made."""
    F: Float[np.ndarray, "S S S S"]
    dHz: Four
    ddH: tuple[Array, Array, Array]


class Draws(NamedTuple):
    """z(0) at infinite and finite width, (draws, S, O), H and dH over composite indices, and which kernels K + K₁/n + k
    were positive.
    """

    infinite: np.ndarray
    z: np.ndarray
    H: np.ndarray
    dH: np.ndarray
    positive: np.ndarray


def law(tensors: Mapping[str, np.ndarray], n: float, train: int, outputs: int) -> Law:
    """The law of the draws from the output layer's tensors, V among them, over training and test samples."""
    K, S = tensors["K"], len(tensors["K"])
    l, v = scipy.linalg.eigh(K)
    kept = l > CUTOFF * l[-1]
    first, second = np.triu_indices(S)

    def pairs(X: np.ndarray) -> np.ndarray:
        return X[first, second][:, first, second]

    D = pairs(tensors["D"])
    root = _root(np.block([[pairs(tensors["V"]), D], [D.T, pairs(tensors["A"])]]) / n)
    collective = np.empty((S, S, 2, root.shape[1]))
    for kind, rows in enumerate(np.split(root, 2)):
        collective[first, second, kind] = collective[second, first, kind] = rows
    X = correlators(tensors)
    free = _root(X.HH[1].reshape(S * S, S * S) / n)
    # The last slots only ever meet training samples.
    ddH = (part[..., :train, :train] / n for part in (X.I, X.II, permuted(X.II, (0, 2, 1, 3))))
    return Law(
        n,
        outputs,
        train,
        tensors["Theta"] + tensors["Theta1"] / n,
        v * np.sqrt(np.maximum(l, 0.0)),
        int(kept.sum()),
        v[:, kept] / np.sqrt(l[kept]),
        tensors["K1"] / n,
        collective,
        free.reshape(S, S, -1),
        tensors["F"] / n,
        X.dHz / n,
        tuple(_composite(part, outputs) for part in ddH),  # type: ignore[arg-type]
    )


def _root(C: np.ndarray) -> np.ndarray:
    # A covariance as a product with its own transpose; what rounding makes negative is none.
    l, v = scipy.linalg.eigh((C + C.T) / 2)
    kept = l > 1e-14 * max(l[-1], 1e-300)
    return v[:, kept] * np.sqrt(l[kept])


def _composite(X: Four, outputs: int) -> np.ndarray:
    eye = np.eye(outputs)
    deltas = ("ij,kl", "ik,jl", "il,jk")
    total = sum(np.einsum(f"abcd,{pair}->aibjckdl", part, eye, eye) for part, pair in zip(X, deltas))
    return np.asarray(total).reshape([samples * outputs for samples in X.shape[1:]])


def draw(law: Law, key: Array, index: np.ndarray, *, sign: float = 1.0, infinite: np.ndarray | None = None) -> Draws:
    """The draws of an index; `sign` mirrors their fluctuations, so that averages over both lose what is odd in them.

    The outputs at `infinite` width, (draws, S, O), are drawn too where they are not given.
    """
    S, O, count = len(law.Theta), law.outputs, len(index)
    sizes = (law.collective.shape[-1], law.free.shape[-1])
    normal, e, G = (np.asarray(part) for part in _numbers(key, jnp.asarray(index), S, O, *sizes))
    fluctuation = sign * np.einsum("abkr,sr->ksab", law.collective, e, optimize=True)
    # z = L(1+E)^½ξ for K = LLᵀ and K + K₁ + k = L(1+E)Lᵀ.
    E = np.einsum("am,sab,bn->smn", law.inverse, law.K1 + fluctuation[0], law.inverse, optimize=True)
    l, v = np.linalg.eigh(np.eye(law.kept) + E)
    root = (v * np.sqrt(np.maximum(l, 0.0))[:, None, :]) @ v.mT
    if infinite is None:
        infinite, kept = law.whole @ normal, normal[:, S - law.kept :]
    else:
        kept = law.inverse.T @ infinite
    z = infinite + law.whole[:, S - law.kept :] @ (root - np.eye(law.kept)) @ kept
    raised = law.inverse @ (law.inverse.T @ z)
    H = np.einsum("sab,ij->saibj", law.Theta + fluctuation[1], np.eye(O))
    G = sign * np.einsum("abr,srij->saibj", law.free, G, optimize=True)
    H += (G + G.transpose(0, 3, 4, 1, 2)) / np.sqrt(2)
    # F_manb (ζ_mi ζ_nj - δ_ij K⁻¹_mn) with ζ = K⁻¹z.
    H += np.einsum("manb,smi,snj->saibj", law.F, raised, raised, optimize=True)
    H -= np.einsum("manb,mk,nk,ij->aibj", law.F, law.inverse, law.inverse, np.eye(O), optimize=True)
    M, A = S * O, law.train * O
    return Draws(
        infinite,
        z,
        H.reshape(count, M, M),
        _conditional(law.dHz[:, :, :, : law.train], raised).reshape(count, M, M, A),
        l[:, 0] > 0,
    )


def _conditional(dHz: Four, raised: np.ndarray) -> np.ndarray:
    # E[dH_012 | z] = E[dH_012 z_3] K⁻¹_33' z_3', one letter more for each slot's output.
    eye = np.eye(raised.shape[-1])
    outputs = (("ij", "k"), ("ik", "j"), ("jk", "i"))
    parts = (
        np.einsum(f"abcm,{delta},sm{own}->saibjck", part, eye, raised, optimize=True)
        for part, (delta, own) in zip(dHz, outputs)
    )
    return np.asarray(sum(parts))


@float64
def _numbers(key: Array, index: Array, S: int, O: int, collective: int, free: int) -> Any:
    def one(i: Array) -> Any:
        own = jax.random.fold_in(key, i)
        first, second = (jax.random.fold_in(own, k) for k in (2, 3))
        # The first ones are those of infinite width.
        return (
            jax.random.normal(own, (S, O)),
            jax.random.normal(first, (collective,)),
            jax.random.normal(second, (free, O, O)),
        )

    return jax.tree.map(np.asarray, jax.vmap(one)(index))
