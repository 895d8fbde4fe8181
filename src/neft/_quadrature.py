"""The quadrature for one Gaussian variable: Gauss-Legendre panels, cut at kinks, refined until they settle."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._accuracy import warn_missed
from ._blocks import block_size, blocks
from ._promote import to_rank

_REACH = 13.0  # standard deviations; beyond them the weight is below 1e-37
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
PANELS = 16
"""Panels between two kinks that serve every named activation that does not oscillate."""
MOST_PANELS = 2048
AROUND_A_KINK = np.array([-9.0, -5.0, -2.5, -1.0, 0.0, 1.0, 2.5, 5.0, 9.0])  # breaks near a smoothed one, in its widths


def rule(
    K: Float[Array, "*shape"] | float,
    *,
    kinks: Sequence[float] = (),
    length: float = 1.0,
    oscillates: bool = False,
    panels: int = PANELS,
    cuts: Sequence[float] = (),
) -> tuple[Float[Array, "*shape nodes"], Float[Array, "*shape nodes"]]:
    """Nodes z and weights w with ⟨f⟩ ≈ Σ w f(z) over z ~ N(0, K): a pure function of K, for jit, vmap and grad.

    Gauss-Legendre panels in the coordinate t of z = c·sinh(t), cut at the kinks. A function that changes over `length`
    near the origin and settles to a polynomial is resolved at every K, however much wider the Gaussian is; one that
    oscillates gets panels of equal width.

    Args:
        K: the variance, ≥ 0.
        kinks: positions where f or one of its derivatives jumps.
        length: distance over which f changes.
        oscillates: whether f keeps changing at large |z|.
        panels: number of panels between two kinks; each has 16 nodes.
        cuts: positions between which f is smooth enough for one panel each, if it is known by them.

    >>> z, w = rule(2.0)
    >>> round(float((w * z**2).sum()), 5)
    2.0
    """
    spread = jnp.sqrt(jnp.asarray(K, dtype=float))
    options: dict[str, Any] = {"length": length, "oscillates": oscillates, "panels": panels, "cuts": cuts}
    x, w = unit_rule(jnp, spread, in_units(jnp, kinks, spread), **options)
    return spread[..., None] * x, w


def in_units(xp: Any, kinks: Sequence[float], spread: Any) -> list[Any]:
    """Where the kinks are in x = z/spread: far away for a small spread, but at 0 for a kink at 0."""
    return [k / xp.maximum(spread, _tiny(spread)) for k in sorted(set(kinks))]


def _tiny(spread: Any) -> float:
    # A spread below which nothing changes any more, whose inverse is still a number of its dtype.
    return 1e-150 if spread.dtype.itemsize == 8 else 1e-30


def unit_rule(
    xp: Any,
    spread: Any,
    breaks: Sequence[Any],
    *,
    length: float,
    oscillates: bool = False,
    panels: int = PANELS,
    cuts: Sequence[float] = (),
) -> Any:
    """The same rule for x = z/spread, cut at the increasing `breaks` of the spread's shape.

    `xp` is jax.numpy, or numpy where the host refines without compiling anything.
    """
    if len(cuts):
        return _cut_rule(xp, spread, breaks, cuts, max(1, panels // PANELS))
    spread = spread[..., None]
    far = _REACH * xp.ones_like(spread)
    c = far if oscillates else xp.minimum(length / xp.maximum(spread, _tiny(spread)), far)
    end = xp.arcsinh(_REACH / c)
    # Breaks out of reach make empty segments.
    edges = xp.stack([-end, *(xp.clip(xp.arcsinh(b[..., None] / c), -end, end) for b in breaks), end])
    width = (edges[1:] - edges[:-1]) / panels

    def last(values: Any, ndim: int) -> Any:
        return to_rank(np.asarray(values, spread.dtype), ndim)

    left = edges[:-1] + width * last(np.arange(panels), width.ndim)
    left, width = left[..., None], width[..., None]
    t = xp.moveaxis(left + width * last((_NODES + 1) / 2, width.ndim), 0, -3)
    step = xp.moveaxis(width * last(_WEIGHTS / 2, width.ndim), 0, -3)
    c = c[..., None, None]
    x = c * xp.sinh(t)
    w = xp.exp(-x * x / 2) * (c * xp.cosh(t) * step / math.sqrt(2 * math.pi))
    flat = (*x.shape[:-3], -1)
    return x.reshape(flat), w.reshape(flat)


def _cut_rule(xp: Any, spread: Any, breaks: Sequence[Any], cuts: Sequence[float], panels: int) -> Any:
    # Panels of at most a standard deviation, cut wherever the function asks for it.
    spread = spread[..., None]
    ones = xp.ones_like(spread)

    def last(values: Any, ndim: int) -> Any:
        return to_rank(np.asarray(values, spread.dtype), ndim)

    even = ones * last(np.linspace(-_REACH, _REACH, 2 * int(_REACH) + 1), spread.ndim)
    near = last(cuts, spread.ndim) / xp.maximum(spread, _tiny(spread))
    edges = xp.concatenate([even, near, *(b[..., None] for b in breaks)], axis=-1)
    edges = xp.sort(xp.clip(edges, -_REACH, _REACH), axis=-1)
    width = (edges[..., 1:] - edges[..., :-1])[..., None] / panels
    left = edges[..., :-1, None] + width * last(np.arange(panels), width.ndim)
    left, width = left[..., None], width[..., None]
    x = left + width * last((_NODES + 1) / 2, width.ndim)
    w = xp.exp(-x * x / 2) * (width * last(_WEIGHTS / 2, width.ndim) / math.sqrt(2 * math.pi))
    flat = (*x.shape[:-3], -1)
    return x.reshape(flat), w.reshape(flat)


def elementwise(function: Callable, z: np.ndarray) -> np.ndarray:
    """function(z) by compiled code that sees one shape only, so that it compiles once however many nodes there are."""
    return all_elementwise([function], z)[0]


def all_elementwise(functions: Sequence[Callable], z: np.ndarray) -> list[np.ndarray]:
    """The same for several functions, which share the work that they have in common."""
    compiled, flat, chunk = _compiled(tuple(functions)), z.ravel(), 4096
    padded = np.pad(flat, (0, -len(flat) % chunk), mode="edge").reshape(-1, chunk)
    parts = zip(*(map(np.asarray, compiled(part)) for part in padded))
    return [np.concatenate(part)[: len(flat)].reshape(z.shape) for part in parts]


@functools.lru_cache(maxsize=256)
def _compiled(functions: tuple[Callable, ...]) -> Callable:
    return jax.jit(lambda z: [function(z) for function in functions])


def refined(f: Callable, K: np.ndarray, options: dict, rtol: float, what: str) -> np.ndarray:
    """⟨f⟩ for each variance, with panels doubled until it changes by less than `rtol` of ⟨|f|⟩, or a warning.

    `options` are those of `rule`; `what` names the average in the warning.
    """
    flat, result, worst = K.ravel(), np.empty(K.size), 0.0
    for part in blocks(K.size, block_size(2 * 16 * 8 * MOST_PANELS, K.size)):
        coarse, _ = _integral(f, flat[part], options, PANELS // 2)
        panels = PANELS
        while True:
            fine, size = _integral(f, flat[part], options, panels)
            if not np.isfinite(size).all():
                raise ValueError(f"{what} does not exist: its integrand is not finite.")
            error = float(np.max(np.abs(fine - coarse) / np.where(size > 0, size, 1.0), initial=0.0))
            if error <= rtol or panels >= MOST_PANELS:
                break
            coarse, panels = fine, 2 * panels
        result[part], worst = fine, max(worst, error, _share_at_the_ends(f, flat[part], options))
    if worst > rtol:
        warn_missed(what, worst, rtol)
    return result.reshape(K.shape)


def _share_at_the_ends(f: Callable, K: np.ndarray, options: dict) -> float:
    # What lies beyond the reach is lost at every refinement alike; the last panels within it show how much that may be.
    spread, rest = np.sqrt(K), {name: value for name, value in options.items() if name != "kinks"}
    x, w = unit_rule(np, spread, in_units(np, options["kinks"], spread), **rest, panels=PANELS)
    part = w * np.abs(f(spread[..., None] * x))
    total = part.sum(-1)
    return float(np.max((part * (np.abs(x) > _REACH - 1)).sum(-1) / np.where(total > 0, total, 1.0), initial=0.0))


def _integral(f: Callable, K: np.ndarray, options: dict, panels: int) -> tuple[np.ndarray, np.ndarray]:
    spread, rest = np.sqrt(K), {name: value for name, value in options.items() if name != "kinks"}
    x, w = unit_rule(np, spread, in_units(np, options["kinks"], spread), **rest, panels=panels)
    z = spread[..., None] * x
    values = f(z)
    return (w * values).sum(-1), (w * np.abs(values)).sum(-1)
