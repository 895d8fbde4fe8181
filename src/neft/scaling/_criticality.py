"""Averaged partial Jacobian norms of any JAX model (Doshi, He, Gromov 2023)."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._products import Program, arrays_of, split
from .._public import public
from .._result import Made, Result, result

Verdict = Literal["critical", "gradients grow", "gradients shrink"]
_E_FOLDS = 5.0  # of the norm through the whole model, above which it is called neither critical nor near it
_LEAST = 3


@result
class PartialJacobians(Result):
    """The norms J of the Jacobians of the last layer with respect to each layer, layer by layer.

    Attributes:
        names: of the layers, by the parameters in them, in the order in which they are computed.
        widths: the number of entries of each for one input.
        norms: J of the last layer with respect to each layer, (1/n) Σ (∂h_i/∂h_j)² with n entries of the last; the last
            is 1.
        errors: their standard errors over inputs and probes.
        steps: χ of each layer but the last, J of it over J of the next: by what squared gradients grow there.
        depth_scale: ξ, the layers over which J changes e-fold, by a straight line through ln J of the inner layers;
            infinite where it does not change.
        depth_scale_error: of 1/ξ, by the scatter about the line.
        change: ln J through all inner layers.
        verdict: "critical" (|change| below 5), "gradients grow" (towards the input) or "gradients shrink".
    """

    names: tuple[str, ...]
    widths: tuple[int, ...]
    norms: Float[np.ndarray, " layers"]
    errors: Float[np.ndarray, " layers"]
    steps: Float[np.ndarray, " between"]
    depth_scale: float
    depth_scale_error: float
    change: float
    verdict: Verdict
    summary: str
    made: Made


@public
def criticality(
    apply: Callable[..., Any], params: Any, x: Any, *, probes: int = 8, key: Any = None
) -> PartialJacobians:
    """Averaged partial Jacobian norms of a JAX model at these parameters, layer by layer, and a verdict on its depth.

    Layers are the results of products with a parameter, found in the model's program. Norms are estimated by
    back-propagating random vectors: E|vᵀ∂h/∂h'|² = Σ(∂h_i/∂h'_j)². At criticality J changes as a power of the depth,
    else exponentially, over ξ layers (Doshi, He, Gromov 2023).

    Args:
        apply: `apply(params, x)` gives the outputs, each row of x by itself.
        params: the parameters; what is no array in them, such as an activation, stays as it is.
        x: inputs, the first axis counting them.
        probes: random vectors.
        key: of them, `jax.random.key(0)` by default.

    >>> from neft import MLP
    >>> net = MLP((8, 64, 64, 64, 8), "relu", C_W=2.0)
    >>> criticality(net.apply, net.init(jax.random.key(0)), np.ones((2, 8))).verdict
    'critical'
    """
    _check.function("apply", apply, "params", "x")
    probes = _check.integer("probes", probes, at_least=2, at_most=10**6)
    key = jax.random.key(0) if key is None else _check.key("key", key)
    x = arrays_of("x", x)
    # Derivatives are those of real numbers.
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.zeros(()).dtype)
    if not x.ndim or not len(x):
        raise ValueError(f"x has shape {x.shape}, but must be inputs, the first axis counting them.")
    params, rest = split(params)

    def whole(arrays: Any, x: Any) -> Any:
        return apply(eqx.combine(arrays, rest), x)

    program = Program(whole, params, x)
    if program.named:
        raise ValueError("apply returns layers by name, but derivatives need its outputs alone.")
    names, shapes = program.layers(params, x)
    if len(names) < _LEAST:
        raise ValueError(
            f"apply multiplies its input by parameters {len(names)} times, but there must be three layers."
        )
    rows = _rows(whole, params, x, shapes)
    norms = np.asarray(_norms(program, params, x, shapes, rows, jax.random.split(key, probes)), np.float64)
    _check.finite("the partial Jacobian norms", norms)
    flat = norms.reshape(len(norms), -1)
    mean, error = flat.mean(1), flat.std(1, ddof=1) / math.sqrt(flat.shape[1])
    # The first layer sees inputs and the last one makes outputs, both of another width.
    inner = mean[:-1]
    slope, slope_error = _line(np.log(np.maximum(inner, 1e-300)))
    change = float(np.log(max(inner[0], 1e-300) / max(inner[-1], 1e-300)))
    verdict: Verdict = "critical" if abs(change) < _E_FOLDS else "gradients grow" if change > 0 else "gradients shrink"
    xi = math.inf if slope == 0 else 1 / abs(slope)
    return PartialJacobians(
        names=names,
        widths=tuple(math.prod(shape) // shape[axis] for shape, axis in zip(shapes, rows)),
        norms=mean,
        errors=error,
        steps=mean[:-1] / np.maximum(mean[1:], 1e-300),
        depth_scale=xi,
        depth_scale_error=slope_error,
        change=change,
        verdict=verdict,
        summary=_summary(len(inner), change, xi, verdict),
        made=Made.by("neft.scaling.criticality", specification={"probes": probes, "inputs": len(x)}, key=key),
    )


def _rows(apply: Callable[..., Any], params: Any, x: Any, shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The axis of each layer that counts the inputs: `jax.vmap` puts it where it likes."""
    more = jnp.concatenate([x, x[:1]])
    try:
        longer = Program(apply, params, more).layers(params, more)[1]
    except ValueError:  # the model takes this number of inputs only
        return [0] * len(shapes)
    found = [[i for i, sizes in enumerate(zip(*both)) if sizes[0] != sizes[1]] for both in zip(shapes, longer)]
    return [axes[0] if axes else 0 for axes in found]


def _norms(
    program: Program, params: Any, x: Any, shapes: Sequence[tuple[int, ...]], rows: Sequence[int], keys: Any
) -> Any:
    """J for each layer, probe and input."""
    zeros = [jnp.zeros(shape, x.dtype) for shape in shapes]

    @jax.jit
    def run(params, x, zeros, keys):
        def last(added):
            return program.run(params, x, added=added)[1][-1].value

        value, pull = jax.vjp(last, zeros)

        def probe(key):
            (found,) = pull(jax.random.normal(key, value.shape, value.dtype))
            # Each input's own row: the model takes them one by one.
            squares = [jnp.moveaxis(one**2, axis, 0) for one, axis in zip(found, rows)]
            return jnp.stack([one.reshape(len(x), -1).sum(1) for one in squares])

        count = value.size / len(x)
        return jnp.moveaxis(jax.lax.map(probe, keys), 0, 1) / count

    return run(params, x, zeros, keys)


def _line(values: np.ndarray) -> tuple[float, float]:
    if len(values) < _LEAST:
        return float(values[-1] - values[0]) / max(len(values) - 1, 1), math.inf
    place = np.arange(len(values))
    slope, offset = np.polyfit(place, values, 1)
    left = values - slope * place - offset
    spread = (left @ left) / (len(values) - 2) / ((place - place.mean()) ** 2).sum()
    return float(slope), math.sqrt(float(spread))


def _summary(count: int, change: float, xi: float, verdict: Verdict) -> str:
    size = (
        f"Squared gradients change by a factor {math.exp(min(change, 700.0)):.3g} from layer {count} back to the first"
    )
    scale = "" if not math.isfinite(xi) else f", e-fold over {xi:.3g} layers"
    words = {
        "critical": "the model is critical at this depth",
        "gradients grow": "gradients explode",
        "gradients shrink": "gradients vanish",
    }
    return f"{size}{scale}: {words[verdict]}."
