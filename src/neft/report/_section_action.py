"""Action: the loss of a trained classifier expanded in its parameters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import action, plot
from ..action.results import Fit
from ..data import Dataset
from ._blocks_action import along_blocks, stopping_of_blocks, terms_of_blocks
from ._figure import figure
from ._html import heading, note, paragraph, table
from ._math import math
from ._page import Context
from ._subject import Subject
from ._tables import Table, tables

_HIDDEN = 512
_FEW = 5
_PER_CLASS = 600
_FIT_RATE = 3e-3
_RATE = 0.1


def _trained(context: Context) -> Fit | str:
    """θ* of the classifier with one hidden layer of this network's width, or why there is none."""
    of = context.of
    act = of.plain.activation
    if of.jumps or (act.one_sided and not act.scale_invariant):
        return f"{act.name} has no series at 0, so the loss has no expansion in the parameters."
    return _fit(of, context.quick)


@functools.lru_cache(maxsize=1)
def _fit(of: Subject, quick: bool) -> Fit:
    # The three parts of the section look at one classifier.
    return action.fit(
        _part(of, quick),
        of.test,
        hidden=min(of.width, _HIDDEN),
        activation=of.plain.activation,
        epochs=6 if quick else 20,
        learning_rate=_FIT_RATE,
        key=jax.random.fold_in(of.key, 4),
    )


def _part(of: Subject, quick: bool) -> Dataset:
    fewest = int(np.bincount(of.train.y).min())
    return of.train.balanced(min(fewest, 200 if quick else _PER_CLASS))


def terms(context: Context) -> str:
    """What each order and each term contributes to the loss at θ*."""
    if context.of.chain is None:
        return terms_of_blocks(context)
    of, fit = context.of, _trained(context)
    if isinstance(fit, str):
        return note(fit)
    found = action.expand(fit.params, _evaluation(of), 4, activation=of.plain.activation)
    by_order, by_term = tables(found)
    return (
        paragraph(
            f"The classifier with one hidden layer of {fit.W.shape[0]} units, f = Uσ(Wz+b)+c, was trained on "
            f"{_part(of, context.quick).count:,} examples; θ* are its parameters where the evaluation loss was least. "
            "Its cross-entropy is a power series in θ,"
        )
        + math("S(θ) = S_0 + S_1 + S_2 + …, S_n ∼ θ^n", block=True)
        + paragraph("and each order is a sum of terms named by the letters they are made of.")
        + figure(
            plot.draw(found),
            name="terms",
            alt="The largest terms of each order of the loss at the trained parameters, as shares of their order",
            caption="Share of each term in its order, with its sign: few terms make up nearly all of it.",
            text=(by_term,),
        )
        + table(by_order)
    )


def _evaluation(of: Subject) -> Dataset:
    return of.train.balanced(min(int(np.bincount(of.train.y).min()), 60)) if of.test is None else of.test


def convergence(context: Context) -> str:
    """The loss along tθ*, its partial sums, and the radius beyond which they mean nothing."""
    if context.of.chain is None:
        return along_blocks(context)
    of, fit = context.of, _trained(context)
    if isinstance(fit, str):
        return ""
    act, data = of.plain.activation, _evaluation(of)
    if context.quick:
        # Every sample is searched for singularities, which takes longest.
        data = data.balanced(min(int(np.bincount(data.y).min()), _FEW))
    bound = action.radius(fit.params, data, activation=act)
    found = action.convergence(
        fit.params, data, activation=act, bound=bound.radius, points=11 if context.quick else 21, order=16
    )
    inside = bound.radius > 1
    return (
        heading("Along the ray")
        + paragraph(
            f"From the origin to θ*, the series of S(tθ*) over {data.count:,} samples converges for |t| below "
            f"{bound.radius:.4g} ({bound.binds}): "
            + (
                "θ* lies inside, so its orders add up to the loss."
                if inside
                else "θ* lies outside, so at t = 1 its partial sums mean nothing, however many orders are taken; Padé "
                "approximants of the same coefficients go further."
            )
        )
        + figure(
            plot.draw(found),
            name="ray",
            alt=f"The loss along t times the trained parameters, partial sums of several orders, and the radius of "
            f"convergence {bound.radius:.3g}",
            caption="The loss goes on smoothly; beyond the dotted radius partial sums of its series leave it.",
        )
    )


def stopping(context: Context) -> str:
    """When training should stop: by the evaluation loss, and by the gradients of both losses."""
    if context.of.chain is None:
        return stopping_of_blocks(context)
    fit = _trained(context)
    if isinstance(fit, str):
        return ""
    ended = "" if fit.finished else " It was the last epoch: more of them may lower the loss."
    return (
        heading("Early stopping")
        + paragraph(
            f"The evaluation loss was least after epoch {fit.best}, at {fit.evaluation_loss[fit.best]:.4f} nats "
            f"({100 * fit.accuracy[fit.best]:.1f} % right), where the training loss was "
            f"{fit.training_loss[fit.best]:.4f}.{ended} Gradients tell when: a small step along -∇S_T raises the "
            "evaluation loss S_E as soon as the two gradients no longer point the same way,"
        )
        + math("∇S_T · ∇S_E < 0", block=True)
        + figure(
            plot.draw(fit),
            name="fit",
            alt="Training and evaluation loss by epoch, and the root mean squares of U, W, b and c",
            caption="Where the evaluation loss turns upwards while the training loss still falls, training should "
            "stop.",
            wide=True,
        )
        + (
            note("--quick leaves out the training that gradients are followed in.")
            if context.quick
            else _by_gradients(context, fit)
        )
    )


def _by_gradients(context: Context, fit: Fit) -> str:
    of, steps = context.of, 300
    few = of.train.balanced(min(int(np.bincount(of.train.y).min()), 5))
    act = of.plain.activation
    monitor = action.StoppingMonitor(
        action.loss_of(few, activation=act, dtype=np.float32),
        action.loss_of(_evaluation(of), activation=act, dtype=np.float32),
    )
    rng = np.random.default_rng(of.seed)
    start = {
        name: (rng.normal(size=value.shape) / np.sqrt(value.shape[-1]) if value.ndim == 2 else np.zeros(value.shape))
        for name, value in fit.params.items()
    }
    start = {name: jnp.asarray(value, np.float32) for name, value in start.items()}
    monitor.follow(start, optax.sgd(_RATE), steps=steps, learning_rate=_RATE)
    found = monitor.report()
    (facts,) = tables(found)
    return (
        paragraph(f"Full-batch gradient descent on {few.count} examples only, so that it overfits soon:")
        + figure(
            plot.draw(found),
            name="stopping",
            alt="Training and evaluation loss by step of gradient descent, and where each rule would stop",
            caption=f"{steps} steps of size {_RATE:g}: the rules should stop near the least evaluation loss.",
        )
        + table(Table(title=facts.title, columns=facts.columns, rows=facts.rows, notes=facts.notes))
    )
