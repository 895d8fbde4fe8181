"""The tables of what is known of scaling. Imported when one of them is printed."""

import math

import numpy as np

from ..scaling.results import CoordinateCheck, PartialJacobians, Transfer
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
    made = Table(title=title, columns=columns, rows=rows, notes=(found.summary,))
    if found.expected is None:
        return (made,)
    # The means of squares, which theory knows, are not those of the roots.
    sizes = np.sqrt((found.sizes[..., 0] ** 2).mean(2))
    rows = tuple(
        (name, *(f"{one:.4g} ({two:.4g})" for one, two in zip(sizes[i], found.expected[i])))
        for i, name in enumerate(found.names)
    )
    widths = tuple(f"width {n}" for n in found.widths)
    return made, Table(title="Sizes before training (at infinite width)", columns=("layer", *widths), rows=rows)


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


@tables.register(Transfer)
def _transfer(found: Transfer) -> tuple[Table, ...]:
    columns = ("group", "multiplier", "variance", "rate", "weight decay", "ε")
    parts = (found.multiplier, found.variance, found.rate, found.decay, found.epsilon)
    rows = tuple((group, *(f"× {values[i]:.4g}" for values in parts)) for i, group in enumerate(found.groups))
    unused = {"adam": ("weight decay",), "adamw": ()}.get(found.optimizer, ("weight decay", "ε"))
    shown = [i for i, column in enumerate(columns) if column not in unused]
    columns, rows = tuple(columns[i] for i in shown), tuple(tuple(row[i] for i in shown) for row in rows)
    name = found.kind if found.s is None else f"{found.kind}, s = {found.s:g}"
    sizes = [f"{what} {one} to {two}" for what, (one, two) in (("width", found.width), ("depth", found.depth))]
    title = f"{name}, {found.optimizer}: {', '.join(sizes)}"
    notes = (f"Residual branches are multiplied by {found.branch:.4g}.", f"After {found.source}.")
    return (Table(title=title, columns=columns, rows=rows, notes=notes),)
