"""Operations of the graph on NumPy or JAX arrays, by the names of JAX's primitives: `(library, params, *args)`."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def kind_of(dtype: Any) -> str:
    """That of NumPy, and "f" for bfloat16 too, which NumPy does not count among real numbers."""
    return "f" if jnp.issubdtype(dtype, jnp.floating) else np.dtype(dtype).kind


def precise(dtype: Any) -> np.dtype:
    """The type itself, and single precision instead of half: what a model rounds on the way is no other number."""
    return np.dtype(np.float32) if kind_of(dtype) == "f" and np.dtype(dtype).itemsize < 4 else np.dtype(dtype)


def _select(library: Any, params: Mapping[str, Any], which: Any, *cases: Any) -> Any:
    if len(cases) != 2:
        return library.choose(which, cases)
    no, yes = library.broadcast_arrays(*cases)
    return library.where(library.broadcast_to(which, no.shape), yes, no)


def _convert(library: Any, params: Mapping[str, Any], value: Any) -> Any:
    # Between types of real numbers nothing is changed: the precision is the argument's.
    kinds = kind_of(value.dtype), kind_of(params["new_dtype"])
    return value if kinds[0] == kinds[1] or kinds == ("i", "f") else value.astype(params["new_dtype"])


def _power(library: Any, params: Mapping[str, Any], value: Any) -> Any:
    power, found = abs(params["y"]), value
    for _ in range(power - 1):
        found = found * value
    return 1 / found if params["y"] < 0 else found


def _erf(library: Any, params: Mapping[str, Any], value: Any) -> Any:
    return scipy.special.erf(value) if library is np else jax.scipy.special.erf(value)


def _erfc(library: Any, params: Mapping[str, Any], value: Any) -> Any:
    return scipy.special.erfc(value) if library is np else jax.scipy.special.erfc(value)


def _logistic(library: Any, params: Mapping[str, Any], value: Any) -> Any:
    return scipy.special.expit(value) if library is np else jax.nn.sigmoid(value)


def _called(name: str) -> Callable[..., Any]:
    return lambda library, params, *args: getattr(library, name)(*args)


_SAME = {
    **{name: name for name in ("exp", "log", "log1p", "expm1", "tanh", "sin", "cos", "tan", "abs", "sign", "sqrt")},
    **{name: name for name in ("sinh", "cosh", "square", "exp2", "cbrt", "floor", "ceil", "is_finite")},
    **{"atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "asin": "arcsin"},
    **{"add": "add", "sub": "subtract", "mul": "multiply", "div": "true_divide", "max": "maximum", "min": "minimum"},
    **{"neg": "negative", "pow": "power", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"eq": "equal", "ne": "not_equal", "and": "logical_and", "or": "logical_or", "not": "logical_not"},
    **{"add_any": "add", "is_finite": "isfinite"},
}
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{op: _called(name) for op, name in _SAME.items()},
    "rsqrt": lambda library, params, value: 1 / library.sqrt(value),
    "logistic": _logistic,
    "erf": _erf,
    "erfc": _erfc,
    "integer_pow": _power,
    "select_n": _select,
    "clamp": lambda library, params, low, value, high: library.minimum(library.maximum(value, low), high),
    "convert_element_type": _convert,
    "stop_gradient": lambda library, params, value: value,
    "copy": lambda library, params, value: value,
    "copy_p": lambda library, params, value: value,
    "optimization_barrier": lambda library, params, value: value,
}
"""Functions of one entry, or of entries at the same place: `(library, params, *args)`."""


def _spread(library: Any, params: Mapping[str, Any], value: Any, *_: Any) -> Any:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], value.shape):
        shape[axis] = size
    return np.broadcast_to(value.reshape(shape), params["shape"])


ALONG: dict[str, Callable[..., Any]] = {
    "reduce_sum": lambda library, params, value: value.sum(tuple(params["axes"])),
    "reduce_max": lambda library, params, value: value.max(tuple(params["axes"])),
    "reduce_min": lambda library, params, value: value.min(tuple(params["axes"])),
    "broadcast_in_dim": _spread,
    "reshape": lambda library, params, value, *_: value.reshape(params["new_sizes"]),
    "squeeze": lambda library, params, value: value.squeeze(tuple(params["dimensions"])),
    "expand_dims": lambda library, params, value: np.expand_dims(value, tuple(params["dimensions"])),
    "transpose": lambda library, params, value: value.transpose(params["permutation"]),
}
"""What sums, repeats or rearranges entries; NumPy only."""
