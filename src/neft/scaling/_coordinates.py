"""The coordinate check: how sizes of layers, and of what training does to them, scale with width."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jaxtyping import Float, Int

from .. import _check
from .._products import arrays_of
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._measured import Given, Later, Run, later, measured, slope_of_loss
from ._sizes import sizes_at_infinite_width
from ._verdicts import TOLERANCE, Fit, Verdict, powers, summary_of, verdicts_of


@result
class CoordinateCheck(Result):
    """Sizes of layers and of their changes in the first steps of training, against width.

    Sizes are roots of mean squares over entries and inputs. What a layer's own parameters do to it is measured with
    what went into the layer before training, so that a wrong rate shows in its own layer and not in those after it.

    Attributes:
        widths: that were trained.
        names: of the layers, by the parameters in them, in the order in which they are computed.
        sizes: after each step, from 0 on.
        changes: of the layer since before training, by whatever changed.
        own: of the layer by its own parameters alone.
        loss: after each step, the mean over draws.
        power_size, power_change, power_own: the powers of the width of sizes before training, of changes after the
            last step, and of own changes in a first step down one slope for all widths: the derivative of the loss in
            the outputs, mean over the widest models. (Outputs that start as width^(-1/2) make it, and with it every
            update, differ between widths.) Of changes and own changes what follows the fluctuations of what enters the
            layer is taken out, which in narrow deep networks are large and skew, and wider models count more in all.
            Layers that no gradient reaches in the first step, since what follows starts at 0, have the own changes of
            the first of the steps, all down that slope, in which one does. What is 0 has no power, NaN.
        error_size, error_change, error_own: their standard errors over draws.
        theory_size, theory_own: what they are where every layer learns alike at any width (μP): 0, and -1/2 for the
            size before training of layers that make a few numbers of many, such as outputs.
        verdicts: of each layer. Its initialization is wrong where its size before training grows or, but for outputs,
            shrinks ("size grows", "size shrinks"); else its rate where its own change does ("updates grow", "updates
            shrink"; "not clear" where the standard error is above 1/8, or no gradient reaches it in any step); else,
            again, its initialization where its whole change in that step grows and that of no layer before it
            ("changes grow"). All these are powers of at least 1/4; those of sizes and whole changes are twice their
            standard errors besides. Else it is "right", as are layers that are not trained.
        right: whether all are right.
        expected: sizes before training that theory predicts at infinite width, if `network` was given.
    """

    widths: Int[np.ndarray, " widths"]
    names: tuple[str, ...]
    sizes: Float[np.ndarray, "layers widths draws steps"]
    changes: Float[np.ndarray, "layers widths draws steps"]
    own: Float[np.ndarray, "layers widths draws steps"]
    loss: Float[np.ndarray, "widths steps"]
    power_size: Float[np.ndarray, " layers"]
    error_size: Float[np.ndarray, " layers"]
    theory_size: Float[np.ndarray, " layers"]
    power_change: Float[np.ndarray, " layers"]
    error_change: Float[np.ndarray, " layers"]
    power_own: Float[np.ndarray, " layers"]
    error_own: Float[np.ndarray, " layers"]
    theory_own: Float[np.ndarray, " layers"]
    verdicts: tuple[Verdict, ...]
    right: bool
    summary: str
    made: Made
    expected: Float[np.ndarray, "layers widths"] | None = None


@public
def coordinate_check(
    init: Callable[..., Any],
    apply: Callable[..., Any],
    optimizer: Any,
    widths: Sequence[int],
    *,
    x: Any,
    y: Any,
    loss: Callable[..., Any],
    steps: int = 3,
    draws: int = 16,
    key: Any = None,
    network: Callable[..., Any] | None = None,
) -> CoordinateCheck:
    """Whether a JAX model and its optimizer learn alike at all widths: the coordinate check of μP, layer by layer.

    The model is drawn at several widths and trained for a few steps on the same batch. Layers are the results of
    products with a parameter, found in the model's program, or what `apply` returns by name beside its outputs, of
    which only the whole change is known. Where a layer's parameters change it as much at every width its rate is right
    (Yang, Hu 2021; Yang et al. 2022), and its initialization where neither its size nor what it makes of changes before
    it grows with width. Arrays of real numbers are trained; all else that parameters hold stays as it is.

    Args:
        init: `init(key, width)` gives parameters.
        apply: `apply(params, x)` gives the outputs, or these and a dictionary of layers by name.
        optimizer: an optax optimizer, or a function of the width that gives one.
        widths: at least three, the largest at least four times the smallest.
        x: a batch of inputs.
        y: targets.
        loss: `loss(outputs, y)` gives a number.
        steps: of training; two or more where layers start at 0, such as outputs, so that others can be judged.
        draws: how many models of each width.
        key: of them, `jax.random.key(0)` by default.
        network: a function of the width that gives the `Network` that `init` and `apply` are made of; sizes that theory
            predicts are shown beside those of the model then.

    >>> def init(key, width):
    ...     one, two = jax.random.split(key)
    ...     return {"W": jax.random.normal(one, (4, width)) / 2, "V": jax.random.normal(two, (width, 1)) / width}
    >>> apply = lambda params, x: jax.numpy.tanh(x @ params["W"]) @ params["V"]
    >>> square = lambda z, y: jax.numpy.mean((z - y) ** 2)
    >>> groups = lambda width: {"W": optax.sgd(0.1 * width), "V": optax.sgd(0.1 / width)}
    >>> optimizer = lambda width: optax.multi_transform(groups(width), {"W": "W", "V": "V"})
    >>> data = {"x": np.eye(4), "y": np.ones((4, 1)), "loss": square}
    >>> coordinate_check(init, apply, optimizer, (32, 64, 128), **data, steps=1, draws=2).names
    ('W', 'V')
    """
    _check.function("init", init, "key", "width")
    _check.function("apply", apply, "params", "x")
    _check.function("loss", loss, "outputs", "y")
    if network is not None:
        _check.function("network", network, "width")
    sizes = _widths(widths)
    steps = _check.integer("steps", steps, at_least=1, at_most=10_000)
    draws = _check.integer("draws", draws, at_least=2, at_most=10_000)
    key = jax.random.key(0) if key is None else _check.key("key", key)
    x, y = arrays_of("x", x), arrays_of("y", y)
    optimizers = [_optimizer(optimizer, width) for width in sizes]
    given = Given(init, apply, loss, x, y, steps, jax.random.split(key, draws))
    slope = slope_of_loss(given, sizes[-1])
    runs = _runs(given, sizes, optimizers, slope)
    names = runs[0].names
    expected = None if network is None else np.stack([_expected(network, n, x, names) for n in sizes], 1)
    size, change, own = (_stacked(runs, what) for what in ("sizes", "changes", "own"))
    losses = np.array([run.losses for run in runs], np.float64).mean(1)
    for what, values in (("the size of a layer", size), ("the change of a layer", change), ("the loss", losses)):
        _check.finite(what, values)
    ends = [_ends(counts) for counts in zip(*(run.entries for run in runs))]
    waiting = (_stacked(runs, "first_own") == 0).any((1, 2))
    more = [later(given, one, width, slope) for one, width in zip(optimizers, sizes)] if waiting.any() else []
    judged = _judged(runs, more, waiting)
    fits = judged.fits(sizes)
    verdicts = verdicts_of(fits, ends, judged.fixed)
    shown = fits | {"change": powers(sizes, change[..., -1], _stacked(runs, "entering"))}
    return CoordinateCheck(
        widths=np.array(sizes),
        names=names,
        sizes=size,
        changes=change,
        own=own,
        loss=losses,
        **{f"power_{name}": shown[name][0] for name in ("size", "change", "own")},
        **{f"error_{name}": shown[name][1] for name in ("size", "change", "own")},
        theory_size=np.where(ends, -0.5, 0.0),
        theory_own=np.zeros(len(names)),
        verdicts=verdicts,
        right=all(one == "right" for one in verdicts),
        summary=summary_of(names, verdicts, fits, judged.steps),
        expected=expected,
        made=Made.by(
            "neft.scaling.coordinate_check",
            specification={"widths": list(sizes), "steps": steps, "draws": draws},
            key=key,
            tolerances={"power": TOLERANCE},
        ),
    )


def _widths(widths: Sequence[int]) -> tuple[int, ...]:
    found = tuple(sorted({_check.integer("each of widths", width, at_least=1) for width in widths}))
    if len(found) < 3 or found[-1] < 4 * found[0]:
        raise ValueError(
            f"widths are {_check.brief(widths)}, but must be at least three, the largest four times the smallest."
        )
    return found


def _optimizer(given: Any, width: int) -> optax.GradientTransformation:
    found = given
    if not _is_optimizer(given):
        _check.function("optimizer", given, "width")
        found = given(width)
    if not _is_optimizer(found):
        raise ValueError(
            f"optimizer is {_check.brief(given)}, but must be an optax optimizer or a function of the width that gives "
            "one."
        )
    return found


def _is_optimizer(value: Any) -> bool:
    return hasattr(value, "init") and hasattr(value, "update")


def _runs(
    given: Given, sizes: Sequence[int], optimizers: Sequence[optax.GradientTransformation], slope: Any
) -> list[Run]:
    runs: list[Run] = []
    for width, optimizer in zip(sizes, optimizers):
        found = measured(given, optimizer, width, slope)
        if runs and found.names != runs[0].names:
            raise ValueError(
                f"the layers at width {width} are {_check.brief(found.names)}, but those at width {sizes[0]} "
                f"{_check.brief(runs[0].names)}, and both must be the same."
            )
        runs.append(found)
    return runs


def _stacked(runs: Sequence[Run | Later], what: str) -> np.ndarray:
    # Axes: layers, widths, draws and what else there is.
    return np.moveaxis(np.array([getattr(run, what) for run in runs], np.float64), -1, 0)


class _Judged(NamedTuple):
    # What verdicts go by: sizes, changes and own changes (layers, widths, draws), the step of each layer that they are
    # of, 0 where none has an own change, and which layers are not trained.
    start: np.ndarray
    entering: np.ndarray
    change: np.ndarray
    own: np.ndarray
    steps: list[int]
    fixed: list[bool]

    def fits(self, sizes: Sequence[int]) -> dict[str, Fit]:
        return {
            "size": powers(sizes, self.start),
            "gain": powers(sizes, self.start / np.where(self.entering > 0, self.entering, 1.0)),
            "change": powers(sizes, self.change, self.entering),
            "own": powers(sizes, self.own, self.entering),
        }


def _judged(runs: Sequence[Run], more: Sequence[Later], waiting: np.ndarray) -> _Judged:
    # The first step, since later ones also have what training made of the model. Before layers that start at 0 it
    # changes nothing, so that the first that does takes its place there.
    start, entering = _stacked(runs, "sizes")[..., 0], _stacked(runs, "entering")
    change, own = _stacked(runs, "first_changes"), _stacked(runs, "first_own")
    steps, fixed = [1] * len(own), [False] * len(own)
    if more:
        changes, owns = _stacked(more, "changes"), _stacked(more, "own")
        fixed = (waiting & _stacked(more, "fixed").any((1, 2))).tolist()
        for i in np.flatnonzero(waiting):
            there = ((owns[i] > 0) & np.isfinite(owns[i])).all((0, 1))
            steps[i] = int(there.argmax()) + 1 if there.any() else 0
            if there.any():
                change[i], own[i] = changes[i, ..., there.argmax()], owns[i, ..., there.argmax()]
    return _Judged(start, entering, change, own, steps, fixed)


def _expected(network: Callable[..., Any], width: int, x: Any, names: Sequence[str]) -> np.ndarray:
    net = network(width)
    if not isinstance(net, Network):
        raise ValueError(f"network gives {_check.brief(net)} at width {width}, but must give a neft.Network.")
    found = sizes_at_infinite_width(net, np.asarray(x, np.float64))
    if len(found) != len(names):
        raise ValueError(
            f"network has {len(found)} dense blocks at width {width}, but must have one for each of the model's "
            f"{len(names)} layers."
        )
    return found


def _ends(counts: Sequence[tuple[int, int | None]]) -> bool:
    # Whether a layer makes a few numbers of ever more: what outputs do.
    made, given = zip(*counts)
    return len(set(made)) == 1 and (given[0] is None or given[-1] > given[0])
