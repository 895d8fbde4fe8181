"""SOAP: Adam in the eigenbasis of Shampoo's factors (Vyas et al. 2024, arXiv 2409.11321, algorithms 3 and 4)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check
from .._public import public

_LARGEST = 1024


class SOAPState(NamedTuple):
    """The state: steps done, means of gradients and of rotated squared gradients, and factors with their bases.

    `factors` are for each leaf the running means of GGᵀ and GᵀG, None for a side that is not rotated; `bases` are
    orthogonal matrices of the same shapes.
    """

    count: Array  # type: ignore[assignment]  # optax's own states shadow tuple.count too
    mean: Any
    square: Any
    factors: tuple[tuple[Array | None, Array | None], ...]
    bases: tuple[tuple[Array | None, Array | None], ...]


@public
def soap(
    learning_rate: optax.ScalarOrSchedule,
    *,
    b1: Any = 0.95,
    b2: Any = 0.95,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    refresh_every: int = 10,
    largest: int = _LARGEST,
) -> optax.GradientTransformation:
    """SOAP with its learning rate; `scale_by_soap` describes it.

    Args:
        learning_rate: a number or a schedule.
        b1: decay of the mean of gradients.
        b2: decay of the means of squares and factors.
        eps: added to the root of the mean square.
        weight_decay: of weights, outside the gradient, as in AdamW.
        refresh_every: steps between two refreshes of a basis.
        largest: sides of matrices beyond this are not rotated.

    >>> opt = soap(3e-3)
    >>> updates, state = opt.update(jnp.ones((3, 2)), opt.init(jnp.ones((3, 2))), jnp.ones((3, 2)))
    """
    if not callable(learning_rate) and not isinstance(learning_rate, jax.Array):
        _check.real("learning_rate", learning_rate, at_least=0.0)
    weight_decay = _check.real("weight_decay", weight_decay, at_least=0.0)
    return optax.chain(
        scale_by_soap(b1=b1, b2=b2, eps=eps, refresh_every=refresh_every, largest=largest),
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(learning_rate),
    )


@public
def scale_by_soap(
    *, b1: Any = 0.95, b2: Any = 0.95, eps: float = 1e-8, refresh_every: int = 10, largest: int = _LARGEST
) -> optax.GradientTransformation:
    """The part of `soap` before the learning rate.

    For a matrix of gradients G with the bases Q and P of its two sides

        M ← β₁M + (1-β₁)G,  V ← β₂V + (1-β₂)(QᵀGP)²,  update Q [QᵀM̂P/(√V̂ + ε)] Pᵀ
        L ← β₂L + (1-β₂)GGᵀ,  R ← β₂R + (1-β₂)GᵀG,  and every `refresh_every` steps Q ← qr(LQ), P ← qr(RP)

    with the bias corrections M̂, V̂ of Adam, which leaves of another rank than 2 take as it is. The bases take turns, so
    that no step holds two decompositions (unless there are more of them than steps between refreshes): the first
    refresh of each is a full eigendecomposition, and before it the basis is the identity.

    >>> state = scale_by_soap().init({"W": jnp.ones((3, 2)), "b": jnp.ones(3)})
    >>> [[None if side is None else side.shape for side in pair] for pair in state.factors]
    [[(3, 3), (2, 2)], [None, None]]
    """
    for name, decay in (("b1", b1), ("b2", b2)):
        if not isinstance(decay, jax.Array) and _check.real(name, decay, at_least=0.0) >= 1:
            raise ValueError(f"{name} is {decay:g}, but must be below 1.")
    eps = _check.real("eps", eps, at_least=0.0)
    refresh_every = _check.integer("refresh_every", refresh_every, at_least=1)
    largest = _check.integer("largest", largest, at_least=1)

    def init(params: Any) -> Any:
        leaves = jax.tree.leaves(params)
        factors = tuple(tuple(_side(leaf, axis, largest, jnp.zeros) for axis in (0, 1)) for leaf in leaves)
        bases = tuple(tuple(_side(leaf, axis, largest, _identity) for axis in (0, 1)) for leaf in leaves)
        zeros = [jax.tree.map(jnp.zeros_like, params) for _ in range(2)]
        return SOAPState(jnp.zeros((), jnp.int32), *zeros, factors, bases)  # type: ignore[arg-type]

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        leaves, structure = jax.tree.flatten(updates)
        mean = _averaged(b1, leaves, jax.tree.leaves(state.mean))
        turned = [_into(g, *pair) for g, pair in zip(leaves, state.bases)]
        square = _averaged(b2, [jnp.square(g) for g in turned], jax.tree.leaves(state.square))
        done = state.count + 1
        # Adam's corrections of the bias, in the types of the leaves.
        past = done.astype(jnp.zeros(()).dtype)
        first, second = 1 - b1**past, 1 - b2**past
        steps = [
            _out_of(_into(m, *pair) / first.astype(m.dtype) / (jnp.sqrt(v / second.astype(v.dtype)) + eps), *pair)
            for m, v, pair in zip(mean, square, state.bases)
        ]
        factors = tuple(_gathered(b2, g, pair) for g, pair in zip(leaves, state.factors))
        bases = _refreshed(state.count, factors, state.bases, refresh_every)
        steps, mean, square = (jax.tree.unflatten(structure, values) for values in (steps, mean, square))
        return steps, SOAPState(done, mean, square, factors, bases)

    return optax.GradientTransformation(init, update)


def _side(leaf: Any, axis: int, largest: int, make: Any) -> Array | None:
    if jnp.ndim(leaf) != 2 or leaf.shape[axis] > largest:
        return None
    return make((leaf.shape[axis], leaf.shape[axis]), leaf.dtype)


def _identity(shape: tuple[int, int], dtype: Any) -> Array:
    return jnp.eye(shape[0], dtype=dtype)


def _averaged(decay: Any, values: list[Array], means: list[Array]) -> list[Array]:
    return [decay * m + (1 - decay) * value for m, value in zip(means, values)]


def _into(g: Array, Q: Array | None, P: Array | None) -> Array:
    g = g if Q is None else Q.T @ g
    return g if P is None else g @ P


def _out_of(g: Array, Q: Array | None, P: Array | None) -> Array:
    g = g if Q is None else Q @ g
    return g if P is None else g @ P.T


def _gathered(decay: Any, g: Array, pair: tuple[Array | None, Array | None]) -> tuple[Array | None, Array | None]:
    L, R = pair
    return (
        None if L is None else decay * L + (1 - decay) * (g @ g.T),
        None if R is None else decay * R + (1 - decay) * (g.T @ g),
    )


def _refreshed(count: Array, factors: Any, bases: Any, every: int) -> Any:
    # Each matrix has its turn within the period, so that a step runs one branch.
    matrices = jax.tree.leaves(factors)
    old, structure = jax.tree.flatten(bases)
    turns = min(every, len(old))
    if not turns:
        return bases

    def branch(turn: int) -> Any:
        def run(bases: list[Array]) -> list[Array]:
            return [
                _turned(count < every, A, Q) if i % every == turn else Q
                for i, (A, Q) in enumerate(zip(matrices, bases))
            ]

        return run

    at = jnp.minimum(count % every, turns)
    new = jax.lax.switch(at, [*(branch(turn) for turn in range(turns)), lambda bases: bases], old)
    return jax.tree.unflatten(structure, new)


def _turned(first: Array, A: Float[Array, "n n"], Q: Float[Array, "n n"]) -> Float[Array, "n n"]:
    # Decompositions know no numbers of 16 bits.
    wide, dtype = np.promote_types(A.dtype, np.float32), A.dtype
    A, Q = A.astype(wide), Q.astype(wide)
    # Largest eigenvalues first: the order that the iteration with qr keeps.
    whole = lambda: jnp.linalg.eigh(A)[1][:, ::-1]  # noqa: E731
    return jax.lax.cond(first, whole, lambda: jnp.linalg.qr(A @ Q)[0]).astype(dtype)
