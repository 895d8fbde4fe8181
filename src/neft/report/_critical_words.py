"""Whether a perceptron is critical, in words."""

from typing import NamedTuple

from .. import width
from ._subject import Subject

NEAR = 1e-3
"""How far from 1 a susceptibility may be for a network that is called critical."""


_FAR = 20
"""Depths that a depth scale must have for a network to be called all but critical."""


class Criticality(NamedTuple):
    """A few words for the first screen, and the answer with its numbers."""

    short: str
    answer: str


def criticality(of: Subject) -> Criticality:
    """What the variances of the last layer do to the difference of two inputs, layer by layer."""
    net = of.plain
    C_b, C_W = net.C_b[-1], net.C_W[-1]
    uneven = len(set(net.C_b[1:])) > 1 or len(set(net.C_W[1:])) > 1
    last = " (those of its last layer; layers differ)" if uneven else ""
    found = width.phase(net.activation, C_b=[C_b], C_W=[C_W], tolerance=NEAR)
    phase, K_star = found.phases[int(found.phase[0, 0])], float(found.K_star[0, 0])
    xi = float(found.xi_perpendicular[0, 0])
    at = f"C_b = {C_b:.4g} and C_W = {C_W:.4g}{last}"
    # A signal nears a marginal fixed point so slowly that its phase is not seen there; where the points are is known.
    points = width.critical(net.activation).points
    at_point = any(abs(C_b - point.C_b) < NEAR and abs(C_W - point.C_W) < NEAR * point.C_W for point in points)
    if phase == "critical" or at_point:
        return Criticality(
            "It is critical: signals and gradients keep their size from layer to layer.",
            f"Critical: at {at} a small difference between two inputs is passed on as it is from layer to layer, and "
            "so "
            "are gradients on their way back.",
        )
    if phase == "diverging":
        said = f"Not critical: at {at} the signal grows from layer to layer without bound."
        return Criticality("It is not critical: the signal grows without bound.", said)
    if phase == "unsettled":
        said = f"Not critical: at {at} the signal does not settle with more layers."
        return Criticality("It is not critical: the signal does not settle.", said)
    verb = "forgets: differences between two inputs shrink" if phase == "ordered" else "amplifies: differences grow"
    depth = net.depth
    felt = (
        f"With {depth} layers this is hardly felt."
        if xi > 5 * depth
        else f"With {depth} layers this is felt."
        if depth < 5 * xi
        else f"{depth} layers are too many for it."
    )
    change = "shrink" if phase == "ordered" else "grow"
    short = (
        f"It is all but critical: over {depth} layers signals and gradients keep their size."
        if xi > _FAR * depth
        else f"It is not critical but {phase}: differences of two inputs {change} e-fold every {xi:.3g} layers."
    )
    return Criticality(
        short,
        f"{'All but critical' if xi > _FAR * depth else 'Not critical'}: at {at} it is {phase} and {verb} e-fold every "
        f"{xi:.3g} layers, at the variance K* = {K_star:.3g} that the signal settles to. {felt}",
    )
