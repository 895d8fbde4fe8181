"""A user's own activation: what can be found out about a function that is only known as a program."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _cauchy, _check, _kinks
from ._activation import Activation, Kink
from ._mesh import NODES, TRANSFORM, probed
from ._periodic import fourier_of

_PROBES = np.array([1e-3, 0.1, 0.37, 1.0, 2.3, 5.1])
# Rows of probes: z, -z and the doubled and otherwise scaled ones.
_FACTORS = np.array([1.0, -1.0, 2.0, -2.0, 3.7, -3.7])
_WIDE = np.linspace(-10.0, 10.0, 403)
_NEIGHBOURS = 8
_FINEST_OF_TANH = 0.5  # the smallest cell of its mesh
_ROUGH = 0.3  # of that; below it the rules for named activations do not serve
# The integral of a function between the first and the last node, from its values at all of them.
_INNER = np.linalg.solve(
    np.polynomial.legendre.legvander(NODES, 15).T,
    [
        np.polynomial.legendre.legval(NODES[-1], np.polynomial.legendre.legint(e))
        - np.polynomial.legendre.legval(NODES[0], np.polynomial.legendre.legint(e))
        for e in np.eye(16)
    ],
)


def own(function: Callable, name: Any, kinks: Any) -> Activation:
    """The activation of a function, with its parity, scale invariance, kinks and singularity as far as they show."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name is {_check.brief(name)}, but must be a text for what the activation is called.")
    try:
        declared = tuple(kinks)
    except TypeError:
        raise ValueError(
            f"kinks is {_check.brief(kinks)}, but must list positions or triples (position, order, jump)."
        ) from None
    try:
        hash(function)
    except TypeError:  # such as an Equinox module that holds arrays
        function = _ByIdentity(function)
    # Kinks are declared as numbers, lists or arrays, which a cache cannot hold.
    made, seen = _own(function, name, tuple(_declared(name, kink) for kink in declared))
    _refuse_change(function, name, seen)
    return made


