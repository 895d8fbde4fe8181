"""What the coordinate check measures: models of one width, drawn and trained for a few steps on one batch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import _check
from .._products import Program, size, split


class Given(NamedTuple):
    """What the user gave, checked."""

    init: Callable[..., Any]
    apply: Callable[..., Any]
    loss: Callable[..., Any]
    x: Any
    y: Any
    steps: int
    keys: Any


class Run(NamedTuple):
    """Of one width: sizes, changes and own changes (draws, steps + 1, layers), losses (draws, steps + 1), changes and
    own changes by a first step down a given slope and sizes of what enters layers before training (draws, layers), and
    how many entries layers and what enters them have, None where that is not known.
    """

    names: tuple[str, ...]
    sizes: np.ndarray
    changes: np.ndarray
    own: np.ndarray
    losses: np.ndarray
    first_changes: np.ndarray
    first_own: np.ndarray
    entering: np.ndarray
    entries: list[tuple[int, int | None]]


class Later(NamedTuple):
    """Of one width, after each of several steps down one slope: changes and own changes (draws, steps, layers), and
    whether the parameter of a layer is fixed: it never moved, though it has a gradient (draws, layers).
    """

    changes: np.ndarray
    own: np.ndarray
    fixed: np.ndarray


class _Model:
    # A program, and the parameters that are drawn for it.
    def __init__(self, given: Given, width: int) -> None:
        self.given, self.width = given, width
        self.example, rest = split(given.init(given.keys[0], width))

        def whole(arrays, x):
            return given.apply(eqx.combine(arrays, rest), x)

        self.whole = whole
        self.program = Program(whole, self.example, given.x)

    def outputs(self, params: Any) -> Any:
        """Without the layers that are named beside them."""
        found = self.whole(params, self.given.x)
        return found[0] if self.program.named else found

    def drawn(self) -> Any:
        """The arrays of all draws, stacked."""
        init, keys = self.given.init, self.given.keys
        drawn = [self.example, *(split(init(key, self.width))[0] for key in keys[1:])]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)

    @staticmethod
    def names(params: Any) -> list[str]:
        """What layers are called by these parameters, leaf by leaf."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(params)
        return [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]

    def run(self, params: Any, **more: Any) -> Any:
        """The layers."""
        return self.program.run(params, self.given.x, **more)[1]

    def seen(self, start: Any, params: Any) -> tuple[Any, Any, Any]:
        """Sizes, changes and own changes of the layers when `start` has become `params`."""
        before, now = ([layer.value for layer in self.run(each)] for each in (start, params))
        # What went into the layers before training, multiplied with what the parameters are later: `changed`.
        mixed = self.run(start, other=params)
        own = now if self.program.named else [one.value if one.changed is None else one.changed for one in mixed]

        def sizes(values: Any) -> Any:
            return jnp.stack([size(one) for one in values])

        return sizes(now), sizes([a - b for a, b in zip(now, before)]), sizes([a - b for a, b in zip(own, before)])

    def entering(self, start: Any) -> Any:
        """Sizes of what enters the layers; 1 where that is not known."""
        return jnp.stack(
            [
                jnp.ones_like(size(layer.value))
                if layer.inputs is None
                else size(layer.inputs.astype(layer.value.dtype))
                for layer in self.run(start)
            ]
        )


def slope_of_loss(given: Given, width: int) -> Any:
    """The derivative of the loss in the outputs before training, mean over draws.

    Outputs of μP start as width^(-1/2), so that this derivative, and with it every update, differs between widths by
    more than corrections of order 1/width. One slope for all widths leaves what rates do.
    """
    model = _Model(given, width)
    try:
        return jax.jit(lambda drawn: _mean_slope(model, drawn))(model.drawn())
    except (TypeError, ValueError) as error:
        raise ValueError(f"training at width {width} failed: {_check.reason(error)}.") from None


def _mean_slope(model: _Model, drawn: Any) -> Any:
    def one(params: Any) -> Any:
        return jax.grad(lambda outputs: model.given.loss(outputs, model.given.y))(model.outputs(params))

    return jax.vmap(one)(drawn).mean(0)


