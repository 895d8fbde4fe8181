"""Draws of outputs and tangent kernels at finite width without drawing a network (docs/theory/training, eqs. 54-62).

To order 1/n all that training meets is: outputs with covariance K + K₁/n and fourth cumulant V/n, the NTK's fluctuation
with its second moments, the dNTK by its mean for given outputs, and the ddNTKs by their mean. What is drawn has these.
Training samples come first. Test samples come in groups, each of which has its own law beside the training samples;
between groups only what the training samples bring about is kept.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from .._precision import float64
from ._pairings import Four, correlator, permuted

CUTOFF = 1e-6
"""Directions of K with less than this of its largest eigenvalue keep their infinite-width outputs: K⁻¹ leaves them
out. The tensors are good to some 1e-7 of their largest entries, which K⁻¹ would blow up."""


class Inverse(NamedTuple):
    """Of a covariance C the directions that are kept: roots of C⁻¹ and of C over them, each times its transpose."""

    root: Float[np.ndarray, "S kept"]
    whole: Float[np.ndarray, "S kept"]

    @property
    def matrix(self) -> Float[np.ndarray, "S S"]:
        """C⁻¹."""
        return self.root @ self.root.T


class Group(NamedTuple):
    """Test samples that are drawn together beside the training samples A: x among them and all of A are `own`."""

    where: Int[np.ndarray, " x"]
    own: Int[np.ndarray, " own"]
    regression: Float[np.ndarray, "x A"]
    """K_xA K_AA⁻¹: outputs less this times the training outputs are independent of those at infinite width."""
    rest: Inverse
    """Of their covariance."""
    inverse: Inverse
    """Of K over A and x together."""
    second: tuple[np.ndarray, np.ndarray]
    """Means of what is of second order in E: of the rows x and columns A, and of x and x in the kept directions."""
    F: Float[np.ndarray, "own x own A"]
    dHz: tuple[Four, Four]
    """The dNTK with x in its first and in its second slot, and in the last slot own samples."""


class Law(NamedTuple):
    """What draws are made of, for S samples, training samples first, and O outputs."""

    n: float
    outputs: int
    train: int
    Theta: Float[np.ndarray, "S S"]
    Theta1: Float[np.ndarray, "S S"]
    prior: Float[np.ndarray, "S S"]
    """Draws of N(0, K) are this times normal numbers."""
    K1: Float[np.ndarray, "S S"]
    pairs: Int[np.ndarray, "2 pairs"]
    """The pairs of samples whose kernels fluctuate."""
    collective: Float[np.ndarray, "2 pairs rank"]
    """Times normal numbers: k, the fluctuation of the outputs' covariance, and h, the NTK's diagonal in outputs."""
    free: tuple[Float[np.ndarray, "pairs even"], Float[np.ndarray, "pairs odd"]]
    """Times normal numbers: the NTK's part that mixes outputs, even and odd under an exchange of the two samples."""
    inverse: Inverse
    """Of K_AA."""
    second: Float[np.ndarray, "kept kept"]
    """⟨E²⟩/8 of the training samples."""
    together: Inverse
    """Of K over all samples."""
    F: Float[np.ndarray, "S A S A"]
    dHz: Four
    ddH: tuple[Array, Array, Array]
    groups: tuple[Group, ...]


class Draws(NamedTuple):
    """z(0) at infinite and finite width, (draws, S, O), H and dH over composite indices, and which covariances
    K + K₁/n + k of the training samples were positive.
    """

    infinite: np.ndarray
    z: np.ndarray
    H: np.ndarray
    dH: np.ndarray
    positive: np.ndarray


def law(
    tensors: Mapping[str, np.ndarray],
    n: float,
    train: int,
    outputs: int,
    groups: Sequence[np.ndarray] | None = None,
) -> Law:
    """The law of the draws from the output layer's tensors, V among them, over training and test samples.

    `groups` are the test samples that belong together, by default all.
    """
    K, S = tensors["K"], len(tensors["K"])
    if groups is None:
        groups = [np.arange(train, S)] if train < S else []
    A, every = slice(train), slice(None)
    l, v = scipy.linalg.eigh(K)
    pairs = _pairs(train, groups)
    first, second = pairs

    def of_pairs(X: np.ndarray) -> np.ndarray:
        return X[first, second][:, first, second]

    D = of_pairs(tensors["D"])
    joint = np.block([[of_pairs(tensors["V"]), D], [D.T, of_pairs(tensors["A"])]]) / n
    collective = np.stack(np.split(_root(joint), 2))
    straight, crossed = (of_pairs(np.einsum(f"{axes}->abcd", tensors["B"])) / (2 * n) for axes in ("acbd", "adbc"))
    odd = _root(straight - crossed) if outputs > 1 else np.zeros((len(first), 0))
    inverse = _inverse(K[A, A], l[-1])
    W = np.einsum("abcd,bc->ad", tensors["V"][:, A, A], inverse.matrix, optimize=True) / n
    II = correlator(tensors, "II", every, A, every, A)
    ddH = (correlator(tensors, "I", every, every, A, A), correlator(tensors, "II", every, every, A, A))
    ddH = (part / n for part in (*ddH, permuted(II, (0, 2, 1, 3))))
    return Law(
        n,
        outputs,
        train,
        tensors["Theta"],
        tensors["Theta1"] / n,
        v * np.sqrt(np.maximum(l, 0.0)),
        tensors["K1"] / n,
        pairs,
        collective,
        (_root(straight + crossed), odd),
        inverse,
        inverse.root.T @ W[A, A] @ inverse.root / 8,
        _inverse(K, l[-1]),
        tensors["F"][:, A, :, A] / n,
        correlator(tensors, "dHz", A, A, A, every) / n,
        tuple(_composite(part, outputs) for part in ddH),  # type: ignore[arg-type]
        tuple(_group(tensors, n, train, inverse, W, pairs, collective[0], np.asarray(each)) for each in groups),
    )


