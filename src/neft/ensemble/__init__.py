"""Ensembles of drawn networks: the simulation that every prediction is tested against."""

from . import results as results
from ._estimate import estimate as estimate
from ._model import estimate_model as estimate_model
