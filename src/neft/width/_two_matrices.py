"""A residual block of two matrices to order 1/width, for one input (docs/theory/blocks, eqs. 13-30).

    z' = γz + b² + W²σ(b¹ + W¹z)

Tensors are n times their correlators, n the width of the stream, and r is n over the inner width.
"""

from collections.abc import Callable
from typing import Any

from .._activation import Activation
from ._moments import Averages, averages
from ._one_input import Rates, Scalar, Tensors


def next_block(
    act: Activation,
    layer: Tensors,
    r: Scalar,
    skip: Scalar,
    first: Rates,
    second: Rates,
    average: Callable[[Any], Averages] | None = None,
) -> Tensors:
    """The tensors after a block from those before it, both of the stream.

    Pure. How averages at a variance are taken may be given.
    """
    _, C1, _, L1 = first
    c2, C2, l2, L2 = second
    K, Theta, square = layer.K, layer.Theta, skip * skip
    K_a = first.C_b + C1 * K
    Theta_a = first.lambda_b + L1 * K + C1 * Theta
    mean = averages(act, K_a) if average is None else average(K_a)
    a, p, m = mean.a, mean.g, mean.m
    Omega = L2 * mean.ss + C2 * Theta_a * a
    Gamma = L2 * p + C2 * Theta_a * m
    # How K' depends on K, Θ' on Θ and Θ' on K.
    M, N, mixed = square + C1 * C2 * p, square + C1 * C2 * a, C1 * Gamma + C2 * L1 * a
    # What two neurons of the stream have in common by being Gaussian.
    U, F, B = layer.V + 2 * K**2, layer.F + K * Theta, layer.B + Theta**2
    new: dict[str, Any] = {
        "K": square * K + c2 + C2 * mean.ss,
        "Theta": square * Theta + l2 + Omega,
        "V": M**2 * U - 2 * square**2 * K**2 + r * C2**2 * (mean.ssss - mean.ss**2),
        "D": M * (N * layer.D + mixed * U) + r * C2 * (L2 * mean.ssss + C2 * Theta_a * mean.ssdd - mean.ss * Omega),
        "A": N**2 * layer.A
        + 2 * N * mixed * layer.D
        + mixed**2 * U
        + r * (L2**2 * mean.ssss + 2 * L2 * C2 * Theta_a * mean.ssdd + (C2 * Theta_a) ** 2 * mean.dddd - Omega**2),
        "F": M**2 * F - square**2 * K * Theta + r * C2**2 * Theta_a * mean.ssdd,
        "B": N**2 * B - square**2 * Theta**2 + r * C2**2 * Theta_a**2 * mean.dddd,
        "P": N * (M * layer.P + C1 * C2 * mean.se * B) + r * C2**2 * Theta_a**2 * mean.sdde,
        "Q": M * (N * layer.Q + mixed * F) + r * (L2 * C2 * Theta_a * mean.ssdd + C2**2 * Theta_a**2 * mean.sdde),
    }
    new |= _next_order(layer, mean, Theta_a, U, F, square, first, second)
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
    layer: Tensors, mean: Any, Theta_a: Scalar, U: Scalar, F: Scalar, square: Scalar, first: Rates, second: Rates
) -> dict[str, Scalar]:
    _, C1, _, L1 = first
    _, C2, _, L2 = second
    X_ss = C1 * layer.K1 * mean.g + C1**2 * U / 2 * mean.ss2
    X_dd = C1 * layer.K1 * mean.m + C1**2 * U / 2 * mean.a2
    slopes = Theta_a * X_dd + mean.m * (C1 * L1 * U + C1**2 * (layer.D + 2 * F))
    slopes = slopes + mean.a * (L1 * layer.K1 + C1 * layer.Theta1)
    return {"K1": square * layer.K1 + C2 * X_ss, "Theta1": square * layer.Theta1 + L2 * X_ss + C2 * slopes}
