"""`neft critical`: where an activation or a block is critical."""

from typing import Annotated

from ._emit import emit
from ._options import Output
from ._repeated import NAME, Repeated


def critical(repeated: Repeated, output: Output, name: Annotated[str | None, NAME] = None) -> None:
    """Find the critical initializations C_b and C_W of an activation or block, their fixed points and universality.

    Example: neft critical gelu --plot gelu.svg

    Example: neft critical gelu --residual --skip 0.7
    """
    from .. import width

    emit(width.critical(repeated.build(name), dense=repeated.dense), output)
