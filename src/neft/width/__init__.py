"""The width expansion (seed 004): statistics of an ensemble of networks in powers of 1/width."""

from ._asymptotics import Asymptotics as Asymptotics
from ._asymptotics import asymptotics as asymptotics
from ._comparison import Comparison as Comparison
from ._comparison import check as check
from ._critical import Criticality as Criticality
from ._critical import CriticalPoint as CriticalPoint
from ._critical import Susceptibilities as Susceptibilities
from ._critical import critical as critical
from ._critical import susceptibilities as susceptibilities
from ._one_input import Rates as Rates
from ._one_input import Tensors as Tensors
from ._one_input import first_layer as first_layer
from ._one_input import flow as flow
from ._one_input import next_layer as next_layer
from ._phase import PHASES as PHASES
from ._phase import PhaseDiagram as PhaseDiagram
from ._phase import phase as phase
from ._statistics import AbsentTensor as AbsentTensor
from ._statistics import Statistics as Statistics
from ._statistics import statistics as statistics
