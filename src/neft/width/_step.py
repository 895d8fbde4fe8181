"""One step of a repeated block: the map of K, and χ_∥ and χ_⊥ as its derivatives (docs/theory/blocks, eqs. 31-32)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import jvp, lax

from .._activation import Activation
from ..network import Block, Means, Stage
from ..network.engine import Variances, passed
from ._step_averages import Averaged, By

_CHUNK = 256  # values in one call of a compiled program, so that there is one program for all numbers of them


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

    def value(self, K: Any, C_b: Any, C_W: Any, *, by: By = "quadrature") -> np.ndarray:
        """K', with averages by one of three ways, of which `Averaged` tells."""
        return self._passed(K, C_b, C_W, Averaged(by, slopes=False))[0]

    def slopes(self, K: Any, C_b: Any, C_W: Any, *, by: By = "quadrature") -> Slopes:
        """K', χ_∥ and χ_⊥."""
        engine = Averaged(by)
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
