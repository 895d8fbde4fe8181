"""The types of what `neft.width` returns."""

from ._advice import Advice as Advice
from ._asymptotics import Asymptotics as Asymptotics
from ._block_advice import BlockAdvice as BlockAdvice
from ._comparison import Comparison as Comparison
from ._critical import Criticality as Criticality
from ._critical import CriticalPoint as CriticalPoint
from ._critical import Susceptibilities as Susceptibilities
from ._depth_flow import DepthFlow as DepthFlow
from ._edgeworth import Density as Density
from ._interpretation import Interpretation as Interpretation
from ._kernel_pairs import Kernel as Kernel
from ._one_input import Tensors as Tensors
from ._parameterization import Parameterization as Parameterization
from ._phase import PhaseDiagram as PhaseDiagram
from ._settings import Settings as Settings
from ._statistics import Statistics as Statistics
