"""The tables of what is known of scaling. Imported when one of them is printed."""

import math

from ..scaling.results import CoordinateCheck, PartialJacobians
from ._tables import Table, tables


@tables.register(CoordinateCheck)
def _coordinates(found: CoordinateCheck) -> tuple[Table, ...]:
    def power(value: float, error: float) -> str:
        return f"{value:.3f} ± {error:.2g}"

    rows = tuple(
        (
            name,
            power(found.power_size[i], found.error_size[i]),
            f"{found.theory_size[i]:g}",
            power(found.power_change[i], found.error_change[i]),
            power(found.power_own[i], found.error_own[i]),
            f"{found.theory_own[i]:g}",
            found.verdicts[i],
        )
        for i, name in enumerate(found.names)
    )
    columns = ("layer", "size", "μP", "whole change", "own change", "μP", "verdict")
    title = f"Powers of the width, {found.widths[0]} to {found.widths[-1]}, {found.sizes.shape[2]} draws each"
    return (Table(title=title, columns=columns, rows=rows, notes=(found.summary,)),)


@tables.register(PartialJacobians)
def _jacobians(found: PartialJacobians) -> tuple[Table, ...]:
    rows = tuple(
        (name, str(width), f"{norm:.4g} ± {error:.2g}", f"{step:.4g}")
        for name, width, norm, error, step in zip(
            found.names, found.widths, found.norms, found.errors, [*found.steps, math.nan]
        )
    )
    rows = (*rows[:-1], (*rows[-1][:3], "–"))
    columns = ("layer", "entries", "J to the last", "χ")
    return (Table(title="Partial Jacobian norms", columns=columns, rows=rows, notes=(found.summary,)),)
