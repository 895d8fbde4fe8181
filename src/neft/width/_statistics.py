"""Statistics of an ensemble of networks in powers of 1/width, layer by layer."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._activation import Activation
from .._of_own import own_moments
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from .._show import brief
from ..network import MLP, Chain, Network, Nonlinearity
from ..network.engine import plain
from . import _many_inputs
from ._known_tensors import NoRecursion, known_names, known_of, refuse_several
from ._many_blocks import through_many
from ._moments import averages
from ._one_input import Tensors, first_layer, next_layer, present, through
from ._through_blocks import through_blocks

MOST_INPUTS = 32
"""Different inputs whose tensors are computed; N⁴ of them is more than anybody waits for."""

_SECONDS = 0.0025  # for each of the N⁴ entries of a layer: 31 s of CPU for 8 inputs and 3 layers
_OWN = 1e-11  # tolerance of the averages of a user's own function over one input
NAMES = Tensors._fields


def lacking(reason: str | None) -> str:
    """What is to be said of a tensor that is null for this reason: that it does not exist, or that it is not known."""
    return "does not exist" if reason is not None and "jumps" in reason else "is not known"


class AbsentTensor(AttributeError, ValueError):
    """A tensor was asked for that does not exist for this activation or network, or was not computed; it says which."""


@result
class Statistics(Result):
    """The tensors of every layer, as attributes K, Theta, V, A, B, D, F, P, Q, R, S, T, U, K1, Theta1.

    Each is a NumPy float64 array, and `stats.V[l-1]` is layer l. For one input its shape is (L,); for N inputs K,
    Theta, K1 and Theta1 are (L, N, N) and the others (L, N, N, N, N), axes in the order of subscripts of
    docs/theory/width, eqs. 39-44: F_1324 is F[l-1, 1, 3, 2, 4]. A tensor at layer l is n_{l-1} times its correlator
    (docs/theory/width, eqs. 11-18): E[zz] = K + K1/n, the connected four-point function is V/n, and so on. One that a
    kink forbids, or that is not known through a block, raises `AbsentTensor` when asked for and is null in a file; so
    does one that `only` left out, which is in no file.
    """

    tensors: dict[str, Float[np.ndarray, "layers *samples"] | None]
    widths: tuple[int, ...]
    activation: str
    reason: str | None
    made: Made

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in NAMES:
            raise AttributeError(f"Statistics has no attribute {name!r}.")
        if name not in self.tensors:
            raise AbsentTensor(f"{name} was not computed: only {', '.join(self.tensors)} were asked for.")
        value = self.tensors[name]
        if value is None:
            raise AbsentTensor(f"{name} {self.lacking} for {self.activation or self.widths}: {self.reason}.")
        return value

    @property
    def lacking(self) -> str:
        """What is to be said of a tensor that is null: that it does not exist, or that it is not known."""
        return lacking(self.reason)

    def _shown(self):
        yield "widths", repr(self.widths)
        yield "activation", repr(self.activation)
        for name, value in self.tensors.items():
            if value is None:
                yield name, self.lacking
            elif value.ndim == 1:
                yield name, brief(value)
            else:
                ends = f"of the output layer between {value[-1].min():.4g} and {value[-1].max():.4g}"
                yield name, f"{value.shape}, {ends}"


@public
@float64
def statistics(net: Network, x: Any, *, only: Sequence[str] | None = None, rtol: float = 1e-7) -> Statistics:
    """The statistics of an ensemble of networks at initialization, to leading order in 1/width, means to the next one.

    Repeated and collinear inputs are ordinary: K is never inverted.

    Args:
        net: the specification; widths and hyperparameters may differ from layer to layer.
        x: one input of shape (n_0,), or several of shape (N, n_0).
        only: names such as ("V", "B"): these are computed, and what they need, instead of all.
        rtol: for several inputs, the tolerance of the averages over up to four of them, relative to the largest entry
            of each kind; an `AccuracyWarning` says when it is missed.

    >>> stats = statistics(MLP(widths=(3, 8, 12, 2), activation="relu", C_W=2.0), [1.0, 1.0, 1.0])
    >>> [round(float(K), 6) for K in stats.K]
    [2.0, 2.0, 2.0]
    >>> statistics(MLP(widths=(2, 8, 1), activation="erf"), [[1.0, 0.0], [0.0, 1.0]], only=("V",)).V.shape
    (2, 2, 2, 2, 2)
    """
    net.refuse_positions("statistics", AbsentTensor)
    x = _check.array("x", x)
    if x.ndim not in (1, 2) or x.shape[-1] != net.inputs or not len(x):
        raise ValueError(
            f"x has shape {x.shape}, but must be ({net.inputs},) for one input or (N, {net.inputs}) for several."
        )
    asked = named("only", only)
    _check.real("rtol", rtol, above=0.0)
    chain = plain(net)
    if chain is None:
        return _leading(net, x, asked, only, rtol)
    net, exist = chain, present(chain.activation)
    if x.ndim == 2 and asked & set(exist) - {"K", "Theta"}:
        _refuse_too_many(len(np.unique(x, axis=0)))
    found = _of_one_input(net, x) if x.ndim == 1 else _of_many_inputs(net, x, asked & set(exist), rtol)
    return Statistics(
        tensors={name: found.get(name) for name in NAMES if name in asked},
        widths=net.widths,
        activation=net.activation.name,
        reason=_reason((net.activation,)),
        made=Made.by(
            "neft.width.statistics",
            specification={"net": net, "x": x} | ({} if only is None else {"only": sorted(asked)}),
            tolerances={"rtol": rtol},
        ),
    )


def _leading(net: Network, x: np.ndarray, asked: frozenset[str], only: Any, rtol: float) -> Statistics:
    # K and Θ, which every block has, and the other tensors where all blocks have recursions.
    jumps = [act.name for act in net.activations if any(kink.order == 0 for kink in act.kinks)]
    # One input has programs of its own but for chains of blocks, whose past is kept in another form.
    several = x.ndim == 2 or any(isinstance(known, Chain) for known in known_of(net))
    shaped: dict[str, np.ndarray | None] = _alone(net, x, jumps) if several else {}
    reason = f"{jumps[0]} itself jumps" if jumps else None
    if not jumps and asked - {"K", "Theta"}:
        try:
            more, why = _of_many_in_blocks(net, x, asked, rtol) if several else _of_one_in_blocks(net, x)
            # For several inputs those of the recursion have the more digits.
            shaped |= more
            reason = why or _reason(net.activations)
        except NoRecursion as none:
            reason = str(none)
    if not several and not _served(shaped.get("K"), net.activations):
        shaped |= _alone(net, x, jumps)
    _check_finite(shaped)
    return Statistics(
        tensors={name: shaped.get(name) for name in NAMES if name in asked},
        widths=net.widths,
        activation=", ".join(act.name for act in net.activations),
        reason=reason,
        made=Made.by(
            "neft.width.statistics",
            specification={"net": net, "x": x} | ({} if only is None else {"only": sorted(asked)}),
            tolerances={"rtol": rtol},
        ),
    )


def _alone(net: Network, x: np.ndarray, jumps: Sequence[str]) -> dict[str, np.ndarray | None]:
    # K and Θ, by averages that refine themselves.
    K, Theta = net.infinite_width(np.atleast_2d(x), slopes=not jumps)
    found = {"K": K, "Theta": None if jumps else Theta}
    return {name: value if value is None or x.ndim == 2 else value[:, 0, 0] for name, value in found.items()}


def _served(K: np.ndarray | None, acts: Sequence[Activation]) -> bool:
    # Whether the panels of the recursion, made for named activations, serve these variances.
    return K is not None and all(act.named for act in acts) and bool((K > 1e-6).all() and (K < 1e3).all())


def _of_one_in_blocks(net: Network, x: np.ndarray) -> tuple[dict[str, np.ndarray], str | None]:
    names, layers, why = through_blocks(net, x)
    return {name: np.array([float(getattr(layer, name)) for layer in layers]) for name in names}, why


def _of_many_in_blocks(
    net: Network, x: np.ndarray, asked: frozenset[str], rtol: float
) -> tuple[dict[str, np.ndarray], str | None]:
    refuse_several(net)
    names, why = known_names(net)
    distinct, where = np.unique(np.atleast_2d(x), axis=0, return_inverse=True)
    _refuse_too_many(len(distinct))
    _refuse_too_deep(net, len(distinct))
    wanted = _many_inputs.closure(asked & set(names))
    layers = through_many(net, distinct, wanted, rtol=rtol)
    found = _stacked(layers, asked & set(names), where)
    return found if x.ndim == 2 else {name: value.reshape(len(value)) for name, value in found.items()}, why


def _refuse_too_deep(net: Network, count: int) -> None:
    # With an activation at their start branches are taken in pairs, and over the inputs at both ends.
    pairs = _pairs(net)
    hours = pairs * (2 * count) ** 4 * _SECONDS / 3600
    if hours > max(1, net.depth) * MOST_INPUTS**4 * _SECONDS / 3600:
        raise ValueError(
            f"x holds {count} different inputs and the network {pairs} pairs of residual blocks that begin with an "
            f"activation, whose averages over four inputs take about {hours:.0f} hours: fewer inputs or blocks, or "
            'only=("K", "Theta"), take less.'
        )


def _pairs(net: Network) -> int:
    pairs, open_ = 0, 0
    for block, act in zip(net.blocks, (None, *net.blocks)):
        if (chain := block.chain()) is not None:
            pairs += open_ if chain.steps[0].activation is not None else 0
            open_ += chain.steps[0].activation is not None
        elif block.weighs:
            pairs, open_ = pairs + (open_ if isinstance(act, Nonlinearity) else 0), 0
    return pairs


def _refuse_too_many(count: int) -> None:
    if count > MOST_INPUTS:
        hours = count**4 * _SECONDS / 3600
        raise ValueError(
            f"x holds {count} different inputs, whose tensors take about {hours:.0f} hours a layer, but must hold at "
            f'most {MOST_INPUTS}; only=("K", "Theta") takes more.'
        )


def named(argument: str, names: Any) -> frozenset[str]:
    """Names of tensors, all by default."""
    if names is None:
        return frozenset(NAMES)
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if not isinstance(name, str) or name not in NAMES:
            raise ValueError(f"{argument} holds {_check.brief(name)}, but must hold names out of {', '.join(NAMES)}.")
    if not names:
        raise ValueError(f"{argument} is empty, but must hold names out of {', '.join(NAMES)}.")
    return frozenset(names)


def _of_one_input(net: MLP, x: np.ndarray) -> dict[str, np.ndarray | None]:
    q = float(x @ x / net.widths[0])
    if not net.activation.named:
        return _of_own_function(net, q)
    tensors = _compiled(net.activation)(jnp.asarray(q), jnp.asarray(ratios(net)), net.stacked)
    found = {name: None if value is None else np.asarray(value) for name, value in zip(NAMES, tensors)}
    check_flow(found)
    return found


def _of_own_function(net: MLP, q: float) -> dict[str, np.ndarray | None]:
    # A layer at a time, with averages that refine themselves: what the function needs is not known beforehand.
    act, steps = net.activation, [0.0, *ratios(net)[1:]]
    moments = functools.partial(own_moments, rtol=_OWN, what=f"an average of {act.name}")
    layers = [first_layer(act, np.asarray(q), net.dense[0])]
    for l in range(1, net.depth):
        _check_variance(l, float(layers[-1].K), last=False)
        mean = averages(act, layers[-1].K, moments)
        layers.append(next_layer(act, layers[-1], steps[l - 1], net.dense[l], mean))
    found = {
        name: None if getattr(layers[0], name) is None else np.array([float(getattr(one, name)) for one in layers])
        for name in NAMES
    }
    check_flow(found)
    return found


def _of_many_inputs(net: MLP, x: np.ndarray, asked: frozenset[str], rtol: float) -> dict[str, np.ndarray | None]:
    # A repeated input is computed once: its tensors are those of the first.
    distinct, where = np.unique(x, axis=0, return_inverse=True)
    wanted = _many_inputs.closure(asked)
    dense, steps = net.dense, [0.0, *ratios(net)[1:]]
    layers = [_many_inputs.first_layer(distinct @ distinct.T / net.inputs, dense[0], wanted)]
    for l in range(1, net.depth):
        check_layer(l, np.diagonal(layers[-1].K))
        layers.append(_many_inputs.next_layer(net.activation, layers[-1], steps[l - 1], dense[l], wanted, rtol=rtol))
    found: dict[str, np.ndarray | None] = {**_stacked(layers, asked, where)}
    _check_finite(found)
    return found


def _stacked(layers: Sequence[Tensors], names: frozenset[str], where: np.ndarray) -> dict[str, np.ndarray]:
    # Of different inputs to all of them.
    found = {}
    for name in names:
        value = np.stack([getattr(layer, name) for layer in layers])
        for axis in range(1, value.ndim):
            value = np.take(value, where.ravel(), axis=axis)
        found[name] = value
    return found


def ratios(net: MLP) -> np.ndarray:
    """n_l / n_{l-1} of the hidden layers."""
    return np.array(net.widths[1:-1], float) / np.array(net.widths[:-2], float)


@functools.lru_cache(maxsize=64)
def _compiled(act: Activation):
    # One program per activation and depth: hyperparameters and the input are arguments of it.
    return jax.jit(functools.partial(through, act))


def _reason(acts: Sequence[Activation]) -> str | None:
    kinks = [kink for act in acts for kink in act.kinks if kink.order < 2]
    if not kinks:
        return None
    kink = min(kinks, key=lambda k: k.order)
    what = "its derivatives hold deltas" if kink.order == 0 else "it holds the square of a delta"
    return f"derivative {kink.order} of the activation jumps at {kink.position:g}, so {what}"


def check_flow(found: dict[str, np.ndarray | None]) -> None:
    """Refuse tensors that overflow or die on the way, and say at which layer."""
    K = found["K"]
    assert K is not None
    for l, value in enumerate(K, start=1):
        _check_variance(l, float(value), last=l == len(K))
    _check_finite(found)


def check_layer(l: int, variances: np.ndarray) -> None:
    """Refuse a hidden layer whose K overflows or dies for one of several inputs."""
    for variance in variances:
        _check_variance(l, float(variance), last=False)


def _check_variance(l: int, K: float, *, last: bool) -> None:
    if not np.isfinite(K) or K > 1e150:
        raise ValueError(f"K overflows at layer {l}, so nothing beyond it is defined: lower C_W or C_b, or the depth.")
    # Derivatives in K divide by its third power.
    if K < 1e-100 and not last:
        raise ValueError(f"K is {K:.3g} at layer {l}: the signal dies, and nothing beyond it is defined.")


def _check_finite(found: dict[str, np.ndarray | None]) -> None:
    for name, values in found.items():
        if values is not None and not np.isfinite(values).all():
            l = int(np.argmax(~np.isfinite(values).reshape(len(values), -1).all(axis=1))) + 1
            raise ValueError(f"{name} is not finite at layer {l}, so nothing beyond it is defined.")
