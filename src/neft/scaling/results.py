"""The types of what the functions of `neft.scaling` return."""

from ._coordinates import CoordinateCheck as CoordinateCheck
from ._criticality import PartialJacobians as PartialJacobians
from ._parameterize import Parameterization as Parameterization
from ._transfer import Transfer as Transfer
