"""What the optimizer needs to see of a forward pass: each layer's inputs and preactivations."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import _check
from .._products import Program
from .._promote import traced
from .._public import public
from ..network import Block, Dense, Network
from ._layers import is_layer, layers, nodes, sizes


class Captures(NamedTuple):
    """One pass through a model, layer by layer in the order of its parameters.

    Attributes:
        inputs: of each linear layer, of shape (batch, fan-in).
        preactivations: of each linear layer, of shape (batch, fan-out).
        outputs: of the model.
        loss: the number that `loss` gave, or None.
        gradient: of the loss by the parameters, in their shape, or None.
    """

    inputs: tuple[Array, ...]
    preactivations: tuple[Array, ...]
    outputs: Array
    loss: Array | None = None
    gradient: Any = None


@public
def capture(
    model: Any,
    x: Any,
    params: Any = None,
    *,
    loss: Callable[[Array], Any] | None = None,
    penalty: Callable[[Any], Any] | None = None,
) -> Captures:
    """The captures of a model on a batch, with loss and gradient in the same pass if a loss is given.

    Args:
        model: a `neft.Network` with `params`, whose layers are its dense blocks, those inside residual blocks too; an
            Equinox module that calls `eqx.nn.Linear` layers, each once, and takes one input; or any JAX function
            `model(params, x)` of a whole batch, such as the `apply` of a Flax module, whose layers are the
            dictionaries in `params` with a kernel (fan-in, fan-out) and perhaps a bias. They are found in its program,
            where each must be multiplied once with a matrix (batch, fan-in).
        x: inputs of shape (batch, n_0).
        params: the parameters of a network or of a function; an Equinox module is its own.
        loss: a function of the outputs (batch, n_L) that returns a number.
        penalty: a function of the parameters that is added to the loss (weight decay that sits inside the cost).

    >>> from neft import MLP
    >>> net = MLP(widths=(3, 8, 2))
    >>> seen = capture(net, jnp.ones((5, 3)), net.init(jax.random.key(0)), loss=lambda z: (z**2).mean())
    >>> [h.shape for h in seen.inputs], seen.loss.shape
    ([(5, 3), (5, 8)], ())
    """
    if not traced(x):
        # NumPy does not count bfloat16 among the real numbers.
        small = getattr(x, "dtype", None) == jnp.bfloat16
        x = jnp.asarray(_check.array("x", x.astype(np.float32) if small else x, dtype=None))
        x = x.astype(jnp.bfloat16) if small else x
    if x.ndim != 2 or not len(x):
        raise ValueError(f"x has shape {x.shape}, but must have shape (batch, inputs) with at least one input.")
    variables, forward = _opened(model, params)
    if loss is not None:
        _check.function("loss", loss, "outputs")
    if penalty is not None:
        _check.function("penalty", penalty, "params")
    if loss is None:
        if penalty is not None:
            raise ValueError("penalty is given without loss, but is added to one.")
        return forward(variables, x)

    def cost(variables: Any) -> tuple[Array, Captures]:
        seen = forward(variables, x)
        total = _number("loss", loss(seen.outputs))
        if not jnp.issubdtype(jnp.result_type(total), jnp.floating):
            raise ValueError(f"loss returns a number of type {jnp.result_type(total)}, but must return a real one.")
        return (total if penalty is None else total + _number("penalty", penalty(variables))), seen

    (value, seen), gradient = jax.value_and_grad(cost, has_aux=True)(variables)
    return seen._replace(loss=value, gradient=gradient)


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, (int, float, np.generic, np.ndarray, jax.Array)):
        raise ValueError(f"{name} returns {_check.brief(value)}, but must return a number.")
    if jnp.shape(value) != ():
        raise ValueError(f"{name} returns an array of shape {jnp.shape(value)}, but must return a number.")
    return value


def match(captures: Any, found: list[Any], count: int) -> None:
    """Refuse captures that are not of the layers `found`, of which an optimizer knows `count`."""
    if not isinstance(captures, Captures):
        raise ValueError("captures is missing, but update needs captures=neft.fisher.capture(model, x).")
    if not len(found) == len(captures.inputs) == count:
        raise ValueError(
            f"captures are of {len(captures.inputs)} layers and the gradient has {len(found)}, "
            f"but the optimizer was made for {count}."
        )
    for l, (layer, x, z) in enumerate(zip(found, captures.inputs, captures.preactivations), start=1):
        if sizes(layer) != (x.shape[-1], z.shape[-1]):
            fan_in, fan_out = sizes(layer)
            raise ValueError(
                f"captures of layer {l} have {x.shape[-1]} inputs and {z.shape[-1]} outputs, "
                f"but its gradient has {fan_in} and {fan_out}."
            )


def _opened(model: Any, params: Any) -> tuple[Any, Callable[[Any, Array], Captures]]:
    # What is differentiated, and the pass as a function of it.
    if isinstance(model, Network):
        if params is None:
            raise ValueError(f"params is None, but a {type(model).__name__} needs its parameters.")
        return params, lambda params, x: _network(model, params, x)
    if params is not None and callable(model) and not isinstance(model, eqx.Module):
        if not layers(params):
            raise ValueError("params hold no linear layer, but captures need at least one, such as Flax's Dense.")
        return params, lambda params, x: _function(model, params, x)
    if not isinstance(model, eqx.Module) or not layers(model):
        raise ValueError(
            f"model is a {type(model).__name__}, but must be a Network or an Equinox module with linear layers, or a "
            "function of parameters and inputs with params."
        )
    if params is not None:
        raise ValueError("params is given, but an Equinox module holds its own parameters.")
    variables, fixed = eqx.partition(model, eqx.is_inexact_array)
    return variables, lambda variables, x: _module(eqx.combine(variables, fixed), x)


def _network(net: Network, params: Any, x: Array) -> Captures:
    seen: list[tuple[Array, Array]] = []

    def visit(block: Block, params: Any, x: Array) -> Array:
        z = block.apply(params, x)
        if isinstance(block, Dense):
            seen.append((x, z))
        return z

    outputs = net.visited(params, x, visit)
    return Captures(tuple(x for x, _ in seen), tuple(z for _, z in seen), outputs)


class _Recorder(eqx.Module):
    # Stands in for a linear layer and writes down what passes.
    layer: eqx.nn.Linear
    place: int = eqx.field(static=True)
    log: Any = eqx.field(static=True)

    def __call__(self, x: Array, *, key: Any = None) -> Array:
        if self.place in self.log:
            raise ValueError(f"linear layer {self.place + 1} is called more than once, but must be called once.")
        z = self.layer(x)
        # A layer from or to "scalar" has one input or output all the same.
        self.log[self.place] = (jnp.reshape(x, -1), jnp.reshape(z, -1))
        return z


def _module(model: eqx.Module, x: Array) -> Captures:
    count = len(layers(model))

    def one(x: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        log: dict[int, tuple[Array, Array]] = {}
        leaves, structure = nodes(model)
        places = iter(range(count))
        leaves = [_Recorder(node, next(places), log) if is_layer(node) else node for node in leaves]
        output = jax.tree.unflatten(structure, leaves)(x)
        if len(log) < count:
            missing = min(set(range(count)) - set(log))
            raise ValueError(f"linear layer {missing + 1} is never called, but must be called once.")
        return output, [log[place] for place in range(count)]

    try:
        outputs, seen = jax.vmap(one)(x)
    except jax.errors.UnexpectedTracerError:
        raise ValueError(
            f"a linear layer of {type(model).__name__} is called inside vmap, jit, checkpoint or a loop of the model's "
            "own, where what passes cannot be seen, but must be called on one input by the model itself."
        ) from None
    return Captures(tuple(x for x, _ in seen), tuple(z for _, z in seen), outputs)


def _function(apply: Callable[..., Any], params: Any, x: Array) -> Captures:
    # The function itself makes the outputs, so that its own rules of differentiation hold; what is seen on the way is
    # not differentiated, and compiled code computes both once.
    outputs = apply(params, x)
    fixed = jax.lax.stop_gradient(params)
    products = Program(apply, fixed, x).run(fixed, x)[1]
    seen = []
    for path, node in jax.tree_util.tree_flatten_with_path(fixed, is_leaf=is_layer)[0]:
        if not is_layer(node):
            continue
        name = jax.tree_util.keystr((*path, jax.tree_util.DictKey("kernel")), simple=True, separator=".")
        found = [product for product in products if product.name == name]
        if len(found) != 1:
            raise ValueError(f"{name} is multiplied {len(found)} times with inputs, but must be once.")
        inputs, (fan_in, fan_out) = found[0].inputs, sizes(node)
        if jnp.shape(inputs) != (len(x), fan_in) or jnp.shape(found[0].value) != (len(x), fan_out):
            raise ValueError(
                f"{name} is multiplied with an array of shape {jnp.shape(inputs)}, but its inputs must have shape "
                f"({len(x)}, {fan_in})."
            )
        bias = node.get("bias") if isinstance(node, Mapping) else None
        seen.append((inputs, found[0].value if bias is None else found[0].value + bias[None, :]))
    return Captures(tuple(x for x, _ in seen), tuple(z for _, z in seen), outputs)
