"""Equinox modules: functions of one input, whose arrays are their leaves."""

import inspect
from typing import Any

import equinox as eqx
import jax

from .. import _check
from ._model import DROPOUT, Model, by_name

_AXES = {1: ("C",), 2: ("C", "H"), 3: ("C", "H", "W")}


def equinox_model(module: Any) -> Model:
    """The module as a function, with dropout switched off."""
    if not callable(module):
        raise ValueError(
            f"model is {_check.brief(module)}, which has no `__call__`, but must be a function of an input."
        )
    if any(isinstance(node, eqx.nn.StateIndex | eqx.nn.BatchNorm) for node in _nodes(module)):
        raise ValueError(
            "model holds equinox.nn.BatchNorm or another layer with a state, but equinox modules are read without one."
        )
    quiet = eqx.nn.inference_mode(module)
    arrays, rest = eqx.partition(quiet, eqx.is_array)
    params, structure = by_name(arrays)
    names, more = list(params), _more(module)

    def function(params: Any, x: Any) -> Any:
        found = jax.tree.unflatten(structure, [params[name] for name in names])
        return eqx.combine(found, rest)(x, **more)

    dropped = any(isinstance(node, eqx.nn.Dropout) for node in _nodes(module))
    return Model("Equinox", function, params, _AXES, "uniform", [DROPOUT] if dropped else [])


def _nodes(module: Any) -> list[Any]:
    found: list[Any] = []

    def seen(node: Any) -> bool:
        found.append(node)
        return False

    jax.tree.flatten(module, is_leaf=seen)
    return found


def _more(module: Any) -> dict[str, Any]:
    # A key is for dropout, which is off.
    _, *rest = inspect.signature(module).parameters.values()
    needed = [p for p in rest if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if unknown := [p.name for p in needed if p.name != "key"]:
        raise ValueError(
            f"model takes {', '.join(unknown)} beside its input, but must be a function of one input (and of a key)."
        )
    return {"key": None} if needed else {}
