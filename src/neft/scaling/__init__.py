"""How models scale with width and depth: any JAX model, its layers found in its program."""

from . import results as results
from ._coordinates import coordinate_check as coordinate_check
from ._criticality import criticality as criticality
from ._parameterize import parameterize as parameterize
from ._transfer import transfer as transfer