class _ByIdentity:
    """A callable that cannot be hashed, known by which object it is."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, z: Any) -> Any:
        return self.function(z)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.function is other.function

    def __hash__(self) -> int:
        return id(self.function)


@functools.lru_cache(maxsize=64)
def _own(function: Callable, name: str, declared: tuple[float | Kink, ...]) -> tuple[Activation, np.ndarray]:
    values = _probed(function, name)
    right, left = values[:2]
    kinks = _all_kinks(function, name, declared)
    close = functools.partial(np.allclose, rtol=1e-12, atol=1e-300)
    singularity = _singularity(function, kinks)
    # tanh sets the measure, whose poles are at ±iπ/2. A kink says nothing about how fast the pieces change.
    length = 1.0 if kinks or math.isnan(singularity) else min(1.0, max(singularity * 2 / math.pi, 1e-3))
    edges = probed(function, [kink.position for kink in kinks]).edges
    _refuse_other_derivatives(function, name, edges)
    half = np.diff(edges) / 2
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * NODES[None, :]
    everywhere = np.append(nodes.ravel(), np.geomspace(1.0, 1e6, 2000))
    ahead, behind = (_kinks.derivatives(function, side * everywhere)[0] for side in (1, -1))
    right, left = np.append(right, ahead), np.append(left, behind)
    # Two kinks may be close to each other.
    free = ~np.isin(edges, [kink.position for kink in kinks])
    finest = float(np.min(2 * half[free[1:] & free[:-1]], initial=math.inf)) / _FINEST_OF_TANH
    rough = finest < _ROUGH
    fourier = None if kinks else fourier_of(function, nodes.ravel())
    if fourier is not None:
        finest = min(1.0, 1 / (fourier.frequency * max(1, len(fourier.coefficients) - 1)))
    made = Activation(
        name,
        function,
        kinks=kinks,
        singularity=singularity,
        length=min(length, finest) if rough or fourier else length,
        cuts=tuple(edges[1:-1].tolist()) if rough and not fourier else (),
        oscillates=fourier is not None,
        fourier=fourier,
        parity="odd" if close(left, -right) else "even" if close(left, right) else None,
        # A kink elsewhere may be out of reach of the probes.
        scale_invariant=all(close(values[i], abs(_FACTORS[i]) * values[i % 2]) for i in range(2, len(_FACTORS)))
        and not rough
        and _two_lines(function)
        and all(kink.position == 0 for kink in kinks),
        named=False,
    )
    return made, values


def _two_lines(function: Callable) -> bool:
    # Whether σ is proportional to z on each side, from as close to the origin as anybody looks to as far out.
    z = np.geomspace(1e-9, 1e9, 4000)
    sides = [_kinks.derivatives(function, side * z)[0] / z for side in (1, -1)]
    return all(np.allclose(side, side[2000], rtol=1e-12, atol=1e-300) for side in sides)


def _evaluated(function: Callable) -> np.ndarray:
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return np.asarray(function(jnp.asarray(np.outer(_FACTORS, _PROBES))))


def _refuse_change(function: Callable, name: str, seen: np.ndarray) -> None:
    # What was found out about a function, and compiled of it, is kept.
    if not np.allclose(_evaluated(function), seen, rtol=1e-12, atol=0.0, equal_nan=True):
        raise ValueError(
            f"activation {name!r} gives other values than when it was first used, but must depend on its argument "
            "alone: make a new function for new parameters."
        )


def _refuse_other_derivatives(function: Callable, name: str, edges: np.ndarray) -> None:
    # Between kinks σ^(n) changes by the integral of σ^(n+1): stop_gradient and rules of one's own can break that.
    half = np.diff(edges)[:, None] / 2
    z = edges[:-1, None] + half * (1 + NODES[None, :])
    with np.errstate(all="ignore"):
        at = _kinks.derivatives(function, z.ravel()).reshape(4, *z.shape)
        # To the first and last node, which are within the cell.
        change, said = at[:3, :, -1] - at[:3, :, 0], (at[1:] * (half * _INNER[None, :])[None]).sum(axis=-1)
        size = np.abs(at[:3]).max(axis=(1, 2), keepdims=True)[..., 0]
        near = np.abs(change) + np.abs(said) + 2 * half[None, :, 0] * np.abs(at[1:]).max(axis=-1)
        off = np.abs(change - said) > 1e-4 * near + 1e-7 * np.where(np.isfinite(size), size, 0.0)
        # Only where the nodes show the function: not in slivers, nor where it counts for nothing.
        bend = np.abs(np.einsum("kn,fcn->fkc", TRANSFORM[-3:], at)).max(axis=1)
        shown = (bend <= 1e-6 * np.abs(at).max(axis=2)).all(axis=0) & np.isfinite(at).all(axis=(0, 2))
    off &= (shown & (half[:, 0] > 1e-9 * np.maximum(1.0, np.abs(edges[:-1]))))[None, :]
    if off.any():
        n, i = np.argwhere(off)[0]
        what = ("it", "its derivative", "its second derivative")[n]
        raise ValueError(
            f"activation {name!r} has derivatives in JAX that are not its own (stop_gradient, or a rule of one's own?)"
            f": from {z[i, 0]:.6g} to {z[i, -1]:.6g} {what} changes by {change[n, i]:.4g}, where its derivative says "
            f"{said[n, i]:.4g}."
        )


def _probed(function: Callable, name: str) -> np.ndarray:
    z = np.outer(_FACTORS, _PROBES)
    # The same numbers in other company, which a function that acts elementwise does not notice.
    same = np.indices(z.shape).sum(axis=0) % 2 == 0
    try:
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            made = jax.eval_shape(function, jax.ShapeDtypeStruct(z.shape, jnp.float64))
            shape, dtype = made.shape, made.dtype
            if shape == z.shape and dtype == np.float64:
                values = np.asarray(function(jnp.asarray(z)))
                others = np.asarray(function(jnp.asarray(np.where(same, z, 0.123))))
                wide = _kinks.derivatives(function, _WIDE)[0]
            else:
                values, others, wide = z, z, _WIDE
    except (
        jax.errors.TracerArrayConversionError,
        jax.errors.ConcretizationTypeError,
        jax.errors.UnexpectedTracerError,
    ):
        raise ValueError(
            f"activation {name!r} depends on a value that JAX is tracing, but must be known when it is made."
        ) from None
    except Exception as error:  # whatever a user's function raises
        raise ValueError(f"activation {name!r} cannot be traced by JAX: {_first_line(error)}.") from None
    if shape != z.shape:
        raise ValueError(f"activation {name!r} maps an array of shape {z.shape} to {shape}, but must act elementwise.")
    if dtype != np.float64:
        raise ValueError(f"activation {name!r} returns {dtype} for float64, but must keep the type of its argument.")
    if not np.isfinite(values[:2]).all():
        raise ValueError(f"activation {name!r} is not finite near the origin, but must be on the whole real line.")
    if np.isnan(wide).any():
        where = min(_WIDE[np.isnan(wide)], key=abs)
        raise ValueError(f"activation {name!r} is NaN at {where:g}, but must be finite on the whole real line.")
    if not np.allclose(values[same], others[same], rtol=1e-12, atol=0.0, equal_nan=True):
        raise ValueError(f"activation {name!r} mixes the elements of an array, but must act elementwise.")
    return values


def _declared(name: str, kink: Any) -> float | Kink:
    if np.ndim(kink) == 0:
        return _check.real("position of a kink", kink)
    if np.ndim(kink) != 1 or len(kink) != 3:
        raise ValueError(
            f"kinks of {name!r} hold {_check.brief(kink)}, but must be positions or (position, order, jump)."
        )
    order = _check.integer("order of a kink", kink[1], at_least=0, at_most=3)
    return Kink(_check.real("position of a kink", kink[0]), order, _check.real("jump of a kink", kink[2]))


def _all_kinks(function: Callable, name: str, declared: tuple[float | Kink, ...]) -> tuple[Kink, ...]:
    positions = [kink.position if isinstance(kink, Kink) else kink for kink in declared]
    if len(set(positions)) < len(positions):
        raise ValueError(f"kinks of activation {name!r} name {max(positions, key=positions.count):g} more than once.")
    # A kink that nobody declares would lose its deltas without a word.
    seen = _kinks.found(function)
    if len(seen) > _kinks.MOST:
        raise ValueError(
            f"activation {name!r} shows more than {_kinks.MOST} kinks in |z| ≤ {_kinks.FAR:g}, but must be smooth "
            "between a few."
        )
    kinks = [_verified(function, name, kink, seen) for kink in declared]
    new = [kink for kink in seen if all(abs(kink.position - p) > 1e-9 * max(1.0, abs(p)) for p in positions)]
    if unbounded := [kink for kink in (*kinks, *new) if kink.order == 0 and math.isinf(kink.jump)]:
        raise ValueError(
            f"activation {name!r} is not bounded near {unbounded[0].position:g}, but must be finite on the whole "
            "real line."
        )
    return tuple(sorted([*kinks, *new]))


def _verified(function: Callable, name: str, kink: float | Kink, seen: tuple[Kink, ...]) -> Kink:
    position = kink.position if isinstance(kink, Kink) else kink
    (shown,) = _kinks.examined(function, [position])
    if shown is None:
        near = min((k.position for k in seen), key=lambda p: abs(p - position), default=None)
        hint = f" (the nearest that shows is at {near:.15g})" if near is not None else ""
        raise ValueError(
            f"kinks of activation {name!r} name {position:g}, but no derivative up to the third jumps there{hint}."
        )
    if not isinstance(kink, Kink):
        return shown
    if kink.order != shown.order or not math.isclose(kink.jump, shown.jump, rel_tol=1e-6):
        raise ValueError(
            f"kinks of activation {name!r} say that derivative {kink.order} jumps by {kink.jump:g} at {position:g}, "
            f"but the lowest that jumps there is derivative {shown.order}, by {shown.jump:g}."
        )
    return kink


def _singularity(function: Callable, kinks: tuple[Kink, ...]) -> float:
    kink = min((abs(k.position) for k in kinks), default=math.inf)
    if kink == 0:
        return 0.0
    try:
        on = _circles(function)
    except ValueError:
        return math.nan
    # What the circles show is that of the program; where it is not that of the function (|z|, a maximum, a clip),
    # nothing is known about the function.
    if not _agrees(function, on):
        return math.nan
    # A kink that can have spoilt the first circle that is not analytic is known better than anything read off circles.
    return kink if kink <= on.beyond else min(kink, on.singularity)


def _agrees(function: Callable, on: _cauchy.Circles) -> bool:
    """Whether the series that the circles show is that of the function on the real line."""
    if not len(on.radii):
        return False
    i = max(0, int(np.searchsorted(on.radii, 1.0)) - 1)
    half = np.array([-0.5, 0.5])
    series = np.real(half[:, None] ** np.arange(on.coefficients.shape[1]) @ on.coefficients[i])
    values = _kinks.derivatives(function, half * on.radii[i])[0]
    size = np.abs(on.coefficients[i]).max()
    return bool((np.abs(series - values) <= 1e-9 * size + 100 * on.noise[i]).all())


@functools.lru_cache(maxsize=64)
def _circles(function: Callable) -> _cauchy.Circles:
    return _cauchy.circles(function)


def series_of(act: Activation, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Maclaurin coefficients and their estimated errors, or a refusal."""
    if act.one_sided:
        raise ValueError(f"activation {act.name!r} has a kink at 0, so a Maclaurin series of it is not known.")
    if order > _cauchy.HIGHEST - _NEIGHBOURS:
        raise ValueError(
            f"order is {order}, but must be at most {_cauchy.HIGHEST - _NEIGHBOURS} for a user's own activation."
        )
    on = _circles(act.function)
    values, errors, radii = _cauchy.coefficients(on, order + _NEIGHBOURS)
    bad = ~(errors <= 1e-6 * _size_of_terms(values, radii))[: order + 1]
    values, errors = values[: order + 1], errors[: order + 1]
    # Past the end of a polynomial nothing has a size; zeros are known where the circles show nothing but rounding.
    if len(on.radii) and (on.noise <= 1e-13 * np.abs(on.coefficients).max(axis=1)).all():
        bad &= np.abs(values) > 100 * errors
    bad |= not _agrees(act.function, on)
    if bad.any():
        raise ValueError(
            f"activation {act.name!r} does not show a Maclaurin coefficient of order {int(np.argmax(bad))} to six "
            "digits (is there a kink or a branch point near 0, or is it written with abs, maximum, clip or where, "
            "which are not analytic?)."
        )
    return values, errors


def _size_of_terms(values: np.ndarray, radii: np.ndarray) -> np.ndarray:
    # A coefficient may vanish (by parity, say): the terms beside it, on the circle it was read from, set its scale.
    k = np.arange(len(values))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shifted = [
            np.abs(values[np.clip(k + d, 0, k[-1])]) * radii ** float(d) * ((k + d >= 0) & (k + d <= k[-1]))
            for d in range(-_NEIGHBOURS, _NEIGHBOURS + 1)
        ]
    return np.max(shifted, axis=0)


def _first_line(error: Exception) -> str:
    said = (str(error).strip().splitlines() or [""])[0].split(". ")[0]
    return f"{type(error).__name__}: {said}".rstrip(": .")
