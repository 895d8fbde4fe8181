"""Networks made of blocks: specifications with `init` and `apply`, and their step of K and Θ at infinite width."""

from ._attention import Attention as Attention
from ._attention import Heads as Heads
from ._batch_norm import BatchNorm as BatchNorm
from ._batch_norm import Moments as Moments
from ._block import Averages as Averages
from ._block import Block as Block
from ._block import Division as Division
from ._block import Linear as Linear
from ._block import Means as Means
from ._block import OneMatrix as OneMatrix
from ._block import TwoMatrices as TwoMatrices
from ._conv import Conv as Conv
from ._dense import Dense as Dense
from ._dense import Layer as Layer
from ._flatten import Flatten as Flatten
from ._mlp import MLP as MLP
from ._network import Network as Network
from ._nonlinearity import Nonlinearity as Nonlinearity
from ._norm import LayerNorm as LayerNorm
from ._norm import RMSNorm as RMSNorm
from ._pool import AvgPool as AvgPool
from ._pool import GlobalAvgPool as GlobalAvgPool
from ._residual import Residual as Residual
from ._stage import Stage as Stage
