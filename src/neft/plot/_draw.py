"""Which picture belongs to which result."""

import functools

from matplotlib.figure import Figure

from .._result import Result
from ..action.results import Analysis, Convergence, Elements, Expansion, Fit, Sizes, Stopping, Stops
from ..claims.results import Ledger
from ..describe.results import ActivationCard, AveragesCard, BlocksCard, DataCard, NetworkCard, OutputDraws
from ..fisher.results import Curves, Geometry
from ..models.results import Reading
from ..scaling.results import CoordinateCheck, PartialJacobians
from ..sweep.results import Experiments, Headlines
from ..training.results import (
    Assessment,
    Evolution,
    FinitePrediction,
    Forecast,
    Forecasts,
    LearningCurve,
    Orders,
    Representation,
)
from ..width.results import (
    Advice,
    BlockAdvice,
    Comparison,
    Criticality,
    Density,
    DepthFlow,
    Interpretation,
    PhaseDiagram,
    Statistics,
    Trial,
)
from ._action import analysis, convergence, elements, expansion, sizes, stopping, stops, training
from ._activation import activation
from ._advice import advice, block_advice
from ._averages import square_averages
from ._data import examples
from ._depth import depth_flow
from ._evolve import contributions, evolution, representation
from ._fisher import curves, metric
from ._interpretation import density, interpretation
from ._ledger import ledger
from ._models import reading
from ._network import after_blocks, layers, outputs
from ._orders import orders
from ._phase import critical, phase
from ._scaling import coordinates, jacobians
from ._sweep import experiments, headlines
from ._training import calibration, forecast, forecasts, learning_curve
from ._trial import trial
from ._width import flow, scores


@functools.singledispatch
def draw(result: Result) -> Figure:
    """The picture of a result; a ValueError for a type that has none.

    >>> from neft import describe
    >>> draw(describe.activation("tanh")).axes[0].get_title()
    'tanh'
    """
    raise ValueError(f"a {type(result).__name__} has no picture.")


@draw.register(NetworkCard)
def _network(card: NetworkCard) -> Figure:
    return layers(card) if card.draws is None else outputs(card.draws)


@draw.register(BlocksCard)
def _blocks(card: BlocksCard) -> Figure:
    return after_blocks(card) if card.draws is None else outputs(card.draws)


draw.register(ActivationCard, activation)
draw.register(AveragesCard, square_averages)
draw.register(DataCard, examples)
draw.register(Ledger, ledger)
draw.register(OutputDraws, outputs)
draw.register(Statistics, flow)
draw.register(Comparison, scores)
draw.register(Criticality, critical)
draw.register(PhaseDiagram, phase)
draw.register(Advice, advice)
draw.register(BlockAdvice, block_advice)
draw.register(Trial, trial)
draw.register(Reading, reading)
draw.register(CoordinateCheck, coordinates)
draw.register(PartialJacobians, jacobians)
draw.register(Interpretation, interpretation)
draw.register(Density, density)
draw.register(DepthFlow, depth_flow)
draw.register(Forecast, forecast)
draw.register(Forecasts, forecasts)
draw.register(Assessment, calibration)
draw.register(LearningCurve, learning_curve)
draw.register(FinitePrediction, contributions)
draw.register(Evolution, evolution)
draw.register(Representation, representation)
draw.register(Orders, orders)
draw.register(Curves, curves)
draw.register(Geometry, metric)
draw.register(Experiments, experiments)
draw.register(Headlines, headlines)
draw.register(Analysis, analysis)
draw.register(Convergence, convergence)
draw.register(Elements, elements)
draw.register(Expansion, expansion)
draw.register(Fit, training)
draw.register(Sizes, sizes)
draw.register(Stopping, stopping)
draw.register(Stops, stops)
