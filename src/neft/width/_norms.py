"""A norm to order 1/width, for one input (docs/theory/blocks, eqs. 38-48).

    ẑ = z/√(|z|²/n + ε), of z without its mean where the norm centres

Tensors are n times their correlators, n the width of the stage.
"""

from typing import Any, NamedTuple

from ..network import Division
from ._one_input import Scalar, Tensors

LACKS = ("P", "Q", "R", "S", "T", "U")
"""The tensors that have no recursion through norms."""


class Apart(NamedTuple):
    """n times the means of z_i z_j and of H_ij of two different neurons, which are 0 but for norms that centre."""

    z: Scalar
    H: Scalar


class Slopes(NamedTuple):
    """How the new K depends on the old one, the new Θ on the old one, and the new Θ on the old K."""

    K: Scalar
    Theta: Scalar
    mixed: Scalar


def normed(norm: Division, layer: Tensors, apart: Apart | None) -> tuple[Tensors, Apart | None, Slopes]:
    """The tensors after a norm from those before it. With a trained gain they are what a linear block sees of them."""
    K, Theta, K1, Theta1 = layer.K, layer.Theta, layer.K1, layer.Theta1
    if norm.centres:
        # What the mean over entries takes away (docs/theory/blocks, eq. 45).
        K1, Theta1 = K1 - K - (0 if apart is None else apart.z), Theta1 - Theta - (0 if apart is None else apart.H)
    over = 1 / (K + norm.epsilon)
    slopes = Slopes(norm.epsilon * over**2, over, -Theta * over**2)
    M, N, mixed = slopes
    U, F = layer.V + 2 * K**2, layer.F + K * Theta
    new_K, new_Theta, new_U = K * over, Theta * over, M**2 * U
    new = {
        "K": new_K,
        "Theta": new_Theta,
        "V": new_U - 2 * new_K**2,
        "D": M * (N * layer.D + mixed * U),
        "A": N**2 * layer.A + 2 * N * mixed * layer.D + mixed**2 * U,
        "F": M**2 * F - new_K * new_Theta,
        "B": N**2 * layer.B,
        "K1": M * K1 - M * over * U,
        "Theta1": N * Theta1 + mixed * K1 - over**2 * (layer.D + (2 - new_K) * F) + Theta * over**3 * U,
    }
    if norm.centres:
        apart = Apart(-new_K, -new_Theta)
    elif apart is not None:
        apart = Apart(apart.z * over, apart.H * over)
    new |= dict.fromkeys(LACKS, 0 * K)
    return _trained(norm, Tensors(**new), new_U), apart, slopes


def _trained(norm: Division, layer: Tensors, U: Scalar) -> Tensors:
    # Gains and biases add λ_g ẑ_i² + λ_β to H_ii (docs/theory/blocks, eq. 46).
    gain: Any = 0.0 if norm.gain is None else norm.gain
    bias: Any = 0.0 if norm.bias is None else norm.bias
    square = layer.K**2
    return layer._replace(
        Theta=layer.Theta + gain * layer.K + bias,
        D=layer.D + gain * U,
        A=layer.A + 2 * gain * layer.D + gain**2 * U,
        F=layer.F + 2 * gain * square,
        B=layer.B + 2 * gain**2 * square,
        Theta1=layer.Theta1 + gain * layer.K1,
    )


def together(layer: Tensors, apart: Apart, variance: Scalar, rate: Scalar, sd: Scalar, de: Scalar) -> dict[str, Scalar]:
    """What the means of two different neurons add to the next layer, with ⟨ss'⟩ and ⟨s's''⟩ (eq. 48)."""
    slope = rate * sd + variance * layer.Theta * de
    return {
        "V": 4 * variance**2 * apart.z * sd**2,
        "D": 4 * variance * apart.z * sd * slope,
        "A": 4 * apart.z * slope**2,
        "F": variance**2 * apart.H * sd**2,
    }
