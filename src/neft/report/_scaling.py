"""The tables of what is known of scaling. Imported when one of them is printed."""

import math

import numpy as np

from ..scaling.results import CoordinateCheck, Parameterization, PartialJacobians, Transfer
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


_COLUMNS = {"multiplier": "multiplier", "variance": "variance", "rate": "rate", "decay": "weight decay", "epsilon": "ε"}
_UNUSED = {"adam": ("decay",), "adamw": ()}


@tables.register(Parameterization)
def _parameterization(found: Parameterization) -> tuple[Table, ...]:
    shown = [name for name in _COLUMNS if name not in _UNUSED.get(found.optimizer, ("decay", "epsilon"))]
    n, blocks = found.width[1], found.depth[1] - 2

    def cell(quantity: str, i: int) -> str:
        value = getattr(found, quantity)[i]
        if not value or math.isnan(value):
            return "–" if math.isnan(value) else "0"
        wide, deep = found.powers_width[quantity][i], found.powers_depth[quantity][i]
        return f"{value:.4g}" + _power("n", n, wide) + _power("L", blocks, deep)

    rows = tuple((group, *(cell(name, i) for name in shown)) for i, group in enumerate(found.groups))
    name = found.kind if found.s is None else f"{found.kind}, s = {found.s:g}"
    notes = [f"Network as advised at width {found.width[0]}, depth {found.depth[0]}; n stands for another width."]
    if found.power_branch:
        branch = f"{found.branch:.4g}" + _power("L", blocks, found.power_branch)
        notes.append(f"L is the number of residual blocks; their branches are multiplied by {branch}.")
    if any(group.endswith(("norms", "norm")) for group in found.groups):
        notes.append("Gains of norms start at 1, their biases at 0.")
    notes.append(f"After {found.source}.")
    title = f"{name} with {found.optimizer}: {found.activation}, depth {found.depth[1]}, width {n}"
    columns = ("group", *(_COLUMNS[name] for name in shown))
    return (Table(title=title, columns=columns, rows=rows, notes=tuple(notes)),)


def _power(letter: str, now: int, power: float) -> str:
    """By what a number is multiplied where the letter is no longer what it is now."""
    power = round(power, 10)
    if not power:
        return ""
    inside = f"{letter}/{now}" if power > 0 else f"{now}/{letter}"
    return f" · {inside}" if abs(power) == 1 else f" · ({inside})^{abs(power):g}"


@tables.register(Transfer)
def _transfer(found: Transfer) -> tuple[Table, ...]:
    shown = [name for name in _COLUMNS if name not in _UNUSED.get(found.optimizer, ("decay", "epsilon"))]
    rows = tuple((group, *(f"× {getattr(found, k)[i]:.4g}" for k in shown)) for i, group in enumerate(found.groups))
    columns = ("group", *(_COLUMNS[name] for name in shown))
    name = found.kind if found.s is None else f"{found.kind}, s = {found.s:g}"
    sizes = [f"{what} {one} to {two}" for what, (one, two) in (("width", found.width), ("depth", found.depth))]
    title = f"{name}, {found.optimizer}: {', '.join(sizes)}"
    notes = (f"Residual branches are multiplied by {found.branch:.4g}.", f"After {found.source}.")
    return (Table(title=title, columns=columns, rows=rows, notes=notes),)
