"""Flax nnx modules: objects that hold their parameters."""

from typing import Any
from unittest import mock

import jax
from flax import nnx  # type: ignore[import-not-found]

from ._marks import batch_norm
from ._model import DROPOUT, IMAGES_LAST, Model, by_name


def nnx_model(module: Any) -> Model:
    """The module as a function of its parameters and moments, as `eval()` leaves it; it stays as it is."""
    copy = nnx.clone(module)
    copy.eval()
    graph, held, rest = nnx.split(copy, nnx.Any(nnx.Param, nnx.BatchStat), ...)
    plain = nnx.to_pure_dict(held)
    params, structure = by_name(plain)
    names = list(params)

    def function(params: Any, x: Any) -> Any:
        given = jax.tree.unflatten(structure, [params[name] for name in names])
        nnx.replace_by_pure_dict(held, given)
        model = nnx.merge(graph, held, rest)
        with mock.patch.object(nnx.BatchNorm, "__call__", _batch_norm):
            return model(x)

    dropped = any(isinstance(layer, nnx.Dropout) for _, layer in nnx.iter_graph(module))
    return Model("Flax nnx", function, params, IMAGES_LAST, "lecun", [DROPOUT] if dropped else [])


def _batch_norm(self: Any, x: Any, **_: Any) -> Any:
    gain, bias = (None if part is None else part[...] for part in (self.scale, self.bias))
    return batch_norm(x, self.mean[...], self.var[...], gain, bias, self.epsilon)
