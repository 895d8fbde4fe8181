"""A network at initialization."""

from .. import MLP, describe, plot
from ._figure import figure
from ._html import paragraph, side_by_side, table
from ._math import math
from ._page import Context
from ._tables import tables

_DRAWS = 2000


def network(context: Context) -> str:
    """Outputs of many draws of one specification against the Gaussian of infinite width."""
    net = MLP(widths=(16, 128, 128, 1), activation="tanh", C_b=0.1, C_W=1.5)
    card = describe.network(net, draws=_DRAWS, seed=context.seed)
    assert card.draws is not None
    drawn = card.draws
    return (
        paragraph("At infinite width an output is Gaussian, and its variance follows from layer to layer:")
        + math("K^{l+1} = C_b + C_W ⟨σ^2⟩_{K^l}", block=True)
        + side_by_side(
            figure(
                plot.layers(card),
                name="layers",
                alt="Variance of a preactivation in each of the three layers",
                caption="The variance of a preactivation, for an input of mean square one.",
            ),
            figure(
                plot.outputs(drawn),
                name="outputs",
                alt=f"Histogram of the outputs of {_DRAWS} networks, with the density of the predicted Gaussian",
                caption=f"{_DRAWS} networks drawn at random, and the Gaussian of infinite width.",
            ),
        )
        + paragraph(
            f"The drawn outputs have variance {drawn.variance:.4f} ± {drawn.stderr:.4f}; the prediction is "
            f"{drawn.K:.4f}, which is {abs(drawn.z_score):.1f} standard errors away."
        )
        + "".join(table(content) for content in tables(card))
    )
