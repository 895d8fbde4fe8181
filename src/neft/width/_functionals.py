"""Functionals of one neuron of a stream, by their values at Hermite functions (docs/theory/residual, eqs. 4-7).

A neuron of a residual stream keeps its past, so any function u(z) of it, not only z², is correlated at order 1/width
with what is common to all neurons. Such a correlation y(u) is linear in u: with h_k the orthonormal Hermite functions
of z/√K and u_k = ⟨u h_k⟩ it is Σ y_k u_k, and the y_k are what is stored.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._activation import Activation
from .._hermite import functions
from .._quadrature import in_units, unit_rule
from ._one_input import Scalar, Tensors

_TERMS, _KINKED, _INVARIANT = 160, 224, 4096
_STEP, _REACH = 0.04, 13.0
_LAST = 8  # of the terms, by which the rest is judged

Coefficients = Any  # an array of as many numbers as there are terms, of JAX or of NumPy


class Functionals(NamedTuple):
    """y_k, k = 0, 1, …, of the nine functionals; which is which says docs/theory/residual, eqs. 8-11."""

    phi: Any
    delta: Any
    psi: Any
    beta: Any
    varpi: Any
    kappa: Any
    varrho: Any
    varsigma: Any
    zeta: Any

    @classmethod
    def nothing(cls, terms: int) -> "Functionals":
        """What a stream begins with."""
        return cls(*(np.zeros(terms) for _ in cls._fields))


class Squares(NamedTuple):
    """The coefficients of σ², σ'² and σ''²; the last is None where a kink forbids it."""

    s: Coefficients
    d: Coefficients
    e: Coefficients | None


def terms_of(acts: Sequence[Activation]) -> int:
    """How many terms are kept for these activations: very many where they are known in closed form."""
    if all(act.scale_invariant for act in acts):
        return _INVARIANT
    return _KINKED if any(act.kinks for act in acts) else _TERMS


def resolved(act: Activation, K: float) -> float:
    """About the relative error of coefficients at this variance by the step of the nodes; 0 where there is none."""
    if act.kinks or act.scale_invariant or not K > 0:
        return 0.0
    return float(np.exp(-2 * np.pi * 1.5 * act.length / (_STEP * np.sqrt(K))))


def slope(u: Coefficients, K: Scalar) -> Coefficients:
    """The coefficients of u': (u')_k = √(k+1) u_{k+1}/√K."""
    k = np.arange(1, len(u), dtype=float)
    return jnp.append(np.sqrt(k) * u[1:], 0.0) / jnp.sqrt(K)


def squares(act: Activation, K: Scalar, terms: int) -> Squares:
    """The coefficients of σ², σ'² and σ''² at variance K: a pure function of K."""
    if act.scale_invariant:
        return _of_two_lines(act, K, terms)
    spread = jnp.sqrt(jnp.asarray(K, float))
    jumps = any(kink.order < 2 for kink in act.kinks)
    if act.kinks:
        kinks = in_units(jnp, [kink.position for kink in act.kinks], spread)
        x, w = unit_rule(jnp, spread, kinks, length=act.length, panels=32)
        basis = functions(x, terms) * (w * jnp.exp(x * x / 4))[None, :]
    else:
        x, basis = _trapezoid(terms)
    powers = [act.derivative(n)(spread * x) ** 2 for n in range(2 if jumps else 3)]
    found = basis @ jnp.stack(powers, 1)
    return Squares(found[:, 0], found[:, 1], None if jumps else found[:, 2])


@functools.lru_cache
def _trapezoid(terms: int) -> tuple[np.ndarray, np.ndarray]:
    # Nodes, and Hermite functions there times weights.
    half = round(_REACH / _STEP)
    x = np.arange(-half, half + 1) * _STEP
    rows = [np.exp(-x * x / 4)]
    rows.append(x * rows[0])
    for k in range(1, terms - 1):
        rows.append((x * rows[k] - np.sqrt(k) * rows[k - 1]) / np.sqrt(k + 1))
    return x, np.stack(rows) * (np.exp(-x * x / 4) * (_STEP / np.sqrt(2 * np.pi)))


def _of_two_lines(act: Activation, K: Scalar, terms: int) -> Squares:
    # σ² = A z² + B z|z| and σ'² = A + B sgn z, with the slopes of either side.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        right, left = (float(act.derivative(1)(side)) for side in (1.0, -1.0))
    A, B = (right**2 + left**2) / 2, (right**2 - left**2) / 2
    constant, parabola, sign, odd = _unit_coefficients(terms)
    smooth = right == left
    return Squares(
        K * (A * parabola + B * odd), (A * constant + B * sign) * jnp.ones_like(K), jnp.zeros(terms) if smooth else None
    )


@functools.lru_cache
def _unit_coefficients(terms: int) -> tuple[np.ndarray, ...]:
    # Of 1, z², sgn z and z|z| at K = 1; the last two by ⟨u' h_k⟩ = √(k+1) u_{k+1}.
    k = np.arange(terms, dtype=float)
    constant, parabola, sign = np.zeros((3, terms))
    constant[0] = parabola[0] = 1.0
    parabola[2] = np.sqrt(2)
    sign[1] = np.sqrt(2 / np.pi)
    for j in range(3, terms, 2):
        sign[j] = -sign[j - 2] * (j - 2) / np.sqrt((j - 1) * j)
    size = np.append(np.sqrt(2 / np.pi), sign[:-1])
    size[1:] /= np.sqrt(k[1:])
    odd = np.append(0.0, 2 * size[:-1])
    odd[1:] /= np.sqrt(k[1:])
    return constant, parabola, sign, odd


def remainder(y: Coefficients, u: Coefficients) -> Scalar:
    """About how much of y(u) the terms that are not kept would add, if they fall as k⁻²."""
    # The last two coefficients of a second derivative are not known.
    return jnp.abs(y * u)[-_LAST - 2 : -2].max() * len(u)


def parts(layer: Tensors, y: Functionals) -> dict[str, Scalar]:
    """What the functionals are of the tensors: those of the neurons' own z², z and 1."""
    root, square = jnp.sqrt(layer.K), np.sqrt(2) * layer.K
    return {
        "V": 2 * square * y.phi[2],
        "D": square * y.delta[2],
        "F": 2 * root * y.psi[1],
        "B": 2 * y.beta[0],
        "P": y.varpi[0],
        "Q": root * y.kappa[1],
        "R": y.varrho[0],
        "S": y.varsigma[0],
    }
