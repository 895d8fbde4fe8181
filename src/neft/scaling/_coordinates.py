"""The coordinate check: how sizes of layers, and of what training does to them, scale with width."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from .. import _check
from .._products import Program, arrays_of, size
from .._public import public
from .._result import Made, Result, result

Verdict = Literal["right", "updates grow", "updates shrink", "not clear"]

TOLERANCE = 0.25
"""Half of what a rate off by √n does to a power; one whose standard error is more than half of this is not clear."""


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
            size of the last layer before training.
        verdicts: of each layer, by its own change: "right" (power within 1/4 of 0), "updates grow", "updates shrink",
            or "not clear" (standard error above 1/8).
        right: whether all are right.
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
) -> CoordinateCheck:
    """Whether a JAX model and its optimizer learn alike at all widths: the coordinate check of μP, layer by layer.

    The model is drawn at several widths and trained for a few steps on the same batch. Layers are the results of
    products with a parameter, found in the model's program, or what `apply` returns by name beside its outputs, of
    which only the whole change is known. Where a layer's parameters change it as much at every width its rate is right
    (Yang, Hu 2021; Yang et al. 2022).

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
    sizes = _widths(widths)
    steps = _check.integer("steps", steps, at_least=1, at_most=10_000)
    draws = _check.integer("draws", draws, at_least=2, at_most=10_000)
    key = jax.random.key(0) if key is None else _check.key("key", key)
    x, y = arrays_of("x", x), arrays_of("y", y)
    keys = jax.random.split(key, draws)
    runs, names = [], ()
    for width in sizes:
        found, own_names = _trained(init, apply, _optimizer(optimizer, width), width, x, y, loss, steps, keys)
        if names and own_names != names:
            raise ValueError(
                f"the layers at width {width} are {_check.brief(own_names)}, but those at width {sizes[0]} "
                f"{_check.brief(names)}, and both must be the same."
            )
        names = own_names
        runs.append(found)
    # Axes: widths, draws, steps, layers.
    size_, change, own = (np.moveaxis(np.array([run[i] for run in runs], np.float64), -1, 0) for i in range(3))
    losses = np.array([run[3] for run in runs], np.float64).mean(1)
    for what, values in (("the size of a layer", size_), ("the change of a layer", change), ("the loss", losses)):
        _check.finite(what, values)
    powers = {
        "size": _powers(sizes, size_[..., 0]),
        "change": _powers(sizes, change[..., -1]),
        "own": _powers(sizes, own[..., 1]),
    }
    verdicts: tuple[Verdict, ...] = tuple(_verdict(*pair) for pair in zip(*powers["own"]))
    theory = np.zeros(len(names))
    theory_size = np.array([0.0] * (len(names) - 1) + [-0.5])
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
        summary=_summary(names, verdicts, powers["own"][0]),
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
) -> tuple[tuple[np.ndarray, ...], tuple[str, ...]]:
    """Sizes, changes and own changes (draws, steps + 1, layers), losses (draws, steps + 1), and names."""
    example = init(keys[0], width)
    program = Program(apply, example, x)
    names, _ = program.layers(example, x)
    if not names:
        raise ValueError("apply multiplies its input by no parameter, but must have at least one layer.")

    def outputs(params):
        found = apply(params, x)
        return found[0] if program.named else found

    def cost(params):
        return loss(outputs(params), y)

    def one(params):
        start = params
        # What went into the layers before training, multiplied with what the parameters are later: `changed`.
        before = [layer.value for layer in program.run(start, x)[1]]

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
            params, state = carry
            gradient = jax.grad(cost)(params)
            updates, state = optimizer.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
            return (params, state), (*seen(params), cost(params))

        first = (*seen(params), cost(params))
        _, rest = jax.lax.scan(step, (params, optimizer.init(params)), length=steps)
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rest)

    try:
        drawn = [example, *(init(key, width) for key in keys[1:])]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
        found = jax.jit(jax.vmap(one))(stacked)
    except (TypeError, ValueError) as error:
        raise ValueError(f"training at width {width} failed: {_check.reason(error)}.") from None
    return tuple(map(np.asarray, found)), names


def _powers(widths: Sequence[int], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of ln values (layers, widths, draws) against ln width, and their standard errors over draws."""
    log = np.log(np.maximum(values, 1e-300))
    t = np.log(np.asarray(widths, float))
    t = (t - t.mean()) / ((t - t.mean()) ** 2).sum()
    slopes = np.einsum("w,lwd->ld", t, log)
    return slopes.mean(1), slopes.std(1, ddof=1) / np.sqrt(slopes.shape[1])


def _verdict(power: float, error: float) -> Verdict:
    if error > TOLERANCE / 2:
        return "not clear"
    if abs(power) < TOLERANCE:
        return "right"
    return "updates grow" if power > 0 else "updates shrink"


def _summary(names: Sequence[str], verdicts: Sequence[Verdict], powers: np.ndarray) -> str:
    wrong = [
        f"{name} ({verdict} as width^{power:.2f})"
        for name, verdict, power in zip(names, verdicts, powers)
        if verdict != "right"
    ]
    if not wrong:
        return "Every layer's own update has the same size at all widths."
    return f"Not all layers learn alike at all widths: {', '.join(wrong)}."
