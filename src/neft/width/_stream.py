"""Tensors of one input along equal steps, however many (docs/theory/blocks, eqs. 13-48; docs/theory/residual)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..network import Block, Network
from ._known_tensors import NoRecursion
from ._statistics import statistics
from ._through_blocks import along_steps

WANTED = ("K", "Theta", "V", "A", "B", "K1", "Theta1")
"""The tensors that say how large corrections are."""


class Stream(NamedTuple):
    """Tensors by name after each of the steps, (steps,), and those of an output that would read each of them out.

    Where activations are a user's own functions only the last of the outputs is there, of shape (1,).
    """

    stages: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def stream(first: Block, step: Sequence[Block], readout: Sequence[Block], q: float, count: int) -> Stream:
    """The tensors along `count` steps after the linear block `first`, read out by a linear block, perhaps behind norms.

    A `NoRecursion` says which block has none.
    """
    net = Network(1, [first, *step, *step, *readout])
    if not all(act.named for act in net.activations):
        return _one_by_one(Network(1, [first, *tuple(step) * count, *readout]), q, count)
    size = sum(block.weighs for block in step)
    names, stages, outputs, reason = along_steps(net, np.array([q**0.5]), size, count)
    _refuse_missing(names, reason)
    return Stream(*({name: np.asarray(getattr(part, name)) for name in WANTED} for part in (stages, outputs)))


def _one_by_one(net: Network, q: float, count: int) -> Stream:
    # A user's own function has averages that refine themselves, which no program does.
    found = statistics(net, np.array([q**0.5]), only=WANTED)
    _refuse_missing([name for name in WANTED if found.tensors[name] is not None], found.reason)
    size = (net.depth - 2) // count
    return Stream(
        {name: getattr(found, name)[size:-1:size] for name in WANTED},
        {name: getattr(found, name)[-1:] for name in WANTED},
    )


def _refuse_missing(names: Sequence[str], reason: str | None) -> None:
    if not set(WANTED) <= set(names):
        raise NoRecursion(reason or "an activation has kinks")
