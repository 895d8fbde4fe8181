"""Pictures: each function takes a result and returns a matplotlib figure. Nothing else draws.

No function touches matplotlib's global state: there is no current figure, and settings last as long as a call.
"""

from ._activation import activation as activation
from ._averages import pair_averages as pair_averages
from ._averages import square_averages as square_averages
from ._data import examples as examples
from ._draw import draw as draw
from ._ledger import ledger as ledger
from ._network import layers as layers
from ._network import outputs as outputs
from ._phase import critical as critical
from ._phase import phase as phase
from ._placed import placed as placed
from ._rivals import rivals as rivals
from ._save import save as save
from ._save import svg as svg
from ._simulated import ntk_distribution as ntk_distribution
from ._simulated import output_distribution as output_distribution
from ._simulated import tensor as tensor
from ._style import INK as INK
from ._sweep import learning_curves as learning_curves
from ._sweep import pictures as pictures
