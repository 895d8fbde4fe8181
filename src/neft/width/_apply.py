"""Advice put into a model that is there: new weights, and the optimizer of the advised settings."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import _check
from ..network.engine import Weights
from ._settings import Group, Settings, bias_groups


def applied(model: Any, params: Any, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    """The model (of linen its variables) with weights drawn anew, and the optimizer; one of PyTorch is changed itself.

    Layers are told apart by their sizes alone, so all those of one size must be drawn and trained alike. Gains of norms
    become 1 and their biases 0.
    """
    modules = [cls.__module__ for cls in type(model).__mro__]
    drawn = _by_size(layers, chosen)
    if any(name.startswith("torch.nn") for name in modules):
        _refuse_params(params)
        return model, _torch(model, drawn, layers, chosen, key)
    if any(name.startswith("flax.linen") for name in modules):
        if not isinstance(params, Mapping) or "params" not in params:
            raise ValueError("params must be the variables that `init` gave, a dictionary with 'params'.")
        return _linen(params, drawn, layers, chosen, key)
    _refuse_params(params)
    if any(name.startswith("flax.nnx") for name in modules):
        return _nnx(model, drawn, layers, chosen, key)
    if any(name.startswith("equinox") for name in modules):
        return _equinox(model, drawn, layers, chosen, key)
    raise ValueError(
        f"model is {_check.brief(model)}, but must be an equinox.Module, a torch.nn.Module, a flax.nnx.Module or, "
        "with its variables, a flax.linen.Module."
    )


class Drawn(NamedTuple):
    """What the layers of a size are drawn with, and the groups of their weights and of biases, if they have them."""

    of: Weights
    weights: Group
    biases: Group | None


Sizes = dict[tuple[int, int], Drawn]
"""By fan-in and width."""


def _by_size(layers: Sequence[Weights], chosen: Settings) -> Sizes:
    found: Sizes = {}
    biases = [group if layer.biases else None for layer, group in zip(layers, bias_groups(chosen))]
    for layer in map(Drawn, layers, chosen.weights, biases):
        size = f"layers of {layer.of.fan_in} inputs and {layer.of.width} outputs are advised to be"
        same, told = found.setdefault((layer.of.fan_in, layer.of.width), layer), "which is which cannot be told"
        if not np.allclose(same.of[2:], layer.of[2:], rtol=1e-9, atol=0):
            raise ValueError(f"{size} drawn in two ways, and {told} from a model: take `code`, or draw them yourself.")
        if same[1:] != layer[1:]:
            raise ValueError(f"{size} trained in two ways, and {told} from a model: take `code`.")
    return found


def optimizer(chosen: Settings, groups: Sequence[Group]) -> optax.GradientTransformation:
    """The optimizer of optax; `groups` are those of the parameters in the order of `jax.tree.leaves`."""
    each = list(dict.fromkeys(groups))
    labels = tuple(each.index(group) for group in groups)
    return transformation(chosen.optimizer, chosen.momentum, chosen.betas, labels, each)


def transformation(
    name: str,
    momentum: float,
    betas: tuple[float, float] | None,
    labels: tuple[int, ...],
    groups: Sequence[Group],
) -> optax.GradientTransformation:
    """The same where `labels` say to which of the groups a leaf belongs; numbers of groups may be traced."""
    each = {label: _of_group(name, momentum, betas, group) for label, group in enumerate(groups)}
    inner = optax.multi_transform(each, list(labels))

    # By lists of leaves: nnx gives its gradients as variables, as a state of arrays or as dictionaries.
    def init(params: Any) -> Any:
        return inner.init(jax.tree.leaves(params))

    def update(directions: Any, state: Any, params: Any = None) -> Any:
        leaves, structure = jax.tree.flatten(directions)
        moves, state = inner.update(leaves, state, None if params is None else jax.tree.leaves(params))
        return jax.tree.unflatten(structure, moves), state

    return optax.GradientTransformation(init, update)


def _of_group(
    name: str, momentum: float, betas: tuple[float, float] | None, group: Group
) -> optax.GradientTransformation:
    steps = optax.scale(-group.rate)
    if name == "sgd":
        return steps
    if name == "momentum":
        return optax.chain(optax.trace(decay=momentum), steps)
    assert betas is not None
    adam = optax.scale_by_adam(*betas, eps=group.epsilon)
    if name == "adam":
        return optax.chain(adam, steps)
    return optax.chain(adam, optax.add_decayed_weights(group.decay), steps)


def _equinox(model: Any, drawn: Sizes, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    kinds = (eqx.nn.Linear, eqx.nn.LayerNorm, eqx.nn.RMSNorm)

    def parts(tree: Any) -> list[Any]:
        found = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kinds))
        return [node for node in found if isinstance(node, kinds)]

    def arrays(tree: Any) -> list[Any]:
        return [leaf for part in parts(tree) for leaf in (part.weight, part.bias) if leaf is not None]

    found = parts(model)
    dense = [tuple(part.weight.shape[::-1]) for part in found if isinstance(part, eqx.nn.Linear)]
    others = len(jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))) - len(arrays(model))
    norms = len(arrays([part for part in found if not isinstance(part, eqx.nn.Linear)]))
    _check_layers(dense, norms, others, layers, chosen)
    keys, fresh = iter(jax.random.split(key, len(arrays(model)) + 1)), []
    groups: list[Group] = []
    for part in found:
        of = None
        if isinstance(part, eqx.nn.Linear):
            width, fan_in = part.weight.shape
            of = drawn[fan_in, width]
            _check_biases(of, part.bias is not None)
        for i, leaf in enumerate((part.weight, part.bias)):
            if leaf is not None:
                fresh.append(jnp.full_like(leaf, 1 - i) if of is None else _drawn(next(keys), leaf, of))
                groups.append(_group(chosen, of, leaf))
    model = eqx.tree_at(arrays, model, fresh)
    places = eqx.tree_at(arrays, eqx.filter(model, eqx.is_inexact_array), list(range(len(groups))))
    return model, optimizer(chosen, [groups[i] for i in jax.tree.leaves(places)])


def _linen(params: Any, drawn: Sizes, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    new, groups = _linen_parts(params, drawn, layers, chosen, key)
    return new, optimizer(chosen, groups)


def _linen_parts(
    params: Any, drawn: Sizes, layers: Sequence[Weights], chosen: Settings, key: Any
) -> tuple[Any, list[Group]]:
    """Parameters drawn anew, and the group of each."""
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    names = [tuple(str(getattr(part, "key", part)) for part in path) for path, _ in found]
    leaves = {name: leaf for name, (_, leaf) in zip(names, found)}
    kinds = [_linen_kind(name, leaves) for name in names]
    dense = [tuple(leaf.shape) for name, leaf in leaves.items() if name[-1] == "kernel"]
    _check_layers(dense, kinds.count("norm"), kinds.count(None), layers, chosen)
    for shape in set(dense):
        biases = {
            (*name[:-1], "bias") in leaves for name in names if name[-1] == "kernel" and leaves[name].shape == shape
        }
        for present in biases:
            _check_biases(drawn[shape], present)
    fresh, groups = [], []
    for one, name, kind in zip(jax.random.split(key, len(found)), names, kinds):
        leaf, of = leaves[name], None
        if kind == "norm":
            fresh.append(jnp.full_like(leaf, name[-1] == "scale"))
        else:
            of = drawn[tuple(leaves[(*name[:-1], "kernel")].shape)]
            fresh.append(_drawn(one, leaf, of))
        groups.append(_group(chosen, of, leaf))
    return jax.tree.unflatten(structure, fresh), groups


def _nnx(model: Any, drawn: Sizes, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    from flax import nnx  # type: ignore[import-not-found]

    graph, params, rest = nnx.split(nnx.clone(model), nnx.Param, ...)
    # Parameters are called as in linen, and there in the same order.
    fresh, groups = _linen_parts(nnx.to_pure_dict(params), drawn, layers, chosen, key)
    params = jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(fresh))
    return nnx.merge(graph, params, rest), optimizer(chosen, groups)


def _linen_kind(name: tuple[str, ...], leaves: Mapping[tuple[str, ...], Any]) -> str | None:
    """Whether a parameter is of a dense layer or of a norm, by those beside it."""
    for last, kind in (("kernel", "dense"), ("scale", "norm")):
        if name[-1] in (last, "bias") and (*name[:-1], last) in leaves:
            return kind
    return None


def _group(chosen: Settings, of: Drawn | None, leaf: Any) -> Group:
    """That of an array of a dense layer; of a norm where there is none."""
    found = chosen.norms if of is None else of.weights if leaf.ndim > 1 else of.biases
    assert found is not None
    return found


def _drawn(key: Any, leaf: Any, layer: Drawn) -> Any:
    variance = layer.of.variance_W if leaf.ndim > 1 else layer.of.variance_b
    return jax.random.normal(key, leaf.shape, leaf.dtype) * math.sqrt(variance)


def _torch(model: Any, drawn: Sizes, layers: Sequence[Weights], chosen: Settings, key: Any) -> Any:
    import torch  # type: ignore[import-not-found]

    norms = tuple(getattr(torch.nn, name) for name in ("LayerNorm", "RMSNorm") if hasattr(torch.nn, name))
    dense = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    normed = [layer for layer in model.modules() if isinstance(layer, norms)]
    own = {id(part) for layer in (*dense, *normed) for part in layer.parameters(recurse=False)}
    others = sum(id(part) not in own for part in model.parameters())
    norms_own = sum(1 for layer in normed for _ in layer.parameters(recurse=False))
    sizes = [(layer.in_features, layer.out_features) for layer in dense]
    _check_layers(sizes, norms_own, others, layers, chosen)
    parts = [part for layer in (*dense, *normed) for part in layer.parameters(recurse=False)]
    if len({id(part) for part in parts}) < len(parts):
        raise ValueError("model has layers that share parameters, but the advice is for layers with their own.")
    if any(part.is_meta for part in parts):
        raise ValueError("model has parameters on the device 'meta', which hold no numbers: take `to_empty` first.")
    for layer, size in zip(dense, sizes):
        _check_biases(drawn[size], layer.bias is not None)
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in dense:
            of = drawn[(layer.in_features, layer.out_features)].of
            for part in layer.parameters(recurse=False):
                size = math.sqrt(of.variance_W if part.ndim > 1 else of.variance_b)
                part.copy_(size * torch.randn(part.shape, generator=generator, dtype=part.dtype))
        for layer in normed:
            for name, part in layer.named_parameters(recurse=False):
                part.fill_(1.0 if name == "weight" else 0.0)
    groups = _groups(dense, normed, drawn, chosen)
    if chosen.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(groups, momentum=chosen.momentum)
    kind = torch.optim.AdamW if chosen.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, betas=chosen.betas)


def _groups(dense: Sequence[Any], normed: Sequence[Any], drawn: Sizes, chosen: Settings) -> list[dict[str, Any]]:
    """Groups of parameters as PyTorch is given them."""
    members: dict[Group, list[Any]] = {}
    for layer in (*dense, *normed):
        of = drawn[(layer.in_features, layer.out_features)] if layer in dense else None
        for part in layer.parameters(recurse=False):
            members.setdefault(_group(chosen, of, part), []).append(part)
    adaptive = chosen.betas is not None
    return [
        {"params": params, "lr": group.rate, "weight_decay": group.decay} | ({"eps": group.epsilon} if adaptive else {})
        for group, params in members.items()
    ]


def _check_layers(
    found: Sequence[tuple[int, ...]], norms: int, others: int, layers: Sequence[Weights], chosen: Settings
) -> None:
    wanted = [(layer.fan_in, layer.width) for layer in layers]
    if others or (norms and chosen.norms is None):
        beside, count = ("", norms + others) if chosen.norms is None else (" and no norm", others)
        raise ValueError(
            f"model has {count} arrays of parameters that belong to no dense layer{beside}, but the advice is for "
            "networks that have no others."
        )
    if sorted(found) != sorted(wanted):
        raise ValueError(
            f"model has layers of sizes {_check.brief(list(found))}, but the advice is for {_check.brief(wanted)}."
        )


def _check_biases(layer: Drawn, present: bool) -> None:
    size = f"layers of {layer.of.fan_in} inputs and {layer.of.width} outputs"
    if present and layer.biases is None:
        raise ValueError(f"model has biases in {size}, but the advice is for a network without them.")
    if not present and layer.of.variance_b > 0:
        raise ValueError(
            f"model has no biases in {size}, but the advice draws them with the variance {layer.of.variance_b:.4g}."
        )


def _refuse_params(params: Any) -> None:
    if params is not None:
        raise ValueError("params are for flax.linen modules, but this model holds its own, so they must be left out.")
