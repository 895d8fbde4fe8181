"""`neft show`: a saved result, again."""

from pathlib import Path
from typing import Annotated

import typer

from ._emit import emit
from ._options import Output


def show(
    file: Annotated[Path, typer.Argument(help="A .json or .npz file that --out wrote.", show_default=False)],
    output: Output,
) -> None:
    """Print a saved result again; --plot draws its picture from the file.

    Example: neft show silu.json --plot silu.png
    """
    # With the page's tables come the types that have one, which spares `load` the rest of the library.
    from .. import load, report  # noqa: F401

    emit(load(file), output)
