"""The tables of trained networks. Imported when one of them is printed."""

from collections.abc import Sequence

import numpy as np

from .._result import Result
from ..training.results import (
    Assessment,
    FinitePrediction,
    Forecast,
    Forecasts,
    LearningCurve,
    Posterior,
    Prediction,
    Regression,
    Tested,
)
from . import _finite as _finite
from ._tables import Table, tables

_ROWS, _OUTPUTS = 20, 3


@tables.register(Prediction)
def _prediction(found: Prediction) -> tuple[Table, ...]:
    moments = [(f"t = {t:g}",) for t in np.ravel(found.time)] if found.time is not None else []
    if found.steps is not None:
        moments = [(f"{T} steps",) for T in np.ravel(found.steps)]
    if found.ridge is not None:
        moments = [(f"ridge {ridge:g}",) for ridge in np.ravel(found.ridge)]
    N, O = found.mean.shape[-2:]
    means = found.mean.reshape(-1, N, O)
    stds = [None] * len(means) if found.cov is None else found.std.reshape(-1, N, O)
    rows = [
        (*moment, str(a + 1), *(_with_spread(m[a, i], s if s is None else s[a, i]) for i in range(min(O, _OUTPUTS))))
        for moment, m, s in zip(moments, means, stds, strict=True)
        for a in range(min(N, _ROWS))
    ]
    columns = ("moment", "input", *(f"output {i + 1}" for i in range(min(O, _OUTPUTS))))
    return (Table(title="Prediction at infinite width", columns=columns, rows=tuple(rows), notes=_notes(found, N, O)),)


@tables.register(Posterior)
def _posterior(found: Posterior) -> tuple[Table, ...]:
    N, O = found.mean.shape[-2:]
    several = found.noise[:, 0].tolist() if found.noise.ndim == 2 else [None]
    rows = tuple(
        (
            *(() if noise is None else (f"{noise:g}",)),
            str(a + 1),
            *(_with_spread(m[a, i], s[a, i]) for i in range(min(O, _OUTPUTS))),
        )
        for noise, m, s in zip(several, found.mean.reshape(-1, N, O), found.std.reshape(-1, N, O), strict=True)
        for a in range(min(N, _ROWS))
    )
    columns = ("input", *(f"output {i + 1}" for i in range(min(O, _OUTPUTS))))
    notes = _left_out(N, O)
    if found.leave_one_out is not None:
        columns = ("noise", *columns)
        errors = ", ".join(f"{noise:g}: {error:.4g}" for noise, error in zip(several, found.leave_one_out))
        notes = (*notes, f"Leave-one-out error by noise: {errors}.")
    return (Table(title="Posterior of the NNGP", columns=columns, rows=rows, notes=notes),)


@tables.register(Regression)
def _regression(found: Regression) -> tuple[Table, ...]:
    if found.leave_one_out is None or found.leave_one_out_error is None:
        return (_solved(found, len(found.x)),)
    rows = tuple(
        (f"{ridge:g}", f"{value:.4g}", f"{error:.1g}")
        for ridge, value, error in zip(found.ridges, found.leave_one_out, found.leave_one_out_error)
    )
    columns = ("ridge", "mean square error", "its standard error")
    return (_solved(found, len(found.x)), Table(title="Leave-one-out", columns=columns, rows=rows))


@tables.register(LearningCurve)
def _curve(found: LearningCurve) -> tuple[Table, ...]:
    measured = [None] * len(found.sizes) if found.measured is None else found.measured
    rows = tuple(
        (str(size), f"{error:.4g}", "" if seen is None or np.isnan(seen) else f"{seen:.4g}", f"{dimension:.4g}")
        for size, error, seen, dimension in zip(found.sizes, found.error, measured, found.dimension)
    )
    columns = ("training inputs", "expected error", "measured", "directions learned")
    title = f"Learning curve: {found.kernel}, ridge {found.ridge:g}, spectrum of {found.sample} inputs"
    return (Table(title=title, columns=columns, rows=rows),)


@tables.register(Tested)
def _tested(found: Tested) -> tuple[Table, ...]:
    N, O = found.mean.shape
    rows = tuple(
        (str(a + 1), *(f"{found.mean[a, i]:.5g}" for i in range(min(O, _OUTPUTS)))) for a in range(min(N, _ROWS))
    )
    columns = ("input", *(f"output {i + 1}" for i in range(min(O, _OUTPUTS))))
    notes = _left_out(N, O)
    if found.accuracy is not None:
        notes = (*notes, f"The largest output is the label of {found.accuracy:.2%} of {N} inputs.")
    table = Table(title="Mean at the test inputs", columns=columns, rows=rows, notes=notes)
    return (_solved(found, found.points), table)


def _solved(found: Regression | Tested, points: int) -> Table:
    rows = [("residual", f"{found.residual:.2g}"), *((name, f"{value:.4g}") for name, value in found.cost.items())]
    title = f"Kernel regression on {points} points: {found.kernel}, ridge {found.ridge:g}, {found.way}"
    return Table(title=title, columns=("", "value"), rows=tuple(rows))


