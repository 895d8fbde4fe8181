"""Periodic functions that are only known as programs: their period, Fourier coefficients and averages.

With σ^(n) = Σ_k c_k e^(ikwz) every product of derivatives is such a sum, and ⟨z^p e^(iθz)⟩ over z ~ N(0, K) is
i^p K^(p/2) He_p(θ√K) e^(-θ²K/2): no variance is too wide.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._kinks import derivatives

_BASE = 0.123456  # where a period starts: no special point
_WINDOWS = 0.05 * 2.0 ** np.arange(0, 17)
_POINTS = 4096
_SAMPLES = 256
_ENOUGH = 1e-15


@dataclasses.dataclass(frozen=True, eq=False)
class Fourier:
    """σ = Σ_k c_k e^(ikwz) over |k| ≤ n: w > 0 and c_0..c_n."""

    frequency: float
    coefficients: np.ndarray

    @property
    def sine(self) -> tuple[float, float] | None:
        """(size, phase) where σ = size·sin(wz + phase) and nothing else, or None."""
        c = self.coefficients
        if len(c) > 2 or abs(c[0]) > 1e-13 * abs(c[-1]):
            return None
        # c_1 = size e^(i phase)/2i
        size, phase = 2 * abs(c[1]), math.atan2(*_parts(2j * c[1]))
        if abs(math.sin(2 * phase)) < 1e-13:
            phase = round(phase / (math.pi / 2)) * math.pi / 2
        return size, phase


def _parts(c: complex) -> tuple[float, float]:
    return c.imag, c.real


def fourier_of(function: Callable, nodes: np.ndarray) -> Fourier | None:
    """The Fourier series of a smooth periodic function, or None where it is none or has more than 64 harmonics.

    The series must be the function at all of the nodes, and far out.
    """
    period = _period(function)
    if period is None:
        return None
    samples = derivatives(function, period * np.arange(_SAMPLES) / _SAMPLES)[0]
    c = np.fft.rfft(samples) / _SAMPLES
    size = np.abs(c)
    kept = int(np.flatnonzero(size > 4 * _ENOUGH * size.max())[-1])
    if kept > _SAMPLES // 4:
        return None
    found = Fourier(2 * math.pi / period, c[: kept + 1])
    far = np.geomspace(1.0, 1e6, 4096)
    z = np.concatenate([nodes, np.linspace(-64.0, 64.0, 16384), far, -far])
    series = np.zeros(len(z))
    for i, factor in enumerate(found.coefficients):
        series += (2 if i else 1) * np.real(factor * np.exp(1j * found.frequency * i * z))
    # The argument itself is rounded far out.
    allowed = (1e-11 + 1e-15 * kept * found.frequency * np.abs(z)) * np.abs(samples).max()
    return found if (np.abs(series - derivatives(function, z)[0]) <= allowed).all() else None


def _period(function: Callable) -> float | None:
    start = derivatives(function, np.array([_BASE]))[:3, 0]
    with np.errstate(all="ignore"):
        for window in _WINDOWS:
            T = window * (np.arange(_POINTS) + 1) / _POINTS
            at = derivatives(function, _BASE + T)[:3]
            scale = np.abs(at).max(axis=1)
            if not np.isfinite(at).all() or not (scale > 0).all():
                continue
            off = (np.abs(at - start[:, None]) / scale[:, None]).max(axis=0)
            # Minima away from the start itself.
            low = np.flatnonzero((off[1:-1] <= off[:-2]) & (off[1:-1] < off[2:]) & (off[1:-1] < 0.2)) + 1
            for i in low[:4]:
                period = _polished(function, float(T[i]), start)
                if period is not None:
                    return period
    return None


def _polished(function: Callable, T: float, start: np.ndarray) -> float | None:
    # Newton's method for the derivative that changes fastest at the base, first over one period, then over many.
    guess, at = T, start
    for count in (1, 64, 4096):
        for _ in range(6):
            at = derivatives(function, np.array([_BASE + count * T]))[:, 0]
            n = int(abs(at[1]) * abs(start[2]) < abs(at[2]) * abs(start[1]))  # σ where it is steeper than σ' is
            if at[n + 1] == 0 or not np.isfinite(at).all():
                return None
            T -= (at[n] - start[n]) / at[n + 1] / count
            # Not back to the start.
            if not abs(T - guess) < 0.1 * guess:
                return None
        if not (np.abs(at[:3] - start) <= 1e-7 * (np.abs(start) + np.abs(at[:3]) + np.abs(start).max() / 1e3)).all():
            return None
    return T if _repeats(function, T) else None


def _repeats(function: Callable, T: float) -> bool:
    z = T * np.random.default_rng(7).uniform(-2.0, 2.0, 200)
    once = derivatives(function, z)[:3]
    scale = np.abs(once).max(axis=1, keepdims=True)
    for count in (1, -1, 7, 1000, -12345, 300_000):
        again = derivatives(function, z + count * T)[:3]
        # The argument itself is rounded far out.
        allowed = 1e-11 + 1e-15 * (abs(count) + 4) * 64
        if not (np.abs(again - once) <= allowed * scale).all():
            return False
    return True


def harmonics(function: Callable, fourier: Fourier, monomial: Callable, degree: int) -> np.ndarray:
    """c_0.. of a product of `degree` derivatives of σ, by its samples in one period."""
    count = 2 ** math.ceil(math.log2(4 * max(degree, 1) * len(fourier.coefficients) + 8))
    z = 2 * math.pi / fourier.frequency * np.arange(count) / count
    values = monomial(derivatives(function, z))
    c = np.fft.rfft(values) / count
    return c[: count // 2]


def average(xp: Any, c: np.ndarray, frequency: float, p: int, K: Any) -> Any:
    """⟨z^p f⟩ over z ~ N(0, K) of f = Σ_k c_k e^(ikwz), for each K; `xp` is numpy or jax.numpy."""
    k = np.arange(len(c))
    factors = np.real(1j**p * c) * np.where(k > 0, 2.0, 1.0)
    # What is rounding is left out, which makes sums short.
    kept = np.flatnonzero(np.abs(factors) > 1e-17 * np.abs(factors).max(initial=0.0))
    spread = xp.sqrt(K)[..., None]
    theta = np.asarray(frequency * kept, spread.dtype).reshape((1,) * (spread.ndim - 1) + (-1,)) * spread
    before, now = xp.ones_like(theta), theta
    for n in range(1, p):
        before, now = now, theta * now - n * before
    hermite = now if p else before
    factors = np.asarray(factors[kept], spread.dtype).reshape(theta.shape[-1:])
    return (hermite * xp.exp(-theta * theta / 2)) @ factors * xp.sqrt(K) ** p


def pair_average(fourier: Fourier, order: int, r1: np.ndarray, r2: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """⟨σ^(n)(z₁) σ^(n)(z₂)⟩ of variables of roots r1, r2 of their variances and correlation ρ, which broadcast."""
    w, c = fourier.frequency, fourier.coefficients
    k = np.arange(len(c))
    c = c * (1j * w * k) ** order
    total = np.zeros(np.broadcast_shapes(r1.shape, r2.shape, rho.shape))
    for i in k:
        for j in k:
            size = (w * (i * r1 - j * r2)) ** 2 / 2
            apart, along = (np.exp(-size - w * w * i * j * r1 * r2 * (1 + s * rho)) for s in (-1, 1))
            # The terms (i, -j) and (i, j) with their conjugates, each once.
            for sign, value in ((-1, apart), (1, along)) if i and j else ((1, along),):
                factor = np.real(c[i] * (c[j] if sign > 0 else np.conj(c[j])))
                total += (2.0 if i or j else 1.0) * factor * value
    return total


def few(fourier: Fourier | None, K: np.ndarray) -> bool:
    """Whether averages of products at a covariance K are best summed over the harmonics of each factor."""
    # At small variances the sum cancels, and of many harmonics it is long.
    if fourier is None or len(fourier.coefficients) > 4:
        return False
    return bool(fourier.frequency**2 * np.diagonal(K).min(initial=np.inf) > 0.1)


def product_average(fourier: Fourier, orders: tuple[int, ...], K: np.ndarray) -> np.ndarray:
    """⟨σ^(p)(z_a) σ^(q)(z_b) …⟩ for all a, b, … and orders (p, q, …), shape (N,)*len(orders)."""
    w, c = fourier.frequency, fourier.coefficients
    both = np.concatenate([np.conj(c[:0:-1]), c])
    waves = np.arange(1 - len(c), len(c))
    factors = [both * (1j * w * waves) ** n for n in orders]
    total = np.zeros((len(K),) * len(orders))
    for chosen in itertools.product(range(len(both)), repeat=len(orders)):
        factor = math.prod(f[i] for f, i in zip(factors, chosen))
        if factor == 0:
            continue
        exponent = np.zeros((1,) * len(orders))
        for i, j in itertools.combinations_with_replacement(range(len(orders)), 2):
            value = np.diagonal(K) if i == j else 2 * K
            shape = [len(K) if axis in (i, j) else 1 for axis in range(len(orders))]
            exponent = exponent + waves[chosen[i]] * waves[chosen[j]] * value.reshape(shape)
        total = total + np.real(factor) * np.exp(-w * w / 2 * exponent)
    return total
