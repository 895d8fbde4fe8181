"""Gaussian averages."""

from .. import describe, plot
from ._figure import figure
from ._html import paragraph, side_by_side, table
from ._math import math
from ._page import Context
from ._tables import tables


def averages(context: Context) -> str:
    """Averages of one and of two variables, and what a fixed number of Gauss-Hermite nodes makes of them."""
    card = describe.averages()
    named = ", ".join(card.activations)
    return (
        paragraph("A wide network is known by averages of its activation over Gaussian variables,")
        + math(r"⟨f⟩_K = ∫ \frac{dz}{\sqrt{2πK}} e^{-z^2/2K} f(z)", block=True)
        + side_by_side(
            figure(
                plot.square_averages(card),
                name="square",
                alt=f"Mean square of {named} against the variance K from 0.001 to 100, on logarithmic axes",
                caption="Small K sees the activation at the origin, large K its tails.",
            ),
            figure(
                plot.pair_averages(card),
                name="pair",
                alt=f"Average of a product of {named} at two variables against their correlation from -1 to 1",
                caption="The average over two variables of variance one and correlation ρ.",
            ),
        )
        + paragraph(
            "neft refines its quadrature until twelve digits stand. A fixed Gauss-Hermite rule is exact for "
            "polynomials only (and for relu here, whose square averages to half of z²): complex poles near the real "
            "line cost it digits, the more the wider the Gaussian."
        )
        + "".join(table(content) for content in tables(card))
    )
