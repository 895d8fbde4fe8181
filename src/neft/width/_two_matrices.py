"""A residual block of two matrices to order 1/width, for one input (docs/theory/blocks, eqs. 13-30).

    z' = γz + b² + W²σ(b¹ + W¹z)

Tensors are n times their correlators, n the width of the stream, and r is n over the inner width.
"""

from collections.abc import Callable
from typing import Any

from .._activation import Activation
from ..network import Block, Linear, Means, Stage, TwoMatrices
from ._known import stepped
from ._moments import Averages
from ._one_input import Scalar, Tensors, means_of


def next_block(block: Block, layer: Tensors, n: int, average: Callable[[Activation, Any], Averages]) -> Tensors:
    """The tensors after a block from those before it, both of the stream of width n.

    Pure if `average` is, which gives all averages of an activation at a variance.
    """
    parts = block.tensors()
    assert isinstance(parts, TwoMatrices)
    (C1, L1), (C2, L2) = first, last = parts.first, parts.last
    K, Theta, square, r = layer.K, layer.Theta, parts.skip * parts.skip, n / parts.width
    seen: list[tuple[Stage, Averages]] = []

    def take(act: Activation, stage: Stage) -> Means:
        seen.append((stage, average(act, stage.c)))
        return means_of(seen[-1][1])

    new_K, new_Theta = stepped((block,), Stage.itself(K, Theta), take)
    [(inner, mean)] = seen
    Theta_a = inner.Theta
    a, p, m = mean.a, mean.g, mean.m
    Omega = last.theta(mean.ss, Theta_a * a)
    Gamma = last.theta(p, Theta_a * m)
    # How K' depends on K, Θ' on Θ and Θ' on K.
    M, N, mixed = square + C1 * C2 * p, square + C1 * C2 * a, C1 * Gamma + C2 * L1 * a
    # What two neurons of the stream have in common by being Gaussian.
    U, F, B = layer.V + 2 * K**2, layer.F + K * Theta, layer.B + Theta**2
    new: dict[str, Any] = {
        "K": new_K,
        "Theta": new_Theta,
        "V": M**2 * U - 2 * square**2 * K**2 + r * C2**2 * (mean.ssss - mean.ss**2),
        "D": M * (N * layer.D + mixed * U) + r * C2 * (last.theta(mean.ssss, Theta_a * mean.ssdd) - mean.ss * Omega),
        "A": N**2 * layer.A
        + 2 * N * mixed * layer.D
        + mixed**2 * U
        + r * (L2**2 * mean.ssss + 2 * L2 * C2 * Theta_a * mean.ssdd + (C2 * Theta_a) ** 2 * mean.dddd - Omega**2),
        "F": M**2 * F - square**2 * K * Theta + r * C2**2 * Theta_a * mean.ssdd,
        "B": N**2 * B - square**2 * Theta**2 + r * C2**2 * Theta_a**2 * mean.dddd,
        "P": N * (M * layer.P + C1 * C2 * mean.se * B) + r * C2**2 * Theta_a**2 * mean.sdde,
        "Q": M * (N * layer.Q + mixed * F) + r * (L2 * C2 * Theta_a * mean.ssdd + C2**2 * Theta_a**2 * mean.sdde),
    }
    new |= _next_order(layer, mean, Theta_a, U, F, square, first, last)
    if mean.ee is None:
        return Tensors(**new)
    second_slope = (C1 * L2 + C2 * L1) * a + C1 * C2 * Theta_a * mean.ee
    third_slope = C1 * (C2 * Theta_a * mean.dt + L2 * mean.se)
    source = C2**2 * Theta_a**3 * mean.ddee
    new |= {
        "R": N * (N * layer.R + mixed * layer.P + third_slope * B)
        + r * (C2**2 * Theta_a**3 * mean.dddt + L2 * C2 * Theta_a**2 * mean.sdde),
        "S": N * (N * layer.S + second_slope * B) + r * (source + L2 * C2 * Theta_a**2 * mean.dddd),
        "T": N**2 * layer.T
        + 2 * N * mixed * layer.Q
        + mixed**2 * F
        + r * (source + 2 * L2 * C2 * Theta_a**2 * mean.sdde + L2**2 * Theta_a * mean.ssdd),
        "U": N**2 * layer.U + r * source,
    }
    return Tensors(**new)


def _next_order(
    layer: Tensors, mean: Any, Theta_a: Scalar, U: Scalar, F: Scalar, square: Scalar, first: Linear, last: Linear
) -> dict[str, Scalar]:
    C1, L1 = first
    X_ss = C1 * layer.K1 * mean.g + C1**2 * U / 2 * mean.ss2
    X_dd = C1 * layer.K1 * mean.m + C1**2 * U / 2 * mean.a2
    slopes = Theta_a * X_dd + mean.m * (C1 * L1 * U + C1**2 * (layer.D + 2 * F))
    slopes = slopes + mean.a * first.theta(layer.K1, layer.Theta1)
    return {"K1": square * layer.K1 + last.variance * X_ss, "Theta1": square * layer.Theta1 + last.theta(X_ss, slopes)}