@tables.register(Forecast)
def _forecast(found: Forecast) -> tuple[Table, ...]:
    N, O = found.mean.shape
    rows = []
    for a in range(min(N, _ROWS)):
        for i in range(min(O, _OUTPUTS)):
            row = [str(a + 1), str(i + 1), f"{found.mean[a, i]:.5g}", f"{found.std[a, i]:.3g}"]
            if found.trained is not None and found.apart is not None:
                mean, std = found.trained.mean[a, i], found.trained.std[a, i]
                row += [f"{mean:.5g}", f"{std:.3g}", f"{found.apart[a, i]:+.1f}"]
            rows.append(tuple(row))
    columns = ("input", "output", "mean", "std")
    notes = list(_notes(found.prediction, N, O))
    if found.trained is not None:
        columns += ("trained mean", "trained std", "z-score")
        good, draws = int(found.trained.good.sum()), len(found.trained.good)
        failed = f", {draws - good} of which did not get to the end" if good < draws else ""
        notes.append(f"{draws} networks were trained{failed}; z-scores are of their mean.")
        if found.order == 0:
            notes.append(
                "At finite width they differ from infinite width by terms of order 1/width (order 1 has them)."
            )
    where = "infinite width" if found.order == 0 else f"order {found.order} in 1/width"
    title = f"Trained networks {' - '.join(map(str, found.widths))}, {found.activation}: {where}"
    table = Table(title=title, columns=columns, rows=tuple(rows), notes=tuple(notes))
    answers = [
        (name, one)
        for name, one in (
            (f"order {found.order}" if found.order else "infinite width", found.assessment),
            ("infinite width", found.infinite),
            ("trained", found.trained_assessment),
        )
        if one is not None
    ]
    more = (_answers(answers),) if answers else ()
    # The corrections have tables of their own.
    if isinstance(found.prediction, FinitePrediction):
        more += tables(found.prediction)
    return (table, *more)


def _answer(found: Assessment, name: str) -> str:
    # Where all draws say the same, what rounding leaves of their spread is no spread.
    value, spread = float(getattr(found, name)), float(getattr(found, name + "_spread"))
    return f"{value:.4g} ± {0.0 if spread < 1e-12 * max(1.0, abs(value)) else spread:.2g}"


def _answers(columns: Sequence[tuple[str, Assessment]]) -> Table:
    # At one moment; each number with its spread over draws.
    names = {
        "share of right answers": "accuracy",
        "mean confidence": "confidence",
        "confidence - right answers": "overconfidence",
        "-ln p of the right class": "nll",
    }
    rows = [
        (
            said,
            *(_answer(one, name) for _, one in columns),
        )
        for said, name in names.items()
    ]
    for said, name in (("right answers of all draws together", "together"), ("calibration error", "calibration_error")):
        rows.append((said, *(f"{float(getattr(one, name)):.4g}" for _, one in columns)))
    note = "± is the standard deviation over initializations. The calibration error is over all draws and inputs."
    tests = len(columns[0][1].labels)
    title = f"Answers at {tests} test input{'s' * (tests > 1)}"
    return Table(title=title, columns=("", *(name for name, _ in columns)), rows=tuple(rows), notes=(note,))


@tables.register(Assessment)
def _assessment(found: Assessment) -> tuple[Table, ...]:
    if found.accuracy.ndim == 0:
        return (_answers([(f"{found.draws} draws", found)]),)
    names = ("accuracy", "together", "confidence", "overconfidence", "calibration_error", "nll")
    rows = tuple(
        (str(i + 1), *(f"{getattr(found, name)[i]:.4g}" for name in names)) for i in range(len(found.accuracy))
    )
    return (Table(title=f"Answers of {found.draws} draws", columns=("moment", *names), rows=rows),)


@tables.register(Forecasts)
def _forecasts(found: Forecasts) -> tuple[Table, ...]:
    moments = np.asarray(found.steps if found.time is None else found.time)
    if found.time is None and found.steps is None:
        moments = np.array([np.inf])
    rows = []
    for n, line in zip(found.hidden, found.each):
        for moment, one in zip(moments, line):
            row = [str(n), f"{moment:g}", f"{one.mean[0, 0]:.5g}", f"{one.std[0, 0]:.3g}"]
            for seen in (one.assessment, one.trained_assessment):
                if seen is not None:
                    row.append(_answer(seen, "accuracy"))
                    row.append(f"{float(seen.overconfidence):.4g}")
            if one.trained is not None:
                row += [f"{one.trained.mean[0, 0]:.5g}", f"{one.trained.std[0, 0]:.3g}"]
            rows.append(tuple(row))
    first = found.each[0][0]
    columns = ["width", "time" if found.steps is None else "steps", "mean", "std"]
    columns += ["right answers", "overconfidence"] if first.assessment is not None else []
    columns += ["trained: right answers", "trained: overconfidence"] if first.trained_assessment is not None else []
    columns += ["trained mean", "trained std"] if first.trained is not None else []
    note = "mean and std are of output 1 at test input 1."
    where = "infinite width" if first.order == 0 else f"order {first.order} in 1/width"
    return (Table(title=f"Forecasts, {where}", columns=tuple(columns), rows=tuple(rows), notes=(note,)),)


def _with_spread(mean: float, std: float | None) -> str:
    return f"{mean:.5g}" if std is None else f"{mean:.5g} ± {std:.2g}"


def _notes(prediction: Result, N: int, O: int) -> tuple[str, ...]:
    notes = list(_left_out(N, O))
    if isinstance(prediction, Prediction):
        notes.append(
            f"Largest stable learning rate {prediction.max_learning_rate:.4g}; {prediction.rank} directions learned."
        )
        if prediction.ridge is not None and prediction.leave_one_out is not None:
            missed = zip(np.ravel(prediction.ridge), np.ravel(prediction.leave_one_out))
            notes.append("Leave-one-out mean squares: " + ", ".join(f"{e:.4g} at ridge {r:g}" for r, e in missed) + ".")
    return tuple(notes)


def _left_out(N: int, O: int) -> tuple[str, ...]:
    if N <= _ROWS and O <= _OUTPUTS:
        return ()
    return (f"Shown: {min(N, _ROWS)} of {N} inputs, {min(O, _OUTPUTS)} of {O} outputs; --out keeps all.",)
