"""The recursion of the width expansion for one input (docs/theory/width, eqs. 20-38).

Every line is a source term plus r times a transport term, in the letters of those equations; r = n_l/n_{l-1}, and r = 0
in the step from the first layer to the second.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._activation import Activation
from .._promote import floating
from .._public import public
from ..network import Block, Dense, Linear, Means, Nonlinearity, Stage
from ._known import no_average, stepped
from ._moments import Averages, averages, existence

Scalar = Any  # a number, or an array without axes that may be traced


class Tensors(NamedTuple):
    """The tensors of a layer, each n_{l-1} times its correlator. None where a kink forbids one."""

    K: Any
    Theta: Any = None
    V: Any = None
    A: Any = None
    B: Any = None
    D: Any = None
    F: Any = None
    P: Any = None
    Q: Any = None
    R: Any = None
    S: Any = None
    T: Any = None
    U: Any = None
    K1: Any = None
    Theta1: Any = None


class Rates(NamedTuple):
    """C_b, C_W, λ_b, λ_W of one layer, or arrays with one entry per layer."""

    C_b: Any
    C_W: Any
    lambda_b: Any
    lambda_W: Any


def present(act: Activation) -> tuple[str, ...]:
    """The tensors that exist for an activation (docs/theory/width, section Kinks)."""
    exists = existence(act)
    if exists == "no derivative":
        return ("K", "V", "K1")
    return tuple(name for name in Tensors._fields if exists == "all" or name not in "RSTU")


def first_layer(act: Activation, q: Scalar, block: Block) -> Tensors:
    """Layer 1 for an input of mean square q = |x|²/n_0: K and Θ, every other tensor 0."""
    K, Theta = stepped((block,), Stage.itself(q, 0 * q, kind="input"), no_average)
    values = dict.fromkeys(present(act), jnp.zeros_like(K)) | {"K": K}
    if "Theta" in values:
        values["Theta"] = Theta
    return Tensors(**values)


def means_of(mean: Averages) -> Means:
    """What the step of K and Θ wants of the averages of one input; where σ jumps Θ is nothing."""
    slope = 0 * mean.ss if mean.a is None else mean.a
    return Means(mean.ss, mean.ss, mean.ss, slope, 0 * mean.ss)


def next_layer(act: Activation, layer: Tensors, r: Scalar, block: Block, mean: Averages | None = None) -> Tensors:
    """The tensors of layer l+1, those after the block, from those of layer l.

    Pure. The averages of layer l may be given.
    """
    mean = averages(act, layer.K) if mean is None else mean
    linear = block.tensors()
    assert isinstance(linear, Linear)
    C_W, smooth, means = linear.variance, existence(act) != "no derivative", means_of(mean)
    stage = Stage.itself(layer.K, layer.Theta if smooth else 0 * layer.K)
    K, Theta = stepped((Nonlinearity(act), block), stage, lambda *_: means)
    V = C_W**2 * (mean.ssss - mean.ss**2) + r * C_W**2 * layer.V * mean.g**2
    if not smooth:
        return Tensors(K=K, V=V, K1=r * C_W * _X_ss(layer, mean))
    new = {"K": K, "Theta": Theta, "V": V}
    for part in (_kernels, _next_order, _differentials):
        new |= part(layer, mean, r, linear)
    return Tensors(**new)


def _kernels(layer: Tensors, mean: Averages, r: Scalar, linear: Linear) -> dict[str, Scalar]:
    C_W, lambda_W = linear
    Theta, V, A, B, D, F = layer.Theta, layer.V, layer.A, layer.B, layer.D, layer.F
    a, g, p = mean.a, mean.g, mean.g
    # Ω = λ_W s² + C_W Θ s'², so its averages are those of s and s'.
    Omega = linear.theta(mean.ss, Theta * a)
    Omega_ss = linear.theta(mean.ssss, Theta * mean.ssdd)
    Omega_Omega = lambda_W * Omega_ss + C_W * Theta * linear.theta(mean.ssdd, Theta * mean.dddd)
    g_Omega = linear.theta(g, Theta * mean.m)
    return {
        "D": C_W * (Omega_ss - Omega * mean.ss) + r * (C_W * V * g * g_Omega + C_W**2 * D * a * g),
        "A": Omega_Omega - Omega**2 + r * (V * g_Omega**2 + 2 * C_W * D * a * g_Omega + C_W**2 * A * a**2),
        "F": C_W**2 * Theta * mean.ssdd + r * C_W**2 * F * p**2,
        "B": C_W**2 * Theta**2 * mean.dddd + r * C_W**2 * B * a**2,
    }


def _differentials(layer: Tensors, mean: Averages, r: Scalar, linear: Linear) -> dict[str, Scalar]:
    C_W, lambda_W = linear
    Theta, B, F, P, Q = layer.Theta, layer.B, layer.F, layer.P, layer.Q
    a, p, m = mean.a, mean.g, mean.m
    Gamma = linear.theta(p, Theta * m)
    # P' and B' without their factor C_W², because R' and S' want λ_W/C_W times them, also at C_W = 0.
    P_bare = Theta**2 * mean.sdde + r * a * (B * mean.se + P * p)
    B_bare = Theta**2 * mean.dddd + r * B * a**2
    new = {
        "P": C_W**2 * P_bare,
        "Q": lambda_W * C_W * Theta * mean.ssdd
        + C_W**2 * Theta**2 * mean.sdde
        + r * (C_W * F * p * Gamma + C_W**2 * Q * a * p),
    }
    if mean.ee is None:
        return new
    R, S, T, U = layer.R, layer.S, layer.T, layer.U
    source = C_W**2 * Theta**3 * mean.ddee
    return new | {
        "R": C_W**2 * Theta**3 * mean.dddt
        + lambda_W * C_W * P_bare
        + r * C_W**2 * a * (Theta * B * mean.dt + Theta * P * m + R * a),
        "S": source + lambda_W * C_W * B_bare + r * C_W**2 * a * (Theta * B * mean.ee + S * a),
        "T": source
        + 2 * lambda_W * C_W * Theta**2 * mean.sdde
        + lambda_W**2 * Theta * mean.ssdd
        + r * (F * Gamma**2 + 2 * C_W * a * Q * Gamma + C_W**2 * T * a**2),
        "U": source + r * C_W**2 * U * a**2,
    }


def _X_ss(layer: Tensors, mean: Averages) -> Scalar:
    """The change of ⟨s²⟩ by the 1/n cumulants of the layer before (docs/theory/width, eq. 62)."""
    return layer.K1 * mean.g + layer.V / 2 * mean.ss2


def _next_order(layer: Tensors, mean: Averages, r: Scalar, linear: Linear) -> dict[str, Scalar]:
    X_ss = _X_ss(layer, mean)
    X_dd = layer.K1 * mean.m + layer.V / 2 * mean.a2
    mixed = layer.Theta * X_dd + (layer.D + 2 * layer.F) * mean.m + layer.Theta1 * mean.a
    return {"K1": r * linear.variance * X_ss, "Theta1": r * linear.theta(X_ss, mixed)}


@public
def flow(activation: Activation, q: Scalar, ratios: Float[Array, " steps"], rates: Rates) -> Tensors:
    """The tensors of all layers, each of shape (L,): a pure function of q and the hyperparameters.

    Args:
        activation: the activation itself, not its name.
        q: |x|²/n_0.
        ratios: n_l/n_{l-1} for the steps from layer l = 1..L-1 to l+1; the first one counts as 0.
        rates: arrays with one entry per layer.
    """
    q, ratios = floating("q", q), floating("ratios", ratios)
    rates = Rates(*(floating(f"{name} of rates", value) for name, value in rates._asdict().items()))
    if q.ndim or ratios.ndim != 1 or any(value.shape != (len(ratios) + 1,) for value in rates):
        shapes = ", ".join(str(value.shape) for value in rates)
        raise ValueError(
            f"q, ratios and rates have shapes {q.shape}, {ratios.shape} and {shapes}, but must have (), (L - 1,) and "
            "(L,) each."
        )
    return through(activation, q, ratios, jax.vmap(lambda *values: Dense(1, **Rates(*values)._asdict()))(*rates))


def through(act: Activation, q: Scalar, ratios: Float[Array, " steps"], blocks: Dense) -> Tensors:
    """What `flow` gives, for dense blocks in one, whose hyperparameters have one entry for each layer."""
    layer = first_layer(act, q, jax.tree.map(lambda values: values[0], blocks))
    ratios = ratios.at[:1].set(0.0)

    def step(layer, inputs):
        r, block = inputs
        new = next_layer(act, layer, r, block)
        return new, new

    later = lax.scan(step, layer, (ratios, jax.tree.map(lambda values: values[1:], blocks)))[1]
    return Tensors(
        *(None if first is None else jnp.concatenate([first[None], rest]) for first, rest in zip(layer, later))
    )
