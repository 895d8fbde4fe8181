"""Averages over two correlated Gaussian variables, for whole kernels at once."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check, _hermite
from .._accuracy import warn_missed
from .._activation import Activation
from .._activation import activation as _activation
from .._blocks import block_size, blocks
from .._closed import closed_form
from .._of_own import cuts
from .._periodic import pair_average
from .._precision import float64
from .._promote import to_rank
from .._public import public
from .._quadrature import MOST_PANELS, PANELS, elementwise, refined
from ._any_pair import Resolved, any_pair
from ._rotated import aligned, nodes_per_pair, panels_for, rotated

_LADDER = (256, 1024, 4096)  # numbers of Hermite terms to try
_TERM, _NODE = 0.15e-9, 3e-9  # seconds that a term and a node cost, for the choice between them
_REPRESENTATIVES = 12
_WIDEST = 1e6  # variances in squares of lengths, beyond which a shared rule has too many nodes


@public
@float64
def pair(
    activation: str | Activation | Callable[[Any], Any],
    K1: Any,
    K2: Any,
    rho: Any,
    *,
    order: int = 0,
    rtol: float = 1e-10,
) -> Float[np.ndarray, "*shape"]:
    """⟨σ^(n)(z₁) σ^(n)(z₂)⟩ for z₁, z₂ of variances K1, K2 and correlation ρ, in float64; n = `order`.

    The arguments broadcast. For a kernel of N × M pairs pass K1 of shape (N, 1), K2 of shape (1, M) and ρ of shape
    (N, M): what depends on one variable only is then done N + M times. Closed forms are used where they exist (linear,
    quadratic, relu, leaky_relu, erf, sin, gelu), else a Hermite expansion with as many terms as K and ρ ask for, and
    quadrature for the pairs that would need too many. Derivatives are taken almost everywhere, without deltas
    (docs/theory/width, eq. 75).

    Args:
        activation: an activation, its name, or a function.
        K1: variances of z₁, ≥ 0.
        K2: variances of z₂, ≥ 0.
        rho: correlations in [-1, 1]; both ends are exact.
        order: 0 for ⟨σσ⟩, 1 for ⟨σ'σ'⟩, at most 3.
        rtol: tolerance relative to √(⟨σ²⟩⟨σ²⟩); an `AccuracyWarning` says when it is missed.

    >>> round(float(pair("relu", 2.0, 2.0, 1.0)), 12)
    1.0
    """
    act = _activation(activation)
    order = _check.integer("order", order, at_least=0, at_most=3)
    K1, K2 = (_check.array(name, value, at_least=0.0) for name, value in (("K1", K1), ("K2", K2)))
    rho = _correlations(rho)
    _check.real("rtol", rtol, above=0.0)
    try:
        shape = np.broadcast_shapes(K1.shape, K2.shape, rho.shape)
    except ValueError:
        raise ValueError(
            f"K1, K2 and rho have shapes {K1.shape}, {K2.shape}, {rho.shape}, which do not broadcast."
        ) from None
    K1, K2, rho = (to_rank(value, len(shape)) for value in (K1, K2, rho))
    if any(kink.order < order for kink in act.kinks):
        worst = min(kink.order for kink in act.kinks)
        raise ValueError(
            f"order is {order}, but derivative {worst} of {act.name} jumps, so order must be at most {worst}."
        )
    form = closed_form(act, order)
    if form is not None:
        return np.array(np.broadcast_to(form(jnp.asarray(K1), jnp.asarray(K2), jnp.asarray(rho)), shape))
    if 0 in shape:
        return np.zeros(shape)
    widest = max(float(K1.max()), float(K2.max()))
    if not act.named or widest > _WIDEST * act.length**2:
        return _of_any(act, order, K1, K2, np.broadcast_to(rho, shape), rtol)
    length = act.length if math.isfinite(act.length) else 1.0
    of = _Integrand(act.derivative(order), tuple(kink.position for kink in act.kinks), length)
    return _expanded(of, K1, K2, np.atleast_1d(np.broadcast_to(rho, shape)), rtol).reshape(shape)


def _of_any(
    act: Activation, order: int, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, rtol: float
) -> Float[np.ndarray, "*shape"]:
    # Whatever the function does: by its Fourier series where its period is short for both Gaussians, else by meshes.
    first, second = (np.broadcast_to(K, rho.shape).ravel() for K in (K1, K2))
    flat, result = rho.ravel(), np.empty(rho.size)
    far = np.zeros(rho.size, bool)
    if act.fourier is not None:
        far = act.fourier.frequency**2 * np.minimum(first, second) > 1
        result[far] = pair_average(act.fourier, order, np.sqrt(first[far]), np.sqrt(second[far]), flat[far])
    if not far.all():
        f = act.derivative(order)
        kinks = tuple(kink.position for kink in act.kinks)
        of = Resolved(lambda z: elementwise(f, z), functools.partial(cuts, act), kinks, f"pair of {act.name}")
        result[~far] = any_pair(of, first[~far], second[~far], flat[~far], rtol)
    if not np.isfinite(result).all():
        raise ValueError("pair does not exist here: the activation is not finite where the variances reach.")
    return result.reshape(rho.shape)


def _correlations(rho: Any) -> np.ndarray:
    rho = _check.array("rho", rho)
    beyond = max(rho.max(initial=0.0), -rho.min(initial=0.0))
    if beyond > 1 + 1e-9:
        raise ValueError(f"rho holds {beyond:g} in size, but must lie between -1 and 1.")
    # Kernels divided by their diagonal leave the interval by rounding.
    return np.asarray(np.clip(rho, -1.0, 1.0)) if beyond > 1 else rho


@dataclasses.dataclass(frozen=True)
class _Integrand:
    # σ^(n) with what the quadratures ask about it.
    f: Callable
    kinks: tuple[float, ...]
    length: float

    @property
    def options(self) -> dict[str, Any]:
        return {"kinks": self.kinks, "length": self.length}


def _expanded(of: _Integrand, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, rtol: float) -> np.ndarray:
    size = np.abs(rho).ravel()
    # Where ρ = ±1 one integral is enough, and the expansion would be longest: leave those pairs out of what follows.
    ends = np.flatnonzero(size == 1)
    size[ends] = 0.0
    below = float(size.max())
    variances = np.unique(np.concatenate([K1.ravel(), K2.ravel()]))
    of = _resolved(of, variances, rtol)
    terms, reach = _plan(of, variances, size, below, rtol)
    result = np.empty(rho.size)
    if len(ends) < rho.size:
        result = np.array(_by_hermite(of, K1, K2, rho, terms)).ravel()
    far = np.flatnonzero(size > reach) if reach < below else ends[:0]
    for rows, method in ((ends, _by_line), (far, _by_quadrature)):
        if len(rows):
            first, second = (np.broadcast_to(v, rho.shape).ravel()[rows] for v in (K1, K2))
            result[rows] = method(of, first, second, rho.ravel()[rows], rtol)
    if not np.isfinite(result).all():
        raise ValueError("pair does not exist here: the activation is not finite where the variances reach.")
    return result.reshape(rho.shape)


def _resolved(of: _Integrand, variances: np.ndarray, rtol: float) -> _Integrand:
    # The expansion's quadrature against one that refines itself, on ⟨f²⟩: a function that changes faster than its
    # length says, or has a kink nobody declared, would look converged to the expansion alone.
    chosen = variances[np.unique(np.linspace(0, len(variances) - 1, 3).astype(int))]
    options = {"kinks": list(of.kinks), "length": of.length}
    exact = refined(lambda z: elementwise(of.f, z) ** 2, chosen, options, max(rtol, 1e-12), "pair")
    error = math.inf
    for _ in range(6):
        square = _coefficients(of, chosen, _LADDER[0])[1]
        error = float(np.max(np.abs(square - exact) / np.where(exact > 0, exact, 1.0)))
        if error <= max(rtol, 1e-12):
            return of
        of = dataclasses.replace(of, length=of.length / 2)
    warn_missed("pair", error, rtol)
    return of


def _coefficients(of: _Integrand, K: np.ndarray, terms: int, widest: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rule = _hermite.shared_rule(max(widest, float(K.max())), of.kinks, of.length, terms)
    if rule is None:
        a, square = _hermite.kinked_coefficients(of.f, jnp.asarray(K), of.kinks, of.length, terms)
        return np.asarray(a), np.asarray(square)
    # Wide variances need many nodes: neither the table of Hermite functions nor that of f is held for all of them.
    sums = None
    for part in blocks(len(rule[0]), block_size(8 * (3 * terms + 2 * len(K)), len(rule[0]))):
        nodes = (jnp.asarray(r[part]) for r in rule)
        pieces = _hermite.shared_coefficients(of.f, jnp.asarray(K), *nodes, terms)
        sums = pieces if sums is None else jax.tree.map(jnp.add, sums, pieces)
    assert sums is not None
    return np.asarray(sums[0]), np.asarray(sums[1])


def _plan(of: _Integrand, variances: np.ndarray, size: np.ndarray, below: float, rtol: float) -> tuple[int, float]:
    # The number of Hermite terms and the largest |ρ| they serve, by what costs least.
    chosen = variances[np.unique(np.linspace(0, len(variances) - 1, _REPRESENTATIVES).astype(int))]
    per_pair = _NODE * nodes_per_pair(len(of.kinks), 4)
    best = (math.inf, 0, -1.0)
    for most in _LADDER:
        tails = _hermite.tails(*_coefficients(of, chosen, most))
        orders = np.arange(8, most + 1, 8)
        # Stopping before order n loses at most tail_n |ρ|^n.
        reaches = np.minimum((0.1 * rtol / np.maximum(tails[orders], 1e-300)) ** (1 / orders), 1.0)
        enough = np.flatnonzero(reaches >= below)
        candidates = {int(enough[0])} if len(enough) else {len(orders) - 1}
        # Fewer terms, and quadrature for the few pairs beyond their reach, may cost less.
        candidates |= {c // 2**j for c in candidates for j in range(1, 4)}
        for n, reach in ((int(orders[c]), float(reaches[c])) for c in candidates):
            beyond = np.count_nonzero(size > reach) if reach < below else 0
            best = min(best, (n * _TERM * size.size + beyond * per_pair, n, reach))
        if len(enough):
            break
    return best[1], best[2]


def _by_hermite(of: _Integrand, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, terms: int) -> np.ndarray:
    widest = float(max(K1.max(), K2.max()))
    if rho.ndim == 2 and K1.shape == (rho.shape[0], 1) and K2.shape == (1, rho.shape[1]):
        a1, a2, start, step = _both_terms(of, K1[:, 0], K2[0], terms, widest)
        return np.asarray(_hermite.outer_sum(a1, a2, jnp.asarray(rho), start, step))
    first, second = (np.broadcast_to(K, rho.shape).ravel() for K in (K1, K2))
    flat, result = rho.ravel(), np.empty(rho.size)
    for part in blocks(rho.size, block_size(8 * 8 * terms, rho.size)):
        a1, a2, start, step = _both_terms(of, first[part], second[part], terms, widest)
        result[part] = _hermite.flat_sum(a1, a2, jnp.asarray(flat[part]), start, step)
    return result


def _both_terms(
    of: _Integrand, K1: np.ndarray, K2: np.ndarray, terms: int, widest: float
) -> tuple[_hermite.Terms, _hermite.Terms, int, int]:
    # The coefficients of each distinct variance once, laid out for both sides.
    distinct, where = np.unique(np.concatenate([K1, K2]), return_inverse=True)
    # Blocks differ in how many are distinct: round up, so that compiled code is found again.
    distinct = np.pad(distinct, (0, 2 ** math.ceil(math.log2(len(distinct))) - len(distinct)), mode="edge")
    a, start, step = _hermite.sorted_terms(_coefficients(of, distinct, terms, widest)[0])

    def pick(index: np.ndarray) -> _hermite.Terms:
        return _hermite.Terms(*(jnp.asarray(part[:, index]) for part in a))

    return pick(where[: len(K1)]), pick(where[len(K1) :]), start, step


def _by_line(of: _Integrand, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, rtol: float) -> np.ndarray:
    def solve(rows: slice | np.ndarray, panels: int) -> np.ndarray:
        arguments = [jnp.asarray(v[rows]) for v in (K1, K2, rho)]
        return np.asarray(aligned(of.f, *arguments, **of.options, panels=panels))

    # The widest are the hardest, and say how many panels all of them get.
    widest, panels, error = np.argsort(np.maximum(K1, K2))[-2:], PANELS, math.inf
    coarse = solve(widest, panels)
    while panels < MOST_PANELS:
        fine = solve(widest, 2 * panels)
        error = _relative_to_squares(of, (K1[widest], K2[widest]), fine - coarse, panels)
        if error <= rtol:
            break
        coarse, panels = fine, 2 * panels
    if error > rtol:
        warn_missed("pair", error, rtol)
    result = np.empty(len(rho))
    for part in blocks(len(rho), block_size(8 * 8 * panels * 16 * (2 * len(of.kinks) + 1), len(rho))):
        result[part] = solve(part, panels)
    return result


def _by_quadrature(of: _Integrand, K1: np.ndarray, K2: np.ndarray, rho: np.ndarray, rtol: float) -> np.ndarray:
    result = np.empty(len(rho))
    needed = panels_for(np.maximum(K1, K2), rho, of.length)
    for panels in np.unique(needed).tolist():
        group = np.flatnonzero(needed == panels)
        # One shape for the compiler: short blocks are padded with copies of their last pair.
        rounded = 2 ** math.ceil(math.log2(len(group)))
        size = min(1024, block_size(3 * 8 * nodes_per_pair(len(of.kinks), panels), rounded))
        for part in blocks(len(group), size, label="pairs near ρ = ±1"):
            chosen = group[part]
            padded = np.pad(chosen, (0, size - len(chosen)), mode="edge")
            arguments = [jnp.asarray(v[padded]) for v in (K1, K2, rho)]
            result[chosen] = np.asarray(rotated(of.f, *arguments, **of.options, panels=panels))[: len(chosen)]
        # Those that spread widest across the long axis are the hardest.
        worst = group[np.argsort(np.maximum(K1, K2)[group] * (1 - np.abs(rho[group])))[-2:]]
        finer = [jnp.asarray(v[worst]) for v in (K1, K2, rho)]
        again = np.asarray(rotated(of.f, *finer, **of.options, panels=panels, refine=2))
        error = _relative_to_squares(of, (K1[worst], K2[worst]), again - result[worst])
        if error > rtol:
            warn_missed("pair", error, rtol)
    return result


def _relative_to_squares(
    of: _Integrand, variances: tuple[np.ndarray, ...], differences: np.ndarray, panels: int = PANELS
) -> float:
    # The largest difference in units of √(⟨f²⟩⟨f²⟩).
    one, options = jnp.ones(len(differences)), {**of.options, "panels": panels}
    squares = [np.asarray(aligned(of.f, jnp.asarray(K), jnp.asarray(K), one, **options)) for K in variances]
    scale = np.sqrt(squares[0] * squares[1])
    return float(np.max(np.abs(differences) / np.where(scale > 0, scale, 1.0)))
