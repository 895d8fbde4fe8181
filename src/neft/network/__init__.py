"""Networks made of blocks: specifications with `init` and `apply`, and their step of K and Θ at infinite width."""

from ._block import Averages as Averages
from ._block import Block as Block
from ._block import Linear as Linear
from ._block import Means as Means
from ._block import TwoMatrices as TwoMatrices
from ._dense import Dense as Dense
from ._dense import Layer as Layer
from ._mlp import MLP as MLP
from ._mlp import perceptron as perceptron
from ._mlp import plain as plain
from ._network import Network as Network
from ._nonlinearity import Nonlinearity as Nonlinearity
from ._norm import LayerNorm as LayerNorm
from ._norm import RMSNorm as RMSNorm
from ._residual import Residual as Residual
from ._runs import along as along
from ._stage import Stage as Stage
