"""S_0 … S_N along tθ for the classifier with one hidden layer, at the cost of little more than a forward pass.

f_1 = c + s_0 U1 and f_{q+1} = s_q U(Wz+b)^q with the known Maclaurin numbers s_q, so that σ costs one power and one
thin product per order; the partition function's logarithm is a recurrence on M logits.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._activation import Activation
from .._blocks import blocks
from . import _taylor
from ._model import Parameters, Samples, cross_entropy, homogeneous

_CACHE = 2**21
"""Bytes of preactivations that stay in the cache while their powers are formed."""
_PROBE = 128


def coefficients(params: Parameters, data: Samples, act: Activation, order: int) -> tuple[np.ndarray, float]:
    """S_0 … S_order as float64 and the loss S(θ), in the type of the parameters; sums over blocks are float64.

    The unit of t is the activation's pole bound, estimated on a few samples, so that no power leaves the range of
    float32. Call it with 64 bits on.
    """
    weights = Parameters(*map(jnp.asarray, params))
    unit = _unit(weights, data, act)
    size = max(64, _CACHE // (params.hidden * params.U.itemsize))
    run = _compiled(act, order)
    totals, loss = np.zeros(order + 1), 0.0
    for part in blocks(len(data.m), size, label="samples"):
        sums, loss_sum = run(weights, data.z[part], data.m[part], unit)
        totals += np.asarray(sums, np.float64)
        loss += float(loss_sum)
    S = totals / len(data.m) / float(unit) ** np.arange(order + 1)
    S[0] = math.log(params.classes)
    if not np.isfinite(S).all():
        wrong = int(np.argmax(~np.isfinite(S)))
        raise ValueError(f"S_{wrong} leaves the range of {params.U.dtype}, so order {order} is too high for it.")
    return S, loss / len(data.m)


def _unit(weights: Parameters, data: Samples, act: Activation) -> float:
    every = max(1, len(data.m) // _PROBE)
    h = float(_reach(weights, data.z[::every][:_PROBE]))
    reach = act.singularity if 0 < act.singularity < math.inf else 1.0
    return float(reach / h) if h > 0 else 1.0


@jax.jit
def _reach(weights: Parameters, z: Any) -> Any:
    return jnp.abs(weights.W @ z.T + weights.b[:, None]).max()


@functools.lru_cache(maxsize=16)
def _compiled(act: Activation, order: int):
    s = None if homogeneous(act) else act.taylor(max(order - 1, 0))

    @jax.jit
    def block(weights: Parameters, z: Any, m: Any, unit: Any) -> Any:
        U, W, b, c = weights
        h = jnp.einsum("he,ne->hn", W, z) + b[:, None]
        f = logit_series(U, c, h, act, s, order, unit)
        l = log_mean_exp(f)
        sums = jnp.stack([jnp.asarray(_sum(a, len(m)) - _labelled(b, m), U.dtype) for a, b in zip(l, f)])
        return sums, cross_entropy(U @ act(h) + c[:, None], m, axis=0) * len(m)

    return block


def logit_series(U: Any, c: Any, h: Any, act: Activation, s: Any, order: int, unit: Any) -> _taylor.Coefficients:
    """f_0 … f_order of the logits of tθ in units of t from h = Wz+b (H × n), each (M, n) or (M, 1); traceable code."""
    unit = jnp.asarray(unit, U.dtype)
    f: _taylor.Coefficients = [None] * (order + 1)
    if order == 0:
        return f
    f[1] = (unit * c)[:, None]
    if s is None:
        if order >= 2:
            f[2] = unit * unit * (U @ act(h))
        return f
    hidden = _taylor.powers(list(s), unit * h, step=1, order=order - 1)
    if hidden[0] is not None:
        f[1] = f[1] + unit * float(s[0]) * U.sum(axis=1)[:, None]
    for q in range(1, order):
        if hidden[q] is not None:
            f[q + 1] = (unit * U) @ hidden[q]
    return f


def log_mean_exp(f: _taylor.Coefficients) -> _taylor.Coefficients:
    """The coefficients of ln(Σ_α e^{f_α}/M) for logits (M × n) that vanish at t = 0, each (n,) or (1,)."""
    if all(c is None for c in f):
        return f
    return _taylor.log(_taylor.linear(lambda c: c.mean(axis=0), _taylor.exp(f)))


def _sum(value: Any, count: int) -> Any:
    return 0.0 if value is None else value.sum() * (count // value.shape[0])


def _labelled(f: Any, m: Any) -> Any:
    if f is None:
        return 0.0
    return f[:, 0][m].sum() if f.shape[1] == 1 else f[m, jnp.arange(len(m))].sum()
