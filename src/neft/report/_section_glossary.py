"""The words of the page."""

from ._html import answers, folded
from ._page import Context

_WORDS = (
    ("action", "the loss as a function of the parameters; expanded at the origin, a sum of terms S_n of order n"),
    ("C_b, C_W", "the variance of a bias, and that of a weight times the number of inputs of its layer"),
    ("critical", "with such variances a signal, and the difference of two, neither dies out nor explodes with depth"),
    ("dNTK, ddNTK", "how the NTK changes when the parameters move, and how that changes"),
    ("draw", "a network whose weights were drawn at random anew"),
    ("excess kurtosis", "the fourth cumulant over the squared variance: 0 for a Gaussian, positive with heavy tails"),
    ("infinite width", "the limit in which outputs are Gaussian and training does not move the NTK"),
    ("K, the kernel", "the variance of a preactivation over random draws; of two inputs, their covariance"),
    ("L/n", "depth over width: what the expansion goes by"),
    ("NNGP", "the Gaussian process that an untrained network of infinite width is"),
    ("NTK, Θ", "the neural tangent kernel: how much a step on one example moves an output at another"),
    ("order 1/width", "the first correction to infinite width"),
    ("preactivation, z", "what a neuron has before its activation σ"),
    ("RNGD", "relative natural gradient descent: the gradient in a Fisher metric of each layer"),
    ("standard error", "the spread of a mean over as many draws as were made; bars show two of them"),
    ("V", "n times the variance of a layer's kernel over draws: the first effect of finite width"),
    ("χ, susceptibility", "the factor by which a layer multiplies a small difference"),
)


def glossary(context: Context) -> str:
    """Each term in a line."""
    return folded(f"{len(_WORDS)} terms", answers(*_WORDS))
