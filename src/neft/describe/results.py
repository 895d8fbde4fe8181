"""The types of what `neft.describe` returns."""

from ._activation import ActivationCard as ActivationCard
from ._averages import AveragesCard as AveragesCard
from ._blocks import BlocksCard as BlocksCard
from ._data import Available as Available
from ._data import DataCard as DataCard
from ._draws import OutputDraws as OutputDraws
from ._network import NetworkCard as NetworkCard
