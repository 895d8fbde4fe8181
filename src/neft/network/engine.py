"""What the theories use of networks, and who designs a network does not: segments, positions, repeated blocks."""

from ._branches import branched as branched
from ._branches import with_branches as with_branches
from ._chain import holds as holds
from ._chain import passed as passed
from ._mlp import perceptron as perceptron
from ._mlp import plain as plain
from ._positions import diagonal as diagonal
from ._positions import facing as facing
from ._repeated import closing_norms as closing_norms
from ._repeated import in_words as in_words
from ._repeated import only_activation as only_activation
from ._repeated import repeated as repeated
from ._repeated import step_length as step_length
from ._repeated import stream_width as stream_width
from ._runs import Segment as Segment
from ._runs import Table as Table
from ._runs import along as along
from ._runs import kept_along as kept_along
from ._runs import used as used
from ._stage import Layout as Layout
from ._variances import Variances as Variances
from ._weights import Weights as Weights
from ._weights import norms_learn as norms_learn
from ._weights import weights_alone as weights_alone
from ._weights import weights_of as weights_of
from ._weights import without_biases as without_biases
