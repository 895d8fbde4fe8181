"""Advice put into a model that is there: new weights, and the optimizer of the advised settings."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import optax

from .. import _check
from ._settings import Settings

Variances = tuple[float, float]
"""C_b and C_W."""


def applied(
    model: Any, params: Any, variances: Variances, chosen: Settings, widths: Sequence[int], key: Any
) -> tuple[Any, Any]:
    """The model (of linen its variables) with weights drawn anew, and the optimizer; one of PyTorch is changed itself.

    Layers are told apart by their sizes alone, so all those of one size must be trained alike, as they are.
    """
    modules = [cls.__module__ for cls in type(model).__mro__]
    if any(name.startswith("torch.nn") for name in modules):
        _refuse_params(params)
        return model, _torch(model, variances, chosen, widths, key)
    if any(name.startswith("flax.linen") for name in modules):
        if not isinstance(params, Mapping) or "params" not in params:
            raise ValueError("params must be the variables that `init` gave, a dictionary with 'params'.")
        return _linen(params, variances, chosen, widths, key)
    _refuse_params(params)
    if any(name.startswith("equinox") for name in modules):
        return _equinox(model, variances, chosen, widths, key)
    raise ValueError(
        f"model is {_check.brief(model)}, but must be an equinox.Module, a torch.nn.Module or, with its variables, a "
        "flax.linen.Module."
    )


def optimizer(chosen: Settings, decayed: Any, rates: Any) -> optax.GradientTransformation:
    """The optimizer of optax: rates are a tree of the parameters', `decayed` which of them have weight decay."""
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
    steps = optax.stateless(lambda directions, _: jax.tree.map(lambda rate, d: -rate * d, rates, directions))
    if name == "sgd":
        return steps
    if name == "momentum":
        return optax.chain(optax.trace(decay=momentum), steps)
    assert betas is not None
    adam = optax.scale_by_adam(*betas, eps=epsilon)
    if name == "adam":
        return optax.chain(adam, steps)
    return optax.chain(adam, optax.add_decayed_weights(decay, decayed), steps)


def _equinox(model: Any, variances: Variances, chosen: Settings, widths: Sequence[int], key: Any) -> tuple[Any, Any]:
    def is_linear(node: Any) -> bool:
        return isinstance(node, eqx.nn.Linear)

    def linears(tree: Any) -> list[Any]:
        return [node for node in jax.tree.leaves(tree, is_leaf=is_linear) if is_linear(node)]

    found = linears(model)
    arrays = list(jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    own = [leaf for layer in found for leaf in (layer.weight, layer.bias) if leaf is not None]
    _check_layers([tuple(layer.weight.shape[::-1]) for layer in found], len(arrays) - len(own), widths)

    def parts(tree: Any) -> list[Any]:
        return [leaf for layer in linears(tree) for leaf in (layer.weight, layer.bias) if leaf is not None]

    keys = iter(jax.random.split(key, len(own)))
    fresh = [_drawn(next(keys), leaf.shape, leaf.shape[-1], variances, leaf.dtype) for leaf in own]
    model = eqx.tree_at(parts, model, fresh)
    like = eqx.filter(model, eqx.is_inexact_array)
    return model, optimizer(chosen, *_trees(like, chosen))


def _linen(params: Any, variances: Variances, chosen: Settings, widths: Sequence[int], key: Any) -> tuple[Any, Any]:
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    names = [str(getattr(path[-1], "key", path[-1])) for path, _ in leaves]
    others = sum(name not in ("kernel", "bias") for name in names)
    _check_layers([tuple(leaf.shape) for name, (_, leaf) in zip(names, leaves) if name == "kernel"], others, widths)
    keys = jax.random.split(key, len(leaves))
    fresh = [_drawn(k, leaf.shape, leaf.shape[0], variances, leaf.dtype) for k, (_, leaf) in zip(keys, leaves)]
    new = jax.tree.unflatten(structure, fresh)
    return new, optimizer(chosen, *_trees(new, chosen))


def _trees(like: Any, chosen: Settings) -> tuple[Any, Any]:
    """Which parameters have weight decay, and the rate of each: weights are matrices, biases vectors."""
    rate_W, rate_b = float(chosen.rate_W[0]), float(chosen.rate_b[0])
    return (
        jax.tree.map(lambda leaf: leaf.ndim > 1, like),
        jax.tree.map(lambda leaf: rate_W if leaf.ndim > 1 else rate_b, like),
    )


def _drawn(key: Any, shape: tuple[int, ...], fan_in: int, variances: Variances, dtype: Any) -> Any:
    C_b, C_W = variances
    return jax.random.normal(key, shape, dtype) * math.sqrt(C_W / fan_in if len(shape) > 1 else C_b)


def _torch(model: Any, variances: Variances, chosen: Settings, widths: Sequence[int], key: Any) -> Any:
    import torch  # type: ignore[import-not-found]

    found = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    own = {id(part) for layer in found for part in layer.parameters(recurse=False)}
    others = sum(id(part) not in own for part in model.parameters())
    _check_layers([(layer.in_features, layer.out_features) for layer in found], others, widths)
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in found:
            for part in layer.parameters(recurse=False):
                C_b, C_W = variances
                size = math.sqrt(C_W / layer.in_features if part.ndim > 1 else C_b)
                part.copy_(size * torch.randn(part.shape, generator=generator, dtype=part.dtype))
    groups = list(_groups(found, chosen))
    if chosen.optimizer in ("sgd", "momentum"):
        return torch.optim.SGD(groups, momentum=chosen.momentum)
    kind = torch.optim.AdamW if chosen.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, betas=chosen.betas, eps=chosen.epsilon)


def _groups(layers: Sequence[Any], chosen: Settings) -> Iterator[dict[str, Any]]:
    weights, biases = (
        [part for layer in layers if (part := getattr(layer, n)) is not None] for n in ("weight", "bias")
    )
    yield {"params": weights, "lr": float(chosen.rate_W[0]), "weight_decay": float(chosen.decay_W[0])}
    if biases:
        yield {"params": biases, "lr": float(chosen.rate_b[0]), "weight_decay": 0.0}


def _check_layers(found: Sequence[tuple[int, ...]], others: int, widths: Sequence[int]) -> None:
    wanted = list(itertools.pairwise(widths))
    if others:
        raise ValueError(
            f"model has {others} arrays of parameters that belong to no dense layer, but the advice is for multilayer "
            "perceptrons."
        )
    if sorted(found) != sorted(wanted):
        raise ValueError(
            f"model has layers of sizes {_check.brief(list(found))}, but the advice is for {_check.brief(wanted)}."
        )


def _refuse_params(params: Any) -> None:
    if params is not None:
        raise ValueError("params are for flax.linen modules, but this model holds its own, so they must be left out.")
