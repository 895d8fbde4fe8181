"""The activations that have a name."""

from .. import describe, plot
from .._named import activation_names
from ..describe import ActivationCard
from ._figure import figure
from ._html import paragraph, side_by_side, table
from ._page import Context
from ._tables import Table, kinks

_TERMS = 5


def activations(context: Context) -> str:
    """A picture of each named activation, and what is known about it at the origin."""
    cards = [describe.activation(name, order=_TERMS - 1, points=161) for name in activation_names()]
    pictures = [
        figure(
            plot.activation(card, size=(3.0, 2.2)),
            name=f"activation-{i}",
            alt=f"{card.name} and its first three derivatives between -5 and 5",
        )
        for i, card in enumerate(cards)
    ]
    facts = Table(
        title="Named activations",
        columns=("σ", "parity", "scale invariant", "singularity", *(f"c{k}" for k in range(_TERMS)), "kinks"),
        rows=tuple(_row(card) for card in cards),
        notes=("c₀, c₁, …: Taylor coefficients at 0, of the right-hand side where there is a kink.",),
    )
    return (
        paragraph("Each activation knows its derivatives, its kinks, its Taylor series and its nearest singularity.")
        + side_by_side(*pictures)
        + table(facts)
    )


def _row(card: ActivationCard) -> tuple[str, ...]:
    coefficients = [f"{c:.4g}" for c in card.taylor] if card.taylor is not None else ["–"] * _TERMS
    # "nan" becomes words: the function does not continue to complex numbers.
    singularity = f"{card.singularity:.4g}".replace("nan", "not known").replace("inf", "∞")
    invariant = "yes" if card.scale_invariant else "no"
    return card.name, card.parity or "none", invariant, singularity, *coefficients, kinks(card)
