"""The bundled data."""

from .. import data as sets
from .. import describe, plot
from ._figure import figure
from ._html import paragraph, side_by_side, table
from ._page import Context
from ._tables import tables


def data(context: Context) -> str:
    """The bundled subset of Fashion-MNIST: one image per class and how often each class occurs."""
    card = describe.data(sets.load("fashion-mnist", full=False))
    facts, classes = tables(card)
    picture = figure(
        plot.examples(card),
        name="examples",
        alt="One image of each of the ten classes of clothing",
        caption="The first image of each class.",
    )
    return (
        paragraph("A subset of Fashion-MNIST comes with neft, so that every example runs without a download.")
        + side_by_side(picture, table(classes))
        + table(facts)
    )
