"""Networks made of blocks: specifications with `init` and `apply`, and their step of K and Θ at infinite width."""

from ._block import Averages as Averages
from ._block import Block as Block
from ._block import Means as Means
from ._chain import fans as fans
from ._chain import passed as passed
from ._dense import Dense as Dense
from ._dense import Layer as Layer
from ._infinite import infinite_width as infinite_width
from ._mlp import MLP as MLP
from ._mlp import perceptron as perceptron
from ._mlp import plain as plain
from ._network import Network as Network
from ._nonlinearity import Nonlinearity as Nonlinearity
from ._norm import LayerNorm as LayerNorm
from ._norm import RMSNorm as RMSNorm
from ._parts import parameters_of as parameters_of
from ._parts import parts as parts
from ._residual import Residual as Residual
from ._runs import along as along
from ._runs import segments as segments
from ._stage import Stage as Stage
from ._stage import multiplied as multiplied
from ._widened import hidden_widths as hidden_widths
from ._widened import widened as widened
from ._words import in_words as in_words
