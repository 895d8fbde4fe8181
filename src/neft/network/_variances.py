"""One common pair of variances (C_b, C_W), put into dense blocks wherever they are."""

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from .. import _check
from ._block import Block

_MARKS = (object(), object())


class Variances:
    """Blocks with places for C_b and C_W: those of all blocks that have such fields, or those of one of them.

    Args:
        blocks: the blocks; what they hold is looked through too, so a block of one's own may hold dense ones.
        dense: which of the blocks that have variances, counted from 0 in the order in which they stand; None for all.

    >>> from neft import Dense, Residual
    >>> common = Variances((Residual(Dense(8), "tanh", Dense(4)),), 1)
    >>> print(common.which)
    dense block 1 of 0 to 1, Dense(4)
    >>> common.put(0.5, 2.0)[0].branch[2].C_W
    2.0
    """

    def __init__(self, blocks: Sequence[Block], dense: int | None = None) -> None:
        parts, tree = jax.tree.flatten(tuple(blocks), is_leaf=_has_variances)
        holders = [i for i, part in enumerate(parts) if _has_variances(part)]
        if not holders:
            raise ValueError(
                f"blocks {_check.brief(tuple(blocks))} hold no dense block whose C_b and C_W could be set."
            )
        if dense is not None:
            dense = _check.integer("dense", dense, at_least=0, at_most=len(holders) - 1)
        chosen = holders if dense is None else [holders[dense]]
        self.which = _named([parts[i] for i in holders], dense)
        for i in chosen:
            parts[i] = eqx.tree_at(lambda part: (part.C_b, part.C_W), parts[i], _MARKS)
        self._leaves, self._tree = jax.tree.flatten(jax.tree.unflatten(tree, parts))

    def put(self, C_b: Any, C_W: Any) -> tuple[Block, ...]:
        """The blocks with these variances; they may be arrays or tracers, and nothing is checked."""
        values = dict(zip(map(id, _MARKS), (C_b, C_W)))
        return jax.tree.unflatten(self._tree, [values.get(id(leaf), leaf) for leaf in self._leaves])

    def call(self, function: Any) -> Any:
        """`function(blocks, …)` compiled: for calls as `run(C_b, C_W, …)`, one program for all hyperparameters.

        All but the hyperparameters of the blocks that stay are mapped over the first axis.
        """
        others = [leaf for leaf in self._leaves if not any(leaf is mark for mark in _MARKS)]
        places = tuple(next((i for i, mark in enumerate(_MARKS) if leaf is mark), None) for leaf in self._leaves)
        return functools.partial(_run, function, self._tree, places, others)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _run(function: Any, tree: Any, places: tuple[int | None, ...], others: Any, C_b: Any, C_W: Any, *rest: Any) -> Any:
    def one(C_b, C_W, *rest):
        left, given = iter(others), (C_b, C_W)
        leaves = [next(left) if place is None else given[place] for place in places]
        return function(jax.tree.unflatten(tree, leaves), *rest)

    return jax.vmap(one)(C_b, C_W, *rest)


def _has_variances(part: Any) -> bool:
    return isinstance(part, Block) and hasattr(part, "C_b") and hasattr(part, "C_W")


def _named(holders: list[Any], dense: int | None) -> str:
    words = [f"{type(one).__name__}({getattr(one, 'width', '')})" for one in holders]
    if dense is not None and len(holders) > 1:
        return f"dense block {dense} of 0 to {len(holders) - 1}, {words[dense]}"
    return (
        f"the dense block {words[0]}" if len(holders) == 1 else f"all {len(holders)} dense blocks, {', '.join(words)}"
    )
