"""Taylor rules: what each JAX primitive does to coefficients.

A rule takes the walk's order, the equation's parameters and values (arrays where nothing depends on t, `Taylor` where
it does) and returns a `Taylor` or an array. Functions with kinks are taken on the side of small t > 0.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from . import _taylor as ts


class Taylor:
    """Coefficients c_0..c_K of a value that depends on t; None is a structural zero."""

    def __init__(self, coefficients: ts.Coefficients):
        self.coefficients = coefficients


class Step(NamedTuple):
    """One equation of a program: how its primitive runs on plain arrays, its parameters, and the order of the walk."""

    bind: Callable[..., Any]
    params: dict[str, Any]
    order: int


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule under the names of its primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def lifted(value: Any, order: int) -> ts.Coefficients:
    """The coefficients of a value, constant or not."""
    return value.coefficients if isinstance(value, Taylor) else ts.constant(value, order)


@rule("neg", "reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "rev", "copy", "copy_p", "real")
@rule("slice", "dynamic_slice", "gather", "reduce_sum", "cumsum", "reduce_window_sum")
@rule("stop_gradient", "reduce_precision", "sharding_constraint", "device_put", "name")
def _linear(step: Step, operand: Any, *rest: Any) -> Any:
    if not isinstance(operand, Taylor) or any(isinstance(r, Taylor) for r in rest):
        raise NotImplementedError("an index that depends on the parameters")
    return Taylor(ts.linear(lambda c: step.bind(c, *rest), operand.coefficients))


@rule("split")
def _split(step: Step, operand: Taylor) -> list[Taylor]:
    parts = [None if c is None else step.bind(c) for c in operand.coefficients]
    count = len(next(p for p in parts if p is not None))
    return [Taylor([None if p is None else p[i] for p in parts]) for i in range(count)]


@rule("convert_element_type")
def _convert(step: Step, operand: Taylor) -> Taylor:
    if not jnp.issubdtype(step.params["new_dtype"], jnp.floating):
        raise NotImplementedError("a conversion of what depends on the parameters to whole numbers")
    return Taylor(ts.linear(step.bind, operand.coefficients))


@rule("concatenate", "stack", "pad", "select_n", "dynamic_update_slice", "scatter-add", "scatter")
def _jointly_linear(step: Step, *values: Any) -> Taylor:
    floating = [jnp.issubdtype(_like(v).dtype, jnp.floating) for v in values]
    if any(isinstance(v, Taylor) and not f for v, f in zip(values, floating)):
        raise NotImplementedError("an index that depends on the parameters")
    columns = []
    for k in range(step.order + 1):
        at = [lifted(v, step.order)[k] if f else v for v, f in zip(values, floating)]
        if all(c is None for c, f in zip(at, floating) if f):
            columns.append(None)
        else:
            columns.append(step.bind(*(jnp.zeros_like(_like(v)) if c is None else c for c, v in zip(at, values))))
    return Taylor(columns)


@rule("add", "add_any")
def _add(step: Step, a: Any, b: Any) -> Taylor:
    return Taylor(ts.add(lifted(a, step.order), lifted(b, step.order)))


@rule("sub")
def _sub(step: Step, a: Any, b: Any) -> Taylor:
    return Taylor(_difference(step, a, b))


@rule("mul", "dot_general", "conv_general_dilated")
def _bilinear(step: Step, a: Any, b: Any) -> Taylor:
    return Taylor(ts.bilinear(step.bind, lifted(a, step.order), lifted(b, step.order)))


@rule("div")
def _div(step: Step, a: Any, b: Any) -> Taylor:
    if not isinstance(b, Taylor):
        return Taylor(ts.linear(lambda c: c / b, a.coefficients))
    return Taylor(ts.divide(lifted(a, step.order), b.coefficients))


@rule("integer_pow")
def _integer_pow(step: Step, u: Taylor) -> Taylor:
    return Taylor(ts.integer_power(u.coefficients, step.params["y"]))


@rule("pow")
def _pow(step: Step, u: Any, exponent: Any) -> Taylor:
    if not isinstance(exponent, Taylor):
        return Taylor(ts.power(u.coefficients, exponent))
    return Taylor(ts.exp(ts.multiply(exponent.coefficients, ts.log(lifted(u, step.order)))))


def _plus(number: float, u: ts.Coefficients) -> ts.Coefficients:
    first = jnp.full_like(ts.example(u), number) if u[0] is None else u[0] + number
    return [first, *u[1:]]


def _inverse(function: Callable, derivative: Callable[[ts.Coefficients], ts.Coefficients]) -> Rule:
    # A function known by its derivative, as a function of u².
    def found(u: ts.Coefficients) -> ts.Coefficients:
        at = jnp.zeros_like(ts.example(u)) if u[0] is None else u[0]
        return ts.integrated(u, derivative(ts.multiply(u, u)), function(at))

    return lambda step, u: Taylor(found(u.coefficients))


def _elementwise(function: Callable[[ts.Coefficients], ts.Coefficients]) -> Rule:
    return lambda step, u: Taylor(function(u.coefficients))


RULES |= {
    "exp": _elementwise(ts.exp),
    "exp2": _elementwise(lambda u: ts.exp(ts.linear(lambda c: c * math.log(2), u))),
    "expm1": _elementwise(ts.expm1),
    "log": _elementwise(ts.log),
    "log1p": _elementwise(ts.log1p),
    "logistic": _elementwise(ts.sigmoid),
    "tanh": _elementwise(ts.tanh),
    "sin": _elementwise(lambda u: ts.sin_cos(u)[0]),
    "cos": _elementwise(lambda u: ts.sin_cos(u)[1]),
    "tan": _elementwise(lambda u: ts.divide(*ts.sin_cos(u))),
    "sinh": _elementwise(lambda u: ts.sinh_cosh(u)[0]),
    "cosh": _elementwise(lambda u: ts.sinh_cosh(u)[1]),
    "erf": _elementwise(ts.erf),
    "erfc": _elementwise(ts.erfc),
    "square": _elementwise(lambda u: ts.multiply(u, u)),
    "sqrt": _elementwise(lambda u: ts.power(u, 0.5)),
    "rsqrt": _elementwise(lambda u: ts.power(u, -0.5)),
    "cbrt": _elementwise(lambda u: ts.power(u, 1 / 3, first=None if u[0] is None else jnp.cbrt(u[0]))),
    "atan": _inverse(jnp.arctan, lambda q: ts.integer_power(_plus(1.0, q), -1)),
    "atanh": _inverse(jnp.arctanh, lambda q: ts.integer_power(_plus(1.0, ts.negative(q)), -1)),
    "asin": _inverse(jnp.arcsin, lambda q: ts.power(_plus(1.0, ts.negative(q)), -0.5)),
    "acos": _inverse(jnp.arccos, lambda q: ts.negative(ts.power(_plus(1.0, ts.negative(q)), -0.5))),
    "asinh": _inverse(jnp.arcsinh, lambda q: ts.power(_plus(1.0, q), -0.5)),
    "acosh": _inverse(jnp.arccosh, lambda q: ts.power(_plus(-1.0, q), -0.5)),
}

_COMPARISONS = {
    "lt": lambda sign: sign < 0,
    "le": lambda sign: sign <= 0,
    "gt": lambda sign: sign > 0,
    "ge": lambda sign: sign >= 0,
    "eq": lambda sign: sign == 0,
    "ne": lambda sign: sign != 0,
}


def _comparison(decide: Callable[[Any], Any]) -> Rule:
    return lambda step, a, b: decide(_side(_difference(step, a, b), a, b))


RULES |= {name: _comparison(decide) for name, decide in _COMPARISONS.items()}


@rule("sign")
def _sign(step: Step, u: Taylor) -> Any:
    return _side(u.coefficients, u)


@rule("is_finite")
def _is_finite(step: Step, u: Taylor) -> Any:
    first = u.coefficients[0]
    return jnp.isfinite(jnp.zeros_like(_like(u)) if first is None else first)


@rule("abs")
def _abs(step: Step, u: Taylor) -> Taylor:
    sign = _side(u.coefficients, u)
    return Taylor(ts.linear(lambda c: c * sign, u.coefficients))


@rule("max")
def _max(step: Step, a: Any, b: Any) -> Taylor:
    return _chosen(step, _side(_difference(step, a, b), a, b) >= 0, a, b)


@rule("min")
def _min(step: Step, a: Any, b: Any) -> Taylor:
    return _chosen(step, _side(_difference(step, a, b), a, b) <= 0, a, b)


@rule("clamp")
def _clamp(step: Step, low: Any, u: Any, high: Any) -> Taylor:
    return _min(step, _max(step, u, low), high)


@rule("reduce_max")
def _reduce_max(step: Step, u: Taylor) -> Taylor:
    return Taylor(_greatest(u.coefficients, step.params["axes"]))


@rule("reduce_min")
def _reduce_min(step: Step, u: Taylor) -> Taylor:
    return Taylor(ts.negative(_greatest(ts.negative(u.coefficients), step.params["axes"])))


@rule("reduce_prod")
def _reduce_prod(step: Step, u: Taylor) -> Taylor:
    found = u
    for axis in sorted(step.params["axes"], reverse=True):
        parts = [
            ts.linear(lambda c, i=i, a=axis: lax.index_in_dim(c, i, a, keepdims=False), found.coefficients)
            for i in range(_like(found).shape[axis])
        ]
        product = parts[0]
        for part in parts[1:]:
            product = ts.multiply(product, part)
        found = Taylor(product)
    return found


def _greatest(u: ts.Coefficients, axes: tuple[int, ...]) -> ts.Coefficients:
    # The greatest for small t > 0: by c_0, among equals by c_1, and so on.
    among = jnp.ones(ts.example(u).shape, bool)
    found: ts.Coefficients = []
    for c in u:
        if c is None:
            found.append(None)
            continue
        top = jnp.where(among, c, -jnp.inf).max(axis=axes, keepdims=True)
        among = among & (c == top)
        found.append(jnp.squeeze(top, axes))
    # A coefficient that is not there is zero, and so is below a negative one that is: they were compared already.
    return found


def _difference(step: Step, a: Any, b: Any) -> ts.Coefficients:
    return ts.add(lifted(a, step.order), ts.negative(lifted(b, step.order)))


def _side(u: ts.Coefficients, *values: Any) -> Any:
    sign = ts.side(u)
    shape = jnp.broadcast_shapes(*(jnp.shape(_like(v)) for v in values))
    return jnp.zeros(shape) if sign is None else jnp.broadcast_to(sign, shape)


def _chosen(step: Step, condition: Any, a: Any, b: Any) -> Taylor:
    pairs = zip(lifted(a, step.order), lifted(b, step.order))
    return Taylor(
        [
            None if x is None and y is None else jnp.where(condition, 0 if x is None else x, 0 if y is None else y)
            for x, y in pairs
        ]
    )


def _like(value: Any) -> Any:
    return ts.example(value.coefficients) if isinstance(value, Taylor) else jnp.asarray(value)


def zeros_filled(value: Any, order: int, shape: tuple[int, ...], dtype: Any) -> ts.Coefficients:
    """The coefficients with zeros for structural ones, all of one shape and type."""
    filled = [0 if c is None else c for c in lifted(value, order)]
    return [jnp.broadcast_to(jnp.asarray(c, dtype), shape) for c in filled]
