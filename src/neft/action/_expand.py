"""The expansion of the action in its parameters."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._activation import Activation
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from . import _along, _closed, _graded
from ._model import Parameters, Samples, cross_entropy, homogeneous, parameters, samples, smooth_at_zero
from ._pieces import Degrees, name, of_activation


@result
class Term(Result):
    """One monomial's part of the action: its value, its order, and |value| as a share of Σ|value| of that order."""

    value: float
    order: int
    share: float

    def __float__(self) -> float:
        return self.value


@result
class Expansion(Result):
    """The action S(tθ) = Σ S_n t^n of f = Uσ(Wz+b)+c (docs/theory/action, eqs. 2-13).

    `S` holds S_0 … S_order. `terms` holds each monomial by its letters ("cc", "UW", "UWb", "UUWW") with its share of
    its order; it is empty where only S was asked for. With a homogeneous activation (`one_sided`) the series is that of
    t ≥ 0 and W and b count together, as "(Wb)". `loss` is S(θ) itself.
    """

    S: Float[np.ndarray, " terms"]
    terms: dict[str, Term]
    loss: float
    classes: int
    activation: str
    one_sided: bool
    made: Made

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.S) - 1

    def of_order(self, order: int) -> dict[str, Term]:
        """The terms of one order, the largest first."""
        chosen = {key: term for key, term in self.terms.items() if term.order == order}
        return dict(sorted(chosen.items(), key=lambda item: -abs(item[1].value)))

    def partial_sums(self) -> np.ndarray:
        """S_0 + … + S_n at t = 1 for every n."""
        return np.cumsum(self.S)

    def _shown(self):
        yield "activation", f"{self.activation}{' (one-sided)' if self.one_sided else ''}"
        yield "loss", f"{self.loss:.6g}"
        for n, value in enumerate(self.S[:13]):
            parts = ", ".join(f"{key} {term.share:.1%}" for key, term in list(self.of_order(n).items())[:4])
            yield f"S_{n}", f"{value:.6g}" + (f"  ({parts})" if parts else "")


@public
@float64
def expand(
    params: Any, data: Any, order: int = 4, *, activation: Any = "silu", terms: bool = True, dtype: Any = None
) -> Expansion:
    """The action S(θ) = -E ln softmax_m f(z) expanded in θ, by order and by monomial.

    Args:
        params: a mapping with U (M × H), c (M), W (H × E) and b (H), or the parameters of an `MLP` with one hidden
            layer.
        data: a `Dataset` or a pair (z, m) of inputs (n × E) and labels 0..M-1; classes may be unbalanced, none empty.
        order: the highest order, from 0 on.
        activation: a name or function smooth at 0, or one with σ(tx) = tσ(x) for t > 0.
        terms: whether to split each order by monomial. Without it only S is computed, for little more than the loss.
        dtype: of the products with the data (float32 or float64); by default float32 if parameters and data are, else
            float64. Sums over samples are float64.

    Up to order four the terms are closed forms, contracted and streamed; beyond, power series in four variables.

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=np.eye(2), b=np.zeros(2))
    >>> expansion = expand(theta, (np.eye(2), [0, 1]), order=3)
    >>> [round(float(s), 4) for s in expansion.S], round(expansion.terms["UW"].value, 4)
    ([0.6931, 0.0, -0.25, -0.125], -0.25)
    """
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    act = smooth_at_zero(activation)
    theta, data, source = *_typed(params, data, dtype), data
    if terms:
        by_monomial, loss = monomials(theta, data, act, order)
        S = _by_order(by_monomial, theta.classes, order)
    else:
        by_monomial = {}
        S, loss = _along.coefficients(theta, data, act, order)
    return Expansion(
        S=S,
        terms=_shared(by_monomial, homogeneous(act)),
        loss=loss,
        classes=theta.classes,
        activation=act.name,
        one_sided=homogeneous(act),
        made=Made.by("neft.action.expand", specification=describe(theta, source, act) | {"order": order}),
    )


def monomials(
    theta: Parameters, data: Samples, act: Activation, order: int, *, closed: bool | None = None
) -> tuple[dict[Degrees, float], float]:
    """Every monomial's part of the action up to the order, and the action itself, in one pass over the data."""
    closed = order <= _closed.HIGHEST if closed is None else closed
    run = _compiled(act, order, closed)
    weights = Parameters(*map(jnp.asarray, theta))
    width = 4 * theta.hidden + 2 * theta.features + 64 * theta.classes
    each = width * theta.U.itemsize + (0 if closed else 16 * math.comb(order + 4, 4) * theta.classes)
    totals: dict[Degrees, float] = {}
    loss = 0.0
    for part in blocks(len(data.m), block_size(each, len(data.m)), label="samples"):
        z, m = data.z[part], data.m[part]
        sums, loss_sum = run(weights, z, m)
        loss += float(loss_sum)
        for degrees, value in (sums if closed else _graded.term_sums(sums, m, order)).items():
            totals[degrees] = totals.get(degrees, 0.0) + float(value)
    ordered = sorted((degrees for degrees in totals if sum(degrees) <= order), key=_rank)
    return {degrees: totals[degrees] / len(data.m) for degrees in ordered}, loss / len(data.m)


def describe(theta: Parameters, data: Any, act: Activation) -> dict[str, Any]:
    """What a result's record keeps of a model and its data: sizes, and the data's own description if it has one."""
    known = data.description() if hasattr(data, "description") else {"count": len(np.asarray(data[1]))}
    return {"classes": theta.classes, "hidden": theta.hidden, "features": theta.features} | {
        "activation": act.name,
        "data": known,
    }


def _typed(params: Any, data: Any, dtype: Any) -> tuple[Parameters, Samples]:
    theta = parameters(params)
    checked = samples(data, classes=theta.classes, features=theta.features)
    if dtype is None:
        kind = np.result_type(theta.U, checked.z)
    else:
        kind = np.dtype(_check.one_of("dtype", np.dtype(dtype).name, ("float32", "float64")))
    return Parameters(*(a.astype(kind, copy=False) for a in theta)), checked._replace(
        z=checked.z.astype(kind, copy=False)
    )


def _rank(degrees: Degrees) -> tuple:
    return sum(degrees), tuple(-d for d in degrees)


def _by_order(by_monomial: dict[Degrees, float], classes: int, order: int) -> np.ndarray:
    S = np.zeros(order + 1)
    S[0] = math.log(classes)
    for degrees, value in by_monomial.items():
        S[sum(degrees)] += value
    return S


def _shared(by_monomial: dict[Degrees, float], joined: bool) -> dict[str, Term]:
    mass: dict[int, float] = {}
    for degrees, value in by_monomial.items():
        mass[sum(degrees)] = mass.get(sum(degrees), 0.0) + abs(value)
    return {
        name(degrees, joined): Term(
            value=value, order=sum(degrees), share=abs(value) / mass[sum(degrees)] if mass[sum(degrees)] else 0.0
        )
        for degrees, value in by_monomial.items()
    }


@functools.lru_cache(maxsize=32)
def _compiled(act: Activation, order: int, closed: bool):
    parts = of_activation(act, order)

    @jax.jit
    def run(params, z, m):
        x = z @ params.W.T
        loss = cross_entropy(act(x + params.b[None, :]) @ params.U.T + params.c[None, :], m) * len(m)
        found = parts(params, x)
        return _closed.term_sums(found, m) if closed else found, loss

    return run
