"""The action expansion (docs/theory/action): the loss of a classifier expanded in its parameters."""

from . import results as results
from ._alignment import domination as domination
from ._alignment import elements as elements
from ._analysis import analyse as analyse
from ._analysis import convergence as convergence
from ._expand import expand as expand
from ._fit import fit as fit
from ._fit import loss_of as loss_of
from ._moments import contracted as contracted
from ._moments import moments as moments
from ._ray import ray as ray
from ._ray import taylor as taylor
from ._resum import pade as pade
from ._resum import recover as recover
from ._singularities import radius as radius
from ._singularities import series_radius as series_radius
from ._sizes import power_law as power_law
from ._sizes import sizes as sizes
from ._stopping import StoppingMonitor as StoppingMonitor
from ._stops import stops_by_size as stops_by_size
from ._truncated import boundedness as boundedness
from ._truncated import quadratic_form as quadratic_form
from ._truncated import truncated_flow as truncated_flow
