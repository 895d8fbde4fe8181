"""Examples of a data set."""

from matplotlib.figure import Figure

from ..describe.results import DataCard
from ._style import styled

_COLUMNS = 5


@styled
def examples(card: DataCard) -> Figure:
    """One image of each class, dark ink on light paper whatever the page."""
    if card.shape is None:
        raise ValueError(f"the data {card.name!r} are feature vectors, which have no picture.")
    if card.examples is None:
        raise ValueError(f"this card of {card.name!r} was made without examples, which its picture shows.")
    classes = len(card.examples)
    columns = min(_COLUMNS, classes)
    rows = -(-classes // columns)
    figure = Figure(figsize=(0.95 * columns, 1.15 * rows), layout="constrained")
    for k, image in enumerate(card.examples):
        axes = figure.add_subplot(rows, columns, k + 1)
        axes.imshow(image.reshape(card.shape), cmap="gray_r", interpolation="nearest")
        axes.set_title(str(k), fontsize=9)
        axes.set_axis_off()
    return figure
