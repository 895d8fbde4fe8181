"""The Taylor coefficients of any loss along a line in parameter space."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._precision import float64
from .._public import public
from ._rules import Taylor, lifted
from ._walk import program, walk

_SAFE = 16
"""Orders that stay in the range of float32 without a unit of t."""
_PROBE = 8


@public
def taylor(loss: Callable[[Any], Any], order: int) -> Callable[[Any, Any], Any]:
    """The function (start, direction) -> coefficients of loss(start + t·direction), shape (order+1,); it can be jitted.

    `start` is a tree like `direction`, or None for the origin, which saves most of the work. With kinks the
    coefficients are those of small t > 0.

    >>> coefficients = taylor(lambda w: jnp.exp(w).sum(), 3)
    >>> [round(float(c), 4) for c in jax.jit(coefficients, static_argnums=0)(None, jnp.ones(2))]
    [2.0, 2.0, 1.0, 0.3333]
    """
    _check.function("loss", loss, "params")
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)

    def run(start: Any, direction: Any) -> Any:
        closed, shape = program(loss, direction)
        return _coefficients(closed.jaxpr, shape, closed.consts, start, direction, order)

    return run


@public
@float64
def ray(
    loss: Callable[[Any], Any],
    params: Any,
    order: int,
    *,
    start: Any = None,
    unit: float | None = None,
    dtype: Any = np.float64,
) -> Float[np.ndarray, "{order}+1"]:
    """The Taylor coefficients of loss(t·params) in t, or of loss(start + t·(params - start)) along a line.

    Args:
        loss: a JAX function of a tree of arrays to a number. ReLU, max, abs and where are taken on the side of small
            t > 0; what it closes over is read at the first call.
        params: a tree of arrays, the end of the line (t = 1).
        order: the highest order.
        start: a tree like `params` where the line starts; the origin by default.
        unit: the unit in which t is counted inside, best near the radius of convergence, so that float32 stays finite
            at high orders; chosen where it is needed if not given.
        dtype: the type the loss is run in.

    >>> ray(lambda w: jnp.logaddexp(0.0, w["a"]).sum(), {"a": np.ones(2)}, 2)
    array([1.38629436, 1.        , 0.25      ])
    """
    _check.function("loss", loss, "params")
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    kind = np.dtype(_check.one_of("dtype", np.dtype(dtype).name, ("float32", "float64")))
    end = _tree("params", params, kind)
    begin = None if start is None else _tree("start", start, kind)
    if begin is not None:
        if jax.tree.structure(begin) != jax.tree.structure(end) or _shapes(begin) != _shapes(end):
            raise ValueError("start must be a tree of the same structure and shapes as params.")
        end = jax.tree.map(lambda b, a: b - a, end, begin)
        if not any(np.any(leaf) for leaf in jax.tree.leaves(begin)):
            begin = None
    if unit is not None:
        return _run(loss, begin, end, order, _check.real("unit", unit, above=0.0))
    if kind == np.float32 and order > _SAFE:
        return _run(loss, begin, end, order, _growth(_run(loss, begin, end, _PROBE, 1.0)))
    return _run(loss, begin, end, order, 1.0)


def _run(loss: Callable, start: Any, direction: Any, order: int, unit: float) -> np.ndarray:
    scaled = jax.tree.map(lambda leaf: (unit * leaf).astype(leaf.dtype), direction)
    compiled, consts = _compiled(loss, order, start is None, jax.tree.structure(direction), _shapes(direction))
    found = np.asarray(compiled(consts, start, scaled), np.float64)
    if not np.isfinite(found).all():
        wrong = int(np.argmax(~np.isfinite(found)))
        raise ValueError(
            f"coefficient {wrong} of the loss is {found[wrong]}: the loss has no Taylor series where the line starts, "
            "or the coefficients overflow, for which a smaller unit helps."
        )
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        found = found / unit ** np.arange(order + 1.0)
    _check.finite(f"a coefficient in the unit {unit:g}", found)
    return found


@functools.lru_cache(maxsize=32)
def _compiled(loss: Callable, order: int, from_origin: bool, structure: Any, shapes: tuple):
    # As with jax.jit, what the loss closes over is read once. It is an argument of the compiled code, because XLA would
    # fold large constants for minutes.
    example = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(s, d) for s, d in shapes])
    closed, shape = program(loss, example)
    # JAX (0.10) remembers what it made of a NumPy array for as long as that lives, and would hand out 64 bits where
    # 64 bits are off: the constants are kept as arrays of JAX, and what the program holds of them is let go.
    jaxpr, consts = closed.jaxpr, [jnp.array(c) for c in closed.consts]

    def run(consts: Any, start: Any, direction: Any) -> Any:
        return _coefficients(jaxpr, shape, consts, start, direction, order)

    return jax.jit(run), consts


def _coefficients(jaxpr: Any, shape: Any, consts: Any, start: Any, direction: Any, order: int) -> Any:
    if getattr(shape, "shape", None) != ():
        raise ValueError("loss must return one number (an array of shape ()).")
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(f"loss returns {shape.dtype}, but must return a floating number.")
    leaves = jax.tree.leaves(direction)
    starts = [None] * len(leaves) if start is None else jax.tree.leaves(start)
    lines = [_line(a, d, order) for a, d in zip(starts, leaves)]
    (found,) = walk(jaxpr, consts, lines, order)
    return jnp.stack([jnp.zeros((), shape.dtype) if c is None else jnp.asarray(c) for c in lifted(found, order)])


def _line(start: Any, direction: Any, order: int) -> Any:
    if order == 0:
        return jnp.zeros_like(direction) if start is None else start
    return Taylor([start, direction, *[None] * (order - 1)])


def _tree(name: str, tree: Any, dtype: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    if not leaves:
        raise ValueError(f"{name} is empty, but must hold at least one array.")
    checked = [_check.array(f"a leaf of {name}", leaf, dtype=dtype) for leaf in leaves]
    return jax.tree.unflatten(structure, checked)


def _shapes(tree: Any) -> tuple:
    return tuple((leaf.shape, leaf.dtype.name) for leaf in jax.tree.leaves(tree))


def _growth(coefficients: np.ndarray) -> float:
    # The typical 1/|c_k|^(1/k) of the last few: an order of magnitude is enough.
    sizes = [abs(c) ** (-1 / k) for k, c in enumerate(coefficients) if k >= len(coefficients) // 2 and c]
    return float(min(sizes)) if sizes else 1.0
