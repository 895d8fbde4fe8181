"""The layers of any JAX model: what its program makes by multiplying parameters with something that the input is in.

The program is traced and run again operation by operation, so that every such product can be looked at, and changed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from . import _check

_CALLS = {"jit", "pjit", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "closed_call"}
_CALLS |= {"checkpoint", "remat2"}  # names that jax.checkpoint had and has
_PRODUCTS = {"dot_general", "conv_general_dilated"}


class Value(NamedTuple):
    """A value on the way: the parameters that it was made of, and whether the input is in it.

    `other` is what it is with other parameters, where it was made of parameters alone.
    """

    value: Any
    names: tuple[str, ...] = ()
    live: bool = False
    other: Any = None


class Layer(NamedTuple):
    """A product of parameters with something that the input is in.

    `changed` is the product of the same something with the other parameters, if such were given; `inputs` is that
    something.
    """

    name: str
    value: Any
    changed: Any = None
    inputs: Any = None


class Program:
    """A model's program, and its layers in the order in which they are computed.

    Args:
        apply: `apply(params, x)`, which gives the outputs, or these and a dictionary of what it calls layers.
        params, x: examples of what it takes.
    """

    def __init__(self, apply: Callable[[Any, Any], Any], params: Any, x: Any) -> None:
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(params)
        self._names = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in leaves]
        try:
            self._closed, shape = jax.make_jaxpr(apply, return_shape=True)(params, x)
        except jax.errors.JAXTypeError as error:
            raise ValueError(f"apply cannot be traced by JAX: {_check.reason(error)}.") from None
        # The function is the user's own: anything may go wrong in it.
        except Exception as error:
            raise ValueError(f"apply(params, x) failed: {_check.reason(error)}.") from None
        self._out = jax.tree.structure(shape)
        self.named = isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], Mapping)
        if not self.named and self._out.num_leaves != 1:
            raise ValueError(
                "apply returns several arrays, but must return its outputs, or these and a dictionary of layers."
            )

    def layers(self, params: Any, x: Any) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
        """Names of the layers, each once, and their shapes; nothing is computed."""
        names: list[str] = []

        def values(params: Any, x: Any) -> list[Any]:
            found = self.run(params, x)[1]
            names.extend(layer.name for layer in found)
            return [layer.value for layer in found]

        shapes = [one.shape for one in jax.eval_shape(values, params, x)]
        return distinct(names), shapes

    def run(self, params: Any, x: Any, *, other: Any = None, added: Sequence[Any] = ()) -> tuple[Any, list[Layer]]:
        """The outputs and the layers.

        Args:
            params: of the shapes that were traced.
            x: likewise.
            other: other parameters, for `Layer.changed`.
            added: what is added to the layers, one array for each.
        """
        walk = _Walk(list(added))
        others = [None] * len(self._names) if other is None else jax.tree.leaves(other)
        given = [
            Value(leaf, (name,), False, one) for leaf, name, one in zip(jax.tree.leaves(params), self._names, others)
        ]
        found = [one.value for one in walk.run(self._closed, [*given, Value(x, (), True)])]
        outputs = jax.tree.unflatten(self._out, found)
        if self.named:
            outputs, named = outputs
            return outputs, [Layer(str(name), value) for name, value in named.items()]
        return outputs, walk.layers


class _Walk:
    def __init__(self, added: list[Any]) -> None:
        self.layers: list[Layer] = []
        self._added = added

    def run(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        jaxpr = closed.jaxpr
        values = dict(zip(jaxpr.constvars, map(Value, closed.consts))) | dict(zip(jaxpr.invars, args))

        def of(var: Any) -> Value:
            return Value(var.val) if isinstance(var, Literal) else values[var]

        for eqn in jaxpr.eqns:
            values |= dict(zip(eqn.outvars, self._step(eqn, [of(var) for var in eqn.invars])))
        return [of(var) for var in jaxpr.outvars]

    def _step(self, eqn: Any, args: list[Value]) -> list[Value]:
        name, params = eqn.primitive.name, eqn.params
        live = any(arg.live for arg in args)
        if live and name in _CALLS:
            inside = next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
            return self.run(inside if hasattr(inside, "jaxpr") else ClosedJaxpr(inside, ()), args)
        if live and name == "scan" and not any(arg.live for arg in args[params["num_consts"] + params["num_carry"] :]):
            return self._unrolled(params, args)
        names = tuple(dict.fromkeys(one for arg in args for one in arg.names))
        found = self._bound(eqn, [arg.value for arg in args])
        if not live:
            both = any(arg.other is not None for arg in args)
            others = (
                self._bound(eqn, [arg.value if arg.other is None else arg.other for arg in args]) if both else found
            )
            return [Value(one, names, False, two if both else None) for one, two in zip(found, others)]
        if name in _PRODUCTS and (weights := [arg for arg in args if not arg.live and arg.names]):
            return [Value(self._layer(eqn, args, weights[0], found[0]), names, True)]
        return [Value(one, names, True) for one in found]

    def _layer(self, eqn: Any, args: list[Value], weights: Value, value: Any) -> Any:
        changed = None
        if weights.other is not None:
            changed = self._bound(eqn, [weights.other if arg is weights else arg.value for arg in args])[0]
        if self._added:
            value = value + self._added[len(self.layers)].astype(value.dtype)
        inputs = next((arg.value for arg in args if arg.live), None)
        self.layers.append(Layer(weights.names[0], value, changed, inputs))
        return value

    def _unrolled(self, params: Mapping[str, Any], args: list[Value]) -> list[Value]:
        # A loop over layers whose parameters are stacked.
        consts, carried = params["num_consts"], params["num_carry"]
        fixed, state, along = args[:consts], args[consts : consts + carried], args[consts + carried :]
        stacked: list[list[Value]] = []
        order = range(params["length"])
        for i in reversed(order) if params["reverse"] else order:
            each = [
                arg._replace(value=arg.value[i], other=None if arg.other is None else arg.other[i]) for arg in along
            ]
            found = self.run(params["jaxpr"], [*fixed, *state, *each])
            state = found[:carried]
            stacked.append(found[carried:])
        if not stacked or not stacked[0]:
            return state
        stacked = stacked[::-1] if params["reverse"] else stacked
        more = [one[0]._replace(value=jnp.stack([v.value for v in one]), other=None) for one in zip(*stacked)]
        return [*state, *more]

    @staticmethod
    def _bound(eqn: Any, values: list[Any]) -> list[Any]:
        found = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
        return list(found) if eqn.primitive.multiple_results else [found]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, numbered where one stands for several layers.

    >>> distinct(["W", "V", "W"])
    ('W', 'V', 'W (2)')
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def size(value: Any) -> Any:
    """The root of the mean square of all entries."""
    return jnp.sqrt(jnp.mean(jnp.square(value)))


def split(params: Any) -> tuple[Any, Any]:
    """A tree's arrays, and what else it holds, such as an activation or a switch; `equinox.combine` puts them together.

    >>> split({"W": np.ones(2), "activation": jnp.tanh})[0]
    {'W': array([1., 1.]), 'activation': None}
    """
    return eqx.partition(params, lambda leaf: isinstance(leaf, jax.Array | np.ndarray | np.generic))


def arrays_of(name: str, value: Any) -> Any:
    """Data as a JAX array: real numbers in JAX's default type, whole ones as they are."""
    found = _check.array(name, value, dtype=None)
    return jnp.asarray(found, jnp.zeros(()).dtype if found.dtype.kind == "f" else None)
