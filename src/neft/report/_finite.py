"""The tables of training at finite width."""

import numpy as np

from ..training.results import Evolution, FinitePrediction, Orders, Representation
from ._tables import Table, tables

_ROWS = 20


@tables.register(FinitePrediction)
def _prediction(found: FinitePrediction) -> tuple[Table, ...]:
    moments = [f"t = {t:g}" for t in np.ravel(found.time)] if found.time is not None else []
    if found.steps is not None:
        moments = [f"{T} steps" for T in np.ravel(found.steps)]
    N, O = found.mean.shape[-2:]

    def flat(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, N, O)

    parts = {name: flat(part) for name, part in found.mean_parts.items() if name != "initial outputs"}
    mean, std, infinite = flat(found.mean), flat(found.std), flat(found.infinite_mean)
    rows = [
        (
            moment,
            str(a + 1),
            str(i + 1),
            f"{mean[t, a, i]:.5g}",
            f"{std[t, a, i]:.3g}",
            f"{infinite[t, a, i]:.5g}",
            *(f"{part[t, a, i]:+.2g}" for part in parts.values()),
        )
        for t, moment in enumerate(moments)
        for a in range(N)
        for i in range(O)
    ]
    notes = [
        f"Expansion parameter {found.expansion:.3g} at width {found.width}: the corrections must be small beside 1."
    ]
    if O > 1:
        correlation = found.correlation.reshape(-1, O, O)[:, *np.triu_indices(O, 1)]
        largest = correlation.flat[np.abs(correlation).argmax()]
        notes.append(
            f"Largest correlation between distinct outputs of one input, which infinite width forbids: {largest:+.3g}."
        )
    if len(rows) > _ROWS:
        notes.append(f"Shown: {_ROWS} of {len(rows)} rows; --out keeps all.")
    columns = ("moment", "input", "output", "mean", "std", "infinite width", *parts)
    title = "Prediction with corrections of order 1/width"
    return (Table(title=title, columns=columns, rows=tuple(rows[:_ROWS]), notes=tuple(notes)),)


@tables.register(Evolution)
def _evolution(found: Evolution) -> tuple[Table, ...]:
    moments = [f"t = {t:g}" for t in np.ravel(found.time)] if found.time is not None else []
    if found.steps is not None:
        moments = [f"{T} steps" for T in np.ravel(found.steps)]
    effect = None if found.step_effect is None else np.abs(found.step_effect).reshape(len(moments), -1).max(1)
    rows = tuple(
        (moment, f"{moved:.4g}", "yes" if good else "no", "-" if effect is None else f"{effect[t]:.2g}")
        for t, (moment, moved, good) in enumerate(zip(moments, np.ravel(found.moved), np.ravel(found.converged)))
    )
    columns = ("moment", "|H* - H| / |H|", "reached", "what steps change")
    notes = () if found.reason is None else (found.reason[0].upper() + found.reason[1:] + ".",)
    return (Table(title=f"One network in training, order {found.truncation}", columns=columns, rows=rows, notes=notes),)


@tables.register(Representation)
def _representation(found: Representation) -> tuple[Table, ...]:
    rows = tuple(
        (
            str(L),
            str(n),
            f"{found.moved[d, w]:.4g} ± {found.stderr[d, w]:.1g}",
            f"{found.moved_2[d, w]:.4g}",
            f"{found.moved_3[d, w]:.4g}",
            str(found.lost[d, w]),
        )
        for d, L in enumerate(found.depths)
        for w, n in enumerate(found.widths)
    )
    columns = ("layers", "width", "trained", "order 2", "order 3", "left out")
    note = f"|H* - H| / |H| over the training inputs, mean of {found.draws} draws."
    return (
        Table(title=f"How far training moves the NTK, {found.activation}", columns=columns, rows=rows, notes=(note,)),
    )


_POWERS = (1, 1, 2)
"""Of 1/n, with which the errors of orders 1, 2 and 3 fall for large n."""


def disagreements(found: Orders) -> list[str]:
    """A sentence for each fitted power that is more than two standard errors from what theory says of large n."""
    said = []
    for order, ((power, stderr), theory) in enumerate(zip(found.powers, _POWERS), start=1):
        away = abs(power - theory)
        if stderr > 0 and away > 2 * stderr:
            said.append(
                f"Order {order} disagrees with theory: {power:.2f} is {away / stderr:.1f} standard errors from "
                f"{theory}. "
                f"Widths {found.widths[0]} to {found.widths[-1]} are not large enough for the leading power, or "
                "the draws too few for their heavy tails."
            )
    return said


@tables.register(Orders)
def _orders(found: Orders) -> tuple[Table, ...]:
    rows = tuple(
        (
            str(n),
            *(f"{rms:.2g} ± {stderr:.1g}" for rms, stderr in zip(found.rms[:, i], found.stderr[:, i])),
            str(int(found.lost[:, i].sum())),
        )
        for i, n in enumerate(found.widths)
    )
    notes = []
    if len(found.widths) > 1:
        powers = ", ".join(f"{p:.2f} ± {stderr:.2f}" for p, stderr in found.powers)
        notes.append(f"Fitted powers p of n^-p: {powers}. Theory says 1, 1 and 2 for large n.")
        notes += disagreements(found)
    if found.lost.any():
        notes.append("A truncated kernel can lose positivity and run away; such predictions are left out.")
    columns = ("width", "order 1", "order 2", "order 3", "predictions that failed")
    return (Table(title="rms error of an output", columns=columns, rows=rows, notes=tuple(notes)),)
