"""Advice put into a model that is there: new weights, and the optimizer of the advised settings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .. import _check
from ..network.engine import Weights
from ._settings import Settings


def applied(model: Any, params: Any, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    """The model (of linen its variables) with weights drawn anew, and the optimizer; one of PyTorch is changed itself.

    Layers are told apart by their sizes alone, so all those of one size must be drawn and trained alike. Gains of norms
    become 1 and their biases 0.
    """
    modules = [cls.__module__ for cls in type(model).__mro__]
    drawn = _by_size(layers)
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


Drawn = dict[tuple[int, int], Weights]
"""What the layers of a size, (fan-in, width), are drawn with."""


def _by_size(layers: Sequence[Weights]) -> Drawn:
    found: Drawn = {}
    for layer in layers:
        same = found.setdefault((layer.fan_in, layer.width), layer)
        if not (math.isclose(same.variance_b, layer.variance_b) and math.isclose(same.variance_W, layer.variance_W)):
            raise ValueError(
                f"layers of {layer.fan_in} inputs and {layer.width} outputs are advised to be drawn in two ways, and "
                "which is which cannot be told from a model: take `code`, or draw them yourself."
            )
    return found


def optimizer(chosen: Settings, decayed: Any, rates: Any) -> optax.GradientTransformation:
    """The optimizer of optax: rates are a tree of the parameters', `decayed` which of them have weight decay.

    That may be a function of the parameters too.
    """
    decay = float(chosen.decay_W[0])
    return transformation(chosen.optimizer, chosen.momentum, chosen.betas, chosen.epsilon, decay, decayed, rates)


def transformation(
    name: str,
    momentum: float,
    betas: tuple[float, float] | None,
    epsilon: float,
    decay: float,
    decayed: Any,
    rates: Any,
) -> optax.GradientTransformation:
    """The same of plain numbers, which a program can be compiled for."""

    def step(directions: Any, _: Any) -> Any:
        # Leaf by leaf: nnx gives its gradients as variables, as a state of arrays or as dictionaries.
        leaves, structure = jax.tree.flatten(directions)
        return jax.tree.unflatten(
            structure, [-rate * d for rate, d in zip(jax.tree.leaves(rates), leaves, strict=True)]
        )

    steps = optax.stateless(step)
    if name == "sgd":
        return steps
    if name == "momentum":
        return optax.chain(optax.trace(decay=momentum), steps)
    assert betas is not None
    adam = optax.scale_by_adam(*betas, eps=epsilon)
    if name == "adam":
        return optax.chain(adam, steps)
    return optax.chain(adam, optax.add_decayed_weights(decay, decayed), steps)


def _equinox(model: Any, drawn: Drawn, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
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
    rates: list[float] = []
    for part in found:
        of = None
        if isinstance(part, eqx.nn.Linear):
            width, fan_in = part.weight.shape
            of = drawn[fan_in, width]
        for i, leaf in enumerate((part.weight, part.bias)):
            if leaf is not None:
                fresh.append(jnp.full_like(leaf, 1 - i) if of is None else _drawn(next(keys), leaf, of))
                rates.append(chosen.rate_norm if of is None else _rate(chosen, leaf))
    model = eqx.tree_at(arrays, model, fresh)
    like = eqx.filter(model, eqx.is_inexact_array)
    return model, optimizer(chosen, _matrices(like), eqx.tree_at(arrays, like, rates))


def _linen(params: Any, drawn: Drawn, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    new, rates = _linen_parts(params, drawn, layers, chosen, key)
    return new, optimizer(chosen, _matrices(new), rates)


def _linen_parts(params: Any, drawn: Drawn, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    """Parameters drawn anew, and the rate of each."""
    found, structure = jax.tree_util.tree_flatten_with_path(params)
    names = [tuple(str(getattr(part, "key", part)) for part in path) for path, _ in found]
    leaves = {name: leaf for name, (_, leaf) in zip(names, found)}
    kinds = [_linen_kind(name, leaves) for name in names]
    dense = [tuple(leaf.shape) for name, leaf in leaves.items() if name[-1] == "kernel"]
    _check_layers(dense, kinds.count("norm"), kinds.count(None), layers, chosen)
    fresh, rates = [], []
    for one, name, kind in zip(jax.random.split(key, len(found)), names, kinds):
        leaf = leaves[name]
        if kind == "norm":
            fresh.append(jnp.full_like(leaf, name[-1] == "scale"))
        else:
            kernel = leaves[(*name[:-1], "kernel")]
            fresh.append(_drawn(one, leaf, drawn[tuple(kernel.shape)]))
        rates.append(chosen.rate_norm if kind == "norm" else _rate(chosen, leaf))
    return jax.tree.unflatten(structure, fresh), jax.tree.unflatten(structure, rates)


def _nnx(model: Any, drawn: Drawn, layers: Sequence[Weights], chosen: Settings, key: Any) -> tuple[Any, Any]:
    from flax import nnx  # type: ignore[import-not-found]

    graph, params, rest = nnx.split(nnx.clone(model), nnx.Param, ...)
    # Parameters are called as in linen, and there in the same order.
    fresh, rates = _linen_parts(nnx.to_pure_dict(params), drawn, layers, chosen, key)
    params = jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(fresh))
    return nnx.merge(graph, params, rest), optimizer(chosen, _matrices, rates)


def _linen_kind(name: tuple[str, ...], leaves: Mapping[tuple[str, ...], Any]) -> str | None:
    """Whether a parameter is of a dense layer or of a norm, by those beside it."""
    for last, kind in (("kernel", "dense"), ("scale", "norm")):
        if name[-1] in (last, "bias") and (*name[:-1], last) in leaves:
            return kind
    return None


def _matrices(like: Any) -> Any:
    """Which parameters have weight decay."""
    return jax.tree.map(lambda leaf: leaf.ndim > 1, like)


def _rate(chosen: Settings, leaf: Any) -> float:
    return float(chosen.rate_W[0] if leaf.ndim > 1 else chosen.rate_b[0])


def _drawn(key: Any, leaf: Any, of: Weights) -> Any:
    variance = of.variance_W if leaf.ndim > 1 else of.variance_b
    return jax.random.normal(key, leaf.shape, leaf.dtype) * math.sqrt(variance)


def _torch(model: Any, drawn: Drawn, layers: Sequence[Weights], chosen: Settings, key: Any) -> Any:
    import torch  # type: ignore[import-not-found]

    norms = tuple(getattr(torch.nn, name) for name in ("LayerNorm", "RMSNorm") if hasattr(torch.nn, name))
    dense = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    normed = [layer for layer in model.modules() if isinstance(layer, norms)]
    own = {id(part) for layer in (*dense, *normed) for part in layer.parameters(recurse=False)}
    others = sum(id(part) not in own for part in model.parameters())
    norms_own = sum(1 for layer in normed for _ in layer.parameters(recurse=False))
    sizes = [(layer.in_features, layer.out_features) for layer in dense]
    _check_layers(sizes, norms_own, others, layers, chosen)
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in dense:
            of = drawn[(layer.in_features, layer.out_features)]
            for part in layer.parameters(recurse=False):
                size = math.sqrt(of.variance_W if part.ndim > 1 else of.variance_b)
                part.copy_(size * torch.randn(part.shape, generator=generator, dtype=part.dtype))
        for layer in normed:
            for name, part in layer.named_parameters(recurse=False):
                part.fill_(1.0 if name == "weight" else 0.0)
    groups = list(_groups(dense, normed, chosen))
    if chosen.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(groups, momentum=chosen.momentum)
    kind = torch.optim.AdamW if chosen.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, betas=chosen.betas, eps=chosen.epsilon)


def _groups(dense: Sequence[Any], normed: Sequence[Any], chosen: Settings) -> Iterator[dict[str, Any]]:
    weights, biases = ([part for layer in dense if (part := getattr(layer, n)) is not None] for n in ("weight", "bias"))
    yield {"params": weights, "lr": float(chosen.rate_W[0]), "weight_decay": float(chosen.decay_W[0])}
    if biases:
        yield {"params": biases, "lr": float(chosen.rate_b[0]), "weight_decay": 0.0}
    if gains := [part for layer in normed for part in layer.parameters(recurse=False)]:
        yield {"params": gains, "lr": chosen.rate_norm, "weight_decay": 0.0}


def _check_layers(
    found: Sequence[tuple[int, ...]], norms: int, others: int, layers: Sequence[Weights], chosen: Settings
) -> None:
    wanted = [(layer.fan_in, layer.width) for layer in layers]
    if others or (norms and not chosen.rate_norm):
        beside, count = (" and no norm", others) if chosen.rate_norm else ("", norms + others)
        raise ValueError(
            f"model has {count} arrays of parameters that belong to no dense layer{beside}, but the advice is for "
            "networks that have no others."
        )
    if sorted(found) != sorted(wanted):
        raise ValueError(
            f"model has layers of sizes {_check.brief(list(found))}, but the advice is for {_check.brief(wanted)}."
        )


def _refuse_params(params: Any) -> None:
    if params is not None:
        raise ValueError("params are for flax.linen modules, but this model holds its own, so they must be left out.")
