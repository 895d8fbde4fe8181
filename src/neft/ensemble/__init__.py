"""Ensembles of drawn networks: the simulation that every prediction is tested against."""

from ._estimate import Estimates as Estimates
from ._estimate import estimate as estimate
from ._model import ModelEstimates as ModelEstimates
from ._model import estimate_model as estimate_model
