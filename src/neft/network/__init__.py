"""Networks made of blocks: specifications with `init` and `apply`, and their step of K and Θ at infinite width."""

from ._batch_norm import BatchNorm as BatchNorm
from ._batch_norm import Moments as Moments
from ._block import Averages as Averages
from ._block import Block as Block
from ._block import Division as Division
from ._block import Linear as Linear
from ._block import Means as Means
from ._block import TwoMatrices as TwoMatrices
from ._chain import passed as passed
from ._dense import Dense as Dense
from ._dense import Layer as Layer
from ._mlp import MLP as MLP
from ._mlp import perceptron as perceptron
from ._mlp import plain as plain
from ._network import Network as Network
from ._nonlinearity import Nonlinearity as Nonlinearity
from ._norm import LayerNorm as LayerNorm
from ._norm import RMSNorm as RMSNorm
from ._repeated import in_words as in_words
from ._repeated import only_activation as only_activation
from ._repeated import repeated as repeated
from ._repeated import stream_width as stream_width
from ._residual import Residual as Residual
from ._runs import along as along
from ._stage import Stage as Stage
from ._variances import Variances as Variances
