"""The types of what `neft.action` returns."""

from ._alignment import Domination as Domination
from ._alignment import Elements as Elements
from ._alignment import ElementStatistics as ElementStatistics
from ._analysis import Analysis as Analysis
from ._analysis import Convergence as Convergence
from ._expand import Expansion as Expansion
from ._fit import Fit as Fit
from ._moments import Moments as Moments
from ._resum import Recovered as Recovered
from ._singularities import Radius as Radius
from ._sizes import Sizes as Sizes
from ._stopping import Stopping as Stopping
from ._stops import Stops as Stops
from ._truncated import Boundedness as Boundedness
from ._truncated import QuadraticForm as QuadraticForm
from ._truncated import TruncatedFlow as TruncatedFlow
