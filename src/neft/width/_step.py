"""One step of a repeated block: the map of K, and χ_∥ and χ_⊥ as its derivatives (docs/theory/blocks, eqs. 31-32)."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import jvp, lax
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from .._activation import Activation
from ..gaussian import Powers, moment
from ..network import Block, Means, Stage, Variances, passed
from ._curves import SQUARE, curves, grid, per_weight
from ._origin import origin

_CHUNK = 256  # values in one call of a compiled program, so that there is one program for all numbers of them
_DECADES, _PER_DECADE = 16, 60
_UNRESOLVED = 1e-6  # the relative error of an average that is not known


class Slopes(NamedTuple):
    """K' of one step, χ_∥ = dK'/dK, and χ_⊥, the derivative of the covariance of two inputs at equal ones."""

    K: np.ndarray
    parallel: np.ndarray
    perpendicular: np.ndarray


class Step:
    """One step of a repeated block with common variances (C_b, C_W) of its dense blocks, for arrays of one shape.

    Args:
        blocks: the blocks of the step.
        dense: which dense blocks have the common variances; None for all.
    """

    def __init__(self, blocks: Sequence[Block], dense: int | None = None) -> None:
        self.blocks, self.variances = tuple(blocks), Variances(blocks, dense)
        self.which = self.variances.which
        # A network knows the activations in it; any number of inputs will do.
        self.activations = _activations_of(self.blocks)
        self._slopes = self.variances.call(_slopes)

    def refuse_jumps(self) -> None:
        """Say that χ_⊥ does not exist where an activation jumps."""
        for act in self.activations:
            for kink in act.kinks:
                if kink.order == 0:
                    raise ValueError(
                        f"activation {act.name!r} of the block jumps at {kink.position:g}, but must be continuous for "
                        "χ_⊥ to be."
                    )

    def value(self, K: Any, C_b: Any, C_W: Any, *, quick: bool = False) -> np.ndarray:
        """K'. If `quick`, from tables, to nine digits or more; NaN where they do not reach."""
        return self._passed(K, C_b, C_W, _Quick() if quick else _Exact(slopes=False))[0]

    def slopes(self, K: Any, C_b: Any, C_W: Any, *, quick: bool = False) -> Slopes:
        """K', χ_∥ and χ_⊥; to some six digits if `quick`."""
        engine = _Quick() if quick else _Exact()
        value, given = self._passed(K, C_b, C_W, engine)
        shape, flat = value.shape, [*given, *engine.asked]
        found = [np.empty(value.size) for _ in range(2)]
        for start in range(0, value.size, _CHUNK):
            part = slice(start, min(start + _CHUNK, value.size))
            count = part.stop - start
            K, C_b, C_W, *asked = (np.pad(v[part], (0, _CHUNK - count), mode="edge") for v in flat)
            for out, chi in zip(found, self._slopes(C_b, C_W, K, tuple(asked))):
                out[part] = np.asarray(chi)[:count]
        parallel, perpendicular = (out.reshape(shape) for out in found)
        return Slopes(value, parallel, perpendicular)

    def _passed(self, K: Any, C_b: Any, C_W: Any, engine: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        given = np.broadcast_arrays(*(np.asarray(v, float) for v in (K, C_b, C_W)))
        # Arrays without axes would become numbers on the way.
        K, C_b, C_W = flat = [np.array(part).ravel() for part in given]
        # Above the range of numbers is infinity, which is an answer here.
        with np.errstate(over="ignore", invalid="ignore"):
            stage = passed(self.variances.put(C_b, C_W), Stage.itself(K, np.zeros_like(K)), engine)
        return np.asarray(stage.c + np.zeros_like(K)).reshape(given[0].shape), flat


def _activations_of(blocks: Sequence[Block]) -> tuple[Activation, ...]:
    seen: dict[Activation, None] = {}

    class Seen:
        def pair(self, activation: Activation, stage: Stage) -> Means:
            seen[activation] = None
            return Means(stage.K1, stage.K2, stage.c, stage.c)

        def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
            return stage.K1, stage.K2

        def tilted(self, activation: Activation, stage: Stage) -> Any:
            return stage.c

    # The step itself asks for the averages of all, those inside of a user's own block too.
    passed(blocks, Stage.itself(np.ones(()), np.ones(())), Seen())
    return tuple(seen)


def _slopes(blocks: Sequence[Block], K: Any, asked: tuple[Any, ...]) -> tuple[Any, Any]:
    # Compiled. Averages are straight lines through what they are at this K, so their derivatives are the true ones.
    def covariance(K1, K2, c):
        return passed(blocks, Stage.between(K1, K2, c, jnp.zeros_like(c)), _Lines(asked)).c

    one, zero = jnp.ones_like(K), jnp.zeros_like(K)
    at = (K, K, K)
    return jvp(covariance, at, (one, one, one))[1], jvp(covariance, at, (zero, zero, one))[1]


class _Exact:
    # Averages of a variable with itself, by quadrature; `asked` are those that `_Lines` wants, in the same order.
    def __init__(self, *, slopes: bool = True) -> None:
        self.slopes, self.asked = slopes, []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        known, K = _known(stage.K1)
        square, slope = np.where(known, moment(activation, SQUARE, K), np.nan), np.zeros_like(K)
        if self.slopes:
            slope, growth = (np.where(known, one, np.nan) for one in per_weight(activation, K))
            self.asked += [square, slope, growth]
        return Means(square, square, square, slope)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        known, K = _known(stage.K1)
        mean = np.where(known, moment(activation, Powers(s=1), K), np.nan)
        if self.slopes:
            # At K = 0 nothing is known of σ'' by this; a norm of activations is no place for it.
            safe = np.where(K > 0, K, 1.0)
            self.asked += [mean, moment(activation, Powers(s1=1, z=1), safe) / (2 * safe)]
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        return np.zeros_like(stage.c)  # a part of Θ, which is not looked at


def _known(K: Any) -> tuple[np.ndarray, np.ndarray]:
    # A K that is not finite has no averages; any other stands in for it.
    K = np.asarray(K)
    known = np.isfinite(K) & (K >= 0)
    return known, np.where(known, K, 1.0)


class _Quick:
    # The same from tables.
    def __init__(self) -> None:
        self.asked = []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        square, slope, growth = _table(activation).at(np.asarray(stage.K1))
        self.asked += [square, slope, growth]
        return Means(square, square, square, np.zeros_like(square))

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        mean, change = _table_of_means(activation).at(np.asarray(stage.K1))
        self.asked += [mean, change]
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        return np.zeros_like(stage.c)


class _Lines:
    # Averages near the diagonal to first order: d⟨s1s2⟩ = ⟨s'²⟩dc + (d⟨s²⟩/dK - ⟨s'²⟩)(dK1 + dK2)/2.
    def __init__(self, asked: tuple[Any, ...]) -> None:
        self.asked = list(asked)

    def _next(self, count: int) -> list[Any]:
        taken, self.asked = self.asked[:count], self.asked[count:]
        return taken

    def pair(self, activation: Activation, stage: Stage) -> Means:
        square, slope, growth = self._next(3)
        d1, d2, dc = (_change(value) for value in (stage.K1, stage.K2, stage.c))
        both = square + slope * dc + (growth - slope) * (d1 + d2) / 2
        return Means(square + growth * d1, square + growth * d2, both, slope)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        mean, change = self._next(2)
        return mean + change * _change(stage.K1), mean + change * _change(stage.K2)

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        return jnp.zeros_like(stage.c)


def _change(value: Any) -> Any:
    return value - lax.stop_gradient(value)


class _Table(NamedTuple):
    # Logarithms of averages against that of K, so that powers of K are exact.
    low: float
    high: float
    square: Any
    slope: Any
    near: Any

    def at(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inside = (self.low <= K) & (self.high >= K)
        log_K = np.log(np.where(inside, K, self.low))
        square, slope = np.exp(self.square(log_K)), np.exp(self.slope(log_K))
        growth = square * self.square(log_K, 1) / np.where(inside, K, 1.0)
        near = self.near
        below = [np.where((self.low > K) & (K >= 0), v, np.nan) for v in (near[0] ** 2 + near[2] * K, near[1], near[2])]
        return tuple(np.where(inside, a, b) for a, b in zip((square, slope, growth), below))  # type: ignore[return-value]


@functools.lru_cache(maxsize=32)
def _table(act: Activation) -> _Table:
    on = curves(act, grid(act, _DECADES, _PER_DECADE))
    K, ss, a, g, error = on
    good = (error < _UNRESOLVED) & (ss > 0) & (a > 0)
    # The longest stretch around K = 1: what lies beyond a gap is not reached.
    middle = int(np.argmin(np.abs(np.log(K)))) if K.size else 0
    if not K.size or not good[middle]:
        raise ValueError(f"activation {act.name!r} has averages at K = 1 that are 0 or cannot be resolved.")
    low = middle - int(np.argmin(np.append(good[middle::-1], False))) + 1
    high = middle + int(np.argmin(np.append(good[middle:], False)))
    K, ss, a, g = (values[low:high] for values in (K, ss, a, g))
    square = CubicHermiteSpline(np.log(K), np.log(ss), K * g / ss)
    near = origin(act)
    return _Table(K[0], K[-1], square, CubicSpline(np.log(K), np.log(a)), (near.value, near.A_2, near.growth))


class _Means(NamedTuple):
    # ⟨s⟩/√⟨s²⟩, which does not change where σ is scale invariant.
    table: _Table
    ratio: Any

    def at(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        square, _, growth = self.table.at(K)
        inside = (self.table.low <= K) & (self.table.high >= K)
        log_K = np.log(np.where(inside, K, self.table.low))
        ratio, change = self.ratio(log_K), np.where(inside, self.ratio(log_K, 1), 0.0)
        size = np.sqrt(square)
        return ratio * size, ratio * growth / (2 * size) + change * size / np.where(K > 0, K, 1.0)


@functools.lru_cache(maxsize=32)
def _table_of_means(act: Activation) -> _Means:
    table = _table(act)
    log_K = table.square.x[::4]
    K = np.exp(log_K)
    ratio = moment(act, Powers(s=1), K) / np.sqrt(np.exp(table.square(log_K)))
    return _Means(table, CubicSpline(log_K, ratio))
