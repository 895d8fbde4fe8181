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
from ..network import Division, Linear, Network, Nonlinearity, OneMatrix, Stage, TwoMatrices
from ..network.engine import Segment
from ._deeper import CHUNK
from ._functionals import Functionals, resolved, squares, terms_of
from ._known import stepped
from ._moments import averages, existence
from ._norms import LACKS, Apart, normed, together
from ._one_input import Tensors, first_layer, means_of, next_layer, present
from ._one_matrix import next_stream, through_two_matrices
from ._two_matrices import next_block

_OWN = 1e-11  # tolerance of the averages of a user's own function
_TOLERANCE = 1e-7  # of what the Hermite terms that are not kept may add


class NoRecursion(Exception):
    """A block has no recursion of the tensors at order 1/width; the message names it."""


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
    names, reason = _known_names(_refused(net))
    parts, start, terms = _started(net, x)
    if all(act.named for act in net.activations):
        later = _compiled(parts[1:], start, terms)
    else:
        later = _one_by_one(parts[1:], start, terms)
    layers = [start.layer, *(state.layer for state in later)]
    _warn(net, [float(state.lost) for state in later], layers)
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
    names, reason = _known_names(_refused(net))
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
    _warn(net, [float(lost[-1])], [Tensors(*(value[i] for value in stages)) for i in (0, -1)])
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
    single = any(isinstance(segment.blocks[-1].tensors(), OneMatrix) for segment, _ in parts)
    zero, terms = jnp.zeros(()), terms_of(net.activations) if single else 0
    (first,) = parts[0][0].blocks
    layer = first_layer(activation("linear"), jnp.asarray(float(x @ x / net.inputs)), first)
    y = Functionals.nothing(terms) if single else None
    return parts, _State(_whole(layer), Apart(zero, zero) if _centres(net) else None, y, zero), terms


def _warn(net: Network, lost: Sequence[float], layers: Sequence[Tensors]) -> None:
    # Of what Hermite terms that are not kept would add.
    if not any(isinstance(block.tensors(), OneMatrix) for block in net.blocks):
        return
    coarse = [resolved(act, float(one.K)) for act in net.activations for one in layers[:-1]]
    worst = max([0.0, *lost, *coarse])
    if not worst < _TOLERANCE:
        warn_missed("the Hermite expansion of a residual stream", worst, _TOLERANCE)


def _compiled(parts: Sequence[tuple[Segment, _Sizes]], state: _State, terms: int) -> list[_State]:
    # A run of blocks that are equal but for numbers is one loop of one program.
    found: list[_State] = []
    for run in _runs(parts):
        stacked = jax.tree.map(lambda *leaves: np.array(leaves, float), *run)
        state, states = _loop(stacked, state, terms)
        states = jax.tree.map(np.asarray, states)
        found += [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(len(run))]
    return found


@functools.partial(jax.jit, static_argnums=2)
def _loop(stacked: Any, state: _State, terms: int) -> tuple[_State, _State]:
    def body(state, part):
        segment, sizes = part
        new = _floats(_advanced(segment, sizes, state, terms))
        # Of the functionals only the last ones are wanted.
        return new, new._replace(y=None)

    return lax.scan(body, _floats(state), stacked)


def _one_by_one(parts: Sequence[tuple[Segment, _Sizes]], state: _State, terms: int) -> list[_State]:
    found = []
    for part in parts:
        state = _advanced(*part, state, terms)
        found.append(state)
    return found


