"""What criticality is asked of: an activation, as one layer of a multilayer perceptron, or a repeated block."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _check
from .._activation import Activation
from .._activation import activation as _activation
from ..network import Block, Network
from ..network.engine import in_words, only_activation, repeated
from ._step import Step

Repeated = str | Activation | Callable[[Any], Any] | Block | Sequence[Any] | Network
"""An activation, its name or function; or a block, a list of blocks, or a network that repeats one."""


class Subject(NamedTuple):
    """An activation or a step, the other being None.

    `name` is how it is called, `dense` says which dense blocks have the common variances (None for an activation that
    was given as one), and `record` is what a file keeps.
    """

    name: str
    activation: Activation | None
    step: Step | None
    dense: str | None
    record: dict[str, Any]


def subject(given: Repeated, dense: int | None = None) -> Subject:
    """What was given; the step of a multilayer perceptron is that of its activation."""
    if not isinstance(given, Block | Network | list | tuple):
        if dense is not None:
            raise ValueError(
                f"dense is {_check.brief(dense)}, but names a dense block of a repeated block, and no block was given."
            )
        act = _activation(given)  # type: ignore[arg-type]
        return Subject(act.name, act, None, None, {"activation": act.to_dict()})
    blocks = repeated(given, dense)
    step, act = Step(blocks, dense), only_activation(blocks)
    record = {"blocks": [block.to_dict() for block in blocks], "dense": dense}
    name = in_words(blocks)
    return Subject(name, act, None if act else step, step.which, record)
