"""K and Θ of a pair of inputs at infinite width, as a pure function (docs/theory/width, eqs. 47-48)."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._activation import Activation, derivative_of
from .._closed import Pair, form_of
from .._guard import root
from .._hermite import functions
from .._promote import common_dtype, numeric
from .._public import public
from .._quadrature import PANELS, in_units, unit_rule
from .._tilt import tilt_of
from ..network import Means, Network, Stage
from ..network.engine import along


class Kernel(NamedTuple):
    """K and Θ of the output layer, of the same shape; unpacks as `K, Theta`."""

    K: Any
    Theta: Any


@public
def pair_kernel(
    net: Network, x1: Float[Array, "*batch n_0"], x2: Float[Array, "*batch2 n_0"], *, terms: int = 128
) -> Kernel:
    """K and Θ of the output layer for inputs paired one with one (leading axes broadcast), as a pure function.

    It works under jit, vmap and grad, in the inputs and in the hyperparameters, in the dtype of its inputs, and its
    derivatives are finite everywhere. A kink gives the kernels corners at equal, opposite or vanishing inputs; there
    arccos ρ and √K count as constant. For N × M kernels of many inputs `kernel` is faster.

    Args:
        net: the specification; its hyperparameters may be traced.
        x1: inputs of shape (…, n_0).
        x2: inputs of shape (…, n_0).
        terms: static; Hermite terms for activations without a closed form. The default gives ten digits for smooth
            ones at K ≤ 4 (float64); with kinks away from closed forms the error of Θ near ρ = ±1 falls as terms^-½.

    >>> from neft import MLP
    >>> K, Theta = pair_kernel(MLP((2, 8, 1), "relu"), jnp.array([3.0, 4.0]), jnp.array([3.0, 4.0]))
    >>> round(float(K), 5), round(float(Theta), 5)
    (6.25, 14.0)
    """
    net.refuse_positions("kernels of one pair as a pure function (`kernel` has those of many)")
    refuse_jumps(net)
    x1, x2 = numeric("x1", x1), numeric("x2", x2)
    dtype = common_dtype(x1, x2, jnp.float32)
    try:
        np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        raise ValueError(f"x1 and x2 have shapes {x1.shape} and {x2.shape}, which do not broadcast.") from None
    x1, x2 = jnp.broadcast_arrays(x1.astype(dtype), x2.astype(dtype))
    if x1.ndim == 0 or x1.shape[-1] != net.inputs:
        raise ValueError(f"x1 and x2 have {x1.shape[-1:]} entries, but must have {net.inputs}, the net's n_0.")
    parts = [(segment, None) for segment in net.segments()]

    def one(x1, x2):
        # A step at a time, because averages are those of one pair.
        stage = along(parts, Stage.of_inputs(x1, x2), lambda segment, _, stage: segment.kernel(stage, _OnePair(terms)))
        return stage.c, stage.Theta

    for _ in range(x1.ndim - 1):
        one = jax.vmap(one)
    return Kernel(*one(x1, x2))


def refuse_jumps(net: Network) -> None:
    """Say that Θ does not exist where an activation itself jumps."""
    for act in net.activations:
        for kink in act.kinks:
            if kink.order == 0:
                raise ValueError(
                    f"Theta does not exist for {act.name}: the activation itself jumps at {kink.position:g}."
                )


class _OnePair:
    # Averages over one pair: in closed form, or else by Hermite expansions of `terms` terms.
    def __init__(self, terms: int) -> None:
        self.terms = terms

    def pair(self, activation: Activation, stage: Stage) -> Means:
        form, variances = form_of(activation), (stage.K1, stage.K2)
        if form is None:
            one, two = (_diagonal(activation, 0, 0)(K) for K in variances)
            square, slope = (_expanded(activation, n, n, self.terms)(*variances, stage.c) for n in (0, 1))
            return Means(one, two, square, slope)
        one, two = (form.value(Pair.one(K, root(K))) for K in variances)
        pair = stage.pair
        return Means(one, two, form.value(pair), form.derivative(pair), form.gap and form.gap(pair))

    def mean(self, activation: Activation, stage: Stage) -> tuple[Array, Array]:
        one, two = (_mean(activation, 0)(K) for K in (stage.K1, stage.K2))
        return one, two

    def tilted(self, activation: Activation, stage: Stage) -> Array:
        tilt = tilt_of(activation)
        if form_of(tilt) is not None:
            return self.pair(tilt, stage).square
        return _expanded(tilt, 0, 0, self.terms)(stage.K1, stage.K2, stage.c)


@functools.lru_cache(maxsize=256)
def _expanded(act: Activation, m: int, n: int, terms: int):
    # ⟨σ^(m)(z₁) σ^(n)(z₂)⟩ as a function of K1, K2 and the covariance c, by a Hermite expansion.
    # By Price's theorem derivatives of the average are averages of derivatives, even where a variance vanishes.
    def at(K1, K2, rho):
        a, b = (_coefficients(act, order, K, terms) for order, K in ((m, K1), (n, K2)))
        return jnp.polyval((a * b)[::-1], rho)

    def scale(K1, K2):
        return root(K1) * root(K2)

    def correlation(K1, K2, c):
        size = scale(K1, K2)
        return jnp.where(size > 0, c / jnp.where(size > 0, size, 1), 0)

    def value(K1, K2, c):
        return at(K1, K2, correlation(K1, K2, c))

    if act.kinks and (m, n) != (0, 0):
        return value
    average = jax.custom_jvp(value)

    @average.defjvp
    def _(primals, tangents):
        slope = _expanded(act, m + 1, n + 1, terms)(*primals)
        if act.kinks:
            # σ'' may hold deltas: the variances are changed at fixed correlation instead.
            rho = correlation(*primals)
            variances, changes = primals[:2], tangents[:2]
            by_variance = jax.jvp(lambda K1, K2: at(K1, K2, rho), variances, changes)[1]
            return value(*primals), by_variance + slope * (tangents[2] - rho * jax.jvp(scale, variances, changes)[1])
        left, right = (_expanded(act, *orders, terms)(*primals) / 2 for orders in ((m + 2, n), (m, n + 2)))
        return average(*primals), left * tangents[0] + right * tangents[1] + slope * tangents[2]

    return average


@functools.lru_cache(maxsize=256)
def _diagonal(act: Activation, m: int, n: int):
    # ⟨σ^(m) σ^(n)⟩ over one variable.
    def value(K):
        _, w, z = _nodes(act, K, PANELS)
        return w @ (derivative_of(act.function, m)(z) * derivative_of(act.function, n)(z))

    if act.kinks:
        return value
    average = jax.custom_jvp(value)

    @average.defjvp
    def _(primals, tangents):
        slope = _diagonal(act, m + 1, n + 1)(*primals) + _diagonal(act, m + 2, n)(*primals) / 2
        return average(*primals), (slope + _diagonal(act, m, n + 2)(*primals) / 2) * tangents[0]

    return average


@functools.lru_cache(maxsize=256)
def _mean(act: Activation, n: int):
    # ⟨σ^(n)⟩, whose derivative in K is half of ⟨σ^(n+2)⟩.
    def value(K):
        _, w, z = _nodes(act, K, PANELS)
        return w @ derivative_of(act.function, n)(z)

    if act.kinks:
        return value
    average = jax.custom_jvp(value)

    @average.defjvp
    def _(primals, tangents):
        return average(*primals), _mean(act, n + 2)(*primals) / 2 * tangents[0]

    return average


def _nodes(act: Activation, K: Array, panels: int) -> tuple[Array, Array, Array]:
    spread = root(K)
    kinks = [kink.position for kink in act.kinks]
    panels = 64 * panels if act.oscillates else panels
    options = {"length": act.length, "oscillates": act.oscillates, "panels": panels, "cuts": act.cuts}
    x, w = unit_rule(jnp, spread, in_units(jnp, kinks, spread), **options)
    return x, w, spread * x


def _coefficients(act: Activation, order: int, K: Array, terms: int) -> Array:
    x, w, z = _nodes(act, K, PANELS)
    return functions(x, terms) @ (w * jnp.exp(x * x / 4) * derivative_of(act.function, order)(z))
