"""A walk over a JAX program with Taylor coefficients in place of values."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from . import _taylor as ts
from ._rules import RULES, Step, Taylor, lifted, zeros_filled

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}


def walk(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], order: int) -> list[Any]:
    """The outputs of a program whose arguments are arrays or `Taylor`; traceable code."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts)) | dict(zip(jaxpr.invars, arguments))
    for equation in jaxpr.eqns:
        values = [v.val if isinstance(v, Literal) else env[v] for v in equation.invars]
        outputs = _equation(equation, values, order)
        env.update(zip(equation.outvars, map(_shaped, outputs, equation.outvars)))
    return [v.val if isinstance(v, Literal) else env[v] for v in jaxpr.outvars]


def _equation(equation: JaxprEqn, values: list[Any], order: int) -> Sequence[Any]:
    name = equation.primitive.name
    if name in _CALLS:
        inner = equation.params[_CALLS[name]]
        closed = isinstance(inner, ClosedJaxpr)
        return walk(inner.jaxpr if closed else inner, inner.consts if closed else (), values, order)
    if not any(isinstance(v, Taylor) for v in values):
        found = _bind(equation)(*values)
    elif name == "scan":
        return _scan(equation.params, values, order)
    elif name == "cond":
        return _cond(equation.params, values, order)
    elif name in RULES:
        try:
            found = RULES[name](Step(_bind(equation), equation.params, order), *values)
        except NotImplementedError as reason:
            raise ValueError(f"loss holds {reason}, which has no Taylor series (primitive {name!r}).") from None
    else:
        raise ValueError(
            f"loss uses the JAX primitive {name!r}, for which no Taylor rule is known; write it with other functions, "
            "or take it out of what depends on the parameters."
        )
    return found if equation.primitive.multiple_results else [found]


def _bind(equation: JaxprEqn) -> Callable[..., Any]:
    return lambda *values: equation.primitive.bind(*values, **equation.params)


def _shaped(value: Any, variable: Any) -> Any:
    # A literal number may have stood for a whole array.
    if not isinstance(value, Taylor):
        return value
    shape, dtype = variable.aval.shape, variable.aval.dtype
    found = ts.linear(lambda c: jnp.broadcast_to(jnp.asarray(c, dtype), shape), value.coefficients)
    return Taylor(found) if any(c is not None for c in found) else jnp.zeros(shape, dtype)


def _scan(params: dict[str, Any], values: list[Any], order: int) -> list[Any]:
    body, fixed, carried = params["jaxpr"], params["num_consts"], params["num_carry"]
    consts, start, scanned = values[:fixed], values[fixed : fixed + carried], values[fixed + carried :]
    avals = [v.aval for v in body.jaxpr.outvars]

    # What is carried may depend on t after the first step, whatever it was before.
    def filled(value: Any, aval: Any) -> Any:
        return zeros_filled(value, order, aval.shape, aval.dtype) if _floating(aval) else value

    def opened(value: Any) -> Any:
        return value.coefficients if isinstance(value, Taylor) else value

    def closed(value: Any) -> Any:
        return Taylor(list(value)) if isinstance(value, list) else value

    def step(carry: Any, xs: Any) -> Any:
        arguments = [*consts, *map(closed, carry), *map(closed, xs)]
        outputs = walk(body.jaxpr, body.consts, arguments, order)
        dense = [filled(value, aval) for value, aval in zip(outputs, avals)]
        return dense[:carried], dense[carried:]

    first = [filled(value, v.aval) for value, v in zip(start, body.jaxpr.invars[fixed:])]
    last, stacked = lax.scan(
        step,
        first,
        [opened(value) for value in scanned],
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*map(closed, last), *map(closed, stacked)]


def _cond(params: dict[str, Any], values: list[Any], order: int) -> list[Any]:
    index, *operands = values
    branches = params["branches"]
    avals = [v.aval for v in branches[0].jaxpr.outvars]
    places = [i for i, value in enumerate(operands) if isinstance(value, Taylor)]

    def branch(inner: ClosedJaxpr) -> Callable[..., Any]:
        def run(plain: list[Any], series: list[Any]) -> list[Any]:
            arguments = list(plain)
            for place, coefficients in zip(places, series):
                arguments[place] = Taylor(list(coefficients))
            outputs = walk(inner.jaxpr, inner.consts, arguments, order)
            return [
                zeros_filled(value, order, aval.shape, aval.dtype) if _floating(aval) else value
                for value, aval in zip(outputs, avals)
            ]

        return run

    plain = [jnp.zeros(()) if isinstance(value, Taylor) else value for value in operands]
    series = [lifted(operands[i], order) for i in places]
    outputs = lax.switch(index, [branch(inner) for inner in branches], plain, series)
    return [Taylor(list(value)) if isinstance(value, list) else value for value in outputs]


def _floating(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.floating)


def program(function: Callable[..., Any], example: Any) -> tuple[ClosedJaxpr, Any]:
    """The program of a function of one tree, and the shape of what it returns."""
    # JAX keeps a trace, and what it made of NumPy arrays in it, for as long as the function lives: one of our own goes.
    closed, shape = jax.make_jaxpr(lambda tree: function(tree), return_shape=True)(example)
    return closed, shape
