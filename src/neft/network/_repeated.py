"""The block that a deep network repeats."""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import _check
from .._activation import Activation
from ._attention import Attention
from ._block import Block
from ._chain import blocks_of, fans, passed
from ._conv import Conv
from ._dense import Dense
from ._network import Network, _Nothing
from ._nonlinearity import Nonlinearity
from ._norm import Norm
from ._residual import Residual
from ._stage import Stage
from ._variances import Variances


def repeated(given: Any, dense: int | None = None) -> tuple[Block, ...]:
    """The blocks of one step, from preactivations to preactivations.

    Args:
        given: one block, a list of blocks, or a network, in which the step that it repeats between its first and its
            last block is looked for.
        dense: which dense blocks have no variances of their own; see `Variances`.

    >>> from neft import MLP
    >>> repeated(MLP((3, 8, 8, 1), "relu"))
    (Nonlinearity('relu'), Dense(8, C_b=0, C_W=1, lambda_b=1, lambda_W=1))
    """
    if isinstance(given, Network):
        given.refuse_positions("steps that repeat and their critical points")
        step = _found(given, dense)
    else:
        step = blocks_of((given,) if isinstance(given, Block) else given)
    _refuse_what_does_not_repeat(step)
    return step


def closing_norms(given: Any) -> tuple[Block, ...]:
    """Norms that stand between the last residual block of a network and its last dense block; () of anything else.

    >>> from neft import LayerNorm
    >>> block = Residual(LayerNorm(), Dense(4), "relu", Dense(4))
    >>> closing_norms(Network(3, [Dense(4), block, block, LayerNorm(), Dense(1)]))
    (LayerNorm(epsilon=1e-06),)
    """
    if not isinstance(given, Network) or not isinstance(given.blocks[-1], Dense):
        return ()
    found: list[Block] = []
    for block in reversed(given.blocks[:-1]):
        if not isinstance(block, Norm):
            # After a norm that follows every sum it belongs to the step.
            return tuple(reversed(found)) if isinstance(block, Residual) and not _follows(given, block) else ()
        found.append(block)
    return ()


def _follows(net: Network, last: Block) -> bool:
    inner = [type(block) for block in net.blocks[1:-1]]
    places = [i for i, kind in enumerate(inner) if kind is type(last)]
    return len(places) > 1 and all(issubclass(inner[i + 1], Norm) for i in places if i + 1 < len(inner))