def at_width(law: Law, n: float) -> Law:
    """The same law at another width: all that is of order 1/n, and roots of covariances, which go by n^{-1/2}."""
    f = law.n / n

    def scaled(part: Any) -> Any:
        return jax.tree.map(lambda values: f * values, part)

    groups = (g._replace(second=scaled(g.second), F=f * g.F, dHz=scaled(g.dHz)) for g in law.groups)
    return law._replace(
        n=n,
        **{name: scaled(getattr(law, name)) for name in ("Theta1", "K1", "second", "F", "dHz", "ddH")},
        **{name: jax.tree.map(lambda root: np.sqrt(f) * root, getattr(law, name)) for name in ("collective", "free")},
        groups=tuple(groups),
    )


def _pairs(train: int, groups: Sequence[np.ndarray]) -> np.ndarray:
    # Each pair once: of training samples, of a test and a training sample, and of test samples of one group.
    found = [np.stack(np.triu_indices(train))]
    for group in groups:
        own = np.concatenate([np.arange(train), group])
        first, second = np.triu_indices(len(own))
        new = second >= train
        found.append(np.stack([own[first[new]], own[second[new]]]))
    return np.concatenate(found, axis=1)


def _group(
    tensors: Mapping[str, np.ndarray],
    n: float,
    train: int,
    inverse: Inverse,
    W: np.ndarray,
    pairs: np.ndarray,
    k: np.ndarray,
    where: np.ndarray,
) -> Group:
    K, A = tensors["K"], np.arange(train)
    own = np.concatenate([A, where])
    r = K[np.ix_(where, A)] @ inverse.matrix
    rest = _inverse(K[np.ix_(where, where)] - r @ K[np.ix_(A, where)], np.diagonal(K).max())
    inside = np.isin(pairs, own).all(axis=0)
    place = np.searchsorted(own, pairs[:, inside])
    roots = np.zeros((len(own), len(own), k.shape[1]))
    roots[place[0], place[1]] = roots[place[1], place[0]] = k[inside]
    # In the kept directions, for each normal number.
    t = rest.root.T @ np.concatenate([-r, np.eye(len(where))], axis=1)
    E = np.einsum("ma,abr,nb->mnr", t, roots, t, optimize=True)
    mixed = W[np.ix_(where, A)] - r @ W[:train, :train]
    inner = t @ W[np.ix_(own, own)] @ t.T
    one, other = (correlator(tensors, "dHz", *np.ix_(*slots)) / n for slots in ((where, A, A, own), (A, where, A, own)))
    return Group(
        where,
        own,
        r,
        rest,
        _inverse(K[np.ix_(own, own)], np.linalg.eigvalsh(K[np.ix_(own, own)])[-1]),
        (rest.whole @ rest.root.T @ mixed / 2, inner / 2 + np.einsum("mpr,pnr->mn", E, E, optimize=True) / 8),
        tensors["F"][np.ix_(own, where, own, A)] / n,
        (one, other),
    )


def _inverse(C: np.ndarray, size: float) -> Inverse:
    l, v = scipy.linalg.eigh(C)
    kept = l > CUTOFF * size
    return Inverse(v[:, kept] / np.sqrt(l[kept]), v[:, kept] * np.sqrt(l[kept]))


def _root(C: np.ndarray) -> np.ndarray:
    # A covariance as a product with its own transpose; what rounding makes negative is none.
    l, v = scipy.linalg.eigh((C + C.T) / 2)
    kept = l > 1e-14 * max(l[-1], 1e-300)
    return v[:, kept] * np.sqrt(l[kept])


def _composite(X: Four, outputs: int) -> np.ndarray:
    # Only where deltas are 1: of outputs⁴ entries 3 outputs² at most.
    total = np.zeros([size for samples in X.shape[1:] for size in (samples, outputs)])
    for i, j in itertools.product(range(outputs), repeat=2):
        for part, (first, second, third, fourth) in zip(X, ((i, i, j, j), (i, j, i, j), (i, j, j, i))):
            total[:, first, :, second, :, third, :, fourth] += part
    return total.reshape([samples * outputs for samples in X.shape[1:]])


