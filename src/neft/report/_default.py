"""The network of a page that is asked about none."""

from typing import TYPE_CHECKING

from .. import _check
from .._public import public

if TYPE_CHECKING:
    from .. import MLP

ACTIVATION, DEPTH, WIDTH, C_B, C_W = "gelu", 3, 32, 0.17293, 1.98305
"""Critical, and narrow enough that finite width is seen: 4,000 draws tell its outputs from a Gaussian by far, and
hardly from the density of order 1/width (tests/report/test_first.py)."""


@public
def default(inputs: int, outputs: int) -> "MLP":
    """A critical gelu network of three layers, narrow enough for effects of finite width to be seen.

    >>> default(49, 10).widths
    (49, 32, 32, 10)
    """
    from .. import MLP

    inputs = _check.integer("inputs", inputs, at_least=1)
    outputs = _check.integer("outputs", outputs, at_least=1)
    return MLP((inputs, *[WIDTH] * (DEPTH - 1), outputs), ACTIVATION, C_b=C_B, C_W=C_W)