def _runs(parts: Sequence[tuple[Segment, _Sizes]]) -> list[list[tuple[Segment, _Sizes]]]:
    groups: list[list[tuple[Segment, _Sizes]]] = []
    for part in parts:
        if groups and jax.tree.structure(part) == jax.tree.structure(groups[-1][-1]):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _advanced(segment: Segment, sizes: _Sizes, state: _State, terms: int) -> _State:
    """What is after a segment from what is before it."""
    layer, apart, y, lost = state
    # In units of the width of the stage before the block.
    layer = Tensors(**{k: v if k in ("K", "Theta") else sizes.scale * v for k, v in layer._asdict().items()})
    y = None if y is None else Functionals(*(sizes.scale * one for one in y))
    act = activation("linear")
    *before, block = segment.blocks
    for one in before:
        if isinstance(one, Nonlinearity):
            act = one.activation
        else:
            norm = one.tensors()
            assert isinstance(norm, Division)
            layer, apart, _ = normed(norm, layer, apart)
    parts = block.tensors()
    if isinstance(parts, TwoMatrices):
        new, slopes, curvatures = next_block(block, layer, sizes.inner, _averages, apart)
        apart = None if apart is None else Apart(*(parts.skip * parts.skip * value for value in apart))
        if y is not None:
            y = through_two_matrices(y, parts.skip, layer.K, new.K, slopes, curvatures)
        return _State(_whole(new), apart, y, lost)
    if isinstance(parts, OneMatrix):
        act, linear, skip, blocks = parts.activation, parts.last, parts.skip, (block,)
    else:
        assert isinstance(parts, Linear)
        linear, skip, blocks = parts, 0.0, (Nonlinearity(act), block)
    mean = _averages(act, layer.K)
    if y is None:
        new = _with(next_layer(act, layer, 1.0, block, mean), _together(act, layer, apart, linear))
    else:
        means = means_of(mean)
        K, Theta = stepped(blocks, Stage.itself(layer.K, layer.Theta), lambda *_: means)
        new, y, more = next_stream(layer, y, skip, linear, mean, squares(act, layer.K, terms), K, Theta)
        lost = jnp.maximum(lost, more)
    return _State(_whole(new), None if apart is None else Apart(0 * layer.K, 0 * layer.K), y, lost)


def _sizes(net: Network) -> list[_Sizes]:
    found, unit = [], net.inputs
    for block, n in zip(net.blocks, net.fans()):
        if block.weighs:
            known = block.tensors()
            found.append(_Sizes(n / unit, n / known.width if isinstance(known, TwoMatrices) else 1.0))
            unit = n
    return found


def _refused(net: Network) -> Network:
    """The network, or which of its blocks has no recursion."""
    if any(existence(act) == "no derivative" for act in net.activations):
        raise NoRecursion("an activation jumps")
    begun, act, gain = False, False, None
    single, norm = False, None
    for block in net.blocks:
        known = block.tensors()
        if gain is not None and not isinstance(known, Linear):
            raise NoRecursion(f"{gain!r} has a trained gain, and no dense block follows it")
        gain = None
        if isinstance(block, Nonlinearity):
            act = True
        elif isinstance(known, Division):
            if not begun or act:
                where = "activations" if begun else "the input"
                raise NoRecursion(f"{type(block).__name__} after {where} has no recursion of it yet")
            norm, gain = type(block).__name__, block if known.gain is not None else None
        elif isinstance(known, Linear) or (not act and begun and known is not None):
            begun, act, single = True, False, single or isinstance(known, OneMatrix)
            norm = f"the norm of {block!r}" if isinstance(known, TwoMatrices) and known.norm is not None else norm
        else:
            raise NoRecursion(f"{type(block).__name__} has no recursion of it yet")
        if single and norm is not None:
            raise NoRecursion(f"{norm} in a stream of one-matrix branches has no recursion of it yet")
    if not net.blocks[-1].weighs:
        raise NoRecursion(f"the network ends in {'an activation' if act else 'a norm'}")
    return net


def _known_names(net: Network) -> tuple[tuple[str, ...], str | None]:
    acts, known = net.activations, [block.tensors() for block in net.blocks]
    names = [name for name in Tensors._fields if all(name in present(act) for act in acts)]
    for block, one in zip(net.blocks, known):
        if isinstance(one, Division) or (isinstance(one, TwoMatrices) and one.norm is not None):
            what = repr(block) if isinstance(one, Division) else f"the norm of {block!r}"
            return tuple(name for name in names if name not in LACKS), f"it has no recursion through {what} yet"
        if isinstance(one, OneMatrix) and any(existence(act) != "all" for act in acts):
            reason = f"it has no recursion through kinks in a stream with {block!r} yet"
            return tuple(name for name in names if name not in LACKS), reason
    return tuple(names), None


def _centres(net: Network) -> bool:
    return any(isinstance(known := block.tensors(), Division) and known.centres for block in net.blocks)


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
