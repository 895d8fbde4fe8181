"""`neft critical`: where an activation is critical."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Output


def critical(
    name: Annotated[
        str, typer.Argument(help="Name, with parameters in parentheses where it has some.", show_default=False)
    ],
    output: Output,
) -> None:
    """Find the critical initializations C_b and C_W of an activation, their fixed points and their universality.

    Example: neft critical gelu --plot gelu.svg
    """
    from .. import width

    emit(width.critical(name), output)
