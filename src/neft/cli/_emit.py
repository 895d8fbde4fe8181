"""The one place where a result leaves a command: as a table, as JSON, as a picture, as a file."""

import json
import sys
from typing import TYPE_CHECKING

from ._interrupt import raise_if_interrupted
from ._options import Output

if TYPE_CHECKING:
    from .._result import Result
    from ..report import Table


def emit(result: "Result", output: Output) -> None:
    """Save, draw and print `result` as the options ask."""
    raise_if_interrupted()
    if output.out:
        result.save(output.out)
    if output.plot:
        from .. import plot

        plot.save(plot.draw(result), output.plot)
    if output.json:
        from .._result import FORMAT

        # With the format number, so that what is printed is a file that `neft show` reads.
        print(json.dumps({"neft": FORMAT, **result.to_dict()}, allow_nan=False))
    elif not output.quiet:
        show(result)


def show(result: "Result") -> None:
    """Print the tables of a result; a result that has none prints itself."""
    from ..report import tables

    drawn = tables(result)
    if not drawn:
        print(result)
    elif sys.stdout.isatty():
        _rich(drawn)
    else:
        print("\n\n".join(table.text() for table in drawn))


def _rich(drawn: "tuple[Table, ...]") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console()
    for table in drawn:
        console.print(Text(table.title), style="bold")
        grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for i, (column, numeric) in enumerate(zip(table.columns, table.numeric, strict=True)):
            # Text folds where the terminal is narrow; a number is shown whole, or it would be another number.
            least = max(len(row[i]) for row in table.rows) if numeric else None
            grid.add_column(
                Text(column), justify="right" if numeric else "left", min_width=least, no_wrap=numeric, overflow="fold"
            )
        for row in table.rows:
            grid.add_row(*map(Text, row))
        console.print(grid, crop=False)
        for note in table.notes:
            console.print(Text(note), style="dim")
        console.print()
