"""Maclaurin coefficients of a function that is only known as a program: Cauchy's integral on complex circles.

On |z| = r the trapezoid rule for a_k = ∮ f(z) z^(-k-1) dz / 2πi is a discrete Fourier transform. A function that is
analytic inside the circle has no negative frequencies, so what stands there measures the error: rounding, aliasing, a
singularity inside, or a function that is not analytic at all. One thing escapes this: |z| is constant on each circle
and looks like a number there, so circles must also agree with one another. Every coefficient is taken from the circle
on which its own error is smallest.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_POINTS = 1024
_RADII = np.geomspace(1e-3, 1e3, 241)
_ANALYTIC = 1e-8
HIGHEST = _POINTS // 2 - 1
"""The highest order that the points on a circle determine."""


@dataclasses.dataclass(frozen=True, eq=False)
class Circles:
    """Fourier coefficients of a function on those circles around 0 inside which it is analytic.

    Attributes:
        radii: the radii, increasing, shape (circles,).
        coefficients: a_k r^k for k < points/2, shape (circles, points/2).
        noise: the largest coefficient found at negative frequencies, shape (circles,).
        singularity: estimated distance to the nearest singularity; infinity where none shows up to radius 1000, or
            up to where the function passes 1e150.
        beyond: the first radius that is not among them.
    """

    radii: np.ndarray
    coefficients: np.ndarray
    noise: np.ndarray
    singularity: float
    beyond: float


def circles(function: Callable) -> Circles:
    """The function's Fourier coefficients on circles with radii from 1e-3 up to its singularity, or to 1e3."""
    unit = np.exp(2j * np.pi * np.arange(_POINTS) / _POINTS)
    try:
        # A function of real numbers has real constants, which meet complex numbers here.
        promotion = jax.numpy_dtype_promotion("standard")
        with jax.ensure_compile_time_eval(), jax.enable_x64(True), promotion, np.errstate(all="ignore"):
            values = np.asarray(function(jnp.asarray(_RADII[:, None] * unit)), dtype=np.complex128)
    except Exception as error:  # whatever a user's function raises for complex numbers
        raise ValueError(
            f"activation cannot be evaluated at complex numbers ({type(error).__name__}), which its Maclaurin series "
            "needs; write it with functions that are analytic in JAX (jnp.exp, jnp.tanh, jax.nn.sigmoid, …)."
        ) from None
    inside = _leading((np.abs(values) < 1e150).all(axis=1))
    transform = np.fft.fft(values[:inside], axis=1) / _POINTS
    largest = np.abs(values[:inside]).max(axis=1, initial=0.0)
    half = _POINTS // 2
    noise = np.abs(transform[:, half:]).max(axis=1, initial=0.0) + np.finfo(float).eps * largest
    # Beyond a singularity the transform gives a Laurent series with other coefficients: keep the circles before it.
    analytic = _leading(noise <= _ANALYTIC * largest)
    spectrum, noise = transform[:analytic, :half], noise[:analytic]
    differs = _differs(_RADII[:analytic], spectrum, noise)
    # A singularity too weak for the noise changes the coefficients once; what depends on |z| changes them all along.
    analytic = 0 if differs.sum() > 2 else 1 + _leading(~differs) if analytic else 0
    radii, spectrum = _RADII[:analytic], spectrum[:analytic]
    beyond = float(_RADII[analytic]) if analytic < len(_RADII) else float("inf")
    return Circles(radii, spectrum, noise[:analytic], _singularity(radii, spectrum, inside), beyond)


def _differs(radii: np.ndarray, spectrum: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """For each circle but the first, whether a coefficient differs from the one before by more than noise."""
    if not len(radii):
        return np.zeros(0, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = (radii[1:] / radii[:-1])[:, None] ** np.arange(spectrum.shape[1])
        difference = np.abs(spectrum[1:] - grown * spectrum[:-1])
        return (difference > 100 * (noise[1:, None] + grown * noise[:-1, None])).any(axis=1)


def coefficients(on: Circles, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coefficients a_0..a_order, their estimated errors (infinite without a circle) and radii they come from."""
    k = np.arange(order + 1)
    if not len(on.radii):
        return np.zeros(order + 1), np.full(order + 1, np.inf), np.ones(order + 1)
    with np.errstate(over="ignore", under="ignore"):
        powers = on.radii[:, None] ** -k.astype(float)
        errors = on.noise[:, None] * powers
    best = errors.argmin(axis=0)
    return np.real(on.coefficients[best, k]) * powers[best, k], errors[best, k], on.radii[best]


def _singularity(radii: np.ndarray, spectrum: np.ndarray, inside: int) -> float:
    if not len(radii):
        return 0.0
    last = np.abs(spectrum[-1])
    if not last.any():
        return float("inf")
    # An entire function stops at overflow, or where its spectrum, peaked at high frequency, no longer fits the points.
    if len(radii) == inside or last.argmax() > 128:
        return float("inf")
    # Next to a singularity at R the coefficients fall like (r/R)^k; windows of 16 see past zeros by parity.
    window = last[: len(last) // 16 * 16].reshape(-1, 16).max(axis=1)
    late = int(np.flatnonzero(window > 1e-10 * window.max())[-1])
    early = late // 2
    if late == early:
        return float(radii[-1])
    return float(radii[-1] * (window[early] / window[late]) ** (1 / (16 * (late - early))))


def _leading(flags: Any) -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))
