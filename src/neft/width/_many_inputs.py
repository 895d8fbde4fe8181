"""The recursion of the width expansion for several inputs (docs/theory/width, eqs. 45-64).

Every line is a source term plus r times a transport term, in the letters of those equations. Averages with raised
indices are averages of derivatives (Stein's lemma), so K is never inverted: a sum over m runs over the samples that
occur in the average. Letters a, b, c, d of an einsum are the samples 1, 2, 3, 4, or 0, 1, 2, 3 where an equation
starts from 0.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._activation import Activation
from ..network import Block, Linear, Means, Nonlinearity, Stage
from ._known import no_average, stepped
from ._many_moments import Averages, averages
from ._one_input import Tensors

# What the recursion of each tensor takes from the layer before, besides K and Θ.
_NEEDS = {
    "V": "V",
    "D": "VD",
    "A": "VDA",
    "F": "F",
    "B": "B",
    "P": "BP",
    "Q": "FQ",
    "R": "BPR",
    "S": "BS",
    "T": "FQT",
    "U": "U",
}
_MEANS = {"K1": ("V", "K1"), "Theta1": ("V", "D", "F", "K1", "Theta1")}

Pair = Float[np.ndarray, "N N"]
Four = Float[np.ndarray, "N N N N"]


def closure(names: frozenset[str]) -> frozenset[str]:
    """The tensors that have to be computed so that the named ones can be."""
    needed = {"K"} | names
    while True:
        more = {n for name in needed for n in (*_NEEDS.get(name, ""), *_MEANS.get(name, ()))}
        if needed - {"K", "V", "K1"}:
            more.add("Theta")
        if more <= needed:
            return frozenset(needed)
        needed |= more


def first_layer(gram: Pair, block: Block, wanted: frozenset[str]) -> Tensors:
    """Layer 1 for inputs with x1·x2/n_0 = gram: K and Θ, every other tensor 0."""
    N = len(gram)
    values = {name: np.zeros((N, N) if name in _MEANS else (N,) * 4) for name in wanted - {"K", "Theta"}}
    K, Theta = stepped((block,), Stage.of_matrix(gram, np.zeros_like(gram), kind="input"), no_average)
    return Tensors(**values, K=K, Theta=Theta if "Theta" in wanted else None)


def next_layer(
    act: Activation,
    layer: Tensors,
    r: float,
    block: Block,
    wanted: frozenset[str],
    *,
    rtol: float,
    first: int | None = None,
    others: int = 2,
) -> Tensors:
    """The tensors of layer l+1, those after the block, from those of layer l; options of `almost_everywhere`."""
    mean = averages(act, layer.K, wanted, rtol=rtol, first=first, others=others)
    linear, own, without = block.tensors(), mean.ss.diagonal(), "Theta" not in wanted
    assert isinstance(linear, Linear)
    means = Means(own[:, None], own[None, :], mean.ss, 0 * mean.ss if without else mean.dd)
    stage = Stage.of_matrix(layer.K, 0 * layer.K if without else layer.Theta)
    K, Theta = stepped((Nonlinearity(act), block), stage, lambda *_: means)
    return after(layer, mean, r, linear, K, None if without else Theta, wanted)


def after(
    layer: Tensors, mean: Averages, r: float, linear: Linear, K: Pair, Theta: Pair | None, wanted: frozenset[str]
) -> Tensors:
    """The tensors after a linear block, where the averages at the layer before and the new K and Θ are known."""
    makers = {
        **dict.fromkeys("VDA", _vertex),
        "F": _F,
        "B": _B,
        "P": _P,
        "Q": _Q,
        "R": _R,
        "S": _S,
        "T": _T,
        "U": _U,
        "K1": _K1,
        "Theta1": _Theta1,
    }
    new: dict[str, Any] = {"K": K, "Theta": Theta}
    for name, make in makers.items():
        if name in wanted:
            new[name] = make(name, layer, mean, r, linear) if make is _vertex else make(layer, mean, r, linear)
    return Tensors(**new)


def _vertex(name: str, layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    """V', D' and A': covariances of two out of f = C_W s s and Ω, and what V, D and A carry on."""
    kinds = {"V": ("f", "f"), "D": ("f", "O"), "A": ("O", "O")}[name]
    C_W, lambda_W = linear
    # f and Ω are sums of s s and s' s' with these coefficients.
    slope = None if layer.Theta is None else C_W * layer.Theta
    parts = {"f": (C_W, None), "O": (lambda_W, slope)}
    (s1, d1), (s2, d2) = (parts[kind] for kind in kinds)
    new = s1 * s2 * _covariance(mean.ssss, mean.ss, mean.ss)
    if d2 is not None:
        new = new + s1 * _covariance(mean.ssdd, mean.ss, mean.dd) * d2
    if d1 is not None:
        swapped = _covariance(mean.ssdd, mean.ss, mean.dd).transpose(2, 3, 0, 1)
        new = new + d1[:, :, None, None] * (s2 * swapped + _covariance(mean.dddd, mean.dd, mean.dd) * d2)
    if r == 0:
        return new
    second = {kind: _curvatures(mean, *parts[kind]) for kind in kinds}
    left, right = (second[kind] for kind in kinds)
    carried = _twice(_twice(layer.V, left).transpose(2, 3, 0, 1), right).transpose(2, 3, 0, 1) / 4
    if name != "V":
        moved = C_W * mean.dd * layer.D
        carried = carried + _twice(moved, left) / 2
    if name == "A":
        # The same with (12) and (34) exchanged, and A itself.
        carried = carried + _twice(C_W * mean.dd * layer.D, right).transpose(2, 3, 0, 1) / 2
        carried = carried + C_W**2 * mean.dd[:, :, None, None] * mean.dd * layer.A
    return new + r * carried


