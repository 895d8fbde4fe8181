"""Flax linen modules: their variables are given, and calls of their layers are seen on the way."""

import inspect
from collections.abc import Mapping
from typing import Any

import flax.linen as nn  # type: ignore[import-not-found]
import jax

from .. import _check
from ._marks import batch_norm
from ._model import DROPOUT, IMAGES_LAST, Model, by_name

_FLAGS = {"train": False, "training": False, "is_training": False, "deterministic": True, "use_running_average": True}


def linen_model(module: Any, variables: Any) -> Model:
    """The module as a function of its variables, with dropout left out and running moments."""
    if variables is None:
        raise ValueError("params are None, but a flax.linen module needs the variables that its `init` gave.")
    if not isinstance(variables, Mapping) or "params" not in variables:
        raise ValueError(
            f"params are {_check.brief(variables)}, but must be the variables that `init` gave, a dictionary with "
            "'params'."
        )
    params, structure = by_name(variables)
    names, flags, notes = list(params), _flags(module), []

    def seen(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        layer = context.module
        if context.method_name != "__call__":
            return call(*args, **kwargs)
        if isinstance(layer, nn.Dropout):
            notes.append(DROPOUT)
            return args[0]
        if isinstance(layer, nn.BatchNorm):
            mean, variance = (layer.get_variable("batch_stats", name) for name in ("mean", "var"))
            scale, bias = (layer.get_variable("params", name) for name in ("scale", "bias"))
            return batch_norm(args[0], mean, variance, scale, bias, layer.epsilon)
        return call(*args, **kwargs)

    def function(params: Any, x: Any) -> Any:
        found = jax.tree.unflatten(structure, [params[name] for name in names])
        with nn.intercept_methods(seen):
            return module.apply(found, x, **flags)

    return Model("Flax linen", function, params, IMAGES_LAST, "lecun", notes)


def _flags(module: Any) -> dict[str, bool]:
    _, *rest = inspect.signature(module.__call__).parameters.values()
    needed = [p.name for p in rest if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if unknown := [name for name in needed if name not in _FLAGS]:
        raise ValueError(f"model takes {', '.join(unknown)} beside its input, but must be a function of one input.")
    return {p.name: _FLAGS[p.name] for p in rest if p.name in _FLAGS}
