"""The tensors of one input through all blocks (docs/theory/width, eqs. 20-38; docs/theory/blocks, eqs. 13-48)."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._activation import Activation, activation
from .._moments import Powers, pure_moments
from .._of_own import own_moments
from ..network import Block, Division, Linear, Network, Nonlinearity, TwoMatrices
from ._moments import averages, existence
from ._norms import LACKS, Apart, normed, together
from ._one_input import Tensors, first_layer, next_layer, present
from ._two_matrices import next_block

_OWN = 1e-11  # tolerance of the averages of a user's own function


class NoRecursion(Exception):
    """A block has no recursion of the tensors at order 1/width; the message names it."""


class _Step(NamedTuple):
    # Norms, then an activation, a linear one if there is none, then a block that holds weights; n is the width before.
    norms: tuple[Division, ...]
    act: Activation
    block: Block
    n: int


def through_blocks(net: Network, x: np.ndarray) -> tuple[tuple[str, ...], list[Tensors], str | None]:
    """The names of the tensors that are known, the tensors after each block at the top that holds weights, a reason.

    The reason says why some are not known, where that is not for a kink.
    """
    steps, acts = _steps(net), net.activations
    if any(existence(act) == "no derivative" for act in acts):
        raise NoRecursion("an activation jumps")
    names = tuple(name for name in Tensors._fields if all(name in present(act) for act in acts))
    q, reason = float(x @ x / net.inputs), None
    if any(step.norms or _norm_of(step.block) is not None for step in steps):
        names = tuple(name for name in names if name not in LACKS)
        reason = f"it has no recursion through {_named_norm(net.blocks)} yet"
    if all(act.named for act in acts):
        return names, jax.tree.map(np.asarray, _compiled(net, jnp.asarray(q), names)), reason
    return names, _run(net, np.float64(q), names), reason


@functools.partial(jax.jit, static_argnums=2)
def _compiled(net: Network, q: Any, names: tuple[str, ...]) -> list[Tensors]:
    return _run(net, q, names)


def _run(net: Network, q: Any, names: tuple[str, ...]) -> list[Tensors]:
    layers, unit, linear = [], net.inputs, activation("linear")
    apart: Apart | None = None
    for norms, act, block, n in _steps(net):
        if not layers:
            new = first_layer(linear, q, block)
        else:
            # In units of the width of the stage before the block.
            layer = _rescaled(layers[-1], n / unit)
            for norm in norms:
                layer, apart, _ = normed(norm, layer, apart)
            parts = block.tensors()
            if isinstance(parts, Linear):
                new = next_layer(act, layer, 1.0, block, _averages(act, layer.K))
                new = _with(new, _together(act, layer, apart, parts))
                apart = None
            else:
                assert isinstance(parts, TwoMatrices)
                new = next_block(block, layer, n, _averages, apart)
                apart = None if apart is None else Apart(*(parts.skip**2 * value for value in apart))
        layers.append(_kept(new, names))
        unit = n
    return layers


def _steps(net: Network) -> list[_Step]:
    found: list[_Step] = []
    act, norms, gain = None, [], None
    for block, n in zip(net.blocks, net.fans()):
        if isinstance(block, Nonlinearity):
            act = block.activation
            if gain is not None:
                raise NoRecursion(f"{gain!r} has a trained gain, and no dense block follows it")
            continue
        known = block.tensors()
        if isinstance(known, Division):
            if not found or act is not None:
                where = "activations" if found else "the input"
                raise NoRecursion(f"{type(block).__name__} after {where} has no recursion of it yet")
            if gain is not None:
                raise NoRecursion(f"{gain!r} has a trained gain, and no dense block follows it")
            norms.append(known)
            gain = block if known.gain is not None else None
            continue
        if not (isinstance(known, Linear) or (act is None and isinstance(known, TwoMatrices))):
            raise NoRecursion(f"{type(block).__name__} has no recursion of it yet")
        if gain is not None and not isinstance(known, Linear):
            raise NoRecursion(f"{gain!r} has a trained gain, and no dense block follows it")
        found.append(_Step(tuple(norms), activation("linear") if act is None else act, block, n))
        act, norms, gain = None, [], None
    if act is not None:
        raise NoRecursion("the network ends in an activation")
    if norms:
        raise NoRecursion("the network ends in a norm")
    return found


def _norm_of(block: Block) -> Division | None:
    known = block.tensors()
    return known.norm if isinstance(known, TwoMatrices) else None


def _named_norm(blocks: Sequence[Block]) -> str:
    # The first norm, at the top or at the start of a branch.
    for block in blocks:
        if isinstance(block.tensors(), Division):
            return repr(block)
        if _norm_of(block) is not None:
            return f"the norm of {block!r}"
    raise AssertionError("a norm was seen")


def _together(act: Activation, layer: Tensors, apart: Apart | None, linear: Linear) -> dict[str, Any]:
    if apart is None or act == activation("linear"):
        return {}
    powers = [Powers(s=1, s1=1), Powers(s1=1, s2=1)]
    if act.named:
        sd, de = pure_moments(act, powers, jnp.asarray(layer.K))
    else:
        sd, de = own_moments(act, powers, layer.K, rtol=_OWN, what=f"an average of {act.name}")
    return together(layer, apart, linear.variance, linear.learning_rate, sd, de)


def _with(layer: Tensors, more: dict[str, Any]) -> Tensors:
    return layer._replace(**{name: getattr(layer, name) + value for name, value in more.items()})


def two_matrices(step: Sequence[Block]) -> TwoMatrices | None:
    """What a step is made of where it is one residual block of two matrices; else None."""
    known = step[0].tensors() if len(step) == 1 else None
    return known if isinstance(known, TwoMatrices) else None


def _averages(act: Activation, K: Any) -> Any:
    if act.named:
        return averages(act, K) if isinstance(K, jax.Array) else _numbers(averages(act, jnp.asarray(K)))
    return averages(act, K, functools.partial(own_moments, rtol=_OWN, what=f"an average of {act.name}"))


def _numbers(values: Any) -> Any:
    return jax.tree.map(np.asarray, values)


def _rescaled(layer: Tensors, factor: float) -> Tensors:
    # What does not exist is carried as 0, for activations that have it, and taken out again.
    whole = {name: 0.0 if value is None else value for name, value in layer._asdict().items()}
    return Tensors(**{name: v if name in ("K", "Theta") else factor * v for name, v in whole.items()})


def _kept(layer: Tensors, names: tuple[str, ...]) -> Tensors:
    return Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
