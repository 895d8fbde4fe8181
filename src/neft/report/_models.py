"""The tables of what was read of models. Imported when one of them is printed."""

from ..models.results import Reading
from ._tables import Table, tables


@tables.register(Reading)
def _reading(found: Reading) -> tuple[Table, ...]:
    def with_error(value: float | None, error: float | None) -> str:
        return "–" if value is None or error is None else f"{value:.4g} ± {error:.2g}"

    rows = tuple(
        (
            row.name or "–",
            row.block,
            *("–" if size is None else str(size) for size in (row.fan_in, row.width)),
            with_error(row.C_W, row.error_W),
            with_error(row.C_b, row.error_b),
            row.drawn or "–",
        )
        for row in found.layers
    )
    columns = ("layer", "block", "fan-in", "width", "C_W", "C_b", "drawn as")
    return (Table(title=f"A model of {found.framework}", columns=columns, rows=rows, notes=found.notes),)
