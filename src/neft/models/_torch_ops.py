"""Functions and methods of PyTorch in JAX, by their names: those that are known, and what those do that are refused."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def gelu(x: Any, approximate: str = "none") -> Any:
    """GELU, or its approximation by a tanh."""
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def leaky_relu(x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """Another slope below zero."""
    return jax.nn.leaky_relu(x, negative_slope)


def elu(x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """ELU."""
    return jax.nn.elu(x, alpha)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """Cut off on both sides."""
    return jnp.minimum(jnp.maximum(x, min_val), max_val)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Softplus, and z itself above the threshold."""
    return jnp.where(beta * x > threshold, x, jax.nn.softplus(beta * x) / beta)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Weights (out, in)."""
    found = x @ weight.T
    return found if bias is None else found + bias


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Over the last axes."""
    axes = _last(normalized_shape)
    x = x - x.mean(axes, keepdims=True)
    found = x * jax.lax.rsqrt((x * x).mean(axes, keepdims=True) + eps)
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Over the last axes; without an ε PyTorch takes the smallest difference of its numbers."""
    eps = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    found = x * jax.lax.rsqrt((x * x).mean(_last(normalized_shape), keepdims=True) + eps)
    return found if weight is None else found * weight


def _last(shape: Any) -> tuple[int, ...]:
    return (-1,) if isinstance(shape, int) else tuple(range(-len(shape), 0))


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Several axes as one."""
    end = end_dim % x.ndim
    start = start_dim % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def reshape(x: Any, *shape: Any) -> Any:
    """Another shape."""
    return x.reshape(*shape)


def along(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction with PyTorch's names of arguments, which are those of NumPy too."""

    def run(x: Any, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
        dim, keepdim = more.get("axis", dim), more.get("keepdims", keepdim)
        axes = tuple(dim) if isinstance(dim, Sequence) else dim
        return function(x, axis=axes, keepdims=keepdim)

    return run


def sum_of(x: Any, other: Any, *, alpha: float = 1) -> Any:
    """x + alpha other."""
    return x + (other if alpha == 1 else alpha * other)


def difference(x: Any, other: Any, *, alpha: float = 1) -> Any:
    """x - alpha other."""
    return x - (other if alpha == 1 else alpha * other)


def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """A convolution, channels first, in one or two dimensions."""
    axes = weight.ndim - 2
    many = lambda value: (value,) * axes if isinstance(value, int) else tuple(value)  # noqa: E731
    pads = padding.upper() if isinstance(padding, str) else [(n, n) for n in many(padding)]
    letters = "HW"[:axes]
    found = jax.lax.conv_general_dilated(
        x,
        weight,
        many(stride),
        pads,
        rhs_dilation=many(dilation),
        feature_group_count=groups,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
    )
    return found if bias is None else found + bias.reshape(-1, *(1,) * axes)


def average_pool(x: Any, size: Any, stride: Any, axes: int) -> Any:
    """Means over windows of positions, which are the last axes."""
    many = lambda value: (value,) * axes if isinstance(value, int) else tuple(value)  # noqa: E731
    shape, strides = many(size), many(size if stride is None else stride)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, *shape), (1, 1, *strides), "VALID")
    return total / math.prod(shape)


def same(x: Any, *_: Any, **__: Any) -> Any:
    """What does nothing to numbers."""
    return x


def converted(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Another precision or device, which does nothing to numbers here; never whole numbers."""
    for value in (*args, *kwargs.values()):
        kind = getattr(value, "dtype", value)
        whole = jnp.issubdtype(kind, jnp.integer) if hasattr(value, "dtype") else None
        if whole or getattr(kind, "is_floating_point", True) is False:
            raise ValueError(f"the model holds a conversion to {kind}, which is not among the layers that can be read.")
    return x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": sum_of,
    "iadd": sum_of,
    "add_": sum_of,
    "sub": difference,
    "isub": difference,
    "mul": lambda x, other: x * other,
    "imul": lambda x, other: x * other,
    "mul_": lambda x, other: x * other,
    "multiply": lambda x, other: x * other,
    "truediv": lambda x, other: x / other,
    "div": lambda x, other: x / other,
    "floordiv": lambda x, other: x // other,
    "neg": lambda x: -x,
    "pow": lambda x, exponent: x**exponent,
    "square": lambda x: x * x,
    "matmul": lambda x, other: x @ other,
    "mm": lambda x, other: x @ other,
    "getitem": lambda x, index: x[index],
    "getattr": lambda x, name: getattr(x, name),
    "len": len,
    "linear": linear,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "flatten": flatten,
    "reshape": reshape,
    "view": reshape,
    "size": lambda x, dim=None: x.shape if dim is None else x.shape[dim],
    "dim": lambda x: x.ndim,
    "mean": along(jnp.mean),
    "sum": along(jnp.sum),
    "var": lambda x, dim=None, unbiased=True, keepdim=False, correction=1: jnp.var(
        x, axis=dim, ddof=int(unbiased and correction), keepdims=keepdim
    ),
    "t": lambda x: x.T,
    "permute": lambda x, *axes: x.transpose(*axes),
    "transpose": lambda x, one, two: jnp.swapaxes(x, one, two),
    "squeeze": lambda x, dim=None: jnp.squeeze(x, dim),
    "unsqueeze": lambda x, dim: jnp.expand_dims(x, dim),
    "relu": lambda x, inplace=False: jax.nn.relu(x),
    "relu_": jax.nn.relu,
    "relu6": lambda x, inplace=False: jax.nn.relu6(x),
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "exp": jnp.exp,
    "log": jnp.log,
    "erf": jax.scipy.special.erf,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt,
    "abs": jnp.abs,
    "gelu": gelu,
    "silu": lambda x, inplace=False: jax.nn.silu(x),
    "mish": lambda x, inplace=False: jax.nn.mish(x),
    "selu": lambda x, inplace=False: jax.nn.selu(x),
    "elu": elu,
    "celu": lambda x, alpha=1.0, inplace=False: jax.nn.celu(x, alpha),
    "hardswish": lambda x, inplace=False: jax.nn.hard_swish(x),
    "hardsigmoid": lambda x, inplace=False: jax.nn.hard_sigmoid(x),
    "softsign": jax.nn.soft_sign,
    "logsigmoid": jax.nn.log_sigmoid,
    "tanhshrink": lambda x: x - jnp.tanh(x),
    "leaky_relu": leaky_relu,
    "hardtanh": hardtanh,
    "softplus": softplus,
    "where": jnp.where,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "clamp": lambda x, min=None, max=None: jnp.clip(x, min, max),
    "ge": lambda x, other: x >= other,
    "gt": lambda x, other: x > other,
    "le": lambda x, other: x <= other,
    "lt": lambda x, other: x < other,
    **dict.fromkeys(("contiguous", "float", "clone", "identity"), same),
    **dict.fromkeys(("to", "type_as"), converted),
    "conv1d": lambda x, w, b=None, stride=1, padding=0, dilation=1, groups=1: conv(
        x, w, b, stride, padding, dilation, groups
    ),
    "conv2d": lambda x, w, b=None, stride=1, padding=0, dilation=1, groups=1: conv(
        x, w, b, stride, padding, dilation, groups
    ),
    "avg_pool2d": lambda x, kernel_size, stride=None: average_pool(x, kernel_size, stride, 2),
    "avg_pool1d": lambda x, kernel_size, stride=None: average_pool(x, kernel_size, stride, 1),
}
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout")
