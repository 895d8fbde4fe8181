"""The tables of sweeps. Imported when one of them is printed."""

from ..sweep.results import Experiments, Headlines, Status
from ._tables import Table, tables


@tables.register(Status)
def _status(found: Status) -> tuple[Table, ...]:
    state = Table(
        title=f"Sweep {found.folder}, {found.kind}",
        columns=("property", "value"),
        rows=(
            ("configurations", str(found.total)),
            ("done", str(found.done)),
            ("failed", str(found.failed)),
            ("under way", ", ".join(found.under_way) or "none"),
            ("seconds left", "unknown" if found.seconds_left is None else f"about {found.seconds_left:.0f}"),
        ),
    )
    if not found.reasons:
        return (state,)
    reasons = Table(title="Failed", columns=("configuration", "reason"), rows=tuple(found.reasons.items()))
    return state, reasons


@tables.register(Experiments)
def _experiments(found: Experiments) -> tuple[Table, ...]:
    if not found.best:
        return (Table(title="Best learning rates", notes=("Nothing is finished yet.",)),)

    def spread(values) -> str:
        return f"{100 * values.mean():.2f} ± {100 * values.std():.2f}"

    rows = tuple(
        (
            one.architecture,
            one.optimizer,
            f"{one.learning_rate:g}",
            str(len(one.test_accuracy)),
            f"{one.epochs[-1]:g}",
            f"{one.train_cost[:, -1].mean():.4f}",
            spread(one.validation_accuracy[:, -1]),
            spread(one.test_accuracy),
            "–" if one.seconds_per_epoch != one.seconds_per_epoch else f"{one.seconds_per_epoch:.3f}",
        )
        for one in found.best
    )
    columns = (
        "hidden",
        "optimizer",
        "rate",
        "seeds",
        "epochs",
        "training cost",
        "validation %",
        "test %",
        "CPU s/epoch",
    )
    note = "Rates are the best by mean validation accuracy; ± is the standard deviation over seeds."
    return (Table(title=f"Best learning rates, {found.data}", columns=columns, rows=rows, notes=(note,)),)


@tables.register(Headlines)
def _headlines(found: Headlines) -> tuple[Table, ...]:
    rows = tuple((*row, f"{number:.6g}") for row, number in zip(found.rows, found.numbers, strict=True))
    return (Table(title=f"{found.kind}: {found.headline}", columns=(*found.varied, found.headline), rows=rows),)
