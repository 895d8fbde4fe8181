"""Mean and covariance of trained outputs at order 1/n, from correlators (docs/theory/training, eqs. 29-30)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._pairings import Four, contract, correlator, permuted, projected
from ._weights import Moment, weights

PARTS = ("initial outputs", "kernel fluctuations", "dNTK", "ddNTK")
"""Where a correction comes from: K₁; Θ₁, A, B, D, F; P, Q; R, S, T, U."""

TENSORS = ("K", "Theta", "K1", "Theta1", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U")


class Corrections(NamedTuple):
    """Infinite width, and n times the corrections by where they come from; over all samples, training first."""

    mean: Float[np.ndarray, "all O"]
    cov: Float[np.ndarray, "all all"]
    mean_parts: dict[str, Float[np.ndarray, "all O"]]
    cov_parts: dict[str, Float[np.ndarray, "all O all O"]]
    expansion: float

    @property
    def mean_correction(self) -> Float[np.ndarray, "all O"]:
        """n(E[z] - its value at infinite width)."""
        return np.sum(list(self.mean_parts.values()), axis=0)

    @property
    def cov_correction(self) -> Float[np.ndarray, "all O all O"]:
        """n(cov z - its value at infinite width)."""
        return np.sum(list(self.cov_parts.values()), axis=0)


def corrections(tensors: Mapping[str, np.ndarray], y: Float[np.ndarray, "A O"], moment: Moment) -> Corrections:
    """E[z(t)] and cov z(t) to order 1/n for the tensors of the output layer over training and test samples."""
    K, Theta, K1, Theta1 = (tensors[name] for name in ("K", "Theta", "K1", "Theta1"))
    train, O = y.shape
    w, l, v = weights(moment, Theta, train)
    eye, every, A = np.eye(O), slice(None), slice(train)
    # Slots that are projected on eigenvectors are those of training samples.
    vectors = v[A]
    u, Pi = vectors.T @ y, w.initial
    Kmn, PK = v.T @ K @ v, Pi @ K @ v
    # E[ε_με_ν] over the initial outputs, axes (sample, output, sample, output).
    KY = np.einsum("mn,MN->mMnN", Kmn, eye) + np.einsum("mM,nN->mMnN", u, u)
    # E[ε_με_νε_ρ] = -uuu - Ku - Ku - Ku, and E[z_I ε_με_νε_ρ] with z_I = Πz.
    cubic = -np.einsum("mMnN,rR->mMnNrR", KY, u)
    for axes in ("mMrRnN", "rRnNmM"):
        cubic -= np.einsum(f"mn,MN,rR->{axes}", Kmn, eye, u)

    def corrected(X: Four, slots: str, *rest, out: str) -> np.ndarray:
        return contract(X, slots, *rest, out=out, outputs=O)

    HH = projected(correlator(tensors, "HH", every, A, A, A), None, vectors, vectors, vectors)
    mean_kernel = np.einsum("dbm,bm,mB->dB", w.H1, Theta1 @ v, u)
    mean_kernel -= corrected(HH, "bmmn", w.HH, "dbmn", u, "nN", out="dB")
    zzH = projected(correlator(tensors, "zzH", every, A, every, A), None, vectors, None, vectors)
    HxHw = projected(correlator(tensors, "HH", every, A, every, A), None, vectors, None, vectors)
    half = -corrected(zzH, "emxm", Pi, "ie", w.H1, "jxm", out="iEjX")
    half -= np.einsum("im,jxm,xm,EX->iEjX", PK, w.H1, Theta1 @ v, eye)
    half += corrected(HH, "xmmn", PK, "in", eye, "JN", w.HH, "jxmn", out="iJjX")
    cov_kernel = _symmetric(half) + corrected(HxHw, "xmwn", w.H1, "ixm", w.H1, "jwn", KY, "mMnN", out="iXjW")

    mean_d, half_d = np.zeros_like(mean_kernel), np.zeros_like(half)
    dHz = correlator(tensors, "dHz", every, A, A, every)
    both = dHz + permuted(correlator(tensors, "dHz", A, every, A, every), (1, 0, 2, 3))
    for weight, tensor in ((w.d, both), (w.dH, dHz)):
        if weight is None:
            continue
        whole = projected(tensor, None, vectors, vectors, None)
        inner = projected(whole[..., A], None, None, None, vectors)
        mean_d -= corrected(inner, "bmnm", weight, "dbmn", u, "nN", out="dB")
        mean_d -= corrected(inner, "bmnn", weight, "dbmn", u, "mM", out="dB")
        half_d += corrected(whole, "xmne", weight, "jxmn", Pi, "ie", KY, "mMnN", out="iEjX")
        half_d += corrected(inner, "xmnn", weight, "jxmn", PK, "im", eye, "IM", out="iIjX")
        half_d += corrected(inner, "xmnm", weight, "jxmn", PK, "in", eye, "IN", out="iIjX")

    mean_dd, half_dd = np.zeros_like(mean_kernel), np.zeros_like(half)
    I, J = (correlator(tensors, "I", *slots) for slots in ((every, A, A, A), (A, every, A, A)))
    Z = I + correlator(tensors, "II", every, A, A, A)
    Z_second = J + correlator(tensors, "II", A, every, A, A)
    Y = Z + permuted(correlator(tensors, "II", every, A, A, A), (0, 2, 1, 3))
    Y_second = Z_second + permuted(correlator(tensors, "II", A, A, every, A), (0, 2, 1, 3))
    terms = (
        (w.Y, Y + permuted(Y_second, (1, 0, 2, 3))),
        (w.Y0, Y),
        (w.Z, Z + permuted(Z_second, (1, 0, 2, 3))),
        (w.I, I),
    )
    for weight, tensor in terms:
        if weight is None:
            continue
        inner = projected(tensor, None, vectors, vectors, vectors)
        moved = corrected(inner, "bmnr", weight, "kmnr", cubic, "mMnNrR", out="kbB")
        mean_dd -= np.einsum("kdb,kbB->dB", w.G, moved)
        for one, other in (("m", "nr"), ("n", "mr"), ("r", "mn")):
            pair = f"{other[0]}{other[0].upper()}{other[1]}{other[1].upper()}"
            moved = corrected(inner, "xmnr", weight, "kmnr", KY, pair, out=f"kx{one}X{one.upper()}")
            half_dd -= np.einsum(f"kjx,i{one},kx{one}XI->iIjX", w.G, PK, moved, optimize=True)

    zero = np.zeros_like(mean_kernel)
    initial = np.einsum("ij,IJ->iIjJ", Pi @ K1 @ Pi.T, eye)
    return Corrections(
        mean=(np.eye(len(Pi)) - Pi)[:, :train] @ y,
        cov=Pi @ K @ Pi.T,
        mean_parts=dict(zip(PARTS, (zero, mean_kernel, mean_d, mean_dd))),
        cov_parts=dict(zip(PARTS, (initial, cov_kernel, _symmetric(half_d), _symmetric(half_dd)))),
        expansion=_expansion(projected(HH, v), l, O),
    )


def _symmetric(half: np.ndarray) -> np.ndarray:
    return half + half.transpose(2, 3, 0, 1)


def _expansion(HH: Four, l: np.ndarray, O: int) -> float:
    # ΔH Θ⁻¹ ΔH Θ⁻¹ on average, whose size relative to 1 is what the series goes by; symmetric in l^{-½}.
    whole = contract(HH, "kmmn", 1 / l, "m", l**-0.5, "k", l**-0.5, "n", out="kKnN", outputs=O)[:, 0, :, 0]
    return float(np.abs(np.linalg.eigvalsh((whole + whole.T) / 2)).max())
