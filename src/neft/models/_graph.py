"""What a JAX function does with its input: the graph of its operations, traced, with everything else evaluated.

Parameters are known, so an operation on them alone is carried out; what is left are the operations that the input
goes through, in the order in which it does.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from .. import _check
from ._ops import ALONG, ELEMENTWISE, precise


class Known(NamedTuple):
    """A value that does not depend on the input, and the names of the parameters that it was made of."""

    value: Any
    names: tuple[str, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether it is one number, perhaps many times, that no parameter gave."""
        return not self.names and np.size(self.value) > 0 and bool(np.all(self.value == np.ravel(self.value)[0]))


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """An operation that the input goes through.

    Attributes:
        op: the name of JAX's primitive, "input" for the input itself.
        args: what goes in.
        params: the primitive's own parameters.
        shape: of what comes out.
        where: the layer it stands in, as far as the framework said so; "" where it did not.
    """

    op: str
    args: tuple["Node | Known", ...]
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    where: str = ""

    @property
    def before(self) -> list["Node"]:
        """The operations whose results go in."""
        return [arg for arg in self.args if isinstance(arg, Node)]


Value = Node | Known


SENTENCES = ("the model holds", "the model takes")
"""How errors begin that are told to the user as they are."""


class DoesNotFit(Exception):
    """The model could not be run on an input of this shape."""


def traced(function: Callable[..., Any], params: Mapping[str, Any], x: Any) -> tuple[Node, Node]:
    """The input and the output of `function(params, x)` as ends of a graph, params being arrays by name."""
    # A model is run as its user would run it, whatever is asked of the caller's own code.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        try:
            closed = jax.make_jaxpr(function)(dict(params), x)
        except jax.errors.ConcretizationTypeError:
            raise ValueError(
                "the model asks for the values of what it computes (an `if`, a loop or a conversion to Python or NumPy)"
                ", but only models whose operations do not depend on the data can be read."
            ) from None
        # The program is the user's own: anything may go wrong in it.
        except Exception as error:
            if isinstance(error, ValueError) and str(error).startswith(SENTENCES):
                raise
            raise DoesNotFit(_check.reason(error).rstrip(".")) from None
    if len(closed.out_avals) != 1:
        raise ValueError(f"the model returns {len(closed.out_avals)} arrays, but must return one, its outputs.")
    start = Node("input", (), {}, tuple(np.shape(x)))
    # JAX sorts the keys of a dictionary.
    known: list[Value] = [Known(_kept(params[name]), (name,)) for name in sorted(params)]
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        (end,) = _run(closed, [*known, start])
    if not isinstance(end, Node):
        raise ValueError("the model's outputs do not depend on its input, but a network's do.")
    return start, end


