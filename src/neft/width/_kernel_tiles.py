"""Kernels of whole blocks of pairs of inputs, through all blocks of a network (docs/theory/width, eqs. 47-48)."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxtyping import Array

from .._guard import at_least_zero, positive, root
from ..network import Stage, along
from ._kernel_engines import InOrder

_ROWS = 64  # rows of a tile that go through all layers together, so that they stay in the cache

Parts = Sequence[tuple[Any, Any]]  # segments of a network, each with the averagers of its activations


@jax.jit
def products(x1: Array, x2: Array) -> Array:
    """x₁·x₂/n_0 of two blocks of inputs, in their dtype: (n1, n2)."""
    return x1 @ x2.T / x1.shape[1]


def entering(gram: Any, K1: Any, K2: Any, mean1: Any, mean2: Any) -> Stage:
    """The stage of inputs of these products, mean squares and means, which broadcast."""
    return Stage.between(K1, K2, gram, 0 * gram, mean1=mean1, mean2=mean2, kind="input")


@jax.jit
def nearness(first: Any, gram: Array, ends1: tuple[Any, Any], ends2: tuple[Any, Any]) -> Array:
    """1 - |ρ| of a block of pairs after the first segment, or of the inputs without one."""
    (K1, mean1), (K2, mean2) = ends1, ends2
    stage = entering(gram, K1[:, None], K2[None, :], mean1[:, None], mean2[None, :])
    if first is not None:
        stage = first.kernel(stage, InOrder(()))
    rho = stage.c / positive(root(stage.K1) * root(stage.K2))
    return at_least_zero(1 - abs(rho)).astype(gram.dtype)


@functools.partial(jax.jit, static_argnames=("sharp", "dtype"))
def by_forms(parts: Parts, gram: Array, ends: tuple[Any, Any], *, sharp: bool, dtype: Any) -> tuple[Array, Array]:
    """K and Θ of the outputs for a block of pairs (n1, n2) of these products x₁·x₂/n_0, all averages in closed form.

    `ends` hold (|x|²/n_0, mean of x) of both sides. The products' own dtype serves the correlations of the inputs,
    `dtype` what follows. The number of rows is a multiple of those that go together, or smaller. `sharp` carries
    √(K1 K2) - c along, which costs time and is wanted where the averages change quickly near ρ = ±1.
    """
    rows = min(_ROWS, gram.shape[0])

    def cut(value):
        return value.reshape(len(value) // rows, rows, *value.shape[1:])

    def of_rows(averagers):
        # What belongs to rows is cut into strips; columns and hyperparameters stay whole.
        return [cut(leaf) for averager in averagers for leaf in jax.tree.leaves(averager.one)]

    def strip(inputs):
        gram, K1, mean1, rows_of_parts = inputs
        again = [(segment, _with_rows(averagers, leaves)) for (segment, averagers), leaves in zip(parts, rows_of_parts)]
        K2, mean2 = (value[None, :] for value in ends[1])
        stage = entering(gram, K1[:, None], K2, mean1[:, None], mean2)
        stage = _flow(again, stage, sharp=sharp, dtype=dtype)
        return stage.c, stage.mean_theta

    K1, mean1 = ends[0]
    K, Theta = lax.map(strip, (cut(gram), cut(K1), cut(mean1), [of_rows(averagers) for _, averagers in parts]))
    return K.reshape(gram.shape), Theta.reshape(gram.shape)


def _with_rows(averagers: Any, leaves: list[Array]) -> Any:
    leaves, found = list(leaves), []
    for averager in averagers:
        old, structure = jax.tree.flatten(averager.one)
        mine = [leaves.pop(0) for _ in old]
        found.append(type(averager)(averager.act, jax.tree.unflatten(structure, mine), averager.two))
    return tuple(found)


def _flow(parts: Parts, stage: Stage, *, sharp: bool, dtype: Any) -> Stage:
    def step(segment, averagers, stage):
        if stage.kind != "gaussian":
            return segment.kernel(stage, InOrder(averagers))
        if not sharp:
            stage = Stage.between(stage.K1, stage.K2, stage.c, stage.Theta, gain=stage.gain, mixed=stage.mixed)
        found = segment.kernel(stage, InOrder(averagers))
        # Beyond the first weights nothing with a kink is opposite but for rounding, so √(K1 K2) + c has its digits.
        return found.replace(total=at_least_zero(root(found.K1) * root(found.K2) + found.c))

    def cast(stage):
        return jax.tree.map(lambda leaf: leaf.astype(dtype), stage)

    first, *later = parts
    if first[1]:  # the first block of weights has activations inside
        return along(parts, cast(stage), step)
    return along(later, cast(step(*first, stage)), step, first=False)


@jax.jit
def line(parts: Parts, x: Array, others: Array) -> tuple[Array, Array]:
    """K and Θ of one input x paired with others, with correlations from differences of inputs.

    Products of inputs leave 1 - |ρ| an error of rounding, of which a kink sees the root.
    """
    stage = _flow(parts, Stage.of_inputs(x[None, :], others), sharp=True, dtype=x.dtype)
    return stage.c, stage.mean_theta


def by_segments(parts: Parts, stage: Stage) -> tuple[Any, Any]:
    """K and Θ of the outputs, a segment at a time.

    A call a segment, because the compiler vectorizes sums over terms only where no loop is around them, and equal
    segments are one program.
    """
    values = (stage.K1, stage.K2, stage.c, stage.Theta, stage.mean1, stage.mean2, stage.gain)
    kind, mixed = stage.kind, stage.mixed
    for segment, averagers in parts:
        *values, kind, mixed = _unpacked(*_segment(segment, averagers, tuple(values), kind, mixed))
    return values[2], values[3] if values[6] is None else values[3] + values[6] * values[2]


@functools.partial(jax.jit, static_argnums=(3, 4))
def _segment(segment: Any, averagers: Any, values: tuple, kind: Any, mixed: bool) -> Any:
    K1, K2, c, Theta, mean1, mean2, gain = values
    stage = Stage.between(K1, K2, c, Theta, mean1=mean1, mean2=mean2, gain=gain, kind=kind, mixed=mixed)
    found = segment.kernel(stage, InOrder(averagers))
    return (
        _Static(found.kind),
        _Static(found.mixed),
        (
            found.K1,
            found.K2,
            found.c,
            found.Theta,
            found.mean1,
            found.mean2,
            found.gain,
        ),
    )


@jax.tree_util.register_static
class _Static:
    # A fact about the program that goes through its outputs.
    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _unpacked(kind: _Static, mixed: _Static, values: tuple) -> tuple:
    return (*values, kind.value, mixed.value)


def by_quadrature(parts: Parts, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of the outputs in NumPy, with pair averages that refine themselves."""
    for segment, averagers in parts:
        stage = segment.kernel(stage, InOrder(averagers))
    return np.asarray(stage.c), np.asarray(stage.mean_theta)
