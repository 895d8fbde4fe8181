"""PyTorch modules: traced by torch.fx, and what was traced is written in JAX."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch  # type: ignore[import-not-found]
from torch import fx, nn  # type: ignore[import-not-found]

from .. import _check
from . import _torch_ops as ops
from ._marks import batch_norm
from ._model import DROPOUT, IMAGES_FIRST, Model
from ._refuse import ATTENTION, refuse_by_name

Params = Mapping[str, Any]


def torch_model(module: Any) -> Model:
    """The module as a function of its parameters and buffers, with dropout left out and running moments."""
    tracer = fx.Tracer()
    # A layer of the library by itself is known, or not, by its name.
    module = nn.Sequential(module) if tracer.is_leaf_module(module, "") else module
    try:
        graph = tracer.trace(module)
    except fx.proxy.TraceError:
        raise ValueError(
            "the model asks for the values of what it computes (an `if`, a loop or a conversion to Python), but only "
            "models whose operations do not depend on the data can be read."
        ) from None
    # The program is the user's own: anything may go wrong in it.
    except Exception as error:
        raise ValueError(f"the model cannot be traced by torch.fx: {_check.reason(error)}.") from None
    _refuse_attention(graph, module)
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    params = {name: _numbers(name, tensor) for name, tensor in tensors}
    notes = _hooks(tracer, module)
    if dead := [_name(n) for n in graph.nodes if n.op == "call_function" and not n.users and _name(n) in _ASSIGNED]:
        # What stands in the graph for `h += f(h)` is a sum; whether h has another name there cannot be seen.
        raise ValueError(
            f"the model holds the operation {dead[0]} whose result is not used, but what changes in place under "
            "another name cannot be read."
        )
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    # Those of *args and **kwargs are left empty.
    if more := [node.name for node in inputs[1:] if not node.args and not node.target.startswith("*")]:
        raise ValueError(f"the model takes {', '.join(more)} beside its input, but must be a function of one input.")

    def function(params: Params, x: Any) -> Any:
        values: dict[Any, Any] = {node: node.args[0] for node in inputs if node.args}
        values[inputs[0]] = x
        for node in graph.nodes:
            if node.op == "output":
                found = fx.node.map_arg(node.args[0], values.__getitem__)
                return dict(found) if isinstance(found, Mapping) else found
            if node.op != "placeholder":
                values[node] = _value(node, values, module, params, notes)
                if _in_place(node, module):
                    # Whoever uses what it was done to afterwards, a skip for instance, uses what came of it.
                    values[node.args[0]] = values[node]
        raise ValueError("the model holds no output, which is not among what can be read.")

    return Model("PyTorch", function, params, IMAGES_FIRST, "uniform", notes)


def _hooks(tracer: Any, module: Any) -> list[str]:
    """What is said of layers whose hooks are not traced: those of layers of the library, and of the model itself."""
    layers = [(name, layer) for name, layer in module.named_modules() if not name or tracer.is_leaf_module(layer, name)]
    hooked = [name or "the model itself" for name, layer in layers if layer._forward_hooks or layer._forward_pre_hooks]
    return [f"Hooks are left out, whatever they change (of {', '.join(hooked)})."] if hooked else []


def _refuse_attention(graph: Any, module: Any) -> None:
    """Say so of a model that holds attention, before its axes are looked at."""
    behind: set[Any] = set()
    for node in graph.nodes:
        name = type(module.get_submodule(node.target)).__name__ if node.op == "call_module" else _name(node)
        before = node.all_input_nodes
        live = [one for one in before if one.op != "get_attr"]
        if name == "scaled_dot_product_attention" or (name.lower() == "softmax" and behind.intersection(before)):
            where = next(reversed(node.meta.get("nn_module_stack") or {}), "")
            refuse_by_name(ATTENTION, where)
        if behind.intersection(before) or (name in _PRODUCTS and len(live) > 1):
            behind.add(node)


_ASSIGNED = ("add", "sub", "mul", "truediv")
_PRODUCTS = ("matmul", "mm", "bmm", "baddbmm", "einsum")


def _name(node: Any) -> str:
    return node.target if isinstance(node.target, str) else node.target.__name__.strip("_")


def _numbers(name: str, tensor: Any) -> np.ndarray:
    if tensor.is_meta or isinstance(tensor, nn.UninitializedParameter):
        raise ValueError(f"the parameter {name} has no values yet, but must have some.")
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
    return _copied(tensor)


def _value(node: Any, values: dict[Any, Any], module: Any, params: Params, notes: list[str]) -> Any:
    args, kwargs = (fx.node.map_arg(part, values.__getitem__) for part in (node.args, node.kwargs))
    args, kwargs = tuple(map(_constant, args)), {name: _constant(value) for name, value in kwargs.items()}
    if node.op == "get_attr":
        found = params.get(node.target)
        return _constant(getattr(module, node.target)) if found is None else found
    if node.op == "call_module":
        return _layer(module.get_submodule(node.target), node.target, params, notes, *args, **kwargs)
    name = _name(node)
    if name in ops.DROPOUTS:
        notes.append(DROPOUT)
        return args[0]
    if name not in ops.FUNCTIONS:
        raise ValueError(f"the model holds the function {name}, which is not among the layers that can be read.")
    try:
        return ops.FUNCTIONS[name](*args, **kwargs)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise ValueError(
            f"the model holds the function {name} with arguments that are not known ({_check.reason(error)})."
        ) from None


def _in_place(node: Any, module: Any) -> bool:
    if not node.args or not isinstance(node.args[0], fx.Node) or node.op not in _CALLS:
        return False
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(node.target), "inplace", False))
    called: Any = node.target
    name = called if isinstance(called, str) else called.__name__
    if name in ("iadd", "isub", "imul", "itruediv") or (name.endswith("_") and not name.endswith("__")):
        return True
    try:
        given = inspect.signature(called).bind(*node.args, **node.kwargs).arguments  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return bool(node.kwargs.get("inplace", False))
    return bool(given.get("inplace", False))


_CALLS = ("call_module", "call_function", "call_method")


def _constant(value: Any) -> Any:
    return jnp.asarray(_copied(value.detach().cpu())) if isinstance(value, torch.Tensor) else value


def _copied(tensor: Any) -> np.ndarray:
    """What was read stays as it was while the model trains on: PyTorch changes its arrays in place, and shares them."""
    return np.array(tensor.resolve_conj().numpy())


def _layer(layer: Any, target: str, params: Params, notes: list[str], x: Any, *args: Any, **kwargs: Any) -> Any:
    kind = type(layer).__name__
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        notes.append(DROPOUT)
        return x
    known = _LAYERS.get(kind) if type(layer).__module__.startswith("torch.nn.modules") else None
    if known is None or args or kwargs:
        raise ValueError(f"the model holds {kind} (in {target}), which is not among the layers that can be read.")

    def own(name: str) -> Any:
        return params.get(f"{target}.{name}")

    if own("weight") is None and (kind == "Linear" or kind.startswith("Conv")):
        raise ValueError(
            f"the model holds {kind} (in {target}) whose weight is computed from something else, as weight_norm and "
            "spectral_norm of torch.nn.utils do, but only weights that are parameters can be read."
        )
    return known(layer, own, x)


Own = Callable[[str], Any]


def _conv(layer: Any, own: Own, x: Any) -> Any:
    if layer.padding_mode != "zeros":
        raise ValueError(f"the model holds a convolution padded by {layer.padding_mode!r}, but only zeros can be read.")
    return ops.conv(x, own("weight"), own("bias"), layer.stride, layer.padding, layer.dilation, layer.groups)


def _batch_norm(layer: Any, own: Own, x: Any) -> Any:
    if own("running_mean") is None:
        raise ValueError("the model holds a batch norm without running moments, but only one with them can be read.")
    x = jnp.moveaxis(x, 1, -1) if x.ndim > 2 else x
    mean, variance = jnp.asarray(own("running_mean")), jnp.asarray(own("running_var"))
    found = batch_norm(x, mean, variance, own("weight"), own("bias"), layer.eps)
    return jnp.moveaxis(found, -1, 1) if x.ndim > 2 else found


def _pool(layer: Any, own: Own, x: Any) -> Any:
    if np.any(layer.padding) or layer.ceil_mode:
        raise ValueError("the model holds a pool with padding, but only windows that stay inside can be read.")
    if getattr(layer, "divisor_override", None) is not None:
        raise ValueError("the model holds a pool with a divisor of its own, but only means can be read.")
    axes = 1 if type(layer).__name__.endswith("1d") else 2
    return ops.average_pool(x, layer.kernel_size, layer.stride, axes)


def _adaptive(layer: Any, own: Own, x: Any) -> Any:
    if any(size != 1 for size in np.ravel(layer.output_size)):
        raise ValueError(f"the model holds {layer}, but only means over all positions can be read.")
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


def _prelu(layer: Any, own: Own, x: Any) -> Any:
    slopes = np.unique(layer.weight.detach().cpu().numpy())
    if len(slopes) > 1:
        raise ValueError("the model holds PReLU with several slopes, but only one for all entries can be read.")
    return ops.leaky_relu(x, float(slopes[0]))


def _function(name: str, *options: str) -> Callable[[Any, Own, Any], Any]:
    return lambda layer, own, x: ops.FUNCTIONS[name](x, *(getattr(layer, option) for option in options))


_LAYERS: dict[str, Callable[[Any, Own, Any], Any]] = {
    "Linear": lambda layer, own, x: ops.linear(x, own("weight"), own("bias")),
    "Conv1d": _conv,
    "Conv2d": _conv,
    "LayerNorm": lambda layer, own, x: ops.layer_norm(x, layer.normalized_shape, own("weight"), own("bias"), layer.eps),
    "RMSNorm": lambda layer, own, x: ops.rms_norm(x, layer.normalized_shape, own("weight"), layer.eps),
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "AvgPool1d": _pool,
    "AvgPool2d": _pool,
    "AdaptiveAvgPool1d": _adaptive,
    "AdaptiveAvgPool2d": _adaptive,
    "Identity": _function("identity"),
    "Flatten": _function("flatten", "start_dim", "end_dim"),
    "PReLU": _prelu,
    "ReLU": _function("relu"),
    "ReLU6": _function("relu6"),
    "Tanh": _function("tanh"),
    "Sigmoid": _function("sigmoid"),
    "SiLU": _function("silu"),
    "Mish": _function("mish"),
    "SELU": _function("selu"),
    "GELU": _function("gelu", "approximate"),
    "ELU": _function("elu", "alpha"),
    "CELU": _function("celu", "alpha"),
    "Hardswish": _function("hardswish"),
    "Hardsigmoid": _function("hardsigmoid"),
    "Softsign": _function("softsign"),
    "LogSigmoid": _function("logsigmoid"),
    "Tanhshrink": _function("tanhshrink"),
    "LeakyReLU": _function("leaky_relu", "negative_slope"),
    "Hardtanh": _function("hardtanh", "min_val", "max_val"),
    "Softplus": _function("softplus", "beta", "threshold"),
}