def _run(closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    jaxpr = closed.jaxpr
    values: dict[Any, Value] = dict(zip(jaxpr.constvars, map(Known, closed.consts)))
    values |= dict(zip(jaxpr.invars, args))

    def of(var: Any) -> Value:
        return Known(np.asarray(var.val)) if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        found = _step(eqn, [of(var) for var in eqn.invars])
        values |= dict(zip(eqn.outvars, found))
    return [of(var) for var in jaxpr.outvars]


def _step(eqn: Any, args: list[Value]) -> list[Value]:
    name, params = eqn.primitive.name, eqn.params
    inside = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
    inside = inside if name in _CALLS else None
    if inside is None and not any(isinstance(arg, Node) for arg in args):
        return _evaluated(eqn, args)
    if name == "cond" and isinstance(args[0], Known):
        return _run(params["branches"][int(args[0].value)], args[1:])
    if name == "scan":
        return _unrolled(params, args)
    if inside is not None and not params.get("name", "").startswith(MARK):
        closed = inside if hasattr(inside, "jaxpr") else ClosedJaxpr(inside, ())
        return _run(closed, args)
    where = str(getattr(eqn.source_info, "name_stack", ""))
    op = params["name"] if params.get("name", "").startswith(MARK) else name
    node = Node(op, tuple(args), params, tuple(eqn.outvars[0].aval.shape) if eqn.outvars else (), where)
    if len(eqn.outvars) == 1:
        return [node]
    return [Node("part", (node,), {"index": i}, tuple(var.aval.shape), where) for i, var in enumerate(eqn.outvars)]


_CALLS = {"jit", "pjit", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "closed_call", "core_call"} | {
    "checkpoint",
    "remat",
    "remat2",
}
MARK = "neft_"
"""What the names of functions begin with that are one operation of the graph, whatever is inside them."""


def _unrolled(params: Mapping[str, Any], args: list[Value]) -> list[Value]:
    # A loop over layers whose parameters are stacked.
    consts, carried = params["num_consts"], params["num_carry"]
    fixed, state, along = args[:consts], args[consts : consts + carried], args[consts + carried :]
    if any(isinstance(arg, Node) for arg in along) or len(params["jaxpr"].out_avals) != carried:
        raise ValueError("the model scans along its input, but only loops over layers can be read.")
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        each: list[Value] = [Known(np.asarray(arg.value)[i], arg.names) for arg in along if isinstance(arg, Known)]
        state = _run(params["jaxpr"], [*fixed, *state, *each])
    return state


def _evaluated(eqn: Any, args: list[Value]) -> list[Value]:
    known = [arg for arg in args if isinstance(arg, Known)]
    names = tuple(dict.fromkeys(name for arg in known for name in arg.names))
    name, params, values = eqn.primitive.name, eqn.params, [arg.value for arg in known]
    plain = ELEMENTWISE.get(name) or ALONG.get(name)
    if plain is not None and all(isinstance(value, np.ndarray | np.generic) for value in values):
        # NumPy, so that no program is compiled for each shape.
        with np.errstate(all="ignore"):
            found = plain(np, params, *values)
        return [Known(np.asarray(found, precise(eqn.outvars[0].aval.dtype)), names)]
    found = eqn.primitive.bind(*(_array(value, var.aval.dtype) for value, var in zip(values, eqn.invars)), **params)
    outputs = found if eqn.primitive.multiple_results else [found]
    return [Known(_plain(one), names) for one in outputs]


def _array(value: Any, dtype: Any) -> Any:
    return jnp.asarray(value, dtype) if isinstance(value, np.ndarray | np.generic) else value


def _plain(value: Any) -> Any:
    # Keys of random numbers are no numbers.
    return value if jnp.issubdtype(value.dtype, jax.dtypes.extended) else _kept(np.asarray(value))


def _kept(value: np.ndarray) -> np.ndarray:
    return value.astype(precise(value.dtype), copy=False)


def between(start: Node, end: Node) -> list[Node]:
    """The operations from one to the other, both included, each after those that it takes from; [] if there is no way.

    What `end` takes from elsewhere than `start` is not among them.
    """
    order: list[Node] = []
    reaches: dict[int, bool] = {id(start): True}
    stack = [(end, False)]
    while stack:
        node, done = stack.pop()
        if done:
            reaches[id(node)] = any(reaches[id(arg)] for arg in node.before)
            if reaches[id(node)]:
                order.append(node)
        elif id(node) not in reaches:
            reaches[id(node)] = False
            stack.append((node, True))
            stack += [(arg, False) for arg in node.before]
    return [start, *order] if reaches[id(end)] else []


def segments(start: Node, end: Node) -> Iterator[list[Node]]:
    """The way from one to the other cut where everything passes through one operation, that one last in its piece."""
    order = between(start, end)
    place = {id(node): i for i, node in enumerate(order)}
    last = list(range(len(order)))
    for node in order:
        for arg in node.before:
            if id(arg) in place:
                last[place[id(arg)]] = max(last[place[id(arg)]], place[id(node)])
    farthest, piece = last[0] if order else 0, []
    for i, node in enumerate(order[1:], start=1):
        piece.append(node)
        if farthest <= i:
            yield piece
            piece = []
        farthest = max(farthest, last[i])
