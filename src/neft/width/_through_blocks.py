"""The tensors of one input through all blocks.

docs/theory/width, eqs. 20-38; docs/theory/blocks, eqs. 13-48; docs/theory/residual, eqs. 12-31.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._accuracy import warn_missed
from .._activation import Activation, activation
from .._moments import Powers, pure_moments
from .._of_own import own_moments
from ..network import (
    Division,
    Linear,
    Network,
    Nonlinearity,
    OneMatrix,
    Stage,
    TwoMatrices,
)
from ..network.engine import Segment
from ._deeper import CHUNK
from ._functionals import Functionals, resolved, squares, terms_of
from ._known import stepped
from ._known_tensors import known_names, known_of, refused
from ._moments import averages
from ._norms import Apart, normed, together
from ._one_input import Tensors, first_layer, means_of, next_layer
from ._one_matrix import next_stream, through_two_matrices
from ._two_matrices import next_block

_OWN = 1e-11  # tolerance of the averages of a user's own function
_HUGE = 1e70  # variances that others refuse
_TOLERANCE = 1e-7  # of what the Hermite terms that are not kept may add


class _Sizes(NamedTuple):
    # The width before a block over that in whose units the tensors before it are, and over the width inside it.
    scale: Any
    inner: Any


class _State(NamedTuple):
    # Tensors are numbers, 0 for what does not exist. The others are None where no block of the network needs them.
    layer: Tensors
    apart: Apart | None
    y: Functionals | None
    lost: Any


def through_blocks(net: Network, x: np.ndarray) -> tuple[tuple[str, ...], list[Tensors], str | None]:
    """The names of the tensors that are known, the tensors after each block at the top that holds weights, a reason.

    The reason says why some are not known, where that is not for a kink.
    """
    names, reason = known_names(refused(net))
    parts, start, terms = _started(net, x)
    acts = net.activations
    later = (_compiled if all(act.named for act in acts) else _one_by_one)(parts[1:], start, terms)
    layers = [start.layer, *(layer for layer, _ in later)]
    _warn(net, acts, [float(lost) for _, lost in later], layers)
    return names, [_kept(layer, names) for layer in layers], reason


def along_steps(
    net: Network, x: np.ndarray, size: int, count: int
) -> tuple[tuple[str, ...], Tensors, Tensors, str | None]:
    """The names of the tensors that are known, the tensors after each of `count` steps, those of outputs, a reason.

    One program serves any number of steps and all hyperparameters. Activations are neft's own.

    Args:
        net: a block, twice the step, and a block that reads it out.
        x: one input.
        size: how many blocks of the step hold weights.
        count: how many steps there are.
    """
    names, reason = known_names(refused(net))
    parts, state, terms = _started(net, x)
    first, again, last = parts[1 : 1 + size], parts[1 + size : -1], parts[-1]
    found, done = [], 0
    # Before the first step nothing but K and Θ is there yet, so that its units do not matter.
    if jax.tree.structure(first) != jax.tree.structure(again):
        state, layers = _steps(_floats(first), _floats(last), state, terms, 1)
        found, done = [layers], 1
    while done < count:
        state, layers = _steps(_floats(again), _floats(last), state, terms, CHUNK)
        found.append(layers)
        done += CHUNK
    stages, outputs, lost = jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *found)
    _warn(net, net.activations, [float(lost[-1])], [Tensors(*(value[i] for value in stages)) for i in (0, -1)])
    return names, stages, outputs, reason


@functools.partial(jax.jit, static_argnums=(3, 4))
def _steps(parts: Any, last: Any, state: _State, terms: int, count: int) -> tuple[_State, tuple[Tensors, Tensors, Any]]:
    # After each step its layer, and the output that would read it out.
    def body(state, _):
        for segment, sizes in parts:
            state = _floats(_advanced(segment, sizes, state, terms))
        segment, sizes = last
        out = _floats(_advanced(segment, sizes, state, terms))
        return state, (state.layer, out.layer, out.lost)

    return lax.scan(body, _floats(state), length=count)


def _floats(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), tree)


def _started(net: Network, x: np.ndarray) -> tuple[list[tuple[Segment, _Sizes]], _State, int]:
    """The segments with their sizes, what is after the first one, and how many terms functionals have."""
    parts = list(zip(net.segments(), _sizes(net)))
    single = any(isinstance(known, OneMatrix) for known in known_of(net))
    zero, terms = jnp.zeros(()), terms_of(net.activations) if single else 0
    (first,) = parts[0][0].blocks
    layer = first_layer(activation("linear"), jnp.asarray(float(x @ x / net.inputs)), first)
    y = Functionals.nothing(terms) if single else None
    return parts, _State(_whole(layer), Apart(zero, zero) if _centres(net) else None, y, zero), terms


def _warn(net: Network, acts: Sequence[Activation], lost: Sequence[float], layers: Sequence[Tensors]) -> None:
    # Of what Hermite terms that are not kept would add.
    single = any(isinstance(known, OneMatrix) for known in known_of(net))
    if not single or not float(layers[-1].K) < _HUGE:
        return
    coarse = [resolved(act, float(one.K)) for act in acts for one in layers[:-1]]
    worst = max([0.0, *lost, *coarse])
    if not worst < _TOLERANCE:
        warn_missed("the Hermite expansion of a residual stream", worst, _TOLERANCE)


def _compiled(parts: Sequence[tuple[Segment, _Sizes]], state: _State, terms: int) -> list[tuple[Tensors, Any]]:
    # A run of blocks that are equal but for numbers is one loop of one program.
    found: list[tuple[Tensors, Any]] = []
    for structure, run in _runs(parts):
        stacked = jax.tree.unflatten(structure, list(np.array(run, float).T))
        state, (layers, lost) = _loop(stacked, state, terms)
        rows = zip(*(np.asarray(value).tolist() for value in layers))
        found += [(Tensors(*row), one) for row, one in zip(rows, np.asarray(lost))]
    return found


@functools.partial(jax.jit, static_argnums=2)
def _loop(stacked: Any, state: _State, terms: int) -> tuple[_State, tuple[Tensors, Any]]:
    def body(state, part):
        segment, sizes = part
        new = _floats(_advanced(segment, sizes, state, terms))
        # Of the functionals only the last ones are wanted.
        return new, (new.layer, new.lost)

    return lax.scan(body, _floats(state), stacked)


def _one_by_one(parts: Sequence[tuple[Segment, _Sizes]], state: _State, terms: int) -> list[tuple[Tensors, Any]]:
    found = []
    for part in parts:
        state = _advanced(*part, state, terms)
        found.append((state.layer, state.lost))
    return found


def _runs(parts: Sequence[tuple[Segment, _Sizes]]) -> list[tuple[Any, list[list[float]]]]:
    """Parts of one structure in a row: the structure, and the numbers of each part."""
    groups: list[tuple[Any, list[list[float]]]] = []
    seen: dict[int, Any] = {}
    for segment, sizes in parts:
        # The same object has the same numbers.
        if id(segment) not in seen:
            seen[id(segment)] = jax.tree.flatten((segment, sizes))
        leaves, structure = seen[id(segment)]
        numbers = [*leaves[: -len(sizes)], *sizes]
        if groups and structure == groups[-1][0]:
            groups[-1][1].append(numbers)
        else:
            groups.append((structure, [numbers]))
    return groups


def _advanced(segment: Segment, sizes: _Sizes, state: _State, terms: int) -> _State:
    """What is after a segment from what is before it."""
    layer, apart, y, lost = state
    # In units of the width of the stage before the block.
    layer = Tensors(**{k: v if k in ("K", "Theta") else sizes.scale * v for k, v in layer._asdict().items()})
    y = None if y is None else Functionals(*(sizes.scale * one for one in y))
    act, inside = activation("linear"), None
    *before, block = segment.blocks
    sees = any(isinstance(one, Nonlinearity) for one in before)
    for one in before:
        if isinstance(one, Nonlinearity):
            act = one.activation
            continue
        norm = one.tensors()
        assert isinstance(norm, Division)
        if y is not None and sees:
            inside = norm
            continue
        layer, apart, _ = normed(norm, layer, apart)
        if y is not None:
            # A linear block sees contractions of the stream, all of them in its tensors.
            y = Functionals(*(0.0 * one for one in y))
    parts = block.tensors()
    if isinstance(parts, TwoMatrices):
        new, slopes, curvatures = next_block(block, layer, sizes.inner, _averages, apart)
        apart = None if apart is None else Apart(*(parts.skip * parts.skip * value for value in apart))
        if y is not None:
            y = through_two_matrices(y, parts.skip, layer.K, new.K, slopes, curvatures)
        return _State(_whole(new), apart, y, lost)
    if isinstance(parts, OneMatrix):
        act, linear, skip, inside, blocks = parts.activation, parts.last, parts.skip, parts.norm, (block,)
    else:
        assert isinstance(parts, Linear)
        linear, skip, blocks = parts, 0.0, (*(before if inside else (Nonlinearity(act),)), block)
    seen_K = layer.K if inside is None else layer.K / (layer.K + inside.epsilon)
    mean = _averages(act, seen_K)
    if y is None:
        new = _with(next_layer(act, layer, 1.0, block, mean), _together(act, layer, apart, linear))
    else:
        means = means_of(mean)
        K, Theta = stepped(blocks, Stage.itself(layer.K, layer.Theta), lambda *_: means)
        new, y, more = next_stream(layer, y, skip, linear, mean, squares(act, seen_K, terms), K, Theta, inside)
        lost = lost + more  # what a block lost stays lost, and of many small branches each adds a little
    return _State(_whole(new), None if apart is None else Apart(0 * layer.K, 0 * layer.K), y, lost)


def _sizes(net: Network) -> list[_Sizes]:
    found, unit = [], net.inputs
    for block, n, known in zip(net.blocks, net.fans(), known_of(net)):
        if type(block).weighs:
            found.append(_Sizes(n / unit, n / known.width if isinstance(known, TwoMatrices) else 1.0))
            unit = n
    return found


def _centres(net: Network) -> bool:
    return any(isinstance(known, Division) and known.centres for known in known_of(net))


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


def _averages(act: Activation, K: Any) -> Any:
    if act.named:
        return averages(act, K) if isinstance(K, jax.Array) else _numbers(averages(act, jnp.asarray(K)))
    return averages(act, K, functools.partial(own_moments, rtol=_OWN, what=f"an average of {act.name}"))


def _numbers(values: Any) -> Any:
    return jax.tree.map(np.asarray, values)


def _whole(layer: Tensors) -> Tensors:
    # What does not exist is carried as 0, for activations that have it, and taken out again.
    return Tensors(**{name: 0 * layer.K if value is None else value for name, value in layer._asdict().items()})


def _kept(layer: Tensors, names: tuple[str, ...]) -> Tensors:
    return Tensors(**{name: value if name in names else None for name, value in layer._asdict().items()})
