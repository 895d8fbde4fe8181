"""The types of what `neft.ensemble` returns."""

from ._estimate import Estimates as Estimates
from ._model import ModelEstimates as ModelEstimates
