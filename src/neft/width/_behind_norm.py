"""What a one-matrix branch sees of a stream behind a norm, for one input (docs/theory/residual, eqs. 45-51).

    z' = γz + b + Wσ(ẑ), ẑ = z/√(|z|²/n + ε), of z without its mean where the norm centres

Functions are those of z, f(z) = σ(z/√(K + ε)), by their Hermite coefficients.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..network import Division, Linear
from ._functionals import Coefficients, Functionals, Squares, slope
from ._moments import Averages
from ._one_input import Scalar, Tensors

_POWERS = {"g": 1, "a": 1, "ssdd": 1, "dddd": 2, "m": 2, "ss2": 2, "a2": 3}  # of 1/(K + ε)


class Sums(NamedTuple):
    """What stands for σ², σσ' and Ω where the sum over neurons is, and what that takes from their covariances.

    The norm depends on |z|²/n and on the mean of z, which are sums over the same neurons: they change the parts of
    these functions along z² - K, and along z.
    """

    s: Coefficients
    sd: Coefficients
    Omega: Coefficients
    g: Scalar
    g_Omega: Scalar
    ss: Scalar
    s_Omega: Scalar
    Omega_Omega: Scalar
    sdsd: Scalar


def of_stream(mean: Averages, of: Squares, over: Scalar) -> tuple[Averages, Squares]:
    """Averages and coefficients of σ at ẑ as those of a function of z; over is 1/(K + ε)."""
    changed = {name: over**power * getattr(mean, name) for name, power in _POWERS.items()}
    return mean._replace(**changed), Squares(of.s, over * of.d, None)


def sums(norm: Division | None, layer: Tensors, linear: Linear, mean: Averages, of: Squares, sd: Coefficients) -> Sums:
    """The functions that a sum over neurons has, with a norm or without."""
    K, Theta = layer.K, layer.Theta
    Omega = linear.theta(of.s, Theta * of.d)
    g, g_Omega = mean.g, linear.theta(mean.g, Theta * mean.m)
    if norm is None:
        return Sums(of.s, sd, Omega, g, g_Omega, 0.0, 0.0, 0.0, 0.0)
    over, unit = 1 / (K + norm.epsilon), np.sqrt(2) * K
    # What 1/n of |z_j|² changes by way of the norm, at every neuron alike.
    along, mixed = K * g * over, (K * g_Omega + linear.variance * Theta * mean.a) * over
    new_s, new_Omega = of.s.at[2].add(-unit * along), Omega.at[2].add(-unit * mixed)
    new_sd = sd.at[1].add(-jnp.sqrt(K) * along)
    if norm.centres:
        new_s, new_Omega, new_sd = (u.at[i].set(0.0) for u, i in ((new_s, 1), (new_Omega, 1), (new_sd, 0)))

    def less(new, old, other_new, other_old):
        return new[:3] @ other_new[:3] - old[:3] @ other_old[:3]

    return Sums(
        new_s,
        new_sd,
        new_Omega,
        g - along,
        g_Omega - mixed,
        less(new_s, of.s, new_s, of.s),
        less(new_s, of.s, new_Omega, Omega),
        less(new_Omega, Omega, new_Omega, Omega),
        less(new_sd, sd, new_sd, sd),
    )


def means(
    norm: Division, layer: Tensors, y: Functionals, bare: dict[str, Scalar], of: Squares
) -> tuple[Scalar, Scalar, Scalar]:
    """What the norm adds to X of σ² and of σ'², and to h of σ'², at order 1/n; bare are V₀ and F₀."""
    K, Theta, root = layer.K, layer.Theta, jnp.sqrt(layer.K)
    over = 1 / (K + norm.epsilon)
    U = layer.V + 2 * K**2
    odd = root * y.phi[1]

    def grown(u, power):
        # power · u + ½zu', by which a factor (K + ε)^-power and the argument change.
        return power * u + _times_z(slope(u, K), K) / 2

    def X(u, power):
        first = -over * grown(u, power)
        second = over**2 * (grown(u, power) + grown(grown(u, power), power))
        # The neuron itself is in |z|²/n, and so is its past.
        found = (bare["V"] + 2 * K**2 + root**2 * np.sqrt(2) * y.phi[2]) * _curved(first, K) + y.phi @ first
        found = found + layer.K1 * first[0] + U / 2 * second[0]
        if norm.centres:
            bent = slope(u, K)
            found = found - K * _curved(u, K) - K * first[0] - odd * (_curved(bent, K) + slope(first, K)[0])
        return found

    d = of.d
    zd = _times_z(d, K)
    zzd, moved = _times_z(zd, K)[0], slope(zd, K)[0]
    F = bare["F"] * moved + y.psi @ zd + moved * root * y.psi[1]
    h = layer.D * (-over * grown(d, 1.0))[0] - 2 * over * (Theta * zzd + F) + over**2 * zzd * (Theta * K + layer.F)
    if norm.centres:
        tilt = slope(d, K)[0]
        h = h - Theta * d[0] - tilt * root * y.delta[1] - 2 * tilt * y.psi[0] * norm.epsilon * over
    return X(of.s, 0.0), X(d, 1.0), h


def _curved(u: Coefficients, K: Scalar) -> Scalar:
    return u[2] / (np.sqrt(2) * K)


def _times_z(u: Coefficients, K: Scalar) -> Any:
    # (zu)_k = √K(√(k+1) u_{k+1} + √k u_{k-1}).
    k = np.sqrt(np.arange(1, len(u), dtype=float))
    return jnp.sqrt(K) * (jnp.append(k * u[1:], 0.0) + jnp.append(0.0, k * u[:-1]))
