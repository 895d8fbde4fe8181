"""What neft is."""

from ._html import paragraph
from ._math import math
from ._page import Context


def about(context: Context) -> str:
    """What the library computes, and for which networks."""
    bias, weight = math("'Var' b = C_b"), math("'Var' W = C_W / n_{l-1}")
    return (
        paragraph(
            "neft computes what perturbation theory says about neural networks: how a network of finite width differs "
            "from one of infinite width, how its loss expands in its parameters, and the metrics of natural gradients. "
            "Its networks are multilayer perceptrons"
        )
        + math("z^1 = b^1 + W^1 x,", block=True)
        + math("z_i^{l+1} = b_i^{l+1} + ∑_j W_{ij}^{l+1} σ(z_j^l)", block=True)
        + f"<p>with independent Gaussian parameters of variance {bias} and {weight}. "
        "This page shows the parts that everything else stands on.</p>"
    )
