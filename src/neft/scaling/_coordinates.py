"""The coordinate check: how sizes of layers, and of what training does to them, scale with width."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from .. import _check
from .._products import Program, arrays_of, size, split
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ._sizes import sizes_at_infinite_width

Verdict = Literal["right", "size grows", "size shrinks", "updates grow", "updates shrink", "changes grow", "not clear"]

Fit = tuple[np.ndarray, np.ndarray]
"""Powers of layers, and their standard errors."""

TOLERANCE = 0.25
"""Half of what a rate or a size off by √n does to a power; a change whose standard error is more than half of this is
not clear."""


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
        power_size, power_change, power_own: the powers of the width; sizes before training, changes after the last
            step, `own` after the first.
        error_size, error_change, error_own: their standard errors over draws.
        theory_size, theory_own: what they are where every layer learns alike at any width (μP): 0, and -1/2 for the
            size before training of layers that make a few numbers of many, such as outputs.
        verdicts: of each layer. Its initialization is wrong where its size before training grows or, but for outputs,
            shrinks ("size grows", "size shrinks"); else its rate where its own change does ("updates grow", "updates
            shrink"; "not clear" where the standard error is above 1/8); else, again, its initialization where its whole
            change in the first step grows and that of no layer before it ("changes grow"). All these are powers of at
            least 1/4; those of sizes and whole changes are twice their standard errors besides. Else it is "right".
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
        steps: of training.
        draws: how many models of each width.
        key: of them, `jax.random.key(0)` by default.
        network: a function of the width that gives the `Network` that `init` and `apply` are made of; sizes that theory
            predicts are shown beside those of the model then.

    >>> def init(key, width):
    ...     one, two = jax.random.split(key)
    ...     return {"W": jax.random.normal(one, (4, width)) / 2, "V": jax.random.normal(two, (width, 1)) / width}
    >>> apply = lambda params, x: jnp.tanh(x @ params["W"]) @ params["V"]
    >>> square = lambda z, y: jnp.mean((z - y) ** 2)
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
    keys = jax.random.split(key, draws)
    runs: list[_Run] = []
    for width in sizes:
        found = _trained(init, apply, _optimizer(optimizer, width), width, x, y, loss, steps, keys)
        if runs and found.names != runs[0].names:
            raise ValueError(
                f"the layers at width {width} are {_check.brief(found.names)}, but those at width {sizes[0]} "
                f"{_check.brief(runs[0].names)}, and both must be the same."
            )
        runs.append(found)
    names = runs[0].names
    expected = None if network is None else np.stack([_expected(network, n, x, names) for n in sizes], 1)
    # Axes: widths, draws, steps, layers.
    size_, change, own = (
        np.moveaxis(np.array([getattr(run, what) for run in runs], np.float64), -1, 0)
        for what in ("sizes", "changes", "own")
    )
    entering = np.moveaxis(np.array([run.entering for run in runs], np.float64), -1, 0)
    losses = np.array([run.losses for run in runs], np.float64).mean(1)
    for what, values in (("the size of a layer", size_), ("the change of a layer", change), ("the loss", losses)):
        _check.finite(what, values)
    powers = {
        "size": _powers(sizes, size_[..., 0]),
        "change": _powers(sizes, change[..., -1]),
        "own": _powers(sizes, own[..., 1]),
    }
    gain = _powers(sizes, size_[..., 0] / np.where(entering > 0, entering, 1.0))
    ends = [_ends(counts) for counts in zip(*(run.entries for run in runs))]
    # Judged as own changes are, by the first step: later ones also have what training made of the loss.
    judged = powers | {"change": _powers(sizes, change[..., 1])}
    verdicts = _verdicts(judged, gain, ends)
    theory = np.zeros(len(names))
    theory_size = np.where(ends, -0.5, 0.0)
    return CoordinateCheck(
        widths=np.array(sizes),
        names=names,
        sizes=size_,
        changes=change,
        own=own,
        loss=losses,
        **{f"power_{name}": power for name, (power, _) in powers.items()},
        **{f"error_{name}": error for name, (_, error) in powers.items()},
        theory_size=theory_size,
        theory_own=theory,
        verdicts=verdicts,
        right=all(one == "right" for one in verdicts),
        summary=_summary(names, verdicts, {name: power for name, (power, _) in judged.items()}),
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


class _Run(NamedTuple):
    # Of one width: (draws, steps + 1, layers), losses (draws, steps + 1), sizes of what enters layers before training
    # (draws, layers), and how many entries layers and what enters them have, None where that is not known.
    names: tuple[str, ...]
    sizes: np.ndarray
    changes: np.ndarray
    own: np.ndarray
    losses: np.ndarray
    entering: np.ndarray
    entries: list[tuple[int, int | None]]


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


def _trained(
    init: Callable[..., Any],
    apply: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    width: int,
    x: Any,
    y: Any,
    loss: Callable[..., Any],
    steps: int,
    keys: Any,
) -> _Run:
    example, rest = split(init(keys[0], width))

    def whole(arrays, x):
        return apply(eqx.combine(arrays, rest), x)

    program = Program(whole, example, x)
    names, _ = program.layers(example, x)
    if not names:
        raise ValueError("apply multiplies its input by no parameter, but must have at least one layer.")
    layers = jax.eval_shape(lambda params: [(one.value, one.inputs) for one in program.run(params, x)[1]], example)
    entries = [(value.size, None if inputs is None else inputs.size) for value, inputs in layers]

    def outputs(params):
        found = whole(params, x)
        return found[0] if program.named else found

    def one(params):
        start = params
        # Whole numbers, such as places of a permutation, have no derivatives.
        fixed = eqx.partition(start, eqx.is_inexact_array)[1]

        def cost(trained):
            return loss(outputs(eqx.combine(trained, fixed)), y)

        # What went into the layers before training, multiplied with what the parameters are later: `changed`.
        layers = program.run(start, x)[1]
        before = [layer.value for layer in layers]
        entering = [
            jnp.ones_like(size(layer.value)) if layer.inputs is None else size(layer.inputs.astype(layer.value.dtype))
            for layer in layers
        ]

        def seen(params):
            now = [layer.value for layer in program.run(params, x)[1]]
            mixed = program.run(start, x, other=params)[1]
            own = [layer.value if layer.changed is None else layer.changed for layer in mixed]
            own = now if program.named else own
            return tuple(
                jnp.stack([size(a - b) if b is not None else size(a) for a, b in zip(values, others)])
                for values, others in ((now, [None] * len(now)), (now, before), (own, before))
            )

        def step(carry, _):
            trained, state = carry
            gradient = jax.grad(cost)(trained)
            updates, state = optimizer.update(gradient, state, trained)
            trained = optax.apply_updates(trained, updates)
            return (trained, state), (*seen(eqx.combine(trained, fixed)), cost(trained))

        trained = eqx.filter(start, eqx.is_inexact_array)
        first = (*seen(start), cost(trained))
        _, later = jax.lax.scan(step, (trained, optimizer.init(trained)), length=steps)
        return *jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later), jnp.stack(entering)

    try:
        drawn = [example, *(split(init(key, width))[0] for key in keys[1:])]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
        found = jax.jit(jax.vmap(one))(stacked)
    except (TypeError, ValueError) as error:
        raise ValueError(f"training at width {width} failed: {_check.reason(error)}.") from None
    sizes, changes, own, losses, entering = map(np.asarray, found)
    return _Run(names, sizes, changes, own, losses, entering, entries)


def _powers(widths: Sequence[int], values: np.ndarray) -> Fit:
    """Slopes of ln values (layers, widths, draws) against ln width, and their standard errors over draws."""
    log = np.log(np.maximum(values, 1e-300))
    t = np.log(np.asarray(widths, float))
    t = (t - t.mean()) / ((t - t.mean()) ** 2).sum()
    slopes = np.einsum("w,lwd->ld", t, log)
    return slopes.mean(1), slopes.std(1, ddof=1) / np.sqrt(slopes.shape[1])


def _verdicts(powers: Mapping[str, Fit], gain: Fit, ends: Sequence[bool]) -> tuple[Verdict, ...]:
    found: list[Verdict] = []
    for i, end in enumerate(ends):
        fits = (powers["size"], powers["change"], powers["own"], gain)
        size_, change, own, by = ((power[i], error[i]) for power, error in fits)
        passed = max(0.0, *powers["change"][0][:i], 0.0)
        # Layers after a wrong one follow it, so that they are blamed for what they add alone.
        if _grows(*size_) and (_grows(*by) or "size grows" not in found):
            found.append("size grows")
        elif not end and _grows(*size_, -1) and (_grows(*by, -1) or "size shrinks" not in found):
            found.append("size shrinks")
        elif own[1] > TOLERANCE / 2:
            found.append("not clear")
        elif abs(own[0]) >= TOLERANCE:
            found.append("updates grow" if own[0] > 0 else "updates shrink")
        elif _grows(change[0] - passed, change[1]) and not {
            "size grows",
            "updates grow",
            "changes grow",
            "not clear",
        }.intersection(found):
            found.append("changes grow")
        else:
            found.append("right")
    return tuple(found)


def _grows(power: float, error: float, sign: int = 1) -> bool:
    return bool(sign * power >= TOLERANCE and sign * power > 2 * error)


def _summary(names: Sequence[str], verdicts: Sequence[Verdict], powers: Mapping[str, np.ndarray]) -> str:
    def said(what: str, *wanted: Verdict) -> str:
        return ", ".join(
            f"{name} ({verdict} as width^{power:.2f})"
            for name, verdict, power in zip(names, verdicts, powers[what])
            if verdict in wanted
        )

    sentences = []
    if sizes := said("size", "size grows", "size shrinks"):
        sentences.append(
            f"The initialization, not the rate, is wrong in {sizes}; what updates do can be judged when it is mended."
        )
    if updates := said("own", "updates grow", "updates shrink", "not clear"):
        sentences.append(f"Not all layers learn alike at all widths: {updates}.")
    if changes := said("change", "changes grow"):
        sentences.append(
            f"The initial weights are too large for these rates in {changes}: own updates and all layers before do not "
            "grow, but what the initial weights make of changes before them does."
        )
    if not sentences:
        return "Every layer's own update has the same size at all widths, and no layer starts wrong."
    return " ".join(sentences)
