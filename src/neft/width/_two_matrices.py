"""A residual block of two matrices to order 1/width, for one input (docs/theory/blocks, eqs. 13-30 and 47).

    z' = γz + b² + W²σ(b¹ + W¹ẑ), ẑ = z or a norm of it

Tensors are n times their correlators, n the width of the stream, and r is n over the inner width.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from .._activation import Activation
from ..network import Block, Linear, Means, Stage, TwoMatrices
from ._known import stepped
from ._moments import Averages
from ._norms import Apart, Slopes, normed
from ._one_input import Scalar, Tensors, means_of


class Curvatures(NamedTuple):
    """C₁C₂⟨σσ''⟩, E₃ and E₂ of docs/theory/blocks, eqs. 16 and 23; 0 where a kink or a norm forbids them."""

    second: Scalar
    third: Scalar
    both: Scalar


def next_block(
    block: Block,
    layer: Tensors,
    r: Scalar,
    average: Callable[[Activation, Any], Averages],
    apart: Apart | None = None,
) -> tuple[Tensors, Slopes, Curvatures]:
    """The tensors after a block from those before it, both of the stream, and what they went through.

    Pure if `average` is, which gives all averages of an activation at a variance. With a norm P to U are left out.
    """
    parts = block.tensors()
    assert isinstance(parts, TwoMatrices)
    (C1, L1), (C2, L2) = first, last = parts.first, parts.last
    K, Theta, square = layer.K, layer.Theta, parts.skip * parts.skip
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
    seen_layer, slopes = layer, Slopes(1.0, 1.0, 0.0)
    if parts.norm is not None:
        seen_layer, _, slopes = normed(parts.norm, layer, apart)
    L1_all = L1 if parts.norm is None or parts.norm.gain is None else L1 + C1 * parts.norm.gain
    # How K' depends on K, Θ' on Θ and Θ' on K.
    pi, beta = C1 * C2 * p, C1 * C2 * a
    M, N = square + pi * slopes.K, square + beta * slopes.Theta
    mixed = (C1 * Gamma + C2 * L1_all * a) * slopes.K + beta * slopes.mixed
    # What two neurons have in common by being Gaussian, those of the stream and those that the first matrix sees.
    U, F, B = layer.V + 2 * K**2, layer.F + K * Theta, layer.B + Theta**2
    seen_F = seen_layer.F + seen_layer.K * seen_layer.Theta
    seen_B = seen_layer.B + seen_layer.Theta**2
    new: dict[str, Any] = {
        "K": new_K,
        "Theta": new_Theta,
        "V": M**2 * U - 2 * square**2 * K**2 + r * C2**2 * (mean.ssss - mean.ss**2),
        "D": M * (N * layer.D + mixed * U) + r * C2 * (last.theta(mean.ssss, Theta_a * mean.ssdd) - mean.ss * Omega),
        "A": N**2 * layer.A
        + 2 * N * mixed * layer.D
        + mixed**2 * U
        + r * (L2**2 * mean.ssss + 2 * L2 * C2 * Theta_a * mean.ssdd + (C2 * Theta_a) ** 2 * mean.dddd - Omega**2),
        "F": square**2 * layer.F + 2 * square * pi * slopes.K * F + pi**2 * seen_F + r * C2**2 * Theta_a * mean.ssdd,
        "B": square**2 * layer.B
        + 2 * square * beta * slopes.Theta * B
        + beta**2 * seen_B
        + r * C2**2 * Theta_a**2 * mean.dddd,
    }
    new |= _next_order(layer, seen_layer, mean, Theta_a, square, first, last)
    through = Slopes(M, N, mixed)
    if parts.norm is not None:
        return Tensors(**new), through, Curvatures(0.0, 0.0, 0.0)
    second = C1 * C2 * mean.se
    new |= {
        "P": N * (M * layer.P + second * B) + r * C2**2 * Theta_a**2 * mean.sdde,
        "Q": M * (N * layer.Q + mixed * F) + r * (L2 * C2 * Theta_a * mean.ssdd + C2**2 * Theta_a**2 * mean.sdde),
    }
    if mean.ee is None:
        return Tensors(**new), through, Curvatures(second, 0.0, 0.0)
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
    return Tensors(**new), through, Curvatures(second, third_slope, second_slope)


def _next_order(
    layer: Tensors, seen: Tensors, mean: Any, Theta_a: Scalar, square: Scalar, first: Linear, last: Linear
) -> dict[str, Scalar]:
    # `seen` is what the first matrix sees: the stream itself, or a norm of it.
    C1, L1 = first
    U, F = seen.V + 2 * seen.K**2, seen.F + seen.K * seen.Theta
    X_ss = C1 * seen.K1 * mean.g + C1**2 * U / 2 * mean.ss2
    X_dd = C1 * seen.K1 * mean.m + C1**2 * U / 2 * mean.a2
    slopes = Theta_a * X_dd + mean.m * (C1 * L1 * U + C1**2 * (seen.D + 2 * F))
    slopes = slopes + mean.a * first.theta(seen.K1, seen.Theta1)
    return {"K1": square * layer.K1 + last.variance * X_ss, "Theta1": square * layer.Theta1 + last.theta(X_ss, slopes)}
