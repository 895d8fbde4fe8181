"""Which activation a function of one entry is, and which norm a piece of the graph is: by what they do to numbers."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._activation import Activation, activation
from .._expression import LONGEST, Term, expression, is_expression, parsed
from .._framework_functions import EXPRESSIONS
from .._precision import float64
from ._graph import Known, Node
from ._ops import kind_of
from ._values import evaluate, function_of, understood

_POINTS = np.concatenate([np.linspace(-6, 6, 49), [-25.3, -11.7, 12.9, 31.4]])
_EVERYWHERE = np.concatenate([np.linspace(-300, 300, 6007), np.linspace(-9, 9, 5003)])
_CLOSE = 1e-6  # frameworks write √½ in single precision
_PLAIN = (
    "linear",
    "relu",
    "tanh",
    "sigmoid",
    "softplus",
    "erf",
    "sin",
    "gelu",
    "silu",
    "mish",
    "quadratic",
    "hard_tanh",
)


def scale_of(function: Callable[[Any], Any]) -> float | None:
    """The number c if the function is c z; else None."""
    values = _values(function)
    if values is None:
        return None
    factor = float(values @ _POINTS / (_POINTS @ _POINTS))
    return factor if _close(values, factor * _POINTS) and _everywhere(function, lambda z: factor * z) else None


def named(function: Callable[[Any], Any]) -> Activation | None:
    """The activation with a name, or with a known expression of z, that the function is, if it is one."""
    values = _values(function)
    if values is None:
        return None
    for names in (_PLAIN, _families(values), EXPRESSIONS):
        for name, others in zip(names, _named_values(names)):
            if _close(values, others) and _everywhere(function, (found := activation(name)).function):
                return found
    return None


def expressed(nodes: Sequence[Node], start: Node, scale: float) -> Activation | None:
    """The activation of these operations on `scale` times an entry as an expression of z, if it can be written as one.

    Then programs can be written with it, and files hold it.
    """
    z = Term("z")
    found = {id(start): z if scale == 1 else Term("*", (Term("number", number=scale), z))}
    sizes = {id(start): 1}
    for node in nodes:
        term = _term(node, [_number(arg) if isinstance(arg, Known) else found[id(arg)] for arg in node.args])
        # What is used twice is written twice.
        sizes[id(node)] = 1 + sum(1 if isinstance(arg, Known) else sizes[id(arg)] for arg in node.args)
        if term is None or sizes[id(node)] > LONGEST:
            return None
        found[id(node)] = term
    function = function_of(nodes, start)
    values, others = _values(lambda z: function(scale * z)), _values(float64(lambda z: found[id(nodes[-1])](z)))
    try:
        text = expression(found[id(nodes[-1])])
    except ValueError:
        return None
    return activation(text) if values is not None and others is not None and _close(values, others) else None


_OPERATORS = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "neg": "negative"}
_SAME = {name: name for name in ("exp", "log", "log1p", "expm1", "sqrt", "abs", "sin", "cos", "sinh", "cosh", "tanh")}
_SAME |= {"erf": "erf", "max": "max", "min": "min", "atan": "arctan", "asinh": "arcsinh", "logistic": "sigmoid"}


def _term(node: Node, of: Sequence[Term]) -> Term | None:
    if node.op == "max" and of[1].kind == "number" and of[1].number == 0:
        return Term("relu", (of[0],))
    if kind := (_OPERATORS | _SAME).get(node.op):
        return Term(kind, tuple(of))
    if node.op in ("integer_pow", "square"):
        return Term("^", tuple(of), float(node.params.get("y", 2)))
    if node.op == "pow" and of[1].kind == "number":
        return Term("^", (of[0],), of[1].number)
    if node.op == "rsqrt":
        return Term("^", tuple(of), -0.5)
    if node.op == "clamp":
        return Term("min", (Term("max", (of[1], of[0])), of[2]))
    real = node.op == "copy" or (node.op == "convert_element_type" and kind_of(node.params["new_dtype"]) == "f")
    return of[0] if real else None


def _number(known: Known) -> Term:
    # 0.044715 in single precision has no more digits than that.
    value = np.ravel(known.value)[0]
    return Term("number", number=float(str(value) if kind_of(value.dtype) == "f" else value))


def own(function: Callable[[Any], Any], name: str, before: Sequence[Activation]) -> Activation:
    """The activation of a function that has no name here; one of those before, if it gives the same numbers."""
    # What a model writes again is the same to the last digit, everywhere.
    with np.errstate(all="ignore"):
        values = np.asarray(function(_EVERYWHERE))
        for other in before:
            if other.name == name and np.array_equal(values, other.function(_EVERYWHERE), equal_nan=True):
                return other
    return activation(function, name=name)


def _families(values: np.ndarray) -> tuple[str, ...]:
    # The parameter is read off where it shows.
    at, found = dict(zip(_POINTS.tolist(), values.tolist())), []
    if 0 < abs(at[-1.0]) < 10:
        found += [f"leaky_relu({-at[-1.0]:.7g})", f"elu({-at[-25.3]:.7g})"]
    if 0 < at[1.0] < 1:
        found.append(f"swish({-math.log(1 / at[1.0] - 1):.6g})")
    return tuple(found)


def _values(function: Callable[[Any], Any]) -> np.ndarray | None:
    with np.errstate(all="ignore"):
        values = np.asarray(function(_POINTS), np.float64)
    return values if values.shape == _POINTS.shape and np.isfinite(values).all() else None


@functools.lru_cache(maxsize=256)
@float64
def _named_values(names: tuple[str, ...]) -> np.ndarray:
    # One program for all of them. What else is known of an expression takes seconds to find out.
    functions = [parsed(name)[1] if is_expression(name) else activation(name) for name in names]
    return np.array(jax.jit(lambda z: [function(z) for function in functions])(_POINTS))


def _everywhere(one: Callable[[Any], Any], other: Callable[[Any], Any]) -> bool:
    # Between the points, and far out, where formulas of the same function may overflow.
    with np.errstate(all="ignore"):
        values, others = (np.asarray(float64(function)(_EVERYWHERE), np.float64) for function in (one, other))
    seen = np.isfinite(values) & np.isfinite(others)
    return _close(values[seen], others[seen])


def _close(values: np.ndarray, others: np.ndarray) -> bool:
    return bool((np.abs(values - others) <= _CLOSE * (1 + np.abs(others))).all())


class FoundNorm(NamedTuple):
    """A norm: whether it subtracts the mean, its ε, the gains in it (None for none) and their names."""

    centres: bool
    epsilon: float
    gain: np.ndarray | None
    names: tuple[str, ...]


def norm_of(nodes: Sequence[Node], start: Node, axis: int) -> FoundNorm | None:
    """The norm along one axis that these operations are, if they are one."""
    if not understood(nodes) or nodes[-1].shape != start.shape:
        return None
    rng = np.random.default_rng(0)
    # Rows of several sizes, so that ε shows, and with a mean, so that its subtraction does.
    rows = [rng.normal(size=start.shape) * 10.0**-k + 0.3 * 10.0**-k for k in range(5)]
    with np.errstate(all="ignore"):
        try:
            answers = [np.moveaxis(evaluate(nodes, start, row), axis, -1) for row in rows]
        except (ValueError, IndexError):
            return None
    rows = [np.moveaxis(row, axis, -1) for row in rows]
    # Of small rows nothing is left after rounding ε, so answers are compared by their own size.
    for centres in (False, True):
        for epsilon in _epsilons(nodes):
            plain = [_normalized(row, centres, epsilon) for row in rows]
            gain = sum((a * p).reshape(-1, a.shape[-1]).sum(0) / (p * p).sum() for a, p in zip(answers, plain))
            weight = sum((p * p).reshape(-1, p.shape[-1]).sum(0) / (p * p).sum() for p in plain)
            gain = np.divide(gain, weight, out=np.ones_like(gain), where=weight > 0)
            if all(np.abs(a - gain * p).max() <= 1e-5 * np.abs(a).max() for a, p in zip(answers, plain)):
                return FoundNorm(centres, epsilon, *_gain(gain, nodes))
    return None


def centres(nodes: Sequence[Node], start: Node, axis: int) -> bool:
    """Whether these operations subtract the mean along one axis and nothing else."""
    if not understood(nodes) or nodes[-1].shape != start.shape:
        return False
    row = np.random.default_rng(0).normal(size=start.shape)
    with np.errstate(all="ignore"):
        found = evaluate(nodes, start, row)
    return np.shape(found) == row.shape and np.allclose(found, row - row.mean(axis, keepdims=True), rtol=0, atol=1e-6)


def _normalized(row: np.ndarray, centres: bool, epsilon: float) -> np.ndarray:
    row = row - row.mean(-1, keepdims=True) if centres else row
    return row / np.sqrt((row * row).mean(-1, keepdims=True) + epsilon)


def _epsilons(nodes: Sequence[Node]) -> list[float]:
    known = [arg.value for node in nodes for arg in node.args if isinstance(arg, Known) and np.size(arg.value) == 1]
    numbers = {float(np.ravel(value)[0]) for value in known if kind_of(np.asarray(value).dtype) == "f"}
    return [*sorted(number for number in numbers if 0 < number < 1), 0.0]


def _gain(gain: np.ndarray, nodes: Sequence[Node]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    # The parameter itself has all its digits.
    for node in nodes:
        for arg in node.args:
            if isinstance(arg, Known) and arg.names and np.size(arg.value) == gain.size:
                given = np.ravel(arg.value)
                if np.allclose(given, gain, rtol=1e-4, atol=1e-6):
                    return given, arg.names
    return (None, ()) if np.allclose(gain, 1, rtol=0, atol=1e-6) else (gain, ())
