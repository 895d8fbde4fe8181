"""Cards: what an activation, a network or a data set is, as results that can be printed, drawn and kept in a file.

JAX is imported when a card is made, so that one read from a file is shown without waiting for it.
"""

from ._activation import ActivationCard as ActivationCard
from ._activation import activation as activation
from ._averages import AveragesCard as AveragesCard
from ._averages import averages as averages
from ._blocks import BlocksCard as BlocksCard
from ._data import Available as Available
from ._data import DataCard as DataCard
from ._data import available as available
from ._data import data as data
from ._draws import OutputDraws as OutputDraws
from ._network import NetworkCard as NetworkCard
from ._network import network as network
