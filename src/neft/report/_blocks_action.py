"""Action, for networks of blocks: the trained network's loss along the line of its training, and when to stop."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import Made, action, plot
from ..action.results import Convergence
from ..data import Dataset
from ._figure import figure
from ._fitted import Examples, Fitted, fitted, loss_of
from ._html import heading, note, paragraph, table
from ._math import math
from ._page import Context
from ._reasons import no_gradient, no_series, no_terms
from ._subject import Subject
from ._tables import Table, tables

_RATE = 1e-3
_PER_CLASS, _EVALUATED, _HELD_OUT = 600, 1000, 10
_STEPS, _STEP = 300, 0.05
_DEEP = 8
"""Blocks up to which the series goes to a higher order: the compiler takes a while for each of them."""


@functools.lru_cache(maxsize=1)
def _fit(of: Subject, quick: bool) -> Fitted:
    # The parts of the section look at one network.
    key = jax.random.fold_in(of.key, 4)
    return fitted(of.net, *_both(of, quick), epochs=6 if quick else 20, learning_rate=_RATE, key=key)


def _both(of: Subject, quick: bool) -> tuple[Examples, Examples]:
    # Training and evaluation; without a test split every tenth example is held out.
    train = _few(of.train, 200 if quick else _PER_CLASS)
    if of.test is not None:
        return train, _few(of.test, max(1, _EVALUATED // of.train.classes))
    held = np.arange(len(train.y)) % _HELD_OUT == _HELD_OUT - 1
    return Examples(train.x[~held], train.y[~held]), Examples(train.x[held], train.y[held])


def _few(data: Dataset, per_class: int) -> Examples:
    part = data.balanced(min(int(np.bincount(data.y).min()), per_class))
    return Examples(part.x, part.y)


def terms_of_blocks(context: Context) -> str:
    """Why the loss has no terms by letters here."""
    return heading("Terms") + note(no_terms(context.of) or "")


def along_blocks(context: Context) -> str:
    """The loss along the line from the initial to the trained parameters, and what its series makes of it."""
    of, start = context.of, heading("Along the line")
    if reason := no_series(of):
        return start + note(reason)
    fit = _fit(of, context.quick)
    train, evaluation = _both(of, context.quick)
    few = 50 if context.quick else 200
    samples = Examples(evaluation.x[:few], evaluation.y[:few])
    order = 4 if of.net.depth > _DEEP else 8 if context.quick else 12
    try:
        found, origin = _series(of, fit, samples, order, 11 if context.quick else 21)
    except (NotImplementedError, ValueError) as error:
        return start + note(str(error))
    inside = found.radius > 1
    return (
        start
        + paragraph(
            f"The network itself was trained on the cross-entropy of {len(train.y):,} examples; θ* are its parameters "
            f"where the evaluation loss was least, and θ_0 those it began with. Over {len(samples.y)} samples its loss "
            "on the way is a power series,"
        )
        + math("S(θ_0 + t(θ^* - θ_0)) = Σ_n S_n t^n", block=True)
        + paragraph(
            f"Its coefficients show a radius of convergence of about {found.radius:.3g}: "
            + (
                "θ* lies inside, so the orders add up to the loss."
                if inside
                else "θ* lies outside, so at t = 1 its partial sums mean nothing, however many orders are taken; Padé "
                "approximants of the same coefficients go further."
            )
            + _from_the_origin(of, origin)
        )
        + figure(
            plot.line(found),
            name="ray",
            alt="The loss along the line from initial to trained parameters, and partial sums of several orders",
            caption="The loss goes on smoothly; beyond the radius partial sums of its series leave it.",
        )
        + table(_orders(found))
    )


def _series(of: Subject, fit: Fitted, samples: Examples, order: int, points: int) -> tuple[Convergence, float]:
    loss = loss_of(of.net, samples, np.float64)
    coefficients = action.ray(loss, fit.params, order, start=fit.start)
    origin = action.series_radius(action.ray(loss, fit.params, min(order, 8)))
    t = np.linspace(0.0, 1.0, points)
    powers = t[None, :] ** np.arange(order + 1)[:, None]
    approximants = [_pade(coefficients, float(x)) for x in t]
    found = Convergence(
        t=t,
        loss=_losses(of, fit, samples, t),
        partial=np.cumsum(coefficients[:, None] * powers, axis=0),
        pade=np.array([value for value, _ in approximants]),
        pade_error=np.array([error for _, error in approximants]),
        radius=action.series_radius(coefficients),
        made=Made.by("neft.action.ray", specification={"net": of.net.to_dict(), "order": order}),
    )
    return found, origin


def _pade(coefficients: np.ndarray, t: float) -> tuple[float, float]:
    try:
        return action.pade(coefficients, t)
    except ValueError:  # on spurious poles alone
        return 0.0, float("inf")


def _losses(of: Subject, fit: Fitted, samples: Examples, t: np.ndarray) -> np.ndarray:
    @jax.jit
    def along(loss, start, end, t):
        def at(t):
            return loss(jax.tree.map(lambda a, b: a + t * (b - a), start, end))

        return jax.lax.map(at, t)

    found = along(loss_of(of.net, samples), fit.start, fit.params, jnp.asarray(t, jnp.float32))
    return np.asarray(found, float)


def _from_the_origin(of: Subject, radius: float) -> str:
    if not np.isfinite(radius):
        return ""
    said = f" From the origin, along tθ*, the series converges for t below about {radius:.2g}"
    if {"RMSNorm", "LayerNorm"} & set(of.others):
        return f"{said} only, where what a norm divides by is no larger than √ε."
    return f"{said}."


def _orders(found: Convergence) -> Table:
    last = found.partial[:, -1]
    parts = zip(np.diff(last, prepend=0.0), last)
    rows = tuple((str(n), f"{value:+.4g}", f"{total:.5g}") for n, (value, total) in enumerate(parts))
    note = f"The loss at θ_0 is {found.loss[0]:.5g} and at θ* {found.loss[-1]:.5g}; Padé: {_by_pade(found)}."
    columns = ("order n", "S_n", "S_0 + … + S_n")
    return Table(title="Order by order, at t = 1", columns=columns, rows=rows, notes=(note,))


def _by_pade(found: Convergence) -> str:
    value, error = found.pade[-1], found.pade_error[-1]
    return f"{value:.5g} ± {error:.1g}" if error < abs(value) else "its approximants do not agree"


def stopping_of_blocks(context: Context) -> str:
    """When training should stop: by the evaluation loss, and by the gradients of both losses."""
    of, start = context.of, heading("Early stopping")
    if reason := no_gradient(of):
        return start + note(reason)
    fit = _fit(of, context.quick)
    ended = "" if fit.finished else " More epochs may lower the loss."
    return (
        start
        + paragraph(
            f"The evaluation loss was least after epoch {fit.best}, at {fit.evaluation_loss[fit.best]:.4f} nats "
            f"({100 * fit.accuracy[fit.best]:.1f} % right), where the training loss was "
            f"{fit.training_loss[fit.best]:.4f}.{ended} Gradients tell when: a small step along -∇S_T raises the "
            "evaluation loss S_E as soon as the two gradients no longer point the same way,"
        )
        + math("∇S_T · ∇S_E < 0", block=True)
        + figure(
            plot.losses(fit.training_loss, fit.evaluation_loss, best=fit.best),
            name="fit",
            alt="Training and evaluation loss of the network by epoch",
            caption="Where the evaluation loss turns upwards while the training loss still falls, training should "
            "stop.",
        )
        + (
            note("--quick leaves out the training that gradients are followed in.")
            if context.quick
            else _by_gradients(of, fit)
        )
    )


def _by_gradients(of: Subject, fit: Fitted) -> str:
    few, evaluation = _few(of.train, 5), _both(of, quick=False)[1]
    monitor = action.StoppingMonitor(loss_of(of.net, few), loss_of(of.net, evaluation))
    monitor.follow(fit.start, optax.sgd(_STEP), steps=_STEPS, learning_rate=_STEP)
    found = monitor.report()
    (facts,) = tables(found)
    return (
        paragraph(f"Full-batch gradient descent on {len(few.y)} examples only, so that it overfits soon:")
        + figure(
            plot.draw(found),
            name="stopping",
            alt="Training and evaluation loss by step of gradient descent, and where each rule would stop",
            caption=f"{_STEPS} steps of size {_STEP:g}: the rules should stop near the least evaluation loss.",
            wide=True,
        )
        + table(facts)
    )
