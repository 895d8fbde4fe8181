"""Training: predicted outputs against those of trained networks, and the error against width at orders 1, 2 and 3."""

from typing import Any, NamedTuple

import jax
import numpy as np

from .. import plot, training
from ..network import MLP
from ..training.results import Forecast, Orders
from ._figure import figure
from ._finite import disagreements
from ._html import heading, note, paragraph, table
from ._math import math
from ._page import Context
from ._reasons import no_gradient, no_order_one, no_orders
from ._subject import Recipe, Subject
from ._tables import Table, tables

_RATE = 0.25
"""Steps are this part of the largest stable one, so that they follow gradient flow closely."""

_STEPS = 60
_WIDEST, _WIDE = 256, 128
_DRAWS = 24
_MOST = 16
"""Training examples beside terms of order 1/width."""

_TESTS = {True: 200, False: 500}
_LEFT_OUT = "--quick leaves this out, which takes long."


def forecast(context: Context) -> str:
    """Networks of infinite width and trained networks, on a few training examples."""
    of, draws = context.of, 24 if context.quick else 64
    if reason := no_gradient(of) or (of.unknown if of.chain is None else None):
        return (heading("Predicted and trained") if of.chain is None else "") + note(reason)
    train, tests = _few(of, 2, 20), _held_out(of, 12)
    x, y = train[0], np.eye(of.train.classes)[train[1]] - 1 / of.train.classes
    rate = _RATE * training.max_learning_rate(of.net, x)
    found = training.forecast(
        of.net, x, y, tests[0], steps=_STEPS, learning_rate=rate, draws=draws, key=jax.random.fold_in(of.key, 2)
    )
    assert isinstance(found, Forecast) and found.trained is not None and found.apart is not None
    apart = found.trained.mean - found.mean
    facts = Table(
        title="Predicted and trained, all outputs at all test inputs",
        columns=("", "predicted", "trained"),
        rows=(
            ("rms of the means", _number(found.mean), _number(found.trained.mean)),
            ("rms of the spreads over draws", _number(found.std), _number(found.trained.std)),
            ("rms difference of the means", "-", f"{_number(apart)} ± {_number(found.trained.stderr)}"),
            ("right answers by the mean", _right(found.mean, tests[1]), _right(found.trained.mean, tests[1])),
        ),
        notes=(
            "± is the standard error of the trained means: a difference beyond it is of order 1/width."
            + ("" if no_order_one(of) else " neft predict --order 1 has those terms."),
        ),
    )
    return (
        heading("Predicted and trained")
        + paragraph(
            f"An infinitely wide network is a linear model with the kernel Θ, which training does not move. Here it is "
            f"after {_STEPS} steps of gradient descent of size {rate:.3g} on half the squared error of {len(x)} "
            f"examples (targets 1 - 1/{of.train.classes} for the class and -1/{of.train.classes} for the others), "
            f"beside {draws} networks of the real width."
        )
        + math("z(T) = z(0) - Θ_{xA}Θ_{AA}^{-1}(1 - (1 - ηΘ_{AA})^T)(z_A(0) - y)", block=True)
        + figure(
            plot.draw(found),
            name="forecast",
            alt=f"First output at {len(tests[0])} test inputs: predicted mean with two spreads, and the outputs of "
            "trained networks",
            caption=f"Dots should fill the bars, two standard deviations of infinite width. {_seen(found, draws)}",
        )
        + table(facts)
        + ("" if of.chain is not None else _on_more(of, context.quick))
    )


def _seen(found: Forecast, draws: int) -> str:
    # Outputs of one network go together, so the spread of a spread is taken as that of the draws alone.
    assert found.trained is not None
    ours, theirs = (float(np.sqrt(np.mean(np.square(values)))) for values in (found.std, found.trained.std))
    if abs(theirs / ours - 1) < 2 / np.sqrt(2 * draws):
        return f"They do: trained networks spread by {theirs:.2g}, predicted is {ours:.2g}."
    less = "less" if theirs < ours else "more"
    return (
        f"They disagree: trained networks spread {less}, by {theirs:.2g} instead of {ours:.2g}. That is what finite "
        "width "
        "does to training."
    )


