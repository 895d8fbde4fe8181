"""Cards: what an activation, a network or a data set is, as results that can be printed, drawn and kept in a file.

JAX is imported when a card is made, so that one read from a file is shown without waiting for it.
"""

from . import results as results
from ._activation import activation as activation
from ._averages import averages as averages
from ._data import available as available
from ._data import data as data
from ._network import network as network
