"""`neft show`: a saved result, again."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ._emit import emit
from ._options import Output
from ._streams import reason


def show(
    file: Annotated[Path, typer.Argument(help="A .json or .npz file that --out wrote.", show_default=False)],
    output: Output,
) -> None:
    """Print a saved result again; --plot draws its picture from the file.

    Example: neft show silu.json --plot silu.png
    """
    # With the page's tables come the types that have one, which spares `load` the rest of the library.
    from .. import load, report  # noqa: F401

    result = load(file)
    try:
        emit(result, output)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        # A file of the right form may hold what neft never writes.
        if os.environ.get("NEFT_DEBUG") or (isinstance(error, ValueError) and str(error).endswith(".")):
            raise
        kind, why = type(result).__name__, reason(error)
        raise ValueError(
            f"the {kind} in {str(file)!r} cannot be shown, since neft did not write it so ({why})."
        ) from None