def _on_more(of: Subject, quick: bool) -> str:
    # Kernels take more examples than trained networks do.
    tests = _held_out(of, _TESTS[quick] if of.test is not None else min(_TESTS[quick], of.train.count // 4))
    rows: dict[int, tuple[str, ...]] = {}
    for per_class in (5, 20) if quick else (5, 20, 50):
        x, labels = _few(of, per_class, per_class * of.train.classes, leave=0 if of.test is not None else len(tests[1]))
        y = np.eye(of.train.classes)[labels] - 1 / of.train.classes
        found = (training.predict(of.net, x, y, tests[0]).mean, training.nngp(of.net, x, y, tests[0]).mean)
        rows[len(x)] = (str(len(x)), *(_share(mean, tests[1]) for mean in found))
    return table(
        Table(
            title=f"Right answers at infinite width, in % of {len(tests[1])} test inputs",
            columns=("training examples", "all layers trained (NTK)", "Bayes (NNGP)"),
            rows=tuple(rows.values()),
            notes=(
                "NTK: gradient flow to its end on half the squared error. NNGP: the posterior of the untrained "
                "network's Gaussian process, as if only the last layer were trained. ± is one standard error over test "
                "inputs.",
            ),
        )
    )


def _share(means: np.ndarray, labels: np.ndarray) -> str:
    right = float((means.argmax(1) == labels).mean())
    return f"{100 * right:.1f} ± {100 * np.sqrt(right * (1 - right) / len(labels)):.1f}"


def _number(values: np.ndarray) -> str:
    return f"{np.sqrt(np.mean(np.square(values))):.3g}"


def _right(means: np.ndarray, labels: np.ndarray) -> str:
    return f"{int((means.argmax(1) == labels).sum())} of {len(labels)}"


def _few(of: Subject, per_class: int, most: int, leave: int = 0) -> tuple[np.ndarray, np.ndarray]:
    # The first examples of each class, in turn, without as many at the end as are left for tests.
    y = of.train.y[: of.train.count - leave]
    by_class = [np.flatnonzero(y == label)[:per_class] for label in range(of.train.classes)]
    chosen = [index[k] for k in range(per_class) for index in by_class if k < len(index)][:most]
    return of.train.x[chosen].astype(float), of.train.y[chosen]


def _held_out(of: Subject, count: int) -> tuple[np.ndarray, np.ndarray]:
    # Without a test split, examples from the end, which training does not see.
    source = of.train if of.test is None else of.test
    part = slice(-count, None) if of.test is None else slice(count)
    return source.x[part].astype(float), source.y[part]


def as_trained(context: Context) -> str:
    """Classifiers, batches and momentum, where the page is asked about them: predicted and trained."""
    of, recipe = context.of, context.of.recipe
    if recipe == Recipe():
        return ""
    start = heading("As it is trained")
    if reason := no_gradient(of) or (of.unknown if of.chain is None else None):
        return start + note(reason)
    left_out = no_order_one(of) or (_no_orders(of) if of.chain is not None else None)
    order = 0 if context.quick or left_out else 1
    x, y, tests, net = _two_classes(of, recipe.batch) if order else (*_few(of, 2, 20), _held_out(of, 12), of.net)
    batch = None if recipe.batch is None else min(recipe.batch, len(x))
    # A batch's gradient is N/|B| times a sum over it, and momentum adds up 1/(1-β) of them.
    rate = _RATE * training.max_learning_rate(net, x) * (1 - recipe.momentum) * (batch or len(x)) / len(x)
    options: dict[str, Any] = {"loss": recipe.loss, "batch": batch, "momentum": recipe.momentum, "order": order}
    options |= {"steps": _STEPS, "learning_rate": rate, "draws": 64, "key": jax.random.fold_in(of.key, 6)}
    targets = y if recipe.loss == "cross_entropy" else np.eye(net.outputs)[y] - 1 / net.outputs
    answers = {"y_test": tests[1]} if recipe.loss == "cross_entropy" else {}
    found = training.forecast(net, x, targets, tests[0], **answers, **options)
    said = "the cross-entropy" if answers else "half the squared error"
    by = f"{_STEPS} steps of size {rate:.3g} on {said} of {len(x)} examples"
    by += "" if batch is None else f", each by a batch of {batch}"
    if recipe.batch is not None and recipe.batch > len(x):
        by += f", which are all there are here, where {recipe.batch} were asked for"
    by += f", with momentum {recipe.momentum:g}" if recipe.momentum else ""
    where = "with terms of order 1/width" if order else "at infinite width"
    few = " To keep it short these are of two classes." if order else ""
    return (
        start
        + paragraph(f"Networks after {by}: what theory says {where}, beside 64 networks of the real width.{few}")
        + figure(
            plot.draw(found),
            name="as-trained",
            alt="First output at the test inputs: predicted mean with two spreads, and outputs of trained networks",
            caption="The first output at each test input. Bars are two standard deviations over initializations.",
        )
        + "".join(table(one) for one in tables(found))
        + (note(left_out or _LEFT_OUT) if not order else "")
    )


def _two_classes(of: Subject, batch: int | None) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], MLP]:
    # The first two classes in turn: order 1 has tensors over four examples, so that there are few, but more than a
    # batch of them where that is possible.
    count = 6 if batch is None else int(np.clip(2 * batch, 6, _MOST))
    source, parts = of.train if of.test is None else of.test, []
    for part, order, size in ((of.train, 1, count), (source, -1 if of.test is None else 1, 12)):
        each = [np.flatnonzero(part.y == label)[::order][: size // 2] for label in (0, 1)]
        where = [one[k] for k in range(size // 2) for one in each if k < len(one)]
        parts.append((part.x[where].astype(float), part.y[where]))
    return *parts[0], parts[1], of.plain.replace(widths=(*of.plain.widths[:-1], 2))


def after(context: Context) -> str:
    """What theory says of the trained ensemble at the real width: the terms of order 1/width."""
    of = context.of
    start = heading("After training, at this width")
    reason = no_order_one(of) or _no_orders(of) or (_LEFT_OUT if context.quick else None)
    if reason:
        return start + note(reason)
    problem = _small(of, 2)
    found = training.forecast(*problem.given, order=1, draws=256, key=jax.random.fold_in(of.key, 5), **problem.schedule)
    assert isinstance(found, Forecast)
    return (
        start
        + paragraph(
            "At finite width the mean over initializations moves by terms of order 1/width: the kernel fluctuates from "
            "draw to draw, and training moves it (dNTK, ddNTK), which is how representations are learned. "
            f"{problem.said} 256 networks of the real width were trained beside it."
        )
        + figure(
            plot.draw(found.prediction),
            name="after",
            alt="Contributions of kernel fluctuations, dNTK and ddNTK to the mean of the output at each test input",
            caption="What each term adds to the mean of the output at each test input: at infinite width, nothing.",
        )
        + "".join(table(one) for one in tables(found))
    )


def orders(context: Context) -> str:
    """The error of the hierarchy of tangent kernels at orders 1, 2 and 3 against the width."""
    of = context.of
    start = heading("Order by order")
    reason = no_orders(of) or _no_orders(of) or (_LEFT_OUT if context.quick else None)
    if reason:
        return start + note(reason)
    problem = _small(of, 4)
    key = jax.random.fold_in(of.key, 3)
    found = training.orders(*problem.given, widths=_widths(of.width), draws=_DRAWS, key=key, **problem.schedule)
    return (
        start
        + paragraph(
            "A network of finite width moves its own kernel: order 1 keeps the kernel H of each drawn network as it "
            "is, order 2 lets it change by dH, order 3 lets that change too. Each drawn network is predicted from its "
            f"own kernels, and then trained. {problem.said}"
        )
        + math("\\frac{dH_{ij}}{dt} = -(dH_{ijk} + dH_{jik})ε_k", block=True)
        + figure(
            plot.draw(found),
            name="orders",
            alt="Error of the predicted outputs against the width at orders 1, 2 and 3, with error bars",
            caption=f"{_DRAWS} draws at each width; bars are two standard errors over them. Errors should fall along "
            "the "
            f"dotted lines: 1/n for orders 1 and 2, 1/n² for order 3. {_fall(found)}",
        )
        + table(tables(found)[0])
    )


def _fall(found: Orders) -> str:
    away = disagreements(found)
    return "They do within two standard errors." if not away else "Not all of them do: see below."


class _Problem(NamedTuple):
    given: tuple[MLP, np.ndarray, np.ndarray, np.ndarray]
    schedule: dict[str, Any]
    said: str


def _small(of: Subject, count: int) -> _Problem:
    # One output: the kernels of finite width have four indices.
    x, labels = _few(of, 1, 2)
    net = of.plain.replace(widths=(*of.plain.widths[:-1], 1))
    given = net, x, np.where(labels == labels[0], 0.5, -0.5), _held_out(of, count)[0]
    said = (
        f"To keep it short there is one output, {len(x)} training examples of two classes with targets ±1/2, {count} "
        f"test inputs, and {_STEPS} steps of gradient descent."
    )
    rate = _RATE * training.max_learning_rate(net, x)
    return _Problem(given, {"steps": _STEPS, "learning_rate": rate}, said)


def _no_orders(of: Subject) -> str | None:
    if of.plain.depth == 1:
        return "One layer is linear in its parameters: order 1 is exact, and there are no others."
    kinks = [kink for kink in of.plain.activation.kinks if kink.order < 2]
    if kinks:
        return (
            f"Orders 2 and 3 need derivatives of {of.plain.activation.name} that do not exist: its derivative "
            f"{kinks[0].order} jumps at {kinks[0].position:g}."
        )
    return None


def _widths(width: int) -> tuple[int, ...]:
    # From about the network's own on; narrow ones have heavy tails that a few draws do not show.
    top = max(_WIDE, min(2 * width, _WIDEST))
    return top // 4, top // 2, top
