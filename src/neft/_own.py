"""A user's own activation: what can be found out about a function that is only known as a program."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _cauchy, _check
from ._activation import Activation, Kink, derivative_of

_PROBES = np.array([1e-3, 0.1, 0.37, 1.0, 2.3, 5.1])


def own(function: Callable, name: str, kinks: tuple) -> Activation:
    """The activation of a function, with its parity, scale invariance, kinks and singularity as far as they show."""
    try:
        with jax.enable_x64(True):
            shape = jax.eval_shape(function, jax.ShapeDtypeStruct((2, 6), jnp.float64)).shape
            # Rows: z, -z, 2z, -2z.
            z = jnp.asarray(np.outer([1, -1, 2, -2], _PROBES))
            right, left, *doubled = np.asarray(function(z), float) if shape == (2, 6) else [z] * 4
    except Exception as error:
        raise ValueError(f"activation {name!r} cannot be traced by JAX: {_first_line(error)}.") from None
    if shape != (2, 6):
        raise ValueError(f"activation {name!r} maps an array of shape (2, 6) to {shape}, but must act elementwise.")
    if not (np.isfinite(right).all() and np.isfinite(left).all()):
        raise ValueError(f"activation {name!r} is not finite near the origin, but must be on the whole real line.")
    close = functools.partial(np.allclose, rtol=1e-12, atol=1e-300)
    declared = tuple(sorted(_examined(function, name, kink) for kink in kinks))
    positions = [kink.position for kink in declared]
    if len(set(positions)) < len(positions):
        raise ValueError(f"kinks of activation {name!r} name {max(positions, key=positions.count):g} more than once.")
    if 0.0 not in positions:
        # By far the most common kink, and easily forgotten: a delta there would be lost without a word.
        with contextlib.suppress(ValueError):
            declared = tuple(sorted((*declared, _examined(function, name, 0.0))))
    made = Activation(
        name,
        function,
        kinks=declared,
        parity="odd" if close(left, -right) else "even" if close(left, right) else None,
        scale_invariant=bool(close(doubled, [2 * right, 2 * left])),
        named=False,
    )
    return dataclasses.replace(made, singularity=_singularity(function, declared))


def _examined(function: Callable, name: str, kink: Any) -> Kink:
    if np.ndim(kink) == 1:
        if len(kink) != 3:
            raise ValueError(f"kinks of {name!r} hold {kink!r}, but must be positions or (position, order, jump).")
        order = _check.integer("order of a kink", kink[1], at_least=0, at_most=3)
        return Kink(_check.real("position of a kink", kink[0]), order, _check.real("jump of a kink", kink[2]))
    position = _check.real("position of a kink", kink)
    with jax.enable_x64(True):
        # Two steps on each side, extrapolated to the kink itself.
        around = position + 1e-7 * max(1.0, abs(position)) * np.array([-2.0, -1.0, 1.0, 2.0])
        for order in range(4):
            at = np.asarray(derivative_of(function, order)(jnp.asarray(around)), float)
            jump = (2 * at[2] - at[3]) - (2 * at[1] - at[0])
            if abs(jump) > 1e-6 * max(1.0, float(np.abs(at).max())):
                return Kink(position, order, float(jump))
    raise ValueError(f"kinks of activation {name!r} names {position:g}, but no derivative up to the third jumps there.")


def _singularity(function: Callable, kinks: tuple[Kink, ...]) -> float:
    kink = min((abs(k.position) for k in kinks), default=math.inf)
    if kink == 0:
        return 0.0
    try:
        on = _circles(function)
    except ValueError:
        return kink
    # |z| is the same on a whole circle, which looks analytic; autodiff on the real line tells.
    return min(kink, on.singularity) if _agrees(function, _cauchy.coefficients(on, 3)[0]).all() else 0.0


def _agrees(function: Callable, values: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        exact = [float(derivative_of(function, k)(0.0)) / math.factorial(k) for k in range(len(values))]
    return np.abs(values - exact) <= 1e-6 * np.maximum(1.0, np.abs(exact))


@functools.lru_cache(maxsize=64)
def _circles(function: Callable) -> _cauchy.Circles:
    return _cauchy.circles(function)


def series_of(act: Activation, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Maclaurin coefficients and their estimated errors, or a refusal."""
    if act.one_sided:
        raise ValueError(f"activation {act.name!r} has a kink at 0, so a Maclaurin series of it is not known.")
    if order >= 512:
        raise ValueError(f"order is {order}, but must be at most 511 for a user's own activation.")
    on = _circles(act.function)
    values, errors = _cauchy.coefficients(on, order)
    # A coefficient may vanish by parity, so its neighbours set the scale.
    size = np.abs(values)
    scale = np.maximum(size, np.maximum(np.append(size[1:], 0.0), np.insert(size[:-1], 0, 0.0)))
    bad = errors > 1e-6 * scale
    # A coefficient that vanishes has no scale of its own; it is known where the circles show nothing but rounding.
    if len(on.radii) and (on.noise <= 1e-13 * np.abs(on.coefficients).max(axis=1)).all():
        bad[:] = False
    bad[:4] |= ~_agrees(act.function, values[:4])
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"activation {act.name!r} does not show a Maclaurin coefficient of order {k} to six digits "
            "(a kink or a branch point near 0?); declare its kinks, or ask for a lower order."
        )
    return values, errors


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}".rstrip(": .")
