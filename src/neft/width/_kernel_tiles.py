"""Kernels of whole blocks of pairs of inputs, through all blocks of a network (docs/theory/width, eqs. 47-48)."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from .._guard import at_least_zero, positive, root
from ..network import Stage
from ..network.engine import Table, along, used
from ._kernel_engines import InOrder, Part, Way

Parts = Sequence[tuple[Any, Any]]  # segments of a network, each with the averagers of its activations


class Rows(NamedTuple):
    """How parts at activations stand in rows of one array: their tree, and the rows of each leaf, 0 for a vector."""

    structure: Any
    counts: tuple[int, ...]


def stacked(parts: Sequence[Part], dtype: Any) -> tuple[np.ndarray, Rows]:
    """What n inputs have at activations as one array (rows, n), which moves in one piece, and how to find it there."""
    leaves, structure = jax.tree.flatten(list(parts))
    rows = [np.atleast_2d(leaf) for leaf in leaves]
    found = np.concatenate(rows, dtype=dtype) if rows else np.empty((0, 1), dtype)
    return found, Rows(structure, tuple(len(leaf) if leaf.ndim > 1 else 0 for leaf in leaves))


class Program:
    """Segments of a network without their numbers, and how the activations in them are averaged.

    Equal ones are one object, made by `program`, so that asking whether code is compiled takes no time.
    """

    def __init__(self, structure: Any, counts: tuple[int, ...], ways: tuple[Way, ...], side: "Rows") -> None:
        self._structure, self._counts, self.ways, self._side = structure, counts, ways, side

    def side(self, values: Any) -> list[Part]:
        """What one side has at the activations, from the rows in which `stacked` put it; single ones as `Row`."""
        found, start, table = [], 0, Table(values)
        for count in self._side.counts:
            found.append(values[start : start + count] if count else table[start])
            start += count or 1
        return jax.tree.unflatten(self._side.structure, found)

    def parts(self, numbers: Any, one: Sequence[Part], two: Sequence[Part]) -> Parts:
        """The segments with these numbers, each with the averages between two sides of its activations."""
        # An array for each of them, or one for all.
        rows = numbers if isinstance(numbers, (tuple, list)) else Table(numbers).rows
        return paired(jax.tree.unflatten(self._structure, rows), self._counts, self.ways, one, two)


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
def products(x1: Sequence[Array], x2: Sequence[Array]) -> Array:
    """x₁·x₂/n_0 of two blocks of inputs, each in pieces (n1, …) and (n2, …) along the entries: (n1, n2)."""
    first, *rest = (a @ b.T for a, b in zip(x1, x2, strict=True))
    return sum(rest, first) / sum(a.shape[1] for a in x1)


def entering(gram: Any, K1: Any, K2: Any, mean1: Any, mean2: Any) -> Stage:
    """The stage of inputs of these products, mean squares and means, which broadcast."""
    return Stage.between(K1, K2, gram, 0 * gram, mean1=mean1, mean2=mean2, kind="input")


@functools.partial(jax.jit, static_argnums=0)
def nearness(first: Program | None, numbers: Any, gram: Array, ends: tuple[Array, Array]) -> Array:
    """1 - |ρ| of a block of pairs after the first segment, a program with its numbers, or of the inputs without one."""
    stage = _entering(gram, ends)
    if first is not None:
        ((segment, _),) = used(first.parts(_cast(numbers, gram.dtype), (), ()))
        stage = segment.kernel(stage, InOrder(()))
    rho = stage.c / positive(root(stage.K1) * root(stage.K2))
    return at_least_zero(1 - abs(rho)).astype(gram.dtype)


def _entering(gram: Array, ends: tuple[Array, Array]) -> Stage:
    # A tile of all pairs of two blocks of inputs, or pairs one by one; `ends` are those of `by_forms`.
    one, two = (ends[0][:, :, None], ends[1][:, None, :]) if gram.ndim == 2 else ends
    return entering(gram, one[0], two[0], one[1], two[1])


# Long sums and products of whole rows are what wide registers are for; where there are none nothing changes.
_WIDE = {"xla_cpu_prefer_vector_width": 512}


@functools.partial(jax.jit, static_argnums=0, static_argnames=("sharp", "dtype"), compiler_options=_WIDE)
def by_forms(
    program: Program,
    numbers: Any,
    given: Any,
    ends: tuple[Array, Array],
    sides: tuple[Array, Array],
    *,
    sharp: bool,
    dtype: Any,
) -> tuple[Array, Array]:
    """K and Θ of the outputs for a block of pairs (n1, n2) of inputs, all averages in closed form.

    `given` are their products x₁·x₂/n_0 where these are known, else both blocks of inputs as `products` takes them.
    `ends` hold |x|²/n_0 and the means of x of both sides, (2, n1) and (2, n2), `sides` what they have at the
    activations, (rows, n1) and (rows, n2). The products' own dtype serves the correlations of the inputs, `dtype` what
    follows. `sharp` carries √(K1 K2) - c along, which costs time and is wanted where the averages change quickly near
    ρ = ±1.
    """
    gram = products(*given) if isinstance(given, tuple) else given
    one, two = program.side(sides[0][:, :, None]), program.side(sides[1][:, None, :])
    parts = program.parts(numbers, one, two)
    joined = all(part.factor is not None for part in one)
    stage = _flow(parts, _entering(gram, ends), sharp=sharp, dtype=dtype, joined=joined)
    return stage.c, stage.mean_theta


def _flow(parts: Parts, stage: Stage, *, sharp: bool, dtype: Any, joined: bool = False) -> Stage:
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
    segment, averagers = used(_cast(first, stage.c.dtype))
    return along(_cast(later, dtype), _cast(step(segment, averagers, stage), dtype), step, first=False, joined=joined)


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


def by_segments(
    programs: Sequence[tuple[Program, Any]],
    gram: Array,
    ends: tuple[Array, Array],
    one: Sequence[Array],
    two: Sequence[Array],
    *,
    dtype: Any,
) -> tuple[Any, Any]:
    """K and Θ of the outputs, a segment at a time, each a program with its numbers and what both sides have there.

    As in `by_forms`, for a tile of pairs (n1, n2), or for pairs one by one (n,). A call a segment, because the compiler
    vectorizes sums over terms only where no loop is around them, and equal segments are one program.
    """
    stage: Any = None
    for (program, numbers), left, right in zip(programs, one, two, strict=True):
        # The first one makes its stage itself.
        before, entering_by = (gram, ends) if stage is None else (stage, None)
        stage = _segment(program, numbers, left, right, before, entering_by, dtype=dtype)
    return stage.c, stage.mean_theta


@functools.partial(jax.jit, static_argnums=0, static_argnames="dtype")
def _segment(program: Program, numbers: Any, one: Array, two: Array, before: Any, ends: Any, *, dtype: Any) -> Stage:
    stage = _cast(before if ends is None else _entering(before, ends), dtype)
    if stage.c.ndim == 2:
        one, two = one[:, :, None], two[:, None, :]
    ((segment, averagers),) = used(program.parts(_cast(numbers, dtype), program.side(one), program.side(two)))
    whole = Stage.between(stage.K1, stage.K2, stage.c, stage.Theta)
    found = segment.kernel(stage.replace(gap=whole.gap, total=whole.total), InOrder(averagers))
    # Without what is made again from the rest, which would only be carried around.
    return found.replace(gap=None, total=None, before=None, activation=None, fresh=False)


@jax.jit
def chosen(gram: Array, ends: Any, one: Any, two: Any, row: Array, column: Array) -> tuple[Any, ...]:
    """Of the pairs of a tile those of these rows and columns, one by one: gram, ends, and what both sides have."""
    ends = ends[0][:, row], ends[1][:, column]
    return gram[row, column], ends, [values[:, row] for values in one], [values[:, column] for values in two]


def by_quadrature(parts: Parts, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of the outputs in NumPy, with pair averages that refine themselves."""
    for segment, averagers in parts:
        stage = segment.kernel(stage, InOrder(averagers))
    return np.asarray(stage.c), np.asarray(stage.mean_theta)
