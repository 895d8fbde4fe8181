"""Pictures: each function takes a result and returns a matplotlib figure. Nothing else draws.

No function touches matplotlib's global state: there is no current figure, and settings last as long as a call.
"""

from ._action import line as line
from ._action import losses as losses
from ._averages import pair_averages as pair_averages
from ._classifiers import classifiers as classifiers
from ._depth import depth as depth
from ._draw import draw as draw
from ._placed import placed as placed
from ._rivals import rivals as rivals
from ._save import save as save
from ._save import svg as svg
from ._simulated import ntk_distribution as ntk_distribution
from ._simulated import output_distribution as output_distribution
from ._simulated import tensor as tensor
from ._simulated import through_blocks as through_blocks
from ._sweep import pictures as pictures
