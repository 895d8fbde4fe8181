"""Ensembles of drawn networks: the simulation that every prediction is tested against."""

from ._differentials import Differentials as Differentials
from ._differentials import differentials as differentials
from ._draw import Draw as Draw
from ._draw import draw as draw
from ._estimate import Estimate as Estimate
from ._estimate import Estimates as Estimates
from ._estimate import estimate as estimate
from ._forward import Kernels as Kernels
from ._forward import kernels as kernels
from ._model import ModelEstimates as ModelEstimates
from ._model import estimate_model as estimate_model
