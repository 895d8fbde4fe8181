"""`neft data`: what a data set is."""

from typing import Annotated

import typer

from ._emit import emit
from ._options import Full, Output


def data(
    output: Output,
    name: Annotated[
        str | None, typer.Argument(help="Name or path (default: list what there is).", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train or test.")] = "train",
    preprocess: Annotated[
        str | None, typer.Option("--preprocess", help="Steps joined by +, such as pool(49)+global.", show_default=False)
    ] = None,
    full: Full = None,
) -> None:
    """Show a data set: counts, classes, preprocessing, checksum. Without a name: what data there is.

    Example: neft data fashion-mnist --split test --preprocess 'pool(49)+global'
    """
    from .. import data, describe

    if name is None:
        emit(describe.available(), output)
    else:
        loaded = data.load(name, split, preprocess=preprocess, full=full)
        # Only pictures and files hold the images: printed, they would bury everything else.
        emit(describe.data(loaded, examples=bool(output.plot or output.out)), output)
