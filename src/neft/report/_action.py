"""The tables of the action expansion and of its analyses. Imported when one of them is printed."""

import math
from collections.abc import Iterable

import numpy as np

from ..action.results import (
    Analysis,
    Boundedness,
    Convergence,
    Domination,
    Elements,
    ElementStatistics,
    Expansion,
    Fit,
    QuadraticForm,
    Radius,
    Recovered,
    Sizes,
    Stopping,
    Stops,
    TruncatedFlow,
)
from ._tables import Table, tables

_SHOWN = 5
_EPOCHS = 20
_ROUNDING = 1e-12


@tables.register(Analysis)
def _analysis(found: Analysis) -> tuple[Table, ...]:
    return (
        *_expansion_tables(found.expansion, found.domination),
        _radius(found.radius),
        _convergence(found.convergence),
        _elements(found.elements),
        *((_history(found.history, found.best, "θ*"),) if found.best is not None else ()),
        *(() if found.stops is None else (_stops(found.stops),)),
    )


@tables.register(Expansion)
def _expansion(found: Expansion) -> tuple[Table, ...]:
    return _expansion_tables(found, None)


def _expansion_tables(found: Expansion, other: Domination | None) -> tuple[Table, ...]:
    orders = Table(
        title=f"Action of {_model(found.made.specification)}",
        columns=("order n", "S_n", "S_0 + … + S_n", "largest term"),
        rows=tuple(
            (str(n), _number(value), _number(total), _largest(found, n))
            for n, (value, total) in enumerate(zip(found.S, found.partial_sums(), strict=True))
        ),
        notes=(
            f"The loss S(θ) itself is {found.loss:.6g}.",
            *(("One-sided: the series of S(tθ) for t ≥ 0, W and b counted together.",) if found.one_sided else ()),
        ),
    )
    if not found.terms:
        return (orders,)
    columns = ("order", "term", "value", "share, %")
    notes = [
        "A term is named by its letters: UWW is linear in U and quadratic in W. Terms that are left out are smaller.",
        "share: |term| over the sum of all |terms| of its order.",
    ]
    if other is not None:
        columns = (*columns, "|term| at random θ", "ratio", "sub-terms")
        notes.append(
            f"random θ: mean over {other.draws} draws with the norms of U, W, b and c kept; ratio: |term| over that; "
            "sub-terms: the products that its sum runs over."
        )
    rows = []
    for n in range(1, found.order + 1):
        for name, term in list(found.of_order(n).items())[:_SHOWN]:
            if abs(term.value) > _ROUNDING:
                row = (str(n), name, _number(term.value), f"{100 * term.share:.2f}")
                rows.append(row if other is None else (*row, *_against_random(other, name)))
    return orders, Table(title="Terms", columns=columns, rows=tuple(rows), notes=tuple(notes))


def _against_random(other: Domination, name: str) -> tuple[str, str, str]:
    if name not in other.value:
        return "-", "-", "-"
    return f"{other.random[name]:.3g}", f"{other.alignment[name]:.3g}", f"{other.count[name]:.3g}"


def _largest(found: Expansion, order: int) -> str:
    for name, term in found.of_order(order).items():
        if abs(term.value) > _ROUNDING:
            return f"{name} {term.share:.1%}"
    return "-"


@tables.register(Domination)
def _domination(found: Domination) -> tuple[Table, ...]:
    names = sorted(found.value, key=lambda name: -abs(found.value[name]))
    kept = [name for name in names if abs(found.value[name]) > _ROUNDING]
    return (
        Table(
            title=f"Terms at θ and at {found.draws} random θ of equal norms",
            columns=(
                "term",
                "value",
                "share, %",
                "|term| at random θ",
                "its spread",
                "share there, %",
                "ratio",
                "sub-terms",
            ),
            rows=tuple(
                (
                    name,
                    _number(found.value[name]),
                    f"{100 * found.share[name]:.2f}",
                    f"{found.random[name]:.3g}",
                    f"{found.spread[name]:.2g}",
                    f"{100 * found.random_share[name]:.2f}",
                    f"{found.alignment[name]:.3g}",
                    f"{found.count[name]:.3g}",
                )
                for name in kept
            ),
        ),
    )


