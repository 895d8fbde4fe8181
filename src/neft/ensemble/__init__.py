"""Ensembles of drawn networks: the simulation that every prediction answers to."""

from ._estimate import Estimate as Estimate
from ._estimate import Estimates as Estimates
from ._estimate import estimate as estimate
from ._forward import Differentials as Differentials
from ._forward import Kernels as Kernels
from ._forward import differentials as differentials
from ._forward import kernels as kernels