def _covariance(four: Four, first: Pair, second: Pair) -> Four:
    return four - first[:, :, None, None] * second


def _curvatures(mean: Averages, of_s: float, of_d: Pair | None) -> tuple[Pair, Pair]:
    # ⟨∂_a∂_a f⟩ and ⟨∂_a∂_b f⟩ of f = of_s s_a s_b + of_d s'_a s'_b; ⟨∂_b∂_b f⟩ is the first one's transpose.
    if of_d is None:
        return of_s * mean.es, of_s * mean.dd
    return of_s * mean.es + of_d * mean.td, of_s * mean.dd + of_d * mean.ee


def _twice(X: np.ndarray, curvatures: tuple[Pair, Pair]) -> np.ndarray:
    """Σ_mn X_mn… ⟨∂_m∂_n f_ab⟩ for X symmetric in its first two indices."""
    own, mixed = (_over(value, X) for value in curvatures)
    diagonal = np.moveaxis(np.diagonal(X), -1, 0)
    return own * diagonal[:, None] + 2 * mixed * X + np.swapaxes(own, 0, 1) * diagonal[None, :]


def _over(pair: Pair, X: np.ndarray) -> np.ndarray:
    return pair.reshape(*pair.shape, *(1,) * (X.ndim - 2))


def _F(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    F, C_W = layer.F, linear.variance
    source = np.einsum("cd,abcd->acbd", layer.Theta, mean.ssdd)
    # ⟨z^m s_a s'_c⟩ is ⟨s'_a s'_c⟩ for m = a and ⟨s_a s''_c⟩ for m = c.
    once = np.einsum("ac,acnd->acnd", mean.dd, F) + np.einsum("ca,ccnd->acnd", mean.es, F)
    twice = np.einsum("bd,acbd->acbd", mean.dd, once) + np.einsum("db,acdd->acbd", mean.es, once)
    return C_W**2 * (source + r * twice)


def _B_bare(layer: Tensors, mean: Averages, r: float) -> Four:
    source = np.einsum("ab,cd,acbd->acbd", layer.Theta, layer.Theta, mean.dddd)
    return source + r * np.einsum("ac,bd,acbd->acbd", mean.dd, mean.dd, layer.B)


def _B(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    return linear.variance**2 * _B_bare(layer, mean, r)


def _P_bare(layer: Tensors, mean: Averages, r: float) -> Four:
    source = np.einsum("ab,ac,abcd->abcd", layer.Theta, layer.Theta, mean.edds)
    # ⟨z^m s'_a s_d⟩ is ⟨s''_a s_d⟩ for m = a and ⟨s'_a s'_d⟩ for m = d.
    carried = np.einsum("ad,aabc->abcd", mean.es, layer.B)
    carried = carried + np.einsum("ad,abca->abcd", mean.es, layer.P) + np.einsum("ad,abcd->abcd", mean.dd, layer.P)
    return source + r * np.einsum("bc,abcd->abcd", mean.dd, carried)


def _P(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    return linear.variance**2 * _P_bare(layer, mean, r)


def _Gamma(layer: Tensors, mean: Averages, linear: Linear) -> tuple[Pair, Pair]:
    """Γ_ab^m for m = a and for m = b."""
    return linear.theta(mean.es, layer.Theta * mean.td), linear.theta(mean.dd, layer.Theta * mean.ee)


def _F_Gamma(layer: Tensors, Gamma: tuple[Pair, Pair]) -> Four:
    """F_manc Γ_ab^m with axes a, b, n, c."""
    own, other = Gamma
    return np.einsum("ab,aanc->abnc", own, layer.F) + np.einsum("ab,banc->abnc", other, layer.F)


def _Q(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    Theta, (C_W, lambda_W) = layer.Theta, linear
    source = C_W**2 * np.einsum("ab,ac,abcd->abcd", Theta, Theta, mean.edds)
    source = source + lambda_W * C_W * np.einsum("ac,bdac->abcd", Theta, mean.ssdd)
    if r == 0:
        return source
    # ⟨z^n s'_c s_d⟩ is ⟨s''_c s_d⟩ for n = c and ⟨s'_c s'_d⟩ for n = d.
    once = _F_Gamma(layer, _Gamma(layer, mean, linear))
    from_F = np.einsum("cd,abcc->abcd", mean.es, once) + np.einsum("cd,abdc->abcd", mean.dd, once)
    from_Q = np.einsum("cd,abcc->abcd", mean.es, layer.Q) + np.einsum("cd,abcd->abcd", mean.dd, layer.Q)
    return source + r * (C_W * from_F + C_W**2 * np.einsum("ab,abcd->abcd", mean.dd, from_Q))


def _R(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    Theta, B, P, (C_W, lambda_W) = layer.Theta, layer.B, layer.P, linear
    source = C_W**2 * np.einsum("ab,ac,ad,abcd->abcd", Theta, Theta, Theta, mean.tddd)
    source = source + lambda_W * C_W * np.einsum("acdb->abcd", _P_bare(layer, mean, r))
    # ⟨z^m s''_a s'_b⟩ is ⟨s'''_a s'_b⟩ for m = a and ⟨s''_a s''_b⟩ for m = b.
    carried = np.einsum("ab,aacd->abcd", mean.td, B)
    carried = carried + np.einsum("ab,acda->abcd", mean.td, P) + np.einsum("ab,acdb->abcd", mean.ee, P)
    carried = _over(Theta, carried) * carried + np.einsum("ab,abcd->abcd", mean.dd, layer.R)
    return source + r * C_W**2 * np.einsum("cd,abcd->abcd", mean.dd, carried)


def _source(layer: Tensors, mean: Averages, linear: Linear) -> Four:
    """C_W²Θ12Θ13Θ24⟨s1''s2''s3's4'⟩, the source that S, T and U share; axes 1, 2, 3, 4."""
    Theta = layer.Theta
    return linear.variance**2 * np.einsum("ab,ac,bd,abcd->abcd", Theta, Theta, Theta, mean.eedd)


def _S(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    C_W, lambda_W = linear
    source = _source(layer, mean, linear) + lambda_W * C_W * _B_bare(layer, mean, r)
    carried = _over(layer.Theta * mean.ee, layer.B) * layer.B + _over(mean.dd, layer.S) * layer.S
    return source + r * C_W**2 * np.einsum("cd,abcd->abcd", mean.dd, carried)


def _T(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    Theta, Q, (C_W, lambda_W) = layer.Theta, layer.Q, linear
    new = np.einsum("abcd->acbd", _source(layer, mean, linear))
    mixed = np.einsum("ab,bd,badc->acbd", Theta, Theta, mean.edds) + np.einsum(
        "ab,ac,acbd->acbd", Theta, Theta, mean.edds
    )
    new = new + lambda_W * C_W * mixed + lambda_W**2 * np.einsum("ab,cdab->acbd", Theta, mean.ssdd)
    if r == 0:
        return new
    own, other = Gamma = _Gamma(layer, mean, linear)
    # F_manb Γ_ac^m Γ_bd^n.
    once = _F_Gamma(layer, Gamma)
    from_F = np.einsum("bd,acbb->acbd", own, once) + np.einsum("bd,acdb->acbd", other, once)
    # Q_bdam Γ_ac^m, and the same with (1, 3) and (2, 4) exchanged.
    half = np.einsum("ac,bdaa->acbd", own, Q) + np.einsum("ac,bdac->acbd", other, Q)
    half = np.einsum("bd,acbd->acbd", mean.dd, half)
    from_Q = C_W * (half + half.transpose(2, 3, 0, 1))
    carried = from_F + from_Q + C_W**2 * np.einsum("ac,bd,acbd->acbd", mean.dd, mean.dd, layer.T)
    return new + r * carried


def _U(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Four:
    source = np.einsum("abcd->adbc", _source(layer, mean, linear))
    return source + r * linear.variance**2 * np.einsum("ad,bc,adbc->adbc", mean.dd, mean.dd, layer.U)


def _X(layer: Tensors, curvatures: tuple[Pair, Pair], fourth: tuple[Pair, Pair, Pair]) -> Pair:
    """The change of ⟨f_ab⟩ from the 1/n cumulants K₁ and V of the layer before (docs/theory/width, eq. 62)."""
    V, (f40, f31, f22) = layer.V, fourth
    own, mixed, across = np.einsum("aaaa->a", V), np.einsum("aaab->ab", V), np.einsum("aabb->ab", V)
    pairs = np.einsum("abab->ab", V)
    total = f40 * own[:, None] + f40.T * own + 4 * (f31 * mixed + f31.T * mixed.T) + f22 * (2 * across + 4 * pairs)
    return _twice(layer.K1, curvatures) / 2 + total / 8


def _K1(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Pair:
    return r * linear.variance * _X(layer, (mean.es, mean.dd), mean.ss4)


def _Theta1(layer: Tensors, mean: Averages, r: float, linear: Linear) -> Pair:
    # ½⟨∂_m∂_n(s'_a s'_b)⟩ (D_mnab + F_manb + F_mbna)
    Y = layer.D + np.einsum("manb->mnab", layer.F) + np.einsum("mbna->mnab", layer.F)
    own, mixed = np.einsum("aaab->ab", Y), np.einsum("abab->ab", Y)
    moved = (mean.td * own + mean.td.T * own.T + 2 * mean.ee * mixed) / 2
    of_slopes = layer.Theta * _X(layer, (mean.td, mean.ee), mean.dd4) + moved + layer.Theta1 * mean.dd
    return r * linear.theta(_X(layer, (mean.es, mean.dd), mean.ss4), of_slopes)
