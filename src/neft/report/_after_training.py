"""After training: what theory says about trained networks of finite width, beside trained ones."""

import jax
import numpy as np

from .. import MLP, plot, training
from ._figure import figure
from ._html import paragraph, side_by_side, table
from ._math import math
from ._page import Context
from ._tables import tables

_DRAWS = 256
_X = np.array([[1.0, 0.3], [-0.4, 1.1]])
_Y = np.array([1.0, -0.5])
_TEST = np.array([[0.2, -0.9]])


def after_training(context: Context) -> str:
    """The mean and spread of trained networks at order 1/width, and what they owe to."""
    net = MLP(widths=(2, 32, 1), activation="tanh", C_b=0.1, C_W=1.2)
    key = jax.random.key(context.seed)
    found = training.forecast(net, _X, _Y, _TEST, order=1, draws=_DRAWS, key=key)
    assert isinstance(found.prediction, training.FinitePrediction)
    return (
        paragraph(
            "An infinitely wide network is a linear model whose kernel Θ training does not move. A real one learns "
            "representations: its kernel fluctuates from draw to draw and moves, by differentials of order 1/width."
        )
        + math("z^* = Θ_{xA}Θ_{AA}^{-1}y + Πz - ΠΔHΘ^{-1}ε + …", block=True)
        + side_by_side(
            figure(
                plot.draw(found.prediction),
                name="contributions",
                alt="The correction of the mean output by its origin: kernel fluctuations, dNTK and ddNTK",
                caption="What the mean of a trained output owes to each kind of correction.",
            ),
            figure(
                plot.draw(found),
                name="trained",
                alt="The output that theory predicts for the test input, beside those of really trained networks",
                caption=f"Mean and spread as predicted, and {_DRAWS} networks really trained.",
            ),
        )
        + "".join(table(content) for content in tables(found))
    )
