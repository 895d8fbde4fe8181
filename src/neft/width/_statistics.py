"""Statistics of an ensemble of networks in powers of 1/width, layer by layer."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._activation import Activation
from .._network import MLP
from .._precision import float64
from .._result import Made, Result, result
from ._one_input import Rates, Tensors, flow, present

NAMES = Tensors._fields


class AbsentTensor(AttributeError, ValueError):
    """A tensor was asked for that does not exist for this activation; the message says why."""


@result
class Statistics(Result):
    """The tensors of every layer, as attributes K, Theta, V, A, B, D, F, P, Q, R, S, T, U, K1, Theta1.

    Each is a NumPy float64 array of shape (L,), and `stats.V[l-1]` is layer l. A tensor at layer l is n_{l-1} times its
    correlator (theory.md 2): E[zz] = K + K1/n, the connected four-point function is V/n, and so on. One that a kink
    forbids raises `AbsentTensor` when asked for and is null in a file.
    """

    tensors: dict[str, Float[np.ndarray, " layers"] | None]
    widths: tuple[int, ...]
    activation: str
    reason: str | None
    made: Made

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in NAMES:
            raise AttributeError(f"Statistics has no attribute {name!r}.")
        value = self.tensors[name]
        if value is None:
            raise AbsentTensor(f"{name} does not exist for {self.activation}: {self.reason}.")
        return value

    def _shown(self):
        yield "widths", repr(self.widths)
        yield "activation", repr(self.activation)
        for name in NAMES:
            value = self.tensors[name]
            text = (
                "does not exist" if value is None else np.array2string(value, precision=5, separator=", ", threshold=12)
            )
            yield name, text


@float64
def statistics(net: MLP, x: Any) -> Statistics:
    """The statistics of an ensemble of networks at initialization, to leading order in 1/width, means to the next one.

    Args:
        net: the specification; widths and hyperparameters may differ from layer to layer.
        x: one input of shape (n_0,).

    >>> stats = statistics(MLP(widths=(3, 8, 12, 2), activation="relu", C_W=2.0), [1.0, 1.0, 1.0])
    >>> [round(float(K), 6) for K in stats.K]
    [2.0, 2.0, 2.0]
    """
    x = _check.array("x", x, shape=(net.widths[0],))
    q = float(x @ x / net.widths[0])
    ratios = np.array(net.widths[1:-1], float) / np.array(net.widths[:-2], float)
    rates = Rates(*(np.array(values) for values in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)))
    tensors = Tensors(*_compiled(net.activation)(q, jnp.asarray(ratios), Rates(*map(jnp.asarray, rates))))
    found = {name: None if value is None else np.asarray(value) for name, value in zip(NAMES, tensors)}
    check_flow(found)
    absent = set(NAMES) - set(present(net.activation))
    return Statistics(
        tensors=found,
        widths=net.widths,
        activation=net.activation.name,
        reason=_reason(net.activation) if absent else None,
        made=Made.by("neft.width.statistics", specification={"net": net.to_dict(), "x": x}),
    )


@functools.lru_cache(maxsize=64)
def _compiled(act: Activation):
    # One program per activation and depth: hyperparameters and the input are arguments of it.
    return jax.jit(functools.partial(flow, act))


def _reason(act: Activation) -> str:
    kink = min(act.kinks, key=lambda k: k.order)
    what = "its derivatives hold deltas" if kink.order == 0 else "it holds the square of a delta"
    return f"derivative {kink.order} of the activation jumps at {kink.position:g}, so {what}"


def check_flow(found: dict[str, np.ndarray | None]) -> None:
    """Refuse tensors that overflow or die on the way, and say at which layer."""
    K = found["K"]
    assert K is not None
    for l, value in enumerate(K, start=1):
        if not np.isfinite(value) or value > 1e150:
            raise ValueError(
                f"K overflows at layer {l}, so nothing beyond it is defined: lower C_W or C_b, or the depth."
            )
        # Derivatives in K divide by its third power.
        if value < 1e-100 and l < len(K):
            raise ValueError(f"K is {value:.3g} at layer {l}: the signal dies, and nothing beyond it is defined.")
    for name, values in found.items():
        if values is not None and not np.isfinite(values).all():
            l = int(np.argmax(~np.isfinite(values))) + 1
            raise ValueError(f"{name} is not finite at layer {l}, so nothing beyond it is defined.")
