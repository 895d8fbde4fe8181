"""Functions as users bring them, drawn at random, and averages of them that share no code with the library.

Where a function changes is known here, so Gauss-Legendre panels are graded towards those places by construction.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

_X, _W = np.polynomial.legendre.leggauss(12)
_GRADES = np.concatenate([[0.0], np.arange(0.5, 3.1, 0.5), 3.0 * 1.35 ** np.arange(1, 130)])
_MOST = 5e6  # points of one reference


@dataclasses.dataclass
class Drawn:
    """σ for JAX, its values and two derivatives for NumPy, (centre, width) of what it does, its highest frequency.

    A width of 0 is a kink. `sines` holds (size, frequency, phase) where σ is nothing but one sine.
    """

    text: str
    jax: Callable
    jet: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    places: list[tuple[float, float]]
    frequency: float = 0.0
    sine: tuple[float, float, float] | None = None

    @property
    def steepness(self) -> float:
        return max((1 / width for _, width in self.places if width), default=0.0)


def _tanh(a, c):
    def jet(z):
        u = np.exp(-2 * np.abs(a * (z - c)))
        t, slope = np.tanh(a * (z - c)), 4 * u / (1 + u) ** 2
        return t, a * slope, -2 * a * a * t * slope

    return Drawn(f"tanh({a:.3g}(z-{c:.3g}))", lambda z: jnp.tanh(a * (z - c)), jet, [(c, 1 / a)])


def _sin(w, b):
    def jet(z):
        return np.sin(w * z + b), w * np.cos(w * z + b), -w * w * np.sin(w * z + b)

    return Drawn(f"sin({w:.3g}z+{b:.3g})", lambda z: jnp.sin(w * z + b), jet, [], w, (1.0, w, b))


def _relu(c, slope):
    def jet(z):
        return np.where(z > c, z - c, slope * (z - c)), np.where(z > c, 1.0, slope), np.zeros_like(z)

    return Drawn(f"relu(z-{c:.3g}), {slope:.2g}", lambda z: jnp.where(z > c, z - c, slope * (z - c)), jet, [(c, 0.0)])


def _bump(h, c, width):
    def jet(z):
        u = (z - c) / width
        g = h * np.exp(-u * u)
        return g, -2 * u / width * g, (4 * u * u - 2) / width**2 * g

    return Drawn(
        f"{h:.2g}bump({c:.3g}, {width:.2g})", lambda z: h * jnp.exp(-(((z - c) / width) ** 2)), jet, [(c, width)]
    )


def _clip(a, c):
    # A ramp from c - 1/a to c + 1/a, and a slope outside that is not 0.
    low, high = c - 1 / a, c + 1 / a

    def jet(z):
        inside = (z > low) & (z < high)
        return np.clip(a * (z - c), -1, 1) + 0.1 * z, np.where(inside, a, 0.0) + 0.1, np.zeros_like(z)

    text = f"clip({a:.3g}(z-{c:.3g})) + z/10"
    return Drawn(text, lambda z: jnp.clip(a * (z - c), -1, 1) + 0.1 * z, jet, [(low, 0.0), (high, 0.0)])


def _gelu(a, c):
    from scipy.special import ndtr

    def jet(z):
        u = a * (z - c)
        phi = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        return u * ndtr(u), a * (ndtr(u) + u * phi), a * a * (2 - u * u) * phi

    return Drawn(f"gelu({a:.3g}(z-{c:.3g}))", lambda z: jax.nn.gelu(a * (z - c), approximate=False), jet, [(c, 1 / a)])


def _sum(one: Drawn, two: Drawn, factor: float) -> Drawn:
    def jet(z):
        return tuple(a + factor * b for a, b in zip(one.jet(z), two.jet(z)))

    return Drawn(
        f"{one.text} + {factor:.2g} {two.text}",
        lambda z: one.jax(z) + factor * two.jax(z),
        jet,
        one.places + two.places,
        max(one.frequency, two.frequency),
    )


def drawn(rng: np.random.Generator, *, wild: bool, spread: float) -> Drawn:
    """A function; a wild one may be as steep as 1e5 and as quick as 100. What it does is where a spread looks."""

    def steepness() -> float:
        return float(10 ** rng.uniform(-3, 5 if wild else 4))

    def frequency() -> float:
        return float(10 ** rng.uniform(-2, 2 if wild else math.log10(50)))

    def place() -> float:
        return float(rng.normal() * min(spread, 8.0) * (rng.random() < 0.8))

    makers = [
        lambda: _tanh(steepness(), place()),
        lambda: _sin(frequency(), float(rng.choice([0.0, rng.uniform(-3, 3)]))),
        lambda: _relu(place(), float(rng.choice([0.0, 0.1, -0.5]))),
        lambda: _bump(float(10 ** rng.uniform(-1, 1)), place(), 1 / min(steepness(), 1e3)),
        lambda: _clip(steepness(), place()),
        lambda: _gelu(min(steepness(), 1e3), place()),
    ]
    kind = int(rng.integers(8))
    if kind < 6:
        return makers[kind]()
    i, j = rng.choice(6, size=2, replace=False)
    return _sum(makers[i](), makers[j](), float(rng.choice([1.0, -0.3, 0.05])))


def _panels(edges):
    edges = np.unique(edges)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + _X)).ravel(), (half * _W).ravel()


def _graded(places, unit: float, reach: float) -> np.ndarray:
    # Towards each place, from far beyond the reach down to its own width.
    found = [np.array([-reach, reach])]
    for c, width in places:
        steps = _GRADES * width
        found.append(np.concatenate([[c], c - steps, c + steps]))
    edges = np.concatenate([*found, unit * np.linspace(-12, 12, 49)])
    return edges[np.abs(edges) <= reach]


def average(f: Drawn, integrand: Callable, K: float, power: int = 4) -> tuple[float, float] | None:
    """⟨integrand(z, σ, σ', σ'')⟩ and that of its size, or None where it would take too long."""
    unit = math.sqrt(K)
    reach = 12 * unit
    edges = _graded(f.places, unit, reach)
    if f.frequency:
        count = 2 * reach * f.frequency * power / 4
        if count * len(_X) > _MOST:
            return None
        edges = np.concatenate([edges, np.linspace(-reach, reach, int(count) + 2)])
    z, w = _panels(edges)
    w = w * np.exp(-z * z / (2 * K)) / math.sqrt(2 * math.pi * K)
    values = integrand(z, *f.jet(z))
    return float((w * values).sum()), float((w * np.abs(values)).sum())


def sine_average(f: Drawn, powers: tuple[int, int], K: float) -> float:
    """⟨sin^p cos^q⟩ times w^q, from exponentials."""
    assert f.sine is not None
    _, w, b = f.sine
    p, q = powers
    total = 0.0
    for i in range(p + 1):
        for j in range(q + 1):
            wave = (p - 2 * i) + (q - 2 * j)
            factor = math.comb(p, i) * math.comb(q, j) * (-1) ** i / (2j) ** p / 2**q
            total += (factor * np.exp(1j * wave * b) * math.exp(-((wave * w) ** 2) * K / 2)).real
    return total * w**q


def pair_average(f: Drawn, order: int, K1: float, K2: float, rho: float) -> float | None:
    """⟨σ^(n)(z₁) σ^(n)(z₂)⟩, or None where it would take too long: z₂ given z₁, inside z₁."""
    if f.sine is not None:
        _, w, b = f.sine
        # Each exponent without cancellation.
        r1, r2 = math.sqrt(K1), math.sqrt(K2)
        minus, plus = (math.exp(-w * w * ((r1 - r2) ** 2 / 2 + r1 * r2 * (1 - sign * rho))) for sign in (1, -1))
        return w ** (2 * order) * (minus - (-1) ** order * math.cos(2 * b) * plus) / 2
    r1, r2 = math.sqrt(K1), math.sqrt(K2)
    slope, width = rho * r2 / r1, r2 * math.sqrt((1 - rho) * (1 + rho))
    places = list(f.places)
    if slope:
        # The average over z₂ crosses a place while its mean does, smoothed.
        places += [(c / slope, max(width, ell) / abs(slope)) for c, ell in f.places]
    edges = _graded(places, r1, 12 * r1)
    fixed = np.concatenate(
        [[c + s * g * max(ell, 0.0) for s in (-1, 1) for g in _GRADES] for c, ell in f.places] or [[]]
    )
    fixed = np.unique(fixed[np.abs(fixed) < 12 * r2])
    even = np.linspace(-9, 9, 19)
    if f.frequency:
        edges = np.concatenate([edges, np.linspace(-12 * r1, 12 * r1, int(24 * r1 * f.frequency / 3) + 2)])
        even = np.linspace(-9, 9, int(18 * width * f.frequency / 3) + 19)
    z, w = _panels(edges)
    if len(z) * (len(fixed) + len(even)) * len(_X) > _MOST:
        return None
    w = w * np.exp(-z * z / (2 * K1)) / math.sqrt(2 * math.pi * K1)
    used = np.flatnonzero(np.abs(w) > 0)
    z, w = z[used], w[used]
    total = 0.0
    for part in np.array_split(np.arange(len(z)), 1 + len(z) * (len(fixed) + len(even)) // 200_000):
        mean = slope * z[part][:, None]
        y = np.concatenate(
            [np.broadcast_to(even, (len(part), len(even))), np.clip((fixed - mean) / width, -9, 9)], axis=1
        )
        y = np.sort(y, axis=1)
        half = np.diff(y, axis=1)[..., None] / 2
        at = y[:, :-1, None] + half * (1 + _X)
        weight = half * _W * np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        inner = (weight * f.jet(mean[..., None] + width * at)[order]).sum(axis=(1, 2))
        total += float((w[part] * f.jet(z[part])[order] * inner).sum())
    return total
