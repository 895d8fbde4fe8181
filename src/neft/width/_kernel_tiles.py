"""Kernels of whole blocks of pairs of inputs, through all blocks of a network (docs/theory/width, eqs. 47-48)."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxtyping import Array

from .._guard import at_least_zero, positive, root
from ..network import Stage
from ..network.engine import along
from ._kernel_engines import InOrder, Part, Way

_ROWS = 256  # rows of a tile that go through all layers together, so that they stay in the cache

Parts = Sequence[tuple[Any, Any]]  # segments of a network, each with the averagers of its activations


class Program:
    """Segments of a network without their numbers, and how the activations in them are averaged.

    Equal ones are one object, made by `program`, so that asking whether code is compiled takes no time.
    """

    def __init__(self, structure: Any, counts: tuple[int, ...], ways: tuple[Way, ...], side: Any) -> None:
        self._structure, self._counts, self.ways, self._side = structure, counts, ways, side

    def side(self, values: Any) -> list[Part]:
        """What one side has at the activations, from its values in a row."""
        return jax.tree.unflatten(self._side, list(values))

    def parts(self, numbers: Any, one: Sequence[Part], two: Sequence[Part]) -> Parts:
        """The segments with these numbers, each with the averages between two sides of its activations."""
        return paired(jax.tree.unflatten(self._structure, list(numbers)), self._counts, self.ways, one, two)


# Found again, so that compiled code is.
program = functools.lru_cache(maxsize=1024)(Program)


def paired(
    segments: Sequence[Any], counts: Sequence[int], ways: Sequence[Way], one: Sequence[Part], two: Sequence[Part]
) -> Parts:
    """Segments, each with the averagers of its activations, of which `counts` says how many they are."""
    averagers = [way.between(*sides) for way, *sides in zip(ways, one, two, strict=True)]
    parts = []
    for segment, count in zip(segments, counts, strict=True):
        parts.append((segment, tuple(averagers[:count])))
        averagers = averagers[count:]
    return parts


@jax.jit
def products(x1: Array, x2: Array) -> Array:
    """x₁·x₂/n_0 of two blocks of inputs, in their dtype: (n1, n2)."""
    return x1 @ x2.T / x1.shape[1]


def entering(gram: Any, K1: Any, K2: Any, mean1: Any, mean2: Any) -> Stage:
    """The stage of inputs of these products, mean squares and means, which broadcast."""
    return Stage.between(K1, K2, gram, 0 * gram, mean1=mean1, mean2=mean2, kind="input")


def nearness(first: tuple[Program, Any] | None, gram: Array, ends1: tuple[Any, Any], ends2: tuple[Any, Any]) -> Array:
    """1 - |ρ| of a block of pairs after the first segment, a program with its numbers, or of the inputs without one."""
    return _nearness(*(first or (None, ())), gram, *ends1, *ends2)


@functools.partial(jax.jit, static_argnums=0)
def _nearness(
    first: Program | None, numbers: Any, gram: Array, K1: Array, mean1: Array, K2: Array, mean2: Array
) -> Array:
    stage = entering(gram, K1[:, None], K2[None, :], mean1[:, None], mean2[None, :])
    if first is not None:
        ((segment, _),) = first.parts(_cast(numbers, gram.dtype), (), ())
        stage = segment.kernel(stage, InOrder(()))
    rho = stage.c / positive(root(stage.K1) * root(stage.K2))
    return at_least_zero(1 - abs(rho)).astype(gram.dtype)


# Long sums and products of whole rows are what wide registers are for; where there are none nothing changes.
_WIDE = {"xla_cpu_prefer_vector_width": 512}


@functools.partial(jax.jit, static_argnums=0, static_argnames=("sharp", "dtype"), compiler_options=_WIDE)
def by_forms(
    program: Program, numbers: Any, gram: Array, ends: Any, sides: tuple[Array, Array], *, sharp: bool, dtype: Any
) -> tuple[Array, Array]:
    """K and Θ of the outputs for a block of pairs (n1, n2) of these products x₁·x₂/n_0, all averages in closed form.

    `ends` hold (|x|²/n_0, mean of x) of both sides, `sides` what they have at the activations, (values, n1) and
    (values, n2). The products' own dtype serves the correlations of the inputs, `dtype` what follows. The number of
    rows is a multiple of those that go together, or smaller. `sharp` carries √(K1 K2) - c along, which costs time and
    is wanted where the averages change quickly near ρ = ±1.
    """
    rows = min(_ROWS, gram.shape[0])
    K2, mean2 = (value[None, :] for value in ends[1])
    two = program.side(sides[1][:, None, :])

    def cut(value):
        return value.reshape(len(value) // rows, rows, *value.shape[1:])

    def strip(inputs):
        gram, K1, mean1, one = inputs
        parts = program.parts(numbers, program.side(one.T[:, :, None]), two)
        stage = entering(gram, K1[:, None], K2, mean1[:, None], mean2)
        stage = _flow(parts, stage, sharp=sharp, dtype=dtype)
        return stage.c, stage.mean_theta

    K, Theta = lax.map(strip, tuple(map(cut, (gram, *ends[0], sides[0].T))))
    return K.reshape(gram.shape), Theta.reshape(gram.shape)


def _flow(parts: Parts, stage: Stage, *, sharp: bool, dtype: Any) -> Stage:
    def step(segment, averagers, stage):
        if stage.kind != "gaussian":
            return segment.kernel(stage, InOrder(averagers))
        if not sharp:
            stage = Stage.between(stage.K1, stage.K2, stage.c, stage.Theta, gain=stage.gain, mixed=stage.mixed)
        found = segment.kernel(stage, InOrder(averagers))
        # Beyond the first weights nothing with a kink is opposite but for rounding, so √(K1 K2) + c has its digits.
        return found.replace(total=at_least_zero(root(found.K1) * root(found.K2) + found.c))

    first, *later = parts
    if first[1]:  # the first block of weights has activations inside
        return along(_cast(parts, dtype), _cast(stage, dtype), step)
    segment, averagers = _cast(first, stage.c.dtype)
    return along(_cast(later, dtype), _cast(step(segment, averagers, stage), dtype), step, first=False)


def _cast(tree: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(dtype), tree)


@functools.partial(jax.jit, static_argnums=0)
def line(program: Program, numbers: Any, one: Any, two: Any, x: Array, others: Array) -> tuple[Array, Array]:
    """K and Θ of one input x paired with others, with correlations from differences of inputs.

    Products of inputs leave 1 - |ρ| an error of rounding, of which a kink sees the root.
    """
    parts = program.parts(numbers, one, two)
    stage = _flow(parts, Stage.of_inputs(x[None, :], others), sharp=True, dtype=x.dtype)
    return stage.c, stage.mean_theta


def by_segments(programs: Sequence[tuple[Program, Any]], one: Any, two: Any, stage: Stage) -> tuple[Any, Any]:
    """K and Θ of the outputs, a segment at a time, each a program with its numbers.

    A call a segment, because the compiler vectorizes sums over terms only where no loop is around them, and equal
    segments are one program.
    """
    for program, numbers in programs:
        count = len(program.ways)
        sides, one, two = (one[:count], two[:count]), one[count:], two[count:]
        stage = _segment(program, numbers, *sides, _bare(stage))
    return stage.c, stage.mean_theta


def _bare(stage: Stage) -> Stage:
    # Without what is made again from the rest, which would only be carried around.
    return stage.replace(gap=None, total=None, before=None, activation=None, fresh=False)


@functools.partial(jax.jit, static_argnums=0)
def _segment(program: Program, numbers: Any, one: Any, two: Any, bare: Stage) -> Stage:
    ((segment, averagers),) = program.parts(_cast(numbers, bare.c.dtype), one, two)
    whole = Stage.between(bare.K1, bare.K2, bare.c, bare.Theta)
    return _bare(segment.kernel(bare.replace(gap=whole.gap, total=whole.total), InOrder(averagers)))


def by_quadrature(parts: Parts, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of the outputs in NumPy, with pair averages that refine themselves."""
    for segment, averagers in parts:
        stage = segment.kernel(stage, InOrder(averagers))
    return np.asarray(stage.c), np.asarray(stage.mean_theta)