def step_length(net: Network, count: int) -> int:
    """How many blocks each of the `count` steps between the first and the last block has; norms may stand behind them.

    >>> step_length(Network(3, [Dense(4), *[Residual("relu", Dense(4))] * 2, Dense(1)]), 2)
    1
    """
    inner = net.blocks[1:-1]
    starts = [i for i, block in enumerate(inner) if isinstance(block, Residual)]
    # A step of several residual blocks ends where the next one of its kind begins.
    if not starts or len(starts) % count or count == 1:
        return len(inner) // count
    return starts[len(starts) // count] - starts[0]


def only_activation(step: Sequence[Block]) -> Activation | None:
    """σ where the step is that of a multilayer perceptron, one activation and one dense block; else None.

    >>> only_activation(repeated(("relu", Dense(4)))).name
    'relu'
    """
    if len(step) == 2 and isinstance(step[0], Nonlinearity) and isinstance(step[1], Dense):
        return step[0].activation
    return None


def _refuse_what_does_not_repeat(step: Sequence[Block]) -> None:
    for block in step:
        if block.dimensions:
            raise ValueError(
                f"block {_check.brief(_word(block))} stands on positions, but steps that repeat and their critical "
                "points are known for vectors only."
            )
    # As when a network is made: the step of the kernels says so itself, and numbers do not matter.
    kinds = []

    def run(one):
        stage = passed(step, Stage.itself(one, one), _Nothing())
        kinds.append(stage.kind)
        return stage.c

    jax.eval_shape(run, jax.ShapeDtypeStruct((), jnp.float32))
    if kinds != ["gaussian"]:
        raise ValueError(
            f"block {_check.brief(in_words(step))} ends in activations, but must begin and end at preactivations to be "
            'repeated, such as ("tanh", Dense(64)).'
        )


def _found(net: Network, dense: int | None) -> tuple[Block, ...]:
    parts = _segments(net.blocks)
    # Between the first weights, which see inputs, and the last ones, which make outputs.
    inner = parts[1:-1] if len(parts) > 2 else parts[1:]
    if not inner:
        raise ValueError(f"net is {_check.brief(net)}, which has no block between its first and its last.")
    if step := _period(inner, dense):
        return step
    if len(inner) == 1:
        return inner[0]
    # With norms after the sums the last one stands before the last weights.
    if step := _period([(block,) for block in net.blocks[1:-1]], dense):
        return step
    raise ValueError(
        f"net is {_check.brief(net)}, which does not repeat one block between its first and its last; pass the block."
    )


def _period(parts: Sequence[Sequence[Block]], dense: int | None) -> tuple[Block, ...] | None:
    for period in range(1, len(parts) // 2 + 1):
        looks = [_looks(part, dense) for part in zip(*[iter(parts)] * period)]
        if len(parts) % period == 0 and all(look == looks[0] for look in looks):
            return tuple(block for part in parts[:period] for block in part)
    return None


def _segments(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    found: list[tuple[Block, ...]] = []
    current: list[Block] = []
    for block in blocks:
        current.append(block)
        if block.weighs:
            found.append(tuple(current))
            current = []
    return found


def _looks(parts: Sequence[Sequence[Block]], dense: int | None) -> Any:
    # All that K depends on, but for the variances that are asked about: not rates and not widths.
    blocks = [_without_rates(block) for part in parts for block in part]
    # Without a dense block, or with fewer than that, it is compared as it is.
    with contextlib.suppress(ValueError):
        blocks = Variances(blocks, dense).put(0.0, 1.0)
    return jax.tree.structure(tuple(blocks)), jax.tree.leaves(tuple(blocks))


def _without_rates(block: Any) -> Any:
    if isinstance(block, Dense):
        return Dense(1, C_b=block.C_b, C_W=block.C_W)
    if isinstance(block, Residual):
        return Residual(*map(_without_rates, block.branch), skip=_without_rates(block.skip))
    return block


def stream_width(step: Sequence[Block]) -> int:
    """The width that goes in and comes out of a step.

    >>> stream_width(repeated(Residual(Dense(16), "relu", Dense(8))))
    8
    """
    parts = jax.tree.leaves(tuple(step), is_leaf=lambda part: isinstance(part, Block) and hasattr(part, "width"))
    for width in dict.fromkeys(part.width for part in reversed(parts) if hasattr(part, "width")):
        with contextlib.suppress(ValueError):
            if fans(step, width)[-1] == width:
                return width
    raise ValueError(f"block {_check.brief(in_words(step))} has no width that goes in and comes out.")


def in_words(blocks: Sequence[Block]) -> str:
    """The blocks without their hyperparameters, as one would write them.

    >>> in_words(repeated(Residual("relu", Dense(8), skip=0.5)))
    'Residual(relu, Dense(8), skip=0.5)'
    """
    return ", ".join(map(_word, blocks))


def _word(block: Any) -> str:
    if isinstance(block, Nonlinearity):
        return block.activation.name
    if isinstance(block, Dense):
        return f"Dense({block.width})"
    if isinstance(block, Conv):
        return f"Conv({block.channels}, {block.shape})"
    if isinstance(block, Attention):
        return f"Attention({block.heads}, {block.channels})"
    if isinstance(block, Residual):
        skip = _word(block.skip) if isinstance(block.skip, Block) else f"{block.skip:g}"
        return f"Residual({in_words(block.branch)}, skip={skip})"
    return f"{type(block).__name__}()"
