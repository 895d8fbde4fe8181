"""The types of what `neft.fisher` returns."""

from ._geometry import Geometry as Geometry
from ._joint import Joint as Joint
from ._metric import Metric as Metric
from ._response import Response as Response
from ._train import Curves as Curves
from ._whiten import Whitening as Whitening
