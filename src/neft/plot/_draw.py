"""Which picture belongs to which result."""

import functools

from matplotlib.figure import Figure

from .._result import Result
from ..claims import Ledger
from ..describe import ActivationCard, AveragesCard, DataCard, NetworkCard, OutputDraws
from ..width import Comparison, Criticality, PhaseDiagram, Statistics
from ._activation import activation
from ._averages import square_averages
from ._data import examples
from ._ledger import ledger
from ._network import layers, outputs
from ._phase import critical, phase
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


draw.register(ActivationCard, activation)
draw.register(AveragesCard, square_averages)
draw.register(DataCard, examples)
draw.register(Ledger, ledger)
draw.register(OutputDraws, outputs)
draw.register(Statistics, flow)
draw.register(Comparison, scores)
draw.register(Criticality, critical)
draw.register(PhaseDiagram, phase)
