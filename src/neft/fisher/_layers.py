"""Where the linear layers of a model are: inside any tree of parameters, in the order of the tree."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..network import Layer


def is_layer(node: Any) -> bool:
    """Whether a node of a tree is a linear layer: of a `neft.Network`, of Equinox, or a dictionary as Flax has them.

    Such a dictionary holds a kernel of shape (fan-in, fan-out), and may hold a bias.
    """
    return isinstance(node, (Layer, eqx.nn.Linear)) or _is_flax(node)


def nodes(tree: Any) -> tuple[list[Any], Any]:
    """The tree's layers and other leaves in order, and the structure that puts them together again."""
    return jax.tree.flatten(tree, is_leaf=is_layer)


def layers(tree: Any) -> list[Any]:
    """The linear layers of a tree, in order."""
    return [node for node in nodes(tree)[0] if is_layer(node)]


def stacked(layer: Any) -> Float[Array, "m p"]:
    """The weights of a layer with the bias, if it has one, as the last column."""
    W, b = _parts(layer)
    return W if b is None else jnp.concatenate([W, b[:, None]], axis=1)


def sizes(layer: Any) -> tuple[int, int]:
    """Fan-in and fan-out of a layer."""
    fan_out, fan_in = jnp.shape(_parts(layer)[0])
    return fan_in, fan_out


def unstacked(layer: Any, rows: Float[Array, "m p"]) -> Any:
    """A layer like `layer` with the entries of `rows`."""
    if isinstance(layer, Layer):
        return Layer(rows[:, :-1], rows[:, -1])
    if _is_flax(layer):
        if "bias" not in layer:
            return type(layer)({"kernel": rows.T})
        return type(layer)({"bias": rows[:, -1], "kernel": rows[:, :-1].T})
    if layer.bias is None:
        return eqx.tree_at(lambda linear: linear.weight, layer, rows)
    return eqx.tree_at(lambda linear: (linear.weight, linear.bias), layer, (rows[:, :-1], rows[:, -1]))


def _is_flax(node: Any) -> bool:
    if not isinstance(node, Mapping) or not {"kernel"} <= set(node) <= {"kernel", "bias"}:
        return False
    return len(getattr(node["kernel"], "shape", ())) == 2


def _parts(layer: Any) -> tuple[Any, Any]:
    if any(map(_is_masked, jax.tree.leaves(layer, is_leaf=_is_masked))):
        raise ValueError(
            "a linear layer is masked (optax.masked, multi_transform), but RNGD and steps in units of preactivations "
            "need all linear layers, whole."
        )
    if _is_flax(layer):
        return layer["kernel"].T, layer.get("bias")
    return (layer.W, layer.b) if isinstance(layer, Layer) else (layer.weight, layer.bias)


def _is_masked(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)