def draw(
    law: Law,
    key: Array,
    index: np.ndarray,
    *,
    sign: float = 1.0,
    infinite: np.ndarray | None = None,
    moving: bool = True,
) -> Draws:
    """The draws of an index; `sign` mirrors their fluctuations, so that averages over both lose what is odd in them.

    The outputs at `infinite` width, (draws, S, O), are drawn too where they are not given. Without `moving`, dH has
    no columns: kernels stay as they are.
    """
    S, O, N, count = len(law.Theta), law.outputs, law.train, len(index)
    sizes = (law.collective.shape[-1], *(root.shape[-1] for root in law.free))
    normal, e, even, odd = _numbers(key, jnp.asarray(index), S, O, *sizes)
    if infinite is None:
        infinite = np.asarray(law.prior @ normal)
    fluctuation = np.zeros((2, count, S, S))
    a, b = law.pairs
    fluctuation[:, :, a, b] = fluctuation[:, :, b, a] = sign * np.einsum(
        "kpr,sr->ksp", law.collective, e, optimize=True
    )
    change = law.K1 + fluctuation[0]
    # z = L(1 + E/2 - ⟨E²⟩/8)ξ for K = LLᵀ and K + K₁ + k = L(1+E)Lᵀ.
    root, whole = law.inverse
    E = root.T @ change[:, :N, :N] @ root
    z = infinite.copy()
    z[:, :N] += whole @ (E / 2 - law.second) @ (root.T @ infinite[:, :N])
    H = np.einsum("sab,ij->saibj", law.Theta + law.Theta1 + fluctuation[1], np.eye(O))
    H[:, a, :, b] += sign * _mixed(law.free, even, odd)
    H[:, b, :, a] = H[:, a, :, b].transpose(0, 1, 3, 2)
    raised = law.together.matrix @ infinite
    H[:, :N, :, :N] += _given(law.F, law.together.matrix, raised)
    dH = np.zeros((count, S, O, S, O, N if moving else 0, O))
    if moving:
        dH[:, :N, :, :N] = _conditional(law.dHz, raised)
    for group in law.groups:
        x = group.where
        z[:, x] += _beside(group, law.inverse.matrix, change, z[:, :N], infinite)
        raised = group.inverse.matrix @ infinite[:, group.own]
        given = _given(group.F, group.inverse.matrix, raised)
        H[:, x, :, :N] += given
        H[:, :N, :, x] += given.transpose(0, 3, 4, 1, 2)
        if moving:
            dH[:, x, :, :N], dH[:, :N, :, x] = (_conditional(part, raised) for part in group.dHz)
    M = S * O
    positive = np.linalg.eigvalsh(np.eye(E.shape[-1]) + E).min(axis=1, initial=np.inf) > 0
    return Draws(infinite, z, H.reshape(count, M, M), dH.reshape(count, M, M, dH.shape[5] * O), positive)


def _beside(
    group: Group, inverse: np.ndarray, change: np.ndarray, trained: np.ndarray, infinite: np.ndarray
) -> np.ndarray:
    # How outputs of a group move: with those of the training samples, by what its own rows of E do to these, and by
    # what they do to the rest of its outputs, which the training samples do not tell.
    N, x, r = trained.shape[1], group.where, group.regression
    (root, whole), (rows, inner) = group.rest, group.second
    t = np.concatenate([-r, np.eye(len(x))], axis=1)
    own = t @ change[:, group.own[:, None], group.own]
    before = infinite[:, :N]
    moved = r @ (trained - before) + (whole @ (root.T @ own[:, :, :N]) - rows) @ (inverse @ before)
    E = root.T @ (own @ t.T) @ root
    return moved + whole @ (E / 2 - inner) @ (root.T @ (infinite[:, x] - r @ before))


def _mixed(free: tuple[np.ndarray, np.ndarray], even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    # (pairs, draws, O, O), as an index on both sides of a slice puts the pairs in front.
    found = np.einsum("pr,srij->psij", free[0], even + even.swapaxes(2, 3), optimize=True)
    found += np.einsum("pr,srij->psij", free[1], odd - odd.swapaxes(2, 3), optimize=True)
    return found / np.sqrt(2)


def _given(F: np.ndarray, inverse: np.ndarray, raised: np.ndarray) -> np.ndarray:
    # F_manb (ζ_mi ζ_nj - δ_ij K⁻¹_mn) with ζ = K⁻¹z.
    products = np.einsum("smi,snj->mnsij", raised, raised)
    products -= np.einsum("mn,ij->mnij", inverse, np.eye(raised.shape[-1]))[:, :, None]
    return np.tensordot(F, products, axes=((0, 2), (0, 1))).transpose(2, 0, 3, 1, 4)


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
def _numbers(key: Array, index: Array, S: int, O: int, collective: int, even: int, odd: int) -> Any:
    def one(i: Array) -> Any:
        own = jax.random.fold_in(key, i)
        first, second, third = (jax.random.fold_in(own, k) for k in (2, 3, 4))
        # The first ones are those of infinite width.
        return (
            jax.random.normal(own, (S, O)),
            jax.random.normal(first, (collective,)),
            jax.random.normal(second, (even, O, O)),
            jax.random.normal(third, (odd, O, O)),
        )

    return jax.tree.map(np.asarray, jax.vmap(one)(index))
