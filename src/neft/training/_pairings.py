"""Correlators of four outputs: for each way to pair them an array over samples (docs/theory/width, eqs. 39-44).

A correlator X_0123 of composite indices (sample, output) is δ01δ23 X[0] + δ02δ13 X[1] + δ03δ12 X[2]. The deltas carry
outputs and the arrays samples, with axes in the order of the slots.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

Four = Float[np.ndarray, "3 _ _ _ _"]

_PARTNERS = ((1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))
"""Which slot each slot is paired with."""


class Correlators(NamedTuple):
    """n times the connected averages of the output layer that training meets."""

    HH: Four
    zzH: Four
    dHz: Four
    I: Four
    II: Four


_TENSORS = {
    "HH": (("A", "abcd"), ("B", "acbd"), ("B", "adbc")),
    "zzH": (("D", "abcd"), ("F", "acbd"), ("F", "adbc")),
    "dHz": (("Q", "abcd"), ("Q", "acbd"), ("P", "abcd")),
    "I": (("R", "abcd"), ("R", "acdb"), ("R", "adbc")),
    "II": (("S", "abcd"), ("T", "acbd"), ("U", "adbc")),
}
"""Of each correlator the tensors of its pairings, and their axes."""


def correlator(tensors: Mapping[str, np.ndarray], name: str, *slots: Any) -> Four:
    """A correlator from the tensors, whose axes follow their printed subscripts (B[1,3,2,4], U[1,4,2,3]).

    `slots` are the samples that are wanted in each of the four slots, as slices or as what np.ix_ gives: few of them
    take little memory.
    """
    return np.stack([np.einsum(f"{axes}->abcd", tensors[tensor])[slots] for tensor, axes in _TENSORS[name]])


def correlators(tensors: Mapping[str, np.ndarray]) -> Correlators:
    """All of them over all samples."""
    return Correlators(*(correlator(tensors, name) for name in Correlators._fields))


def permuted(X: Four, order: tuple[int, int, int, int]) -> Four:
    """X' with X'_{0123} = X_{order}: order (1, 0, 2, 3) exchanges the first two indices."""
    slot_of = np.argsort(order)
    parts = []
    for partners in _PARTNERS:
        # Index 0 sits in slot_of[0] of X, its partner in slot_of[partner]; which pairing of X is that?
        first, second = int(slot_of[0]), int(slot_of[partners[0]])
        pairing = next(p for p, pairs in enumerate(_PARTNERS) if pairs[first] == second)
        parts.append(X[pairing].transpose(slot_of))
    return np.stack(parts)


def projected(X: Four, *matrices: np.ndarray | None) -> Four:
    """X with the samples of each slot multiplied by a matrix (samples, new), or left as they are."""
    for axis, matrix in enumerate(matrices, start=1):
        if matrix is not None:
            X = np.moveaxis(np.tensordot(X, matrix, axes=(axis, 0)), -1, axis)
    return X


def contract(X: Four, slots: str, *rest: Any, out: str, outputs: int) -> np.ndarray:
    """Σ X_slots times other arrays, as in einsum: small letters are samples, the capital of a slot's letter its output.

    `rest` alternates arrays and their letters. A letter that stands twice among the slots is the same composite index.

    >>> contract(np.ones((3, 2, 2, 2, 2)), "abcc", out="aAbB", outputs=5)[0, :, 0, :].diagonal().tolist()
    [14.0, 14.0, 14.0, 14.0, 14.0]
    """
    eye, capital = np.eye(outputs), slots.upper()
    arrays, letters = rest[0::2], ",".join(rest[1::2])
    total: Any = 0.0
    for part, pairs in zip(X, _PARTNERS):
        second = next(slot for slot in (1, 2, 3) if slot != pairs[0])
        deltas = f"{capital[0]}{capital[pairs[0]]},{capital[second]}{capital[pairs[second]]}"
        terms = ",".join(filter(None, (slots, deltas, letters)))
        total = total + np.einsum(f"{terms}->{out}", part, eye, eye, *arrays, optimize="greedy")
    return total
