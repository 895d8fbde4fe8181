"""Averages over one Gaussian variable, z ~ N(0, K)."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._activation import Activation, Kink
from .._activation import activation as _activation
from .._adaptive import averages
from .._mesh import mesh
from .._moments import Powers, delta_part, deltas, monomial
from .._of_own import own_moments
from .._precision import float64
from .._public import public
from .._quadrature import elementwise, refined

_SCAN = 1 << 14  # points that look for narrow features of a function that may be dear


@public
@float64
def expect(
    f: Callable[[Any], Any],
    K: Any,
    *,
    kinks: Sequence[float | Kink] = (),
    length: float = 1.0,
    rtol: float = 1e-12,
) -> Float[np.ndarray, "*shape"]:
    """⟨f(z)⟩ over z ~ N(0, K), for a number K or an array of them, in float64.

    The quadrature is refined until it changes by less than `rtol` of ⟨|f|⟩; an `AccuracyWarning` says when that fails.
    A delta in f cannot be seen by evaluating it: `moment` adds those of an activation's derivatives.

    Args:
        f: an elementwise function of an array.
        K: variances, ≥ 0.
        kinks: where f or one of its derivatives jumps.
        length: distance over which f changes; only a hint.
        rtol: the tolerance.

    >>> round(float(expect(lambda z: z**4, 2.0)), 12)
    12.0
    """
    K = _check.array("K", K, at_least=0.0)
    if not isinstance(kinks, Sequence | np.ndarray):
        raise ValueError(
            f"kinks is {_check.brief(kinks)}, but must be a sequence of positions, such as ({_check.brief(kinks)},)."
        )
    positions = [_check.real("position of a kink", k.position if isinstance(k, Kink) else k) for k in kinks]
    _check.real("rtol", rtol, above=0.0)
    try:
        np.asarray(f(np.zeros(1)), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"f cannot be evaluated at an array of numbers: {_check.reason(error)}.") from None

    def integrand(z):
        values = np.asarray(f(z), dtype=np.float64)
        if values.shape != z.shape and values.ndim != 0:
            raise ValueError(f"f maps an array of shape {z.shape} to {values.shape}, but must act elementwise.")
        if not np.isfinite(values).all():
            where = z[~np.isfinite(values)] if values.ndim else z
            raise ValueError(f"f is not finite at z = {where.flat[0]:g}, so its average does not exist.")
        return np.broadcast_to(values, z.shape)

    _check.real("length", length, above=0.0)
    spread = np.sqrt(K.ravel())
    near = (np.array([0.0, *positions])[:, None] + length * np.array([-3.0, -1.0, 0.0, 1.0, 3.0])[None, :]).ravel()
    # One mesh for variances of one size, as far as the widest of them reaches.
    octave = np.floor(np.log2(np.maximum(spread, 1e-150)))
    widest = {o: float(spread[octave == o].max()) for o in np.unique(octave)}
    edges = {
        o: np.append(mesh(lambda z: integrand(z)[None], positions, 13.0 * s, scan=_SCAN).edges, near)
        for o, s in widest.items()
        if s > 1e-150
    }
    breaks = [edges[o] / s if o in edges else near[:0] for o, s in zip(octave, spread)]
    found = averages(lambda x, row: integrand(spread[row] * x)[None], breaks, rtol, "expect")
    return found.reshape(K.shape)


@public
@float64
def moment(
    activation: str | Activation | Callable[[Any], Any], powers: Powers, K: Any, *, rtol: float = 1e-12
) -> Float[np.ndarray, "*shape"]:
    """⟨z^z σ^s σ'^s1 σ''^s2 σ'''^s3⟩ over z ~ N(0, K), with the deltas at the activation's kinks integrated exactly.

    Where a product does not exist (two deltas at one kink, or the derivative of one) a ValueError says so
    (docs/theory/width, section Kinks).

    >>> float(moment("relu", Powers(s1=2), 3.0))
    0.5
    """
    act = _activation(activation)
    K = _check.array("K", K, at_least=0.0)
    powers = _checked_powers(powers)
    _check.real("rtol", rtol, above=0.0)
    if not act.named or act.fourier is not None:
        return own_moments(act, [powers], K, rtol=rtol, what=f"moment of {act.name}")[0, ...]
    spikes = deltas(act, powers)
    options = {"kinks": [k.position for k in act.kinks], "length": act.length, "oscillates": act.oscillates}

    def integrand(z):
        orders = [n for n in range(4) if powers[n]]
        return monomial(np, {n: elementwise(act.derivative(n), z) for n in orders}, powers, z)

    smooth = refined(integrand, K, options, rtol, f"moment of {act.name}")
    return np.asarray(smooth + np.asarray(delta_part(spikes, jnp.asarray(K))))


def _checked_powers(powers: Any) -> Powers:
    if not isinstance(powers, Powers):
        raise ValueError(f"powers is {_check.brief(powers)}, but must be Powers(s=…, s1=…, s2=…, s3=…, z=…).")
    return Powers(*(_check.integer(f"powers.{name}", n, at_least=0) for name, n in zip(Powers._fields, powers)))
