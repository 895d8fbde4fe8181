"""How K and Θ of a pair of inputs go from layer to layer at infinite width: pure (docs/theory/width, eqs. 47-48).

With the covariance c goes √(K1 K2) - c, so that a kink, which makes ⟨σ'σ'⟩ a function of the angle arccos ρ, sees every
digit of it.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._activation import Activation, derivative_of
from .._closed import Form, Pair, form_of
from .._hermite import functions
from .._network import MLP
from .._promote import common_dtype
from .._quadrature import PANELS, in_units, unit_rule
from ._one_input import Rates


class Kernel(NamedTuple):
    """K and Θ of the output layer, of the same shape; unpacks as `K, Theta`."""

    K: Any
    Theta: Any


class Averages(NamedTuple):
    """⟨σσ⟩ and ⟨σ'σ'⟩ of a pair, and √(⟨σ₁²⟩⟨σ₂²⟩) - ⟨σσ⟩ where more digits of it are known than the difference has."""

    square: Any
    slope: Any
    gap: Any = None


def rates_of(net: MLP, dtype: Any = np.float64) -> Rates:
    """The hyperparameters as arrays with one entry per layer."""
    return Rates(*(np.array(values, dtype) for values in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)))


def first_pair(rates: Rates, gram: Array, r1: Array, r2: Array) -> tuple[Pair, Array]:
    """The pair at layer 1 and its Θ, from x₁·x₂/n_0 and the roots of both variances."""
    c = rates.C_b + rates.C_W * gram
    return between(r1, r2, c, r1 * r2 - c), rates.lambda_b + rates.lambda_W * gram


def between(r1: Array, r2: Array, c: Array, gap: Array) -> Pair:
    """The pair of a covariance and √(K1 K2) - c, where rounding leaves neither end of the correlation."""
    return Pair(r1, r2, c, _at_least_zero(gap), _at_least_zero(r1 * r2 + c))


def next_pair(
    rates: Rates, mean: Averages, Theta: Array, s1: Array, s2: Array, r1: Array, r2: Array
) -> tuple[Pair, Array]:
    """The pair at the next layer and its Θ; s is the root of ⟨σ²⟩ and r that of the new variance.

    Nothing of √(K'₁K'₂) - c' is lost where it is small: with K' = C_b + C_W s², √(K'₁K'₂) - C_b - C_W s₁s₂ is a square.
    """
    C_b, C_W, lambda_b, lambda_W = rates
    c = C_b + C_W * mean.square
    if mean.gap is None:
        gap = r1 * r2 - c
    else:
        below = r1 * r2 + C_b + C_W * (s1 * s2)
        gap = C_W * mean.gap + C_b * C_W * (s1 - s2) ** 2 / jnp.where(below > 0, below, 1)
    return between(r1, r2, c, gap), lambda_b + lambda_W * mean.square + C_W * Theta * mean.slope


@jax.custom_jvp
def _at_least_zero(value: Array) -> Array:
    # Rounding must not make the root of it NaN, nor the cut change a derivative.
    return jnp.maximum(value, 0)


@_at_least_zero.defjvp
def _(primals, tangents):
    return _at_least_zero(*primals), tangents[0]


def by_form(form: Form, pair: Pair) -> Averages:
    """The averages in closed form."""
    return Averages(form.value(pair), form.derivative(pair), form.gap and form.gap(pair))


def root(K: Array) -> Array:
    """√K, with the derivative 0 at 0."""
    return jnp.where(K > 0, jnp.sqrt(jnp.where(K > 0, K, 1)), 0)


def pair_kernel(
    net: MLP, x1: Float[Array, "*batch n_0"], x2: Float[Array, "*batch2 n_0"], *, terms: int = 128
) -> Kernel:
    """K and Θ of the output layer for inputs paired one with one (leading axes broadcast), as a pure function.

    It works under jit, vmap and grad, in the dtype of its inputs, and its derivatives are finite everywhere. A kink
    gives the kernels corners at equal, opposite or vanishing inputs; there arccos ρ and √K count as constant. For N × M
    kernels of many inputs `kernel` is faster.

    Args:
        net: the specification, static.
        x1: inputs of shape (…, n_0).
        x2: inputs of shape (…, n_0).
        terms: static; Hermite terms for activations without a closed form. The default gives ten digits for smooth
            ones at K ≤ 4 (float64); with kinks away from closed forms the error of Θ near ρ = ±1 falls as terms^-½.

    >>> net = MLP(widths=(2, 8, 1), activation="relu")
    >>> K, Theta = pair_kernel(net, jnp.array([3.0, 4.0]), jnp.array([3.0, 4.0]))
    >>> round(float(K), 5), round(float(Theta), 5)
    (6.25, 14.0)
    """
    refuse_jumps(net.activation)
    x1, x2 = jnp.asarray(x1), jnp.asarray(x2)
    dtype = common_dtype(x1, x2, jnp.float32)
    x1, x2 = jnp.broadcast_arrays(x1.astype(dtype), x2.astype(dtype))
    if x1.ndim == 0 or x1.shape[-1] != net.widths[0]:
        raise ValueError(f"x1 and x2 have {x1.shape[-1:]} entries, but must have {net.widths[0]}, the net's n_0.")
    one = functools.partial(_one_pair, net.activation, terms, rates_of(net, dtype))
    for _ in range(x1.ndim - 1):
        one = jax.vmap(one)
    return Kernel(*one(x1, x2))


def refuse_jumps(act: Activation) -> None:
    """Say that Θ does not exist where σ itself jumps."""
    for kink in act.kinks:
        if kink.order == 0:
            raise ValueError(f"Theta does not exist for {act.name}: the activation itself jumps at {kink.position:g}.")


def _one_pair(act: Activation, terms: int, rates: Rates, x1: Array, x2: Array) -> tuple[Array, Array]:
    first, later = (Rates(*(value[part] for value in rates)) for part in (0, slice(1, None)))
    n, form = x1.shape[0], form_of(act)
    K1, K2 = (first.C_b + first.C_W * (x @ x) / n for x in (x1, x2))
    pair, Theta = first_pair(first, x1 @ x2 / n, root(K1), root(K2))
    # From differences of unit vectors, which lose no digit where the inputs are close to each other or opposite.
    gap, total = apart(unit(first, x1), unit(first, x2))
    pair = pair._replace(gap=pair.r1 * pair.r2 * gap, total=pair.r1 * pair.r2 * total)

    def layer(state, rates):
        K1, K2, pair, Theta = state
        if form is None:
            mean = Averages(*(_expanded(act, n, n, terms)(K1, K2, pair.c) for n in (0, 1)))
            squares = [_diagonal(act, 0, 0)(K) for K in (K1, K2)]
        else:
            mean = by_form(form, pair)
            squares = [form.value(Pair.one(K, root(K))) for K in (K1, K2)]
        K1, K2 = (rates.C_b + rates.C_W * square for square in squares)
        s1, s2 = map(root, squares)
        pair, Theta = next_pair(rates, mean, Theta, s1, s2, root(K1), root(K2))
        return (K1, K2, pair, Theta), None

    (_, _, pair, Theta), _ = lax.scan(layer, (K1, K2, pair, Theta), later)
    return pair.c, Theta


def apart(unit1: Array, unit2: Array) -> tuple[Array, Array]:
    """1 - ρ and 1 + ρ of unit vectors, both without cancellation."""
    return ((unit1 - unit2) ** 2).sum(-1) / 2, ((unit1 + unit2) ** 2).sum(-1) / 2


def unit(rates: Rates, x: Array) -> Array:
    """The unit vector whose products are the correlations of layer 1; 0 where the variance vanishes."""
    # The biases are one more input, of variance C_b.
    full = jnp.append(jnp.sqrt(rates.C_W / len(x)) * x, jnp.sqrt(rates.C_b))
    # Scaled first, so that no square overflows or vanishes.
    size = jnp.abs(full).max()
    full = full / lax.stop_gradient(jnp.where(size > 0, size, 1))
    square = full @ full
    return full * jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


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
