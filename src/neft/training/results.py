"""The types of what `neft.training` returns."""

from ._assess import Assessment as Assessment
from ._ensemble import TrainedEnsemble as TrainedEnsemble
from ._evolve import Evolution as Evolution
from ._finite import FinitePrediction as FinitePrediction
from ._forecast import Forecast as Forecast
from ._forecast import Forecasts as Forecasts
from ._learning import LearningCurve as LearningCurve
from ._nngp import Posterior as Posterior
from ._orders import Orders as Orders
from ._predict import Prediction as Prediction
from ._regress import Regression as Regression
from ._regress import Tested as Tested
from ._representation import Representation as Representation
from ._sample import Trajectories as Trajectories