def measured(given: Given, optimizer: optax.GradientTransformation, width: int, slope: Any) -> Run:
    """Models of a width trained, and once more for one step down the slope."""
    model = _Model(given, width)
    names, _ = model.program.layers(model.example, given.x)
    if not names:
        raise ValueError("apply multiplies its input by no parameter, but must have at least one layer.")
    layers = jax.eval_shape(lambda params: [(one.value, one.inputs) for one in model.run(params)], model.example)
    entries = [(value.size, None if inputs is None else inputs.size) for value, inputs in layers]
    try:
        found = jax.jit(jax.vmap(lambda params: _trained(model, optimizer, params, slope)))(model.drawn())
    except (TypeError, ValueError) as error:
        raise ValueError(f"training at width {width} failed: {_check.reason(error)}.") from None
    return Run(names=names, entries=entries, **{what: np.asarray(values) for what, values in found.items()})


def _trained(model: _Model, optimizer: optax.GradientTransformation, start: Any, slope: Any) -> dict[str, Any]:
    # The arrays of `Run`, of one draw.
    given = model.given
    # Whole numbers, such as places of a permutation, have no derivatives.
    trained, fixed = eqx.partition(start, eqx.is_inexact_array)

    def outputs(trained: Any) -> Any:
        return model.outputs(eqx.combine(trained, fixed))

    def cost(trained: Any) -> Any:
        return given.loss(outputs(trained), given.y)

    def moved(trained: Any, state: Any, gradient: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(gradient, state, trained)
        return optax.apply_updates(trained, updates), state

    def seen(trained: Any) -> dict[str, Any]:
        found = dict(zip(("sizes", "changes", "own"), model.seen(start, eqx.combine(trained, fixed))))
        return found | {"losses": cost(trained)}

    def step(carry: Any, _: Any) -> Any:
        carry = moved(carry[0], carry[1], jax.grad(cost)(carry[0]))
        return carry, seen(carry[0])

    state = optimizer.init(trained)
    _, later = jax.lax.scan(step, (trained, state), length=given.steps)
    found = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), seen(trained), later)
    down = seen(moved(trained, state, jax.vjp(outputs, trained)[1](slope)[0])[0])
    return found | {
        "first_changes": down["changes"],
        "first_own": down["own"],
        "entering": model.entering(start),
    }


def later(given: Given, optimizer: optax.GradientTransformation, width: int, slope: Any) -> Later:
    """Models of a width that take all their steps down the slope: what a first step alone does not show."""
    model = _Model(given, width)
    found = jax.jit(jax.vmap(lambda params: _down(model, optimizer, params, slope)))(model.drawn())
    return Later(**{what: np.asarray(values) for what, values in found.items()})


def _down(model: _Model, optimizer: optax.GradientTransformation, start: Any, slope: Any) -> dict[str, Any]:
    # The arrays of `Later`, of one draw.
    trained, whole = eqx.partition(start, eqx.is_inexact_array)

    def step(carry: Any, _: Any) -> Any:
        now, state = carry
        gradient = jax.vjp(lambda now: model.outputs(eqx.combine(now, whole)), now)[1](slope)[0]
        updates, state = optimizer.update(gradient, state, now)
        after = optax.apply_updates(now, updates)
        _, changes, own = model.seen(start, eqx.combine(after, whole))
        leaves = zip(*map(jax.tree.leaves, (trained, after, gradient)))
        fixed = [jnp.all(one == two) & jnp.any(slopes != 0) for one, two, slopes in leaves]
        return (after, state), {"changes": changes, "own": own, "fixed": fixed}

    _, found = jax.lax.scan(step, (trained, optimizer.init(trained)), length=model.given.steps)
    # Whole numbers are never trained; what layers hold that `apply` names itself is not known.
    known = dict.fromkeys(model.names(start), jnp.array(True)) if not model.program.named else {}
    known |= {name: last[-1] for name, last in zip(model.names(trained), found["fixed"]) if name in known}
    return found | {"fixed": jnp.stack([known.get(layer.name, jnp.array(False)) for layer in model.run(start)])}
