"""Fisher: learning curves of RNGD and its rivals."""

import numpy as np

from .. import fisher as theory
from .. import plot
from ..fisher.results import Curves
from ._figure import figure
from ._html import heading, note, paragraph, side_by_side, table
from ._math import math
from ._page import Context
from ._reasons import no_rivals
from ._tables import Table

_OPTIMIZERS = ("rngd-units", "sgd", "momentum", "adam")
_FEW = ("rngd-units", "sgd", "adam")
_PER_CLASS = 500


def fisher(context: Context) -> str:
    """The training cost of each optimizer per epoch and per CPU second."""
    of, quick = context.of, context.quick
    if reason := no_rivals(of):
        return heading("RNGD and its rivals") + note(reason)
    if of.jumps:
        return note(f"{of.jumping} jumps, so it has no gradient to be trained by.")
    seeds = range(of.seed, of.seed + (1 if quick else 2))
    fewest = int(np.bincount(of.train.y).min())
    data = of.train.balanced(min(fewest, 200 if quick else _PER_CLASS))
    batch = max(1, min(50, data.count * 5 // 7 // 4))
    hidden, act = of.plain.widths[1:-1], of.plain.activation.name
    options = {"hidden": hidden, "activation": act, "batch": batch, "epochs": 4 if quick else 8}
    named = ", ".join(map(str, hidden)) or "none"
    found: dict[str, list[Curves]] = {}
    stopped: list[str] = []
    for name in _FEW if quick else _OPTIMIZERS:
        try:
            found[name] = [theory.train(data, optimizer=name, seed=seed, **options).curves for seed in seeds]
        except ValueError as error:
            # A cost that is not finite ends one optimizer's training, which says something about it.
            stopped.append(f"{name}: {error}")
    if not found:
        raise ValueError(f"no optimizer could be trained: {' '.join(stopped)}")
    return (
        paragraph(
            "RNGD follows the gradient in the metric of relative Fisher information, layer by layer, on white inputs, "
            "in steps whose size falls to 0; its rivals are at their usual rates. The network has hidden widths "
            f"{named} and {act}; of {data.count:,} examples five sevenths are trained on, in batches of {batch}. The "
            "cost is the cross-entropy with the term ½·0.001·|W|²."
        )
        + math("w′ = w - η (F + ε)^{-1} ∇L", block=True)
        + side_by_side(
            figure(
                plot.rivals(found, clock="epochs"),
                name="per-epoch",
                alt=f"Training cost per epoch of {', '.join(found)}" + ("" if quick else ", with error bars"),
                caption=f"Per epoch: lowest at the end is {_lowest(found)}." + _bars(len(seeds)),
            ),
            figure(
                plot.rivals(found, clock="cpu_seconds"),
                name="per-second",
                alt=f"Training cost per CPU second of {', '.join(found)}" + ("" if quick else ", with error bars"),
                caption="Per CPU second of the steps, whitening included, compilation not: the leftmost is the "
                "fastest.",
            ),
        )
        + table(_facts(found))
        + "".join(map(note, stopped))
    )


def _lowest(found: dict[str, list[Curves]]) -> str:
    return min(found, key=lambda name: float(np.mean([one.train_cost[-1] for one in found[name]])))


def _bars(seeds: int) -> str:
    return " One seed, so there are no error bars." if seeds == 1 else f" Two standard errors over {seeds} seeds."


def _facts(found: dict[str, list[Curves]]) -> Table:
    # A cost that most of them reach: that of the slowest at its end.
    goal = max(float(np.mean([one.train_cost[-1] for one in curves])) for curves in found.values())
    rows = []
    for name, curves in found.items():
        reached = [one.reached(goal) for one in curves]
        times = [pair for pair in reached if pair is not None]
        epochs, seconds = ("-", "-") if not times else (f"{v:.2g}" for v in np.mean(times, axis=0))
        accuracy = 100 * np.mean([one.validation_accuracy[-1] for one in curves])
        cost = np.mean([one.train_cost[-1] for one in curves])
        rows.append((name, f"{curves[0].learning_rate:g}", f"{cost:.4f}", f"{accuracy:.1f}", epochs, seconds))
    return Table(
        title="At the end, and on the way",
        columns=("optimizer", "rate", "cost", "validation accuracy, %", "epochs to goal", "CPU seconds to goal"),
        rows=tuple(rows),
        notes=(f"The goal is the cost {goal:.4f}, where the slowest of them ends.",),
    )