@tables.register(Radius)
def _only_radius(found: Radius) -> tuple[Table, ...]:
    return (_radius(found),)


def _radius(found: Radius) -> Table:
    others = found.samples - found.excluded
    nearer = f"none, in all {found.samples:,} samples" if found.verified else "not excluded for all samples"
    return Table(
        title="Radius of convergence of S(tθ) in t",
        columns=("property", "value"),
        rows=(
            ("radius", f"{found.radius:.6g}"),
            ("bound by", found.binds),
            ("nearest zero found", _complex(found.zero, found.sample)),
            ("bound from the activation", f"{found.pole:.6g}"),
            ("zeros nearer by 0.1 %", nearer),
            ("known from a bound on the logits", _samples(found.excluded)),
            (f"{'known' if found.verified else 'to know'} from counting zeros", _samples(others)),
        ),
        notes=(_meaning(found.radius),),
    )


def _samples(count: int) -> str:
    return f"{count:,} sample{'' if count == 1 else 's'}"


def _meaning(radius: float) -> str:
    if radius > 1:
        return "θ lies inside: at t = 1 the partial sums converge to the loss."
    return "θ lies outside: at t = 1 the partial sums mean nothing, however many terms are taken."


def _complex(zero: tuple[float, float] | None, sample: int | None) -> str:
    return "none" if zero is None else f"t = {zero[0]:.4g} ± {zero[1]:.4g}i, of sample {sample}"


@tables.register(Convergence)
def _only_convergence(found: Convergence) -> tuple[Table, ...]:
    return (_convergence(found),)


def _convergence(found: Convergence) -> Table:
    last = len(found.partial) - 1
    orders = [n for n in dict.fromkeys((2, 4, 8, last)) if n <= last]
    rows = []
    for i in range(0, len(found.t), max(1, (len(found.t) - 1) // 10)):
        good = found.pade_error[i] < 0.1 * max(float(np.ptp(found.loss)), 1e-3)
        pade = f"{found.pade[i]:.4f} ± {found.pade_error[i]:.1e}" if good else "-"
        sums = (_sum(found.partial[n, i]) for n in orders)
        rows.append((f"{found.t[i]:.3g}", f"{found.loss[i]:.4f}", *sums, pade, found.verdict(float(found.t[i]))))
    return Table(
        title="The loss along tθ and its series",
        columns=("t", "loss", *(f"to order {n}" for n in orders), "Padé", "circle of convergence"),
        rows=tuple(rows),
        notes=("Padé: approximants of the same series; - where they do not agree among themselves.",),
    )


@tables.register(Elements)
def _all_elements(found: Elements) -> tuple[Table, ...]:
    return (_elements(found),)


@tables.register(ElementStatistics)
def _one_tensor(found: ElementStatistics) -> tuple[Table, ...]:
    return (_statistics([("", found)]),)


def _elements(found: Elements) -> Table:
    return _statistics(found.of.items())


def _statistics(of: Iterable[tuple[str, ElementStatistics]]) -> Table:
    return Table(
        title="Elements",
        columns=(
            *("tensor", "elements", "mean", "spread", "skew", "excess kurtosis"),
            *("negative, %", "of the mass, %", "distance", "Gaussian"),
        ),
        rows=tuple(
            (
                name,
                f"{x.size:,}",
                f"{x.mean:.2e}",
                f"{x.spread:.3g}",
                f"{x.skew:.2f}",
                f"{x.kurtosis:.2f}",
                f"{100 * x.negative:.1f}",
                f"{100 * x.negative_mass:.1f}",
                f"{x.distance:.3f}",
                "yes" if x.gaussian else "no",
            )
            for name, x in of
        ),
        notes=(
            "J2, J3: J with one and two indices of inputs; UW, UWW: the propagators; J2·UW, J3·UWW: their products.",
            "negative: share of the elements below 0, and of the sum of all |elements|.",
            "distance: the largest difference to the distribution function of a Gaussian; no: beyond the 1 % level.",
        ),
    )


@tables.register(Fit)
def _fit(found: Fit) -> tuple[Table, ...]:
    histories = {"training": found.training_loss, "evaluation": found.evaluation_loss, "accuracy": found.accuracy}
    return (_history(histories | found.scales, found.best, _shape(found)),)


def _shape(found: Fit) -> str:
    return f"{found.W.shape[1]} - {found.W.shape[0]} - {found.U.shape[0]}, {found.activation}"


def _history(history: dict[str, np.ndarray], best: int, what: str) -> Table:
    count = len(history["training"])
    shown = sorted({*range(0, count, max(1, -(-count // _EPOCHS))), best, count - 1})
    losses = [name for name in ("training", "evaluation", "accuracy") if name in history]
    letters = [name for name in ("U", "W", "b", "c") if name in history]
    return Table(
        title=f"Early stopping: the training of {what}",
        columns=("epoch", *(f"{n} loss" if n != "accuracy" else n for n in losses), *(f"rms {n}" for n in letters), ""),
        rows=tuple(
            (
                str(i),
                *(f"{history[name][i]:.4f}" for name in losses),
                *(f"{history[name][i]:.4f}" for name in letters),
                "θ*" if i == best else "",
            )
            for i in shown
        ),
        notes=(
            "θ*: the parameters of the epoch with the least evaluation loss. rms: root mean square of the elements.",
            *(("The last epoch is the best one: more epochs may lower the loss.",) if best == count - 1 else ()),
        ),
    )


@tables.register(Stopping)
def _stopping(found: Stopping) -> tuple[Table, ...]:
    stops = (
        ("least evaluation loss S_E", found.minimum),
        ("∇S_T·∇S_E turns negative", found.stop_by_alignment),
        ("∇S_E·Δθ turns positive", found.stop_by_drift),
    )
    return (
        Table(
            title="Early stopping by gradients",
            columns=("rule", "step", "training loss", "evaluation loss"),
            rows=tuple(
                (rule, "-", "-", "-")
                if step is None
                else (rule, str(step), f"{found.training[step]:.6g}", f"{found.evaluation[step]:.6g}")
                for rule, step in stops
            ),
            notes=(
                f"{len(found.training) - 1} steps. The rule is {'' if found.trusted else 'not '}to be trusted: "
                f"{found.reason}.",
            ),
        ),
    )


@tables.register(Stops)
def _only_stops(found: Stops) -> tuple[Table, ...]:
    return (_stops(found),)


def _stops(found: Stops) -> Table:
    def step(stop: int | None) -> str:
        return "-" if stop is None else str(stop)

    return Table(
        title="Early stopping by gradients: full-batch descents on parts of the data",
        columns=(
            "samples",
            "least S_E at",
            "∇S_T·∇S_E < 0 at",
            "∇S_E·Δθ > 0 at",
            "least S_E",
            "S_E at the end",
            "trusted",
        ),
        rows=tuple(
            (
                f"{size:,}",
                step(run.minimum),
                step(run.stop_by_alignment),
                step(run.stop_by_drift),
                f"{run.evaluation.min():.4f}",
                f"{run.evaluation[-1]:.4f}",
                f"{'yes' if run.trusted else 'no'}: {run.reason}",
            )
            for size, run in zip(found.sizes, found.runs, strict=True)
        ),
        notes=(
            f"{len(found.runs[0].training) - 1} steps each, from the same parameters; - where it did not happen.",
            "trusted: whether ∇S_T·∇S_E = 0 may be taken for the minimum of the evaluation loss S_E.",
        ),
    )


@tables.register(Sizes)
def _sizes(found: Sizes) -> tuple[Table, ...]:
    def grid(title: str, values: np.ndarray, form: str) -> Table:
        return Table(
            title=title,
            columns=("E", *(f"H = {h}" for h in found.hidden)),
            rows=tuple((str(E), *(format(v, form) for v in row)) for E, row in zip(found.features, values)),
        )

    laws = Table(
        title="Power law: loss = floor + amplitude / H^exponent",
        columns=("E", "exponent", "floor", "rms error"),
        rows=tuple(
            (str(E), f"{a:.3f}", f"{b:.4f}", f"{c:.1e}")
            for E, a, b, c in zip(found.features, found.exponent, found.floor, found.error)
        ),
    )
    return (
        grid("Optimized loss, by inputs E and hidden units H", found.loss, ".4f"),
        grid("Share of UW in S_2 at θ*, %", 100 * found.share_UW, ".1f"),
        grid("Share of UWW in S_3 at θ*, %", 100 * found.share_UWW, ".1f"),
        laws,
    )


@tables.register(Recovered)
def _recovered(found: Recovered) -> tuple[Table, ...]:
    return (
        Table(
            title="The loss from its series",
            columns=("way", "value", "estimated error", "true error"),
            rows=(
                ("the loss itself", f"{found.truth:.8g}", "-", "-"),
                (f"{len(found.centres)} series, step by step", *_with_error(found.value, found.error, found.truth)),
                ("Padé at the origin", *_with_error(found.pade, found.pade_error, found.truth)),
                (
                    f"partial sum to order {found.order}",
                    f"{found.partial:.8g}",
                    "-",
                    _error(found.partial, found.truth),
                ),
            ),
            notes=(f"The series at the origin has the radius {found.radius:.4g}. {_meaning(found.radius)}",),
        ),
    )


def _with_error(value: float, error: float, truth: float) -> tuple[str, str, str]:
    return f"{value:.8g}", f"{error:.1e}", _error(value, truth)


def _error(value: float, truth: float) -> str:
    return f"{abs(value - truth):.1e}"


@tables.register(QuadraticForm)
def _quadratic_form(found: QuadraticForm) -> tuple[Table, ...]:
    return (
        Table(
            title=f"δ/M - 1/M² for M = {found.classes}",
            columns=("property", "value"),
            rows=(
                ("definiteness", found.definiteness),
                (
                    "eigenvalues",
                    ", ".join(f"{value:.4g}" for value in np.where(found.eigenvalues < 1e-14, 0, found.eigenvalues)),
                ),
                ("determinant", f"{found.determinant:.3g}"),
                ("null vectors", str(len(found.null))),
            ),
        ),
    )


@tables.register(Boundedness)
def _boundedness(found: Boundedness) -> tuple[Table, ...]:
    said = {True: "yes", False: "no", None: "not decided"}[found.bounded]
    facts = Table(
        title=f"Is S_0 + … + S_{found.order} bounded from below?",
        columns=("property", "value"),
        rows=(("bounded", said), ("because", found.certificate)),
    )
    if found.bounded is not False:
        return (facts,)
    return facts, Table(
        title="Along the direction that is given",
        columns=("times", f"S_0 + … + S_{found.order}"),
        rows=tuple((f"{r:.4g}", f"{v:.4g}") for r, v in zip(found.scales, found.values)),
    )


@tables.register(TruncatedFlow)
def _flow(found: TruncatedFlow) -> tuple[Table, ...]:
    at = np.unique(np.linspace(0, len(found.time) - 1, 10).astype(int))
    end = "stays" if found.escaped is None else f"runs away: |θ| grows {found.limit:g}-fold by t = {found.escaped:.4g}"
    return (
        Table(
            title=f"Gradient flow of S_2 + … + S_{found.order}",
            columns=("time", "|θ|", f"S_0 + … + S_{found.order}"),
            rows=tuple((f"{found.time[i]:.4g}", f"{found.norm[i]:.4g}", f"{found.truncated[i]:.6g}") for i in at),
            notes=(f"It {end}.",),
        ),
    )


def _model(of: dict) -> str:
    data = of.get("data", {})
    samples = f"{data['count']:,} samples" if "count" in data else "samples"
    named = f" of {data['name']}, {data['split']} split, {data['preprocessing']}" if "name" in data else ""
    return f"{of['features']} - {of['hidden']} - {of['classes']}, {of['activation']}, on {samples}{named}"


def _number(value: float) -> str:
    # Sums that vanish but for rounding.
    return "0" if abs(value) < _ROUNDING else f"{value:.6g}"


def _sum(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) and abs(value) < 1e4 else f"{value:.2e}"
